"""Discrete Fourier transforms over the last one to three dimensions, of complex and of real signals.

Gradients are transforms too: transforms are linear, and the adjoint of a transform is its inverse times a factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant
from ...ir.definition import REQUIRED, Sample, define
from ...ir.operation import Operation
from ...ir.rules.batching import Batch, Batched
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import check_rank, only_scalars, with_dimension
from ..support.batching import emit_copy
from ..support.common import size_along
from ..support.literals import c128, f64
from ..support.vectorizing.families import leading
from .complex import COMPLEX

REAL = (dtypes.float32, dtypes.float64)


def _checked_shape(op: Operation) -> Shape:
    """Return the shape of the operand; raise ShapeError if the transform has more dimensions."""
    shape, rank = op.inputs[0].shape, op.attrs["rank"]
    if shape.rank is not None and shape.rank < rank:
        raise ShapeError(
            f"a transform over {rank} dimensions has to have them",
            wanted=f"rank {rank} or more",
            got=shape,
            operation=op,
            hint="add dimensions with expand_dims, or transform over fewer",
        )
    return shape


def last_axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _count_points(x: Tensor, rank: int, dtype: Any) -> Tensor:
    """Return the number of points of a transform over the last `rank` dimensions of `x`, in a dtype."""
    known = None if x.rank is None else [x.shape[axis] for axis in last_axes(rank)]
    if known is not None and None not in known:
        return constant(np.asarray(math.prod(d for d in known if d is not None), dtype.numpy))
    sizes = [size_along(x, axis) for axis in last_axes(rank)]
    return apply("Cast", math.prod(sizes[1:], start=sizes[0]), dtype=dtype)


def _batch_transform(op: Operation, varying: Sequence[bool]) -> Batched | None:
    """Transform a batch at once unless lengths vary: the transformed dimensions are last."""
    if not varying[0] or any(varying[1:]):
        return None
    return lambda builder, operands: emit_copy(builder, op, operands)


def _compute_fft(xp: Any, x: Any, rank: int, inverse: bool) -> Any:
    check_rank(x, rank, None, f"a transform over {rank} dimensions")
    if not x.size:  # NumPy refuses transforms of 0 points
        return x
    return (xp.fft.ifftn if inverse else xp.fft.fftn)(x, axes=last_axes(rank)).astype(x.dtype, copy=False)


def _transform_gradient(op: Operation, g: Tensor) -> list[Any]:
    rank, inverse = op.attrs["rank"], op.attrs["inverse"]
    count = _count_points(op.inputs[0], rank, g.dtype)
    # F is its own transpose, and its conjugate is the inverse times the number of points n; the inverse has the
    # factor 1 / n.
    back = apply("FFT", g, rank=rank, inverse=not inverse)
    return [back / count if inverse else back * count]


def _transform_matrix(n: int, sign: int = -1) -> Any:
    """Return the matrix of a transform of `n` points; `sign` 1 makes an inverse without its factor 1 / n."""
    return np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)


_Z = c128([[1 + 2j, -0.5, 3j], [2, 0.25 - 1j, -1 + 1j]])
_CUBE = np.arange(12.0).reshape(2, 3, 2) * (1 - 0.5j) + 1j

define(
    "FFT",
    "x: T -> y: T",
    where={"T": COMPLEX},
    attrs={"rank": REQUIRED, "inverse": False},
    rules=[Vectorize(leading), Batch(_batch_transform)],
    shape=_checked_shape,
    kernel=_compute_fft,
    gradient=_transform_gradient,
    samples=[
        Sample([_Z], lambda x: x @ _transform_matrix(3), {"rank": 1}),
        Sample([_Z], lambda x: x @ _transform_matrix(3, 1) / 3, {"rank": 1, "inverse": True}),
        Sample([_Z], lambda x: _transform_matrix(2) @ x @ _transform_matrix(3), {"rank": 2}),
        Sample([_CUBE], lambda x: np.einsum("xyz,xa,yb,zc", x, *map(_transform_matrix, x.shape)), {"rank": 3}),
        Sample([np.zeros((2, 0), complex)], np.zeros((2, 0), complex), {"rank": 1}),
    ],
)


def _real_shape(op: Operation) -> Shape:
    shape = _checked_shape(op)
    if shape.rank is None:
        return shape
    last = shape[-1]
    return with_dimension(shape, shape.rank - 1, None if last is None else last // 2 + 1)


def _real_transform(xp: Any, x: Any, rank: int, dtype: Any) -> Any:
    check_rank(x, rank, None, f"a transform over {rank} dimensions")
    kind = dtypes.as_dtype(dtype).numpy
    if not x.size:
        return xp.zeros((*x.shape[:-1], x.shape[-1] // 2 + 1), dtype=kind)
    return xp.fft.rfftn(x, axes=last_axes(rank)).astype(kind, copy=False)


def _is_single(bins: Tensor, size: Tensor) -> Tensor:
    """Return a mask of the frequencies without a negative counterpart: 0 and half the sampling rate."""
    return apply("LogicalOr", apply("Equal", bins, 0), apply("Equal", bins * 2, size))


def _weight_frequencies(spectrum: Tensor, size: Tensor, single: float, double: float) -> Tensor:
    """Multiply the frequencies of `_is_single` by `single`, and all others by `double`."""
    bins = apply("Range", constant(np.int32(0)), size // 2 + 1, constant(np.int32(1)))
    single_, double_ = (constant(np.asarray(v, spectrum.dtype.numpy)) for v in (single, double))
    return spectrum * apply("Where", _is_single(bins, size), single_, double_)


def _real_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x,), rank = op.inputs, op.attrs["rank"]
    size = size_along(x, -1)
    # IRFFT adds paired frequencies twice, for their negatives too; the adjoint adds each frequency once.
    back = apply("IRFFT", _weight_frequencies(g, size, 1.0, 0.5), size, rank=rank)
    # IRFFT divides by the number of points, which the adjoint of RFFT does not.
    return [back * _count_points(x, rank, x.dtype)]


define(
    "RFFT",
    "x: T -> y: @dtype",
    where={"T": REAL},
    attrs={"rank": REQUIRED, "dtype": REQUIRED},
    rules=[Vectorize(leading), Batch(_batch_transform)],
    shape=_real_shape,
    kernel=_real_transform,
    gradient=_real_gradient,
    samples=[
        Sample(
            [f64([[1, 2, -1, 0.5]])],
            lambda x: (x @ _transform_matrix(4))[:, :3],
            {"rank": 1, "dtype": dtypes.complex128},
        ),
        Sample(
            [_Z.real],
            lambda x: (_transform_matrix(2) @ x @ _transform_matrix(3))[:, :2],
            {"rank": 2, "dtype": dtypes.complex128},
        ),
        Sample(
            [_CUBE.real],
            lambda x: np.einsum("xyz,xa,yb,zc", x, *map(_transform_matrix, x.shape))[..., :2],
            {"rank": 3, "dtype": dtypes.complex128},
        ),
        Sample([np.zeros((0, 4))], np.zeros((0, 3), complex), {"rank": 1, "dtype": dtypes.complex128}),
    ],
)


def _inverse_real_shape(op: Operation) -> Shape:
    """Return the shape of the signal; raise ShapeError if the spectrum does not fit its length."""
    only_scalars(op, 1)
    shape, size = _checked_shape(op), static_value(op.inputs[1])
    if shape.rank is None:
        return shape
    last = shape[-1]
    if size is not None and last is not None and last != int(size) // 2 + 1:
        raise ShapeError(
            "a spectrum does not fit the length of its signal",
            wanted=f"{int(size) // 2 + 1} frequencies for {int(size)} samples",
            got=shape,
            operation=op,
            hint="leave fft_length out for an even length",
        )
    return with_dimension(shape, shape.rank - 1, None if size is None else int(size))


def _inverse_real_transform(xp: Any, x: Any, size: Any, rank: int) -> Any:
    check_rank(x, rank, None, f"a transform over {rank} dimensions")
    if x.shape[-1] != int(size) // 2 + 1:
        raise ValueError(f"{int(size) // 2 + 1} frequencies are needed for {int(size)} samples, got {x.shape[-1]}")
    shape = (*x.shape[-rank:-1], int(size))
    if 0 in x.shape or 0 in shape:  # as for `_compute_fft`
        return xp.zeros((*x.shape[:-1], int(size)), dtype=x.real.dtype)
    return xp.fft.irfftn(x, shape, axes=last_axes(rank)).astype(x.real.dtype, copy=False)


def _inverse_real_gradient(op: Operation, g: Tensor) -> list[Any]:
    (x, size), rank = op.inputs, op.attrs["rank"]
    # Paired frequencies enter the signal twice, for their negatives too.
    spectrum = apply("RFFT", g, rank=rank, dtype=x.dtype)
    return [_weight_frequencies(spectrum, size, 1.0, 2.0) / _count_points(op.outputs[0], rank, x.dtype), None]


def _expected_signal(x: Any, size: Any) -> Any:
    """Return rows of a real signal from the rows of its spectrum, whose negative frequencies mirror the others."""
    n, bins = int(size), np.arange(int(size) // 2 + 1)
    weights = np.where((bins == 0) | (2 * bins == n), 1, 2)
    return (x * weights @ _transform_matrix(n, 1)[: len(bins)]).real / n


_SPECTRUM = c128([[1, 2 - 1j, -0.5]])

define(
    "IRFFT",
    "x: T, size: host int32 -> y: T.real",
    where={"T": COMPLEX},
    attrs={"rank": REQUIRED},
    rules=[
        Vectorize(leading),
        Batch(_batch_transform),
        Elements(lambda x, size, rank: int(size) * math.prod(x.shape[:-1])),
    ],
    shape=_inverse_real_shape,
    kernel=_inverse_real_transform,
    gradient=_inverse_real_gradient,
    samples=[
        Sample([_SPECTRUM, np.int32(4)], _expected_signal, {"rank": 1}),
        Sample([_SPECTRUM + 0.5j, np.int32(5)], _expected_signal, {"rank": 1}),
        Sample(
            [_Z[:, :2], np.int32(3)], lambda x, n: _expected_signal(_transform_matrix(2, 1) @ x / 2, n), {"rank": 2}
        ),
        Sample([np.zeros((0, 3), complex), np.int32(4)], np.zeros((0, 4)), {"rank": 1}),
    ],
)
