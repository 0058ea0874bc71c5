"""Conversions of sparse tensors to dense ones and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_numpy
from ...base.errors import ShapeError
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ..support.arguments import as_sizes, index_tensor, only_scalars, shape_in, shape_vector
from ..support.array_library import last_writers
from ..support.bounds import check_bounds
from ..support.common import scalar_like
from ..support.literals import f64, flags, i32, i64
from ..support.vectorizing.families import one_by_one
from .sparse_tensor import SparseTensor, as_sparse, known_rank

_PLACES = i64([[0, 1], [2, 0], [2, 1]])


def _dense_shape(op: Operation) -> Shape:
    """Return the static shape of the dense tensor; ShapeError if indices, values and shape do not fit."""
    indices, values, shape = op.inputs[0].shape, op.inputs[1].shape, static_shape(op.inputs[2])
    only_scalars(op, 3)
    ranks = [None if indices.rank is None else indices[1], shape.rank]
    counts = [None if s.rank is None else s[0] for s in (indices, values)]
    for known, what in ((ranks, "number for each dimension"), (counts, "index for each value")):
        if None not in known and known[0] != known[1]:
            raise ShapeError(
                f"sparse_to_dense wants one {what}",
                wanted=f"values {values}, shape {shape}",
                got=f"indices {indices}",
                hint="indices are [[row, column], ...], one line for each value",
            )
    return shape


def _flat_numbers(xp: Any, indices: Any, sizes: tuple[int, ...]) -> Any:
    """Return index vectors as flat element numbers; IndexError if an index is out of range."""
    numbers = xp.zeros(indices.shape[0], dtype=xp.int64)
    for i, size in enumerate(sizes):
        check_bounds(indices[:, i], size, "sparse_to_dense")
        numbers = numbers * size + indices[:, i]
    return numbers


def _to_dense(xp: Any, indices: Any, values: Any, shape: Any, default: Any, validate_indices: bool) -> Any:
    """Put values at places of a tensor filled with the default; ValueError for unsorted or repeated places."""
    sizes = as_sizes(shape)
    if indices.shape != (*values.shape[:1], len(sizes)) or values.ndim != 1:
        raise ValueError(
            f"sparse_to_dense: indices {list(indices.shape)} and values {list(values.shape)} do not fit "
            f"shape {list(sizes)}; wanted are [n, {len(sizes)}] and [n]"
        )
    numbers = _flat_numbers(xp, indices, sizes)
    # Strictly increasing flat numbers are in the order of rows, and distinct.
    if validate_indices and xp.any(numbers[1:] <= numbers[:-1]):
        raise ValueError(
            "sparse_to_dense: indices have to be in the order of rows, and each there once; "
            "sparse_reorder sorts them, validate_indices=False lets them be"
        )
    count = int(np.prod(sizes, dtype=np.int64))
    if is_numpy(xp):
        dense = xp.full(count, default, values.dtype)
        dense[numbers] = values
        return dense.reshape(sizes)
    # Of repeated places the last value counts; assignment on a GPU would keep any.
    last = last_writers(xp, numbers, count)
    dense = xp.zeros(count, dtype=values.dtype) + default
    there = last >= 0
    dense[there] = values[last[there]]
    return dense.reshape(sizes)


def _to_dense_gradient(op: Operation, g: Tensor) -> list[Any]:
    indices, _, shape, _ = op.inputs
    to_values = apply("GatherNd", g, indices)
    # Overwritten values have no part in the result.
    if not op.attrs["validate_indices"]:
        to_values = apply("Where", apply("LastAtPlace", indices, shape), to_values, scalar_like(0, g))
    # The default fills every element that no value overwrites.
    return [None, to_values, None, apply("Sum", g) - apply("Sum", to_values)]


define(
    "SparseToDense",
    "indices: I, values: T, shape: host J, default: T -> dense: T",
    where={"I": dtypes.INDEX, "T": dtypes.VALUES, "J": dtypes.INDEX},
    attrs={"validate_indices": True},
    shape=_dense_shape,
    rules=[Vectorize(one_by_one), Elements(shape_in(2)), ReadsValues()],
    kernel=_to_dense,
    gradient=_to_dense_gradient,
    samples=[
        Sample([_PLACES, f64([5, 6, 7]), i64([3, 2]), f64(-1)], f64([[-1, 5], [-1, -1], [6, 7]])),
        Sample(
            [i32([[2], [0], [2]]), f64([5, 6, 7]), i32([4]), f64(9)], f64([6, 9, 7, 9]), {"validate_indices": False}
        ),
        Sample([np.zeros((1, 0), np.int64), f64([4]), i64([]), f64(9)], f64(4)),
        Sample([np.zeros((0, 2), np.int64), i32([]), i64([1, 2]), i32(3)], i32([[3, 3]])),
        Sample([i64([[1]]), flags([True]), i64([3]), np.bool_(False)], flags([False, True, False])),
    ],
)


def _last_at_place(xp: Any, indices: Any, shape: Any) -> Any:
    numbers = _flat_numbers(xp, indices, as_sizes(shape))
    return last_writers(xp, numbers, int(np.prod(shape, dtype=np.int64)))[numbers] == xp.arange(numbers.shape[0])


define(
    "LastAtPlace",
    "indices: I, shape: host J -> is_last: bool",
    where={"I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=lambda op: Shape([None if op.inputs[0].rank is None else op.inputs[0].shape[0]]),
    rules=[Vectorize(one_by_one), Elements(shape_in(1)), ReadsValues()],
    kernel=_last_at_place,
    gradient=NotDifferentiable("its result is bool"),
    samples=[
        Sample([i64([[2], [0], [2]]), i64([4])], flags([False, True, True])),
        Sample([i32([[0, 1], [0, 1], [1, 1]]), i32([2, 2])], flags([False, True, True])),
        Sample([np.zeros((0, 1), np.int64), i64([2])], flags([])),
    ],
)


@public
def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Put values at places of a tensor filled with `default_value`.

    Parameters
    ----------
    sparse_indices : int32 or int64 Tensor of shape [n, rank], [n] or []
        Place of each value; a vector or a scalar for places in a vector.
    output_shape : int32 or int64 vector
    sparse_values : Tensor of any dtype, of shape [n] or []
        A scalar goes to all places.
    default_value : scalar of the same dtype
    validate_indices : bool
        Whether unsorted or repeated indices are an error; otherwise the last value of a place counts.

    Returns
    -------
    Tensor
        Of shape `output_shape`.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.
    OpError
        In a step, if an index is out of range, or not in order.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_to_dense([[0, 1], [1, 2]], [2, 3], [5, 6], default_value=-1)).sync()
    array([[-1,  5, -1],
           [-1, -1,  6]], dtype=int32)
    """
    indices, values = index_tensor(sparse_indices), convert_to_tensor(sparse_values)
    # A vector of indices names places of a vector, and a scalar a single place.
    if indices.rank in (0, 1):
        indices = apply("Reshape", indices, constant(i32([-1, 1])))
    if values.rank == 0:
        values = apply("BroadcastTo", values, apply("Shape", indices)[:1])
    shape = shape_vector(output_shape)
    return _apply_to_dense(indices, values, shape, default_value, validate_indices, name)


def _apply_to_dense(indices: Any, values: Tensor, shape: Any, default: Any, validate: bool, name: str | None) -> Tensor:
    default = convert_to_tensor(default, None if isinstance(default, Tensor) else values.dtype)
    return apply("SparseToDense", indices, values, shape, default, name=name, validate_indices=bool(validate))


def _default_element(values: Tensor) -> Any:
    return {"string": "", "bool": False}.get(values.dtype.name, 0)


@public
def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Make a sparse tensor dense.

    Parameters
    ----------
    sp_input : SparseTensor
    default_value : scalar of the same dtype, optional
        Value of the other elements: 0, False or an empty string when None.
    validate_indices : bool
        As in `sparse_to_dense`.

    Returns
    -------
    Tensor
        Of shape `dense_shape`.

    Raises
    ------
    OpError
        In a step, if an index is out of range, or not in order.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_tensor_to_dense(tg.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2]))).sync()
    array([[0, 5],
           [6, 0]], dtype=int32)
    """
    sp = as_sparse(sp_input, "sparse_tensor_to_dense")
    default = _default_element(sp.values) if default_value is None else default_value
    return _apply_to_dense(sp.indices, sp.values, sp.dense_shape, default, validate_indices, name)


@public
def sparse_from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Make a sparse tensor of the nonzero elements of a dense one.

    Parameters
    ----------
    tensor : Tensor of any dtype, of rank at least 1
        True and non-empty strings count as nonzero.

    Returns
    -------
    SparseTensor
        In the order of rows. The gradient reaches these elements, and the others get zero.

    Raises
    ------
    ShapeError
        If `tensor` is a scalar.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sparse_from_dense([[0, 5], [7, 0]])).sync().indices.tolist()
    [[0, 1], [1, 0]]
    """
    dense = convert_to_tensor(tensor)
    if dense.shape == SCALAR:
        raise ShapeError(
            "a sparse tensor has places along at least one dimension",
            wanted="rank 1 or more",
            got=dense.shape,
            operation=dense.op,
            hint="make a vector of it with expand_dims",
        )
    zero = constant(np.asarray(_default_element(dense), dense.dtype.numpy))
    indices = apply("NonZero", apply("NotEqual", dense, zero))
    sizes = apply("Cast", apply("Shape", dense), dtype=dtypes.int64)
    return SparseTensor(indices, apply("GatherNd", dense, indices, name=name), sizes)


@public
def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """Return a bool tensor that marks the numbers contained in each row.

    Parameters
    ----------
    sp_input : SparseTensor of int32 or int64, of known rank
        Its values are numbers in [0, vocab_size); the places along the last dimension have no meaning.
    vocab_size : int, or integer scalar

    Returns
    -------
    Tensor of bool
        With the shape of `sp_input`, except for `vocab_size` as the last dimension.

    Raises
    ------
    OpError
        In a step, if a value is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> ids = tg.SparseTensorValue([[0, 0], [0, 1], [1, 0]], [2, 0, 1], [2, 9])
    >>> tg.function(lambda: tg.sparse_to_indicator(ids, 3)).sync()
    array([[ True, False,  True],
           [False,  True, False]])
    """
    sp = as_sparse(sp_input, "sparse_to_indicator")
    rank = known_rank(sp, "sparse_to_indicator")
    number = apply("ExpandDims", apply("Cast", sp.values, dtype=dtypes.int64), axis=1)
    # Each value becomes the last number of its place.
    places = apply("Concat", [sp.indices[:, : rank - 1], number], axis=1)
    size = apply("Reshape", index_tensor(vocab_size), constant(i32([1])))
    shape = apply("Concat", [sp.dense_shape[:-1], apply("Cast", size, dtype=dtypes.int64)], axis=0)
    there = apply("Fill", apply("Shape", sp.values), constant(True))
    return _apply_to_dense(places, there, shape, False, False, name)
