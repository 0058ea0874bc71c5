"""Order and repetition of elements: transpose, reverse, tile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, axis_within, known_rank, partial_values, shape_vector, static_ints
from ..support.batching import batch_along, emit_copy
from ..support.common import shape_of
from ..support.late_axes import from_zero, late_axes, mark_axes, rank_of
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.shapes import (
    permute_examples,
    reverse_examples,
    tile_examples,
    tile_grad_examples,
    transpose_examples,
)

_X = np.arange(6.0).reshape(2, 3)


def _checked_permutation(perm: Any, rank: int) -> list[int]:
    """Return the permutation with axes from 0 up; ShapeError for other axes."""
    order = list(range(rank))[::-1] if perm is None else [axis_within(p, rank) for p in perm]
    if sorted(order) != list(range(rank)):
        raise ShapeError(
            "transpose needs each axis once",
            wanted=f"a permutation of {rank} axes",
            got=perm,
            hint="leave perm out to reverse the axes",
        )
    return order


def _transpose_shape(op: Operation) -> Shape:
    x, perm = op.inputs[0].shape, op.attrs["perm"]
    if x.rank is None:
        # the permutation alone tells the rank
        return x if perm is None else Shape([None] * len(perm))
    return Shape([x[i] for i in _checked_permutation(perm, x.rank)])


def _transpose_gradient(op: Operation, g: Tensor) -> list[Any]:
    perm = op.attrs["perm"]
    # argsort inverts a permutation
    back = None if perm is None else tuple(int(i) for i in np.argsort(_checked_permutation(perm, len(perm))))
    return [apply("Transpose", g, perm=back)]


def _batch_transpose(op: Operation, varying: Sequence[bool]) -> Batched | None:
    rank = op.inputs[0].rank
    if rank is None:
        return None
    # the instances stay in front
    perm = (0, *(axis + 1 for axis in _checked_permutation(op.attrs["perm"], rank)))
    return lambda builder, operands: emit_copy(builder, op, operands, perm=perm)


define(
    "Transpose",
    "x: T -> y: T",
    rules=[Vectorize(transpose_examples), LINEAR_IN_FIRST, Batch(_batch_transpose)],
    attrs={"perm": None},
    shape=_transpose_shape,
    kernel=lambda xp, x, perm: xp.transpose(x, perm),
    gradient=_transpose_gradient,
    samples=[
        Sample([_X], f64([[0, 3], [1, 4], [2, 5]])),
        Sample([_X[None]], lambda x: np.einsum("abc->bca", x), {"perm": (1, 2, 0)}),
    ],
)


def _permuted_shape(op: Operation) -> Shape:
    """Infer the shape, of unknown sizes where the permutation is computed."""
    x, perm = op.inputs[0].shape, op.inputs[1].shape
    if not perm.is_compatible_with(Shape([x.rank])):
        raise ShapeError(
            "transpose needs each axis once", wanted=Shape([x.rank]), got=perm, hint="perm is a vector of all axes"
        )
    known = partial_values(op.inputs[1])
    if known is None or x.rank is None or None in known:
        # a permutation is as long as the rank
        rank = x.rank if x.rank is not None else perm[0] if perm.rank == 1 else None
        return Shape(None) if rank is None else Shape([None] * rank)
    return Shape([x[i] for i in _checked_permutation(known, x.rank)])


def _compute_permute(xp: Any, x: Any, perm: Any) -> Any:
    """Transpose by a computed permutation; ValueError unless each axis occurs once."""
    order = as_sizes(perm)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"an array of {x.ndim} dimensions has no such axes, or not each of them once: {order}")
    return xp.transpose(x, order)


define(
    "Permute",
    "x: T, perm: host I -> y: T",
    where={"I": dtypes.INDEX},
    shape=_permuted_shape,
    rules=[Vectorize(permute_examples)],
    kernel=_compute_permute,
    gradient=lambda op, g: [apply("Permute", g, apply("ArgSort", op.inputs[1])), None],
    samples=[
        Sample([_X, i32([1, 0])], f64([[0, 3], [1, 4], [2, 5]])),
        Sample([_X[None], i64([1, 2, 0])], lambda x, _: np.einsum("abc->bca", x)),
    ],
)


@public
def transpose(a: Any, perm: Any = None, name: str | None = None, conjugate: bool = False) -> Tensor:
    """Permute the dimensions.

    Parameters
    ----------
    a : Tensor of any dtype and shape
    perm : sequence of int, or int32 or int64 vector, optional
        Dimension i of the result is dimension ``perm[i]`` of `a`; reversed order when None.
    conjugate : bool
        Conjugate complex elements too.

    Returns
    -------
    Tensor
        Of the dtype of `a`.

    Raises
    ------
    ShapeError
        If `perm` is not a permutation of the dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.transpose([[1, 2, 3], [4, 5, 6]])).sync()
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """
    x = convert_to_tensor(a)
    if conjugate and x.dtype.is_complex:
        x = apply("Conj", x)
    late = late_axes(perm)
    if late is not None:
        return apply("Permute", x, from_zero(late, rank_of(x)), name=name)
    return apply("Transpose", x, name=name, perm=None if perm is None else static_ints(perm, "perm"))


def _reverse_shape(op: Operation) -> Shape:
    """Return the shape of the input; ShapeError if two axes are the same."""
    x, axes = op.inputs[0].shape, op.attrs["axis"]
    if x.rank is not None and len({axis_within(a, x.rank) for a in axes}) != len(axes):
        raise ShapeError(
            "reverse was given an axis twice",
            got=axes,
            wanted="each axis once",
            hint="turning an axis around twice does nothing: leave it out",
        )
    return x


define(
    "Reverse",
    "tensor: T -> output: T",
    rules=[Vectorize(reverse_examples), LINEAR_IN_FIRST, Batch(batch_along())],
    attrs={"axis": REQUIRED},
    shape=_reverse_shape,
    kernel=lambda xp, x, axis: xp.flip(x, axis),
    gradient=lambda op, g: [apply("Reverse", g, axis=op.attrs["axis"])],
    samples=[
        Sample([_X], f64([[2, 1, 0], [5, 4, 3]]), {"axis": (-1,)}),
        Sample([_X], f64([[5, 4, 3], [2, 1, 0]]), {"axis": (0, 1)}),
        Sample([_X], _X, {"axis": ()}),
    ],
)


@public
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverse the order of elements along some axes.

    Parameters
    ----------
    tensor : Tensor of any dtype and shape
    axis : int or sequence of int, or int32 or int64 Tensor
        Axes computed by a step require a known rank of `tensor`.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If an axis does not exist or is repeated.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reverse([[1, 2, 3], [4, 5, 6]], axis=1)).sync()
    array([[3, 2, 1],
           [6, 5, 4]], dtype=int32)
    """
    late = late_axes(axis)
    if late is None:
        return apply("Reverse", tensor, name=name, axis=static_ints(axis))
    x = convert_to_tensor(tensor)
    rank = known_rank(x, "reverse by axes that only a step knows")
    chosen = mark_axes(late, rank_of(x))
    for each in range(rank):  # the operation needs static axes, so a step reverses along each and selects the result
        x = apply("Where", apply("StridedSlice", chosen, [], spec=(each,)), apply("Reverse", x, axis=(each,)), x)
    return apply("Identity", x, name=name)


def _tile_shape(op: Operation) -> Shape:
    """Infer the sizes times the multiples; ShapeError for negative multiples or a wrong number."""
    x, multiples = op.inputs[0].shape, partial_values(op.inputs[1])
    # the rank follows from either input
    if multiples is None or x.rank is None:
        return Shape([None] * len(multiples)) if multiples is not None else Shape([None] * x.rank if x.rank else x)
    if len(multiples) != x.rank or any(m is not None and m < 0 for m in multiples):
        raise ShapeError(
            "tile needs a multiple >= 0 for each dimension",
            wanted=x.rank,
            got=multiples,
            hint="use 1 for dimensions that are not repeated",
        )
    return Shape([None if d is None or m is None else d * m for d, m in zip(x, multiples, strict=True)])


def _compute_tile(xp: Any, x: Any, multiples: Any) -> Any:
    times = as_sizes(multiples)
    if len(times) != x.ndim or any(m < 0 for m in times):
        raise ValueError(f"tile: a multiple >= 0 is needed for each of {x.ndim} dimensions, got {times}")
    return xp.tile(x, times)


define(
    "Tile",
    "input: T, multiples: host I -> output: T",
    where={"I": dtypes.INDEX},
    shape=_tile_shape,
    rules=[
        Vectorize(tile_examples),
        LINEAR_IN_FIRST,
        Elements(lambda x, multiples: x.size * math.prod(multiples.tolist())),
    ],
    kernel=_compute_tile,
    gradient=lambda op, g: [apply("TileGrad", g, op.inputs[1], shape_of(op.inputs[0])), None],
    samples=[
        Sample([_X[:, :2], i32([2, 2])], f64([[0, 1, 0, 1], [3, 4, 3, 4]] * 2)),
        Sample([_X, i64([1, 0])], np.zeros((2, 0))),
    ],
)


@public
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeat a tensor along each dimension.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    multiples : int32 or int64 vector of length rank

    Returns
    -------
    Tensor
        Dimension i has size ``input.shape[i] * multiples[i]``.

    Raises
    ------
    ShapeError
        If there are not as many multiples as dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.tile([[1, 2]], [2, 3])).sync()
    array([[1, 2, 1, 2, 1, 2],
           [1, 2, 1, 2, 1, 2]], dtype=int32)
    """
    return apply("Tile", input, shape_vector(multiples), name=name)


def _tile_grad(xp: Any, g: Any, multiples: Any, shape: Any) -> Any:
    # [multiple_0, size_0, multiple_1, size_1, ...]: the even dimensions count the copies
    pairs = [n for pair in zip(as_sizes(multiples), as_sizes(shape), strict=True) for n in pair]
    copies = tuple(range(0, len(pairs), 2))
    return xp.asarray(g.reshape(pairs).sum(axis=copies, dtype=g.dtype))


define(
    "TileGrad",
    "g: T, multiples: host I, shape: host J -> dx: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=lambda op: static_shape(op.inputs[2]),
    rules=[Vectorize(tile_grad_examples)],
    kernel=_tile_grad,
    gradient=lambda op, g: [apply("Tile", g, op.inputs[1]), None, None],
    samples=[
        Sample([np.arange(6.0), i32([3]), i32([2])], f64([6, 9])),
        Sample([np.zeros((0, 2)), i32([0, 1]), i32([3, 2])], np.zeros((3, 2))),
    ],
)
