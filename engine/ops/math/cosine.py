"""Discrete cosine transforms, by Fourier transforms of real signals of twice the length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import DtypeError, GraphError, ShapeError
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from ..support.common import dimension_of, size_along, zeros_like
from .complex import complex as of_parts
from .complex import real
from .elementwise import sqrt
from .spectra import COMPLEX_OF, fit_sizes, irfft, rfft
from .trigonometry import cos, sin


def _indices_along_last(x: Tensor) -> Tensor:
    """Return 0, 1, ... along the last dimension, in its dtype."""
    size = dimension_of(x, -1)
    if isinstance(size, int):
        return constant(np.arange(size).astype(x.dtype.numpy))
    places = apply("Range", constant(np.int32(0)), size, constant(np.int32(1)))
    return apply("Cast", places, dtype=x.dtype)


def _length_in_dtype(x: Tensor) -> Tensor:
    """Return the last dimension as a number of the signal's dtype."""
    return apply("Cast", size_along(x, -1), dtype=x.dtype)


def _orthonormal_scales(x: Tensor, first: float) -> Tensor:
    """Return `first` for index 0 and ``sqrt(0.5)`` for all others."""
    one, other = (constant(np.asarray(v, x.dtype.numpy)) for v in (first, math.sqrt(0.5)))
    return apply("Where", apply("Equal", _indices_along_last(x), 0), one, other)


def _half_sample_phase(x: Tensor, sign: int) -> Tensor:
    """Return ``2 * exp(sign * i * pi * k / (2 * n))``, the phase of a shift by half a sample."""
    angles = _indices_along_last(x) * (sign * math.pi / 2) / _length_in_dtype(x)
    return of_parts(cos(angles) * 2, sin(angles) * 2)


def _transform_type_1(x: Tensor, ortho: bool) -> Tensor:
    """Return the spectrum of the signal followed by its mirror image without both ends."""
    size = dimension_of(x, -1)
    if isinstance(size, int) and size < 2:
        raise ShapeError("a transform of type 1 has two ends", wanted="2 or more", got=size, hint="use type=2")
    # The spectrum of an even signal is real, apart from rounding.
    return real(rfft(apply("Concat", [x, apply("Reverse", x[..., 1:-1], axis=(-1,))], axis=-1)))


def _transform_type_2(x: Tensor, ortho: bool) -> Tensor:
    """Return type 2: the spectrum of the signal padded to twice its length, turned by half a sample."""
    size = dimension_of(x, -1)
    # `rfft` sees samples at m, the transform at m + 1/2: the phase makes up for the difference.
    found = real(rfft(x, [size * 2])[..., :size] * _half_sample_phase(x, -1))
    return found * _orthonormal_scales(x, 0.5) / sqrt(_length_in_dtype(x)) if ortho else found


def _transform_type_3(x: Tensor, ortho: bool) -> Tensor:
    """Return type 3: the first half of the signal whose spectrum is the operand turned by half a sample."""
    size, count = dimension_of(x, -1), _length_in_dtype(x)
    x = x * (_orthonormal_scales(x, 1.0) * sqrt(count) if ortho else count)
    return irfft(of_parts(x, zeros_like(x)) * _half_sample_phase(x, 1), [size * 2])[..., :size]


def _transform_type_4(x: Tensor, ortho: bool) -> Tensor:
    # The odd coefficients of a type-2 transform of twice the length are a type-4 transform.
    found = _transform_type_2(fit_sizes(x, [dimension_of(x, -1) * 2]), False)[..., 1::2]
    return found * math.sqrt(0.5) / sqrt(_length_in_dtype(x)) if ortho else found


_TYPES: dict[int, Callable[[Tensor, bool], Tensor]] = {
    1: _transform_type_1,
    2: _transform_type_2,
    3: _transform_type_3,
    4: _transform_type_4,
}
_INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}


def _read_signal(input: Any, type: int, n: Any, axis: int, norm: Any) -> Tensor:
    """Return the signal, cut or padded to `n`; raise GraphError or DtypeError for unsupported arguments."""
    x, kind = convert_to_tensor(input), static_int(type, "type")
    known = {"type": (kind, tuple(_TYPES)), "norm": (norm, (None, "ortho")), "axis": (static_int(axis), (-1,))}
    for what, (given, allowed) in known.items():
        if given not in allowed:
            raise GraphError(
                f"there is no cosine transform of this {what}",
                wanted=" or ".join(map(repr, allowed)),
                got=repr(given),
                hint="transpose first to transform another dimension" if what == "axis" else "leave it out for type 2",
            )
    if kind == 1 and norm is not None:
        raise GraphError("type 1 has no orthonormal form", wanted="norm=None", got=repr(norm), hint="use type=2")
    if x.dtype not in COMPLEX_OF:
        raise DtypeError("dct transforms real signals", wanted="float32 or float64", got=x.dtype, hint="cast it first")
    return x if n is None else fit_sizes(x, [static_int(n, "n")])


@public
def dct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Discrete cosine transform over the last dimension.

    Type 2 computes ``2 * sum(x[m] * cos(pi * k * (2 * m + 1) / (2 * n)) for m in range(n))``.

    Parameters
    ----------
    input : float32 or float64 Tensor of rank 1 or more
    type : {1, 2, 3, 4}
        As SciPy and the literature number them.
    n : int, optional
        Length to which the dimension is cut or zero-padded before the transform.
    axis : -1
        Only the last axis is supported.
    norm : {None, 'ortho'}
        'ortho' for the orthonormal transform, which type 1 does not have.

    Returns
    -------
    Tensor
        Of the same dtype.

    Raises
    ------
    DtypeError
        If `input` is not float32 or float64.
    GraphError
        If there is no such transform.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.dct(np.array([1.0, 1.0]))).sync().round(6)
    array([4., 0.])
    """
    x = _read_signal(input, type, n, axis, norm)
    return apply("Identity", _TYPES[type](x, norm is not None), name=name)


@public
def idct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Inverse of `dct` up to a factor: type 3 inverts 2, type 2 inverts 3; types 1 and 4 invert themselves.

    Parameters
    ----------
    input, type, axis, norm
        As for `dct`.
    n : None
        Not supported: signal and transform have equal lengths.

    Returns
    -------
    Tensor
        Of the same dtype and shape. Without ``norm="ortho"``, the signal times ``2 * n``, and times ``2 * (n - 1)`` for
        type 1, as in TensorFlow.

    Raises
    ------
    DtypeError
        If `input` is not float32 or float64.
    GraphError
        If there is no such transform, or `n` is not None.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.idct(tg.dct(np.array([1.0, 5.0]), norm="ortho"), norm="ortho")).sync()
    array([1., 5.])
    """
    if n is not None:
        raise GraphError("idct does not change the length", wanted="n=None", got=n, hint="slice or pad it")
    x = _read_signal(input, type, n, axis, norm)
    return apply("Identity", _TYPES[_INVERSES[type]](x, norm is not None), name=name)
