"""``tensordot`` and ``cross``: products of tensors over chosen dimensions, and of vectors in space."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...ir.apply import apply, as_symbolic
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..array.concat import stack, unstack
from ..support.arguments import axis_within, convert_alike, index_tensor, static_int, static_ints
from .contracting import Labelled, contract_pair
from .late_tensordot import late_tensordot


@public
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sum the products of two tensors over pairs of dimensions.

    Parameters
    ----------
    a, b : Tensor of any numeric dtype
        Same dtype.
    axes : int, or pair of int or of sequences of int, or int32 or int64 Tensor of such
        The dimensions of `a`, and the matching dimensions of `b`; a number n means the last n dimensions of `a` and the
        first n of `b`. 0 multiplies all elements with all.

    Returns
    -------
    Tensor
        Same dtype; the other dimensions of `a`, then those of `b`.

    Raises
    ------
    ShapeError
        If there is no such dimension, or matching dimensions differ in size.
    GraphError
        If `axes` names a dimension twice, or different numbers of dimensions of `a` and `b`.
    OpError
        When a step runs it, for the same reasons, where a rank or `axes` was not known before.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tensordot([[1, 2], [3, 4]], [10, 1], axes=1)).sync()
    array([12, 34], dtype=int32)
    >>> tg.function(lambda: tg.tensordot(tg.ones([2, 3, 4]), tg.ones([4, 5, 2]), axes=[[0, 2], [2, 0]])).sync().shape
    (3, 5)
    """
    x, y = convert_alike(a, b)
    # Dimensions are labelled while the graph is built, which takes both ranks and the axes.
    if x.rank is None or y.rank is None or (as_symbolic(axes) and static_value(index_tensor(axes)) is None):
        return late_tensordot(x, y, axes, name)
    ours, theirs = _summed_axes(axes, len(x.shape), len(y.shape))
    for i, j in zip(ours, theirs, strict=True):
        if None not in (x.shape[i], y.shape[j]) and x.shape[i] != y.shape[j]:
            raise ShapeError(
                "tensordot sums over dimensions of one size",
                wanted=f"{x.shape[i]}, the size of dimension {i} of a",
                got=f"{y.shape[j]}, the size of dimension {j} of b",
                hint="axes has the dimensions of a first, then those of b",
            )
    # Labels name the tensor of a free dimension, so that the free dimensions of a and b never share a label.
    left = tuple(("sum", ours.index(i)) if i in ours else ("a", i) for i in range(len(x.shape)))
    right = tuple(("sum", theirs.index(i)) if i in theirs else ("b", i) for i in range(len(y.shape)))
    kept = [label for label in (*left, *right) if label[0] != "sum"]
    result = contract_pair(Labelled(x, left), Labelled(y, right), kept).ordered(kept).tensor
    return result if name is None else apply("Identity", result, name=name)


def _summed_axes(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    """Return the summed dimensions of a and of b, counted from 0."""
    known: Any = static_value(axes) if isinstance(axes, Tensor) else axes
    # An array of rank 0 has the method `__len__` but no length: it is a number.
    if not hasattr(known, "__len__") or getattr(known, "ndim", 1) == 0:
        count = static_int(known, "axes")
        if not 0 <= count <= min(rank_a, rank_b):
            raise ShapeError(
                "tensordot cannot sum over so many dimensions",
                wanted=f"0 to {min(rank_a, rank_b)}",
                got=count,
                hint="give the dimensions of each as axes=[[...], [...]]",
            )
        return list(range(rank_a - count, rank_a)), list(range(count))
    if len(known) != 2:
        raise _wrong_axes(axes)
    ours, theirs = (
        [axis_within(i, rank, "axes") for i in static_ints(part, "axes")]
        for part, rank in zip(known, (rank_a, rank_b), strict=True)
    )
    if len(ours) != len(theirs) or any(len(set(part)) != len(part) for part in (ours, theirs)):
        raise _wrong_axes(axes)
    return ours, theirs


def _wrong_axes(axes: Any) -> GraphError:
    return GraphError(
        "axes of tensordot are pairs of dimensions",
        wanted="a number, or as many different dimensions of a as of b: [[...], [...]]",
        got=repr(axes),
        hint="axes=1 is the product of matrices",
    )


@public
def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Cross products of vectors in space.

    Parameters
    ----------
    a, b : Tensor of any numeric dtype
        Same dtype, shape ``[..., 3]``; leading dimensions broadcast.

    Returns
    -------
    Tensor
        Same dtype, shape ``[..., 3]``.

    Raises
    ------
    ShapeError
        If the last dimension is known not to be 3.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.cross([1, 0, 0], [0, 1, 0])).sync()
    array([0, 0, 1], dtype=int32)
    """
    x, y = convert_alike(a, b)
    for tensor in (x, y):
        if tensor.rank == 0 or tensor.shape[-1] not in (3, None):
            raise ShapeError(
                "cross takes vectors of three elements",
                wanted="[..., 3]",
                got=tensor.shape,
                operation=tensor.op,
                hint="give vectors in a plane a third element, which is 0",
            )
    (a1, a2, a3), (b1, b2, b3) = unstack(x, 3, axis=-1), unstack(y, 3, axis=-1)
    return stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis=-1, name=name)
