"""Padding with a constant or with mirrored elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor
from ..support.common import shape_of
from ..support.literals import f64, i32
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.shapes import mirror_pad_examples, pad_examples

_X = np.arange(6.0).reshape(2, 3)
_SKIPPED_BORDER = {"reflect": 1, "symmetric": 0}  # elements at each border that a mode does not mirror


def _known_paddings(op: Operation) -> Any:
    """Return the paddings as pairs, or None if unknown; ShapeError if they do not fit the rank or are negative."""
    x, paddings = op.inputs[0].shape, op.inputs[1]
    if not Shape([x.rank, 2]).is_compatible_with(paddings.shape):
        raise ShapeError(
            "pad needs a pair of sizes for each dimension",
            wanted=Shape([x.rank, 2]),
            got=paddings.shape,
            hint="give [0, 0] for dimensions that are not padded",
        )
    pairs = static_value(paddings)
    if pairs is not None and (pairs < 0).any():
        raise ShapeError(
            "paddings cannot be negative",
            got=pairs.tolist(),
            wanted="0 or more",
            hint="use slice to cut rows off",
        )
    return None if pairs is None else pairs.tolist()


def _infer_padded_shape(op: Operation) -> Shape:
    """Infer the padded shape from the shape of the tensor, the paddings, or the number of paddings alone."""
    pairs, x = _known_paddings(op), op.inputs[0].shape
    # There is a pair for each dimension, so the number of pairs is the rank.
    rank = x.rank if x.rank is not None else op.inputs[1].shape[0]
    if rank is None:
        return Shape(None)
    if pairs is None or x.rank is None:
        return Shape([None] * rank)
    return Shape([None if d is None else d + before + after for d, (before, after) in zip(x, pairs, strict=True)])


def _count_elements(x: Any, paddings: Any, *_: Any, **attrs: Any) -> int:
    """Return the number of elements of the padded tensor."""
    return math.prod(d + before + after for d, (before, after) in zip(x.shape, paddings.tolist(), strict=True))


def _checked_pairs(x: Any, paddings: Any) -> list[list[int]]:
    """Return the pairs of a computed padding; ValueError unless they fit `x` and are not negative."""
    pairs: list[list[int]] = paddings.tolist()
    if paddings.shape != (x.ndim, 2) or any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: two sizes >= 0 are needed for each of {x.ndim} dimensions, got {pairs}")
    return pairs


def _compute_pad(xp: Any, x: Any, paddings: Any, value: Any) -> Any:
    pairs = _checked_pairs(x, paddings)
    out = xp.full([n + before + after for n, (before, after) in zip(x.shape, pairs, strict=True)], value, dtype=x.dtype)
    out[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, pairs, strict=True))] = x
    return out


def _pad_gradient(op: Operation, g: Tensor) -> list[Any]:
    x, paddings, _ = op.inputs
    inner = apply("Slice", g, apply("StridedSlice", paddings, [], spec=(slice(None), 0)), shape_of(x))
    # The shape of a scalar, to which SumTo adds up all elements.
    scalar_shape = constant(np.zeros(0, np.int32))
    # The constant is everywhere except in the inner block.
    return [inner, None, apply("SumTo", g, scalar_shape) - apply("SumTo", inner, scalar_shape)]


def _infer_pad_shape(op: Operation) -> Shape:
    """Infer the padded shape; ShapeError unless the constant may be a scalar."""
    if not op.inputs[2].shape.is_compatible_with(SCALAR):
        raise ShapeError(
            "constant_values has to be a scalar",
            wanted="[]",
            got=op.inputs[2].shape,
            hint="use concat for rows that differ",
        )
    return _infer_padded_shape(op)


define(
    "Pad",
    "tensor: T, paddings: host I, constant_value: T -> output: T",
    where={"I": dtypes.INDEX},
    shape=_infer_pad_shape,
    rules=[Vectorize(pad_examples), LINEAR_IN_FIRST, Elements(_count_elements)],
    kernel=_compute_pad,
    gradient=_pad_gradient,
    samples=[
        Sample(
            [_X, i32([[1, 0], [0, 2]]), np.float64(9)],
            f64([[9] * 5, [0, 1, 2, 9, 9], [3, 4, 5, 9, 9]]),
        ),
        Sample([np.int32(4), np.zeros((0, 2), np.int32), np.int32(0)], np.int32(4)),
    ],
)


def _infer_mirror_pad_shape(op: Operation) -> Shape:
    """Infer the padded shape; ShapeError for a padding larger than its dimension allows."""
    pairs, x, skip = _known_paddings(op), op.inputs[0].shape, _SKIPPED_BORDER[op.attrs["mode"]]
    if pairs is None or x.rank is None:
        return _infer_padded_shape(op)
    for size, pair in zip(x, pairs, strict=True):
        # An empty dimension may be padded by 0, even in a mode that skips a border element.
        if size is not None and max(pair) > max(size - skip, 0):
            raise ShapeError(
                "a mirror padding is larger than its tensor",
                wanted=f"at most {max(size - skip, 0)}",
                got=pair,
                hint="pad in several steps",
            )
    return _infer_padded_shape(op)


def _checked_mirror_pairs(x: Any, paddings: Any, mode: str) -> list[list[int]]:
    """Return the pairs of a computed padding; ValueError if a mirror would reach beyond the end of `x`."""
    pairs = _checked_pairs(x, paddings)
    # An empty axis has size - 1 < 0, but may be padded by 0.
    if any(max(pair) > size - _SKIPPED_BORDER[mode] for size, pair in zip(x.shape, pairs, strict=True) if max(pair)):
        raise ValueError(f"pad: mode {mode} cannot pad shape {x.shape} by {pairs}")
    return pairs


def _compute_mirror_pad(xp: Any, x: Any, paddings: Any, mode: str) -> Any:
    pairs = _checked_mirror_pairs(x, paddings, mode)
    # xp.pad refuses an empty list of pairs.
    return xp.pad(x, pairs, mode=mode) if x.ndim else x


define(
    "MirrorPad",
    "tensor: T, paddings: host I -> output: T",
    where={"I": dtypes.INDEX},
    attrs={"mode": REQUIRED},
    shape=_infer_mirror_pad_shape,
    rules=[Vectorize(mirror_pad_examples), Elements(_count_elements)],
    kernel=_compute_mirror_pad,
    gradient=lambda op, g: [apply("MirrorPadGrad", g, op.inputs[1], mode=op.attrs["mode"]), None],
    samples=[
        Sample([_X[0], i32([[2, 1]])], f64([2, 1, 0, 1, 2, 1]), {"mode": "reflect"}),
        Sample([_X[0], i32([[2, 1]])], f64([1, 0, 0, 1, 2, 2]), {"mode": "symmetric"}),
    ],
)


def _infer_unpadded_shape(op: Operation) -> Shape:
    """Infer the shape before the padding from the shape of the padded cotangent."""
    pairs, g = _known_paddings(op), op.inputs[0].shape
    if pairs is None or g.rank is None:
        return Shape(None if g.rank is None else [None] * g.rank)
    return Shape([None if d is None else d - sum(pair) for d, pair in zip(g, pairs, strict=True)])


def _mirror_grad(xp: Any, g: Any, paddings: Any, mode: str) -> Any:
    """Add the cotangent of each mirrored row to the row of its origin, axis by axis."""
    skip = _SKIPPED_BORDER[mode]
    for axis, (before, after) in enumerate(_checked_pairs(g, paddings)):
        rows = xp.moveaxis(g, axis, 0)
        size = rows.shape[0] - before - after
        if size < 0:
            raise ValueError(f"no result of {mode} padding by {before} and {after} has {rows.shape[0]} rows")
        # Mirrored rows are reversed, and start next to the border: `skip` leaves the border itself out.
        core = rows[before : before + size].copy()
        core[skip : skip + before] += rows[:before][::-1]
        core[size - skip - after : size - skip] += rows[before + size :][::-1]
        g = xp.moveaxis(core, 0, axis)
    return g


define(
    "MirrorPadGrad",
    "g: T, paddings: host I -> dx: T",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    attrs={"mode": REQUIRED},
    shape=_infer_unpadded_shape,
    rules=[Vectorize(mirror_pad_examples)],
    kernel=_mirror_grad,
    gradient=lambda op, g: [apply("MirrorPad", g, op.inputs[1], mode=op.attrs["mode"]), None],
    samples=[
        Sample([np.arange(6.0), i32([[2, 1]])], f64([2, 1 + 3 + 5, 0 + 4]), {"mode": "reflect"}),
        Sample([np.arange(6.0), i32([[2, 1]])], f64([1 + 2, 0 + 3, 4 + 5]), {"mode": "symmetric"}),
    ],
)


@public
def pad(
    tensor: Any, paddings: Any, mode: str = "constant", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """Add elements before and after a tensor, along each dimension.

    Parameters
    ----------
    tensor : Tensor of any dtype and shape
    paddings : int32 or int64 Tensor of shape [rank, 2]
        For each dimension the sizes of the padding before and after, 0 or more.
    mode : {'constant', 'reflect', 'symmetric'}
        Fill with `constant_values`, or mirror the tensor without or with its border elements. Case-insensitive.
    constant_values : scalar of the dtype of `tensor`
        0 stands for the zero of any dtype, such as the empty string. Unused by other modes.

    Returns
    -------
    Tensor
        Of the dtype of `tensor`; each dimension is larger by its two sizes.

    Raises
    ------
    ShapeError
        If there are not as many pairs as dimensions, or a mirror would reach beyond the tensor.
    GraphError
        If the mode is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.pad([1, 2, 3], [[1, 2]])).sync()
    array([0, 1, 2, 3, 0, 0], dtype=int32)
    >>> tg.function(lambda: tg.pad([1, 2, 3], [[1, 2]], "reflect")).sync()
    array([2, 1, 2, 3, 2, 1], dtype=int32)
    >>> tg.function(lambda: tg.pad([1, 2, 3], [[1, 2]], "symmetric")).sync()
    array([1, 1, 2, 3, 3, 2], dtype=int32)
    """
    x, pairs, kind = convert_to_tensor(tensor), index_tensor(paddings), mode.lower()
    if kind in _SKIPPED_BORDER:
        return apply("MirrorPad", x, pairs, name=name, mode=kind)
    if kind != "constant":
        raise GraphError(
            "pad has no such mode",
            wanted="constant, reflect or symmetric",
            got=mode,
            hint="leave mode out to pad with a constant",
        )
    # A literal 0 stands for the zero of any dtype, such as the empty string.
    if isinstance(constant_values, (int, float)) and not constant_values:
        constant_values = np.zeros((), x.dtype.numpy)
    return apply("Pad", x, pairs, constant_values, name=name)
