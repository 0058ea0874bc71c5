"""Sparse tensors with other dimensions: reshaped, transposed, joined, split."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.shapes import ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, axis_within, shape_vector, static_int, static_ints
from ..support.common import size_along
from ..support.literals import i32, i64
from ..support.vectorizing.families import one_by_one
from .grouping import INDICES, after_checks, same_sizes
from .rows import cut_block, in_order, split_sizes, with_size
from .sparse_tensor import SparseTensor, as_sparse, extreme_size, known_rank, sizes_of, sizes_vector


def _reshaped_shape(op: Operation) -> list[Shape]:
    indices, _, shape = op.inputs
    rank = None if shape.rank is None else shape.shape[0]
    return [Shape([None if indices.rank is None else indices.shape[0], rank]), Shape([rank])]


def _reshaped_sizes(op: Operation) -> Shape:
    """Return the static new shape, with a size of -1 computed where possible."""
    old, new = static_shape(op.inputs[1]), static_shape(op.inputs[2])
    if not old.is_fully_known or new.rank is None or list(new).count(None) != 1:
        return new
    count, rest = math.prod(old.as_tuple()), math.prod(d for d in new if d is not None)
    # Left to the kernel, which raises the error.
    if not rest or count % rest:
        return new
    return Shape([count // rest if d is None else d for d in new])


def _new_sizes(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """Return the new shape with a size of -1 computed; ValueError if the numbers of elements differ."""
    count, rest = math.prod(old), math.prod(d for d in new if d != -1)
    # Beside a size of 0 a -1 is refused, because any number would fit.
    fits = (
        new.count(-1) <= 1 and all(d >= -1 for d in new) and (rest and not count % rest if -1 in new else count == rest)
    )
    if not fits:
        raise ValueError(f"sparse_reshape: {list(old)} cannot become {list(new)}, the numbers of elements differ")
    if count >= 2**63:
        raise ValueError(f"sparse_reshape: {list(old)} has more places than an int64 can count")
    return tuple(count // rest if d == -1 else d for d in new)


def _compute_sparse_reshape(xp: Any, indices: Any, shape: Any, new_shape: Any) -> tuple[Any, Any]:
    """Return the places in the new shape, by way of flat element numbers, and the new shape."""
    old = as_sizes(shape)
    new = _new_sizes(old, as_sizes(new_shape))
    # Flat numbers are int64 throughout, which `_new_sizes` has checked to suffice.
    number = xp.zeros(indices.shape[0], dtype=xp.int64)
    for i, size in enumerate(old):
        number = number * size + indices[:, i]
    result = xp.empty((indices.shape[0], len(new)), dtype=xp.int64)
    for i in reversed(range(len(new))):
        # Digits from the last dimension on. A size of 0 occurs only without elements, where the divisor is arbitrary.
        result[:, i] = number % max(new[i], 1)
        number = number // max(new[i], 1)
    return result, np.asarray(new, np.int64)


define(
    "SparseReshape",
    "indices: int64, shape: host I, new_shape: host J -> indices: int64, shape: host int64",
    where={"I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=_reshaped_shape,
    rules=[Vectorize(one_by_one), ShapeVector(_reshaped_sizes), ReadsValues()],
    kernel=_compute_sparse_reshape,
    gradient=INDICES,
    samples=[
        Sample([i64([[0, 1], [1, 2]]), i64([2, 3]), i64([3, -1])], (i64([[0, 1], [2, 1]]), i64([3, 2]))),
        Sample([i64([[1, 0, 3]]), i64([2, 1, 4]), i32([8])], (i64([[7]]), i64([8]))),
        Sample([np.zeros((1, 0), np.int64), i64([]), i64([1, 1])], (i64([[0, 0]]), i64([1, 1]))),
        Sample([np.zeros((0, 2), np.int64), i64([0, 3]), i64([3, 0, 2])], (np.zeros((0, 3), np.int64), i64([3, 0, 2]))),
    ],
)


@public
def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Reshape a sparse tensor, its elements in the order of rows.

    Parameters
    ----------
    sp_input : SparseTensor
    shape : int32 or int64 vector
        A size may be -1: it is computed from the others.

    Returns
    -------
    SparseTensor
        The same values.

    Raises
    ------
    OpError
        In a step, if the numbers of elements differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 1], [1, 2]], [5, 6], [2, 3])
    >>> tg.function(lambda: tg.sparse_reshape(x, [-1])).sync().indices.tolist()
    [[1], [5]]
    """
    sp = as_sparse(sp_input, "sparse_reshape")
    # The flat numbers of elements stay, and so does the order of the values.
    indices, sizes = apply("SparseReshape", sp.indices, sp.dense_shape, shape_vector(shape), name=name)
    return SparseTensor(indices, sp.values, sizes)


def _index_columns(indices: Tensor, which: Sequence[int]) -> Tensor:
    return apply("Gather", indices, constant(i32(which)), axis=1)


@public
def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Permute the dimensions of a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor of known rank
    perm : sequence of int, optional
        Dimension `i` of the result is dimension ``perm[i]`` of the input; all in reverse when None.

    Returns
    -------
    SparseTensor
        In the order of rows.

    Raises
    ------
    ShapeError
        If `perm` is no permutation of the dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 2], [1, 0]], [5, 6], [2, 3])
    >>> tg.function(lambda: tg.sparse_transpose(x)).sync()
    SparseTensorValue(indices=array([[0, 1],
           [2, 0]]), values=array([6, 5], dtype=int32), dense_shape=array([3, 2]))
    """
    sp = as_sparse(sp_input, "sparse_transpose")
    rank = known_rank(sp, "sparse_transpose")
    order = list(reversed(range(rank))) if perm is None else [axis_within(a, rank) for a in static_ints(perm, "perm")]
    if sorted(order) != list(range(rank)):
        raise ShapeError(
            "sparse_transpose wants each dimension once",
            wanted=f"a permutation of 0 to {rank - 1}",
            got=perm,
            hint="leave perm out to turn all dimensions around",
        )
    sizes = sizes_of(sp, rank)
    # Sorted, because permuted places are not in the order of rows.
    return in_order(_index_columns(sp.indices, order), sp.values, sizes_vector([sizes[i] for i in order]), name=name)


@public
def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """Insert a dimension of size 1 into a sparse tensor.

    Parameters
    ----------
    sp_input : SparseTensor of known rank
    axis : int, optional
        Position of the new dimension; negative numbers count from the end, and None appends it.

    Returns
    -------
    SparseTensor
        Of the rank plus 1.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 2]], [5], [2, 3])
    >>> tg.function(lambda: tg.sparse_expand_dims(x, 0)).sync().indices.tolist()
    [[0, 0, 2]]
    """
    sp = as_sparse(sp_input, "sparse_expand_dims")
    rank = known_rank(sp, "sparse_expand_dims")
    at = axis_within(-1 if axis is None else static_int(axis), rank + 1)
    one_each = apply("Stack", [size_along(sp.values, 0), constant(1)], axis=0)
    zero = apply("Fill", one_each, constant(np.int64(0)))
    indices = apply("Concat", [sp.indices[:, :at], zero, sp.indices[:, at:]], axis=1, name=name)
    sizes = sizes_of(sp, rank)
    return SparseTensor(indices, sp.values, sizes_vector([*sizes[:at], 1, *sizes[at:]]))


@public
def sparse_concat(
    axis: Any, sp_inputs: Any, name: str | None = None, expand_nonconcat_dim: bool = False
) -> SparseTensor:
    """Join sparse tensors along an axis.

    Parameters
    ----------
    axis : int
    sp_inputs : sequence of SparseTensor
        Of one dtype and one known rank.
    expand_nonconcat_dim : bool
        Whether other dimensions may differ: then the largest sizes count.

    Returns
    -------
    SparseTensor
        In the order of rows.

    Raises
    ------
    GraphError
        If there are no sparse tensors.
    ShapeError
        If their ranks differ, or dimensions other than the axis are known to differ.
    OpError
        In a step, if dimensions differ that were unknown while building.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 2], [1, 0]], [5, 6], [2, 3])
    >>> tg.function(lambda: tg.sparse_concat(1, [x, x])).sync()
    SparseTensorValue(indices=array([[0, 2],
           [0, 5],
           [1, 0],
           [1, 3]]), values=array([5, 5, 6, 6], dtype=int32), dense_shape=array([2, 6]))
    """
    parts = [as_sparse(sp, "sparse_concat") for sp in sp_inputs]
    if not parts:
        raise GraphError("sparse_concat joins at least one sparse tensor", got="none", hint="give a list of them")
    rank = known_rank(parts[0], "sparse_concat")
    along = axis_within(static_int(axis), rank)
    for sp in parts:
        _check_rank(sp, rank)
    sizes = [sizes_of(sp, rank) for sp in parts]
    with after_checks([] if expand_nonconcat_dim else _size_checks(sizes, along)):
        values = apply("Concat", [sp.values for sp in parts], axis=0)
        # Sorted, because parts joined along another axis than 0 interleave in the order of rows.
        return in_order(_shift_places(parts, sizes, along), values, _joined_sizes(sizes, along), name=name)


def _size_checks(sizes: list[list[Any]], along: int) -> list[Tensor]:
    """Return checks that all sizes except those along an axis are equal."""
    # Sizes along the axis may differ: 0 in their place makes them equal.
    others = [with_size(size, along, 0) for size in sizes]
    return [same_sizes(others[0], other, "sparse_concat") for other in others[1:]]


def _shift_places(parts: list[SparseTensor], sizes: list[list[Any]], along: int) -> Tensor:
    """Return the places of all parts, shifted along the axis to follow the previous parts."""
    unit = constant(np.eye(1, len(sizes[0]), along, dtype=np.int64))
    # Sums of integers and scalar tensors: `+` adds an operation only where a size is unknown.
    starts = [sum(size[along] for size in sizes[:k]) for k in range(len(parts))]
    return apply("Concat", [sp.indices + start * unit for sp, start in zip(parts, starts, strict=True)], axis=0)


def _joined_sizes(sizes: list[list[Any]], along: int) -> Tensor:
    # Sizes along other axes are equal, unless `expand_nonconcat_dim` raises them to the largest.
    most = [functools.reduce(functools.partial(extreme_size, "Maximum"), each) for each in zip(*sizes, strict=True)]
    return with_size(most, along, sum(size[along] for size in sizes))


def _check_rank(sp: SparseTensor, rank: int) -> None:
    """Raise ShapeError if a part of `sparse_concat` has another rank."""
    if sp.rank not in (rank, None):
        raise ShapeError(
            "sparse_concat wants sparse tensors of one rank",
            wanted=rank,
            got=sp.rank,
            operation=sp.indices.op,
            hint="sparse_expand_dims inserts a dimension",
        )


@public
def sparse_split(*, sp_input: Any, num_split: int, axis: Any, name: str | None = None) -> list[SparseTensor]:
    """Split a sparse tensor along an axis; takes keyword arguments only.

    Parameters
    ----------
    sp_input : SparseTensor of known rank
    num_split : int
        If `num_split` does not divide the size, the first parts are larger by 1.
    axis : int

    Returns
    -------
    list of SparseTensor
        `num_split` parts.

    Raises
    ------
    ShapeError
        If `num_split` is less than 1, or larger than a known size.

    Examples
    --------
    >>> import tagloom as tg
    >>> x = tg.SparseTensorValue([[0, 0], [0, 2], [1, 1]], [5, 6, 7], [2, 3])
    >>> parts = tg.function(lambda: tg.sparse_split(sp_input=x, num_split=2, axis=1)).sync()
    >>> [part.dense_shape.tolist() for part in parts], parts[1].indices.tolist()
    ([[2, 2], [2, 1]], [[0, 0]])
    """
    sp, count = as_sparse(sp_input, "sparse_split"), static_int(num_split, "num_split")
    rank = known_rank(sp, "sparse_split")
    along = axis_within(static_int(axis), rank)
    sizes = sizes_of(sp, rank)
    if count < 1 or (isinstance(sizes[along], int) and count > sizes[along]):
        raise ShapeError(
            "sparse_split makes at least one part, and none that is empty",
            wanted=f"1 to {sizes[along] if isinstance(sizes[along], int) else 'the size'}",
            got=count,
            hint="give another num_split",
        )
    return [_cut_part(sp, sizes, along, start, size, name) for start, size in split_sizes(sizes[along], count)]


def _cut_part(sp: SparseTensor, sizes: list[Any], along: int, start: Any, size: Any, name: str | None) -> SparseTensor:
    shape = with_size(sizes, along, size)
    return cut_block(sp, with_size([0] * len(sizes), along, start), shape, shape, name)
