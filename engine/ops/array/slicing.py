"""Blocks of a tensor by computed position and size, and rows chosen by a mask."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import KeepsSize, ReadsValues
from ...ir.rules.placing import TakesPart
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import axis_within, index_tensor, partial_values, static_int
from ..support.common import shape_of
from ..support.literals import f64, flags, i32, i64
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import one_by_one
from ..support.vectorizing.indexing import slice_block_examples

_X = np.arange(12.0).reshape(3, 4)


def _infer_slice_shape(op: Operation) -> Shape:
    """Infer the size of the block; the rank comes from any input of known length."""
    x = op.inputs[0].shape
    begin, size = partial_values(op.inputs[1]), partial_values(op.inputs[2])
    known_ranks = [] if x.rank is None else [x.rank]
    known_ranks += [len(vector) for vector in (begin, size) if vector is not None]
    if not known_ranks:
        return x
    rank = known_ranks[0]
    if any(v is not None and len(v) != rank for v in (begin, size)):
        raise ShapeError(
            "slice needs a begin and a size for each dimension",
            wanted=rank,
            got=f"{begin}, {size}",
            hint="a size of -1 reaches to the end",
        )
    unknown: list[int | None] = [None] * rank
    dims = unknown if x.rank is None else list(x)
    return Shape([_block_size(*args) for args in zip(dims, begin or unknown, size or unknown, strict=True)])


def _block_size(dim: int | None, begin: int | None, size: int | None) -> int | None:
    """Return the size of the block along a dimension; ShapeError if the block reaches outside."""
    # An unknown begin or size counts as 0, the least possible.
    start, least = begin or 0, 0 if size == -1 else size or 0
    if start < 0 or least < 0 or (dim is not None and start + least > dim):
        raise ShapeError(
            "a slice reaches outside its tensor",
            wanted="sizes and begins of at least 0" if dim is None else f"within {dim}",
            got=f"{size} from {begin}",
            hint="a size of -1 reaches to the end",
        )
    if size != -1:
        return size
    return None if dim is None or begin is None else dim - begin


def _compute_slice(xp: Any, x: Any, begin: Any, size: Any) -> Any:
    """Cut the block out; ValueError if the block reaches outside."""
    ends = [n if k == -1 else b + k for n, b, k in zip(x.shape, begin.tolist(), size.tolist(), strict=True)]
    if any(not 0 <= b <= e <= n for n, b, e in zip(x.shape, begin.tolist(), ends, strict=True)):
        raise ValueError(f"slice: begin {begin.tolist()} and size {size.tolist()} reach outside of shape {x.shape}")
    # With the Ellipsis the result is an array even of rank 0.
    return x[(*map(builtins.slice, begin.tolist(), ends), ...)]


def _slice_gradient(op: Operation, g: Tensor) -> list[Any]:
    x, begin, _ = op.inputs
    before = apply("Cast", begin, dtype=dtypes.int32)
    # By the shape of the result, because a size may be -1.
    after = shape_of(x) - before - shape_of(op.outputs[0])
    zero = np.zeros((), x.dtype.numpy)
    return [apply("Pad", g, apply("Stack", [before, after], axis=1), zero), None, None]


define(
    "Slice",
    "input: T, begin: host I, size: host J -> output: T",
    where={"I": dtypes.INDEX, "J": dtypes.INDEX},
    shape=_infer_slice_shape,
    rules=[Vectorize(slice_block_examples), LINEAR_IN_FIRST, TakesPart(), KeepsSize()],
    kernel=_compute_slice,
    gradient=_slice_gradient,
    samples=[
        Sample([_X, i32([1, 1]), i32([2, -1])], f64([[5, 6, 7], [9, 10, 11]])),
        Sample([_X, i64([0, 4]), i64([3, 0])], np.zeros((3, 0))),
    ],
)


@public
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Cut a block out of a tensor.

    Parameters
    ----------
    input_ : Tensor of any dtype and shape
    begin, size : int32 or int64 Tensor of shape [rank]
        Start and sizes of the block; a size of -1 reaches to the end.

    Returns
    -------
    Tensor
        Same dtype, of shape `size`, with the actual sizes in place of -1.

    Raises
    ------
    ShapeError
        If the block is known to reach outside; otherwise the step raises OpError.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.slice([[1, 2, 3], [4, 5, 6]], begin=[0, 1], size=[1, -1])).sync()
    array([[2, 3]], dtype=int32)
    """
    return apply("Slice", input_, index_tensor(begin), index_tensor(size), name=name)


def _infer_mask_shape(op: Operation) -> Shape:
    """Replace the masked dimensions by an unknown size; ShapeError if the mask does not fit."""
    x, mask = (t.shape for t in op.inputs)
    if mask.rank is None:
        return Shape(None)
    if mask.rank == 0:
        raise ShapeError(
            "a mask needs at least one dimension",
            wanted=f"dimensions of {x}",
            got=mask,
            hint="use cond to choose all or nothing",
        )
    if not x[: mask.rank].is_compatible_with(mask):
        raise ShapeError(
            "a mask has to fit the leading dimensions",
            wanted=x,
            got=mask,
            hint="give axis= for a mask of inner dimensions",
        )
    rest: Shape = x[mask.rank :]
    return Shape([None]) + rest


def _apply_boolean_mask(xp: Any, x: Any, mask: Any) -> Any:
    if mask.shape != x.shape[: mask.ndim] or not mask.ndim:
        raise ValueError(f"boolean_mask: a mask of shape {mask.shape} does not fit a tensor of shape {x.shape}")
    return x[mask]


def _mask_gradient(op: Operation, g: Tensor) -> list[Any]:
    x, mask = op.inputs
    return [apply("ScatterNd", apply("NonZero", mask), g, shape_of(x)), None]


define(
    "BooleanMask",
    "tensor: T, mask: bool -> output: T",
    shape=_infer_mask_shape,
    rules=[Vectorize(one_by_one), TakesPart(), ReadsValues()],
    kernel=_apply_boolean_mask,
    gradient=_mask_gradient,
    samples=[
        Sample([_X, flags([True, False, True])], f64([[0, 1, 2, 3], [8, 9, 10, 11]])),
        Sample([_X, _X % 5 == 0], f64([0, 5, 10])),
    ],
)


@public
def boolean_mask(tensor: Any, mask: Any, name: str | None = None, axis: Any = 0) -> Tensor:
    """Choose the rows where a mask is true; with axis 0 the same as ``tensor[mask]``.

    Parameters
    ----------
    tensor : Tensor of any dtype
    mask : bool Tensor of rank at least 1 (known for ``axis != 0``)
        Of the shape of the dimensions of `tensor` from `axis` on.
    axis : int
        First masked dimension.

    Returns
    -------
    Tensor
        Same dtype; the masked dimensions become a single dimension, whose size is the number of true elements.

    Raises
    ------
    ShapeError
        If the mask does not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.boolean_mask([[1, 2], [3, 4], [5, 6]], [True, False, True])).sync()
    array([[1, 2],
           [5, 6]], dtype=int32)
    >>> tg.function(lambda: tg.boolean_mask([[1, 2], [3, 4]], [False, True], axis=1)).sync()
    array([[2],
           [4]], dtype=int32)
    """
    x, mask, axis = convert_to_tensor(tensor), convert_to_tensor(mask, dtypes.bool_), static_int(axis)
    if axis == 0:
        return apply("BooleanMask", x, mask, name=name)
    if x.rank is None or mask.rank is None:
        raise ShapeError(
            "boolean_mask with an axis needs known ranks",
            got=f"{x.shape} and {mask.shape}",
            wanted="known ranks",
            operation=x.op,
            hint="give the placeholders shapes, or use axis 0",
        )
    axis = axis_within(axis, x.rank)
    end = axis + mask.rank
    order = [*range(axis, end), *range(axis), *range(end, x.rank)]
    # The order is longer than the rank if the mask has dimensions beyond those of the tensor.
    if len(order) != x.rank or not x.shape[axis:end].is_compatible_with(mask.shape):
        raise ShapeError(
            "a mask has to fit the dimensions from its axis on",
            wanted=x.shape[axis:],
            got=mask.shape,
            operation=mask.op,
            hint="give another axis=",
        )
    # The kernel masks leading dimensions: the masked dimensions are moved first, and the resulting one back.
    masked = apply("BooleanMask", apply("Transpose", x, perm=tuple(order)), mask)
    inverse_order = [*range(1, axis + 1), 0, *range(axis + 1, x.rank - mask.rank + 1)]
    return apply("Transpose", masked, name=name, perm=tuple(inverse_order))
