"""Public functions of Fourier transforms: of complex signals, of real ones, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ...base import dtypes
from ...base.docstrings import Family, name_function, show_calls
from ...base.errors import DtypeError, ShapeError
from ...base.shapes import Shape
from ...ir import entry
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..support.arguments import index_tensor
from ..support.common import dimension_of, size_along
from ..support.families import Unary
from .fourier import last_axes

F = TypeVar("F", bound=Callable[..., Any])

COMPLEX_OF = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


class OfRealSignal(Protocol):
    """A public function between a real signal and its spectrum."""

    def __call__(self, input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor: ...


def _pad_ends(x: Tensor, after: list[Any]) -> Tensor:
    """Append zeros along the last dimensions."""
    rows = [[0, n] for n in after]
    if x.rank is not None:
        return apply("Pad", x, index_tensor([[0, 0]] * (x.rank - len(rows)) + rows), 0)
    # The step counts the leading dimensions, each with a row of zeros.
    before = apply("Fill", index_tensor([apply("Rank", x) - len(rows), 2]), np.int32(0))
    return apply("Pad", x, apply("Concat", [before, index_tensor(rows)], axis=0), 0)


def fit_sizes(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    """Cut the last dimensions to sizes, or pad their ends with zeros.

    Parameters
    ----------
    x : Tensor of any numeric dtype
    sizes : sequence of int or scalar int32 Tensor

    Returns
    -------
    Tensor
        Of the same dtype.
    """
    fits = _known_to_fit(x, sizes)
    if all(fits):
        return x
    # A slice keeps a dimension that is too short as it is; the padding completes it.
    cut = x[(..., *(slice(None, None if fit else size) for fit, size in zip(fits, sizes, strict=True)))]
    if all(_known_to_fit(cut, sizes)):
        return cut
    return _pad_ends(
        cut, [size - dimension_of(cut, axis) for axis, size in zip(last_axes(len(sizes)), sizes, strict=True)]
    )


def _known_to_fit(x: Tensor, sizes: Sequence[Any]) -> list[bool]:
    """Return which of the last dimensions are known to have these sizes."""
    known = [None if x.rank is None else x.shape[axis] for axis in last_axes(len(sizes))]
    return [isinstance(size, int) and n == size for n, size in zip(known, sizes, strict=True)]


def _read_fft_length(fft_length: Any, rank: int) -> list[Any]:
    """Return the sizes of the transformed dimensions, as int where static."""
    given = index_tensor(fft_length)
    if not given.shape.is_compatible_with(Shape([rank])):
        raise ShapeError(
            "fft_length has to have a size for each dimension that is transformed",
            wanted=f"{rank} of them",
            got=given.shape,
            hint="give a list, also of one",
        )
    known = static_value(given)
    if known is None:
        return [
            apply("Cast", given[i], dtype=dtypes.int32) if given.dtype is dtypes.int64 else given[i]
            for i in range(rank)
        ]
    if (known < 1).any():
        raise ShapeError("a transform has to have a length", wanted="1 or more", got=known, hint="see fft_length")
    sizes: list[Any] = known.tolist()
    return sizes


_WHERE = ("", "the last dimension", "the last two dimensions", "the last three dimensions")


def _publish_transform(function: F, name: str, summary: str, family: Family, examples: Mapping[str, str]) -> F:
    function.__module__ = __name__
    return entry.public(family.complete(name_function(function, name, summary), show_calls(name, examples)))


def _complex_transform(name_: str, rank: int, inverse: bool, examples: Mapping[str, str]) -> Any:
    """Declare the public function of a transform of complex signals."""

    def public(input: Any, name: str | None = None) -> Tensor:
        return apply("FFT", input, name=name, rank=rank, inverse=inverse)

    kind = "Inverse discrete" if inverse else "Discrete"
    return _publish_transform(
        public,
        name_,
        f"{kind} Fourier transform over {_WHERE[rank]}.",
        Family(
            {
                "input": f"""complex64 or complex128 Tensor of rank {rank} or more
    Cast real ones first, or use `rfft`.""",
            },
            f"""Tensor
    Of the same dtype and shape{"; inverse transforms divide by the number of points" if inverse else ""}.""",
            {
                "DtypeError": "If it is not complex.",
                "ShapeError": "If it has fewer dimensions.",
            },
        ),
        examples,
    )


def _real_spectrum(name_: str, rank: int, examples: Mapping[str, str]) -> Any:
    """Declare the public function of a transform of real signals."""

    def public(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input_tensor)
        if x.dtype not in COMPLEX_OF:
            raise DtypeError(
                f"{name_} transforms real signals",
                wanted="float32 or float64",
                got=x.dtype,
                hint=f"use {name_[1:]} for complex ones, or cast",
            )
        if fft_length is not None:
            # The signal is cut or padded, not its spectrum.
            x = fit_sizes(x, _read_fft_length(fft_length, rank))
        return apply("RFFT", x, name=name, rank=rank, dtype=COMPLEX_OF[x.dtype])

    return _publish_transform(
        public,
        name_,
        f"Discrete Fourier transform of a real signal over {_WHERE[rank]}; frequencies from 0 up to half the rate.",
        Family(
            {
                "input_tensor": f"float32 or float64 Tensor of rank {rank} or more",
                "fft_length": f"""vector of {rank} int32 or int64, optional
    To which sizes those dimensions are cut, or filled up with zeros, first.""",
            },
            """Tensor
    complex64 or complex128, ``n // 2 + 1`` long in the last dimension where that was n long.""",
            {
                "DtypeError": "If the signal is not real.",
                "ShapeError": "If it has fewer dimensions, or `fft_length` does not fit them.",
            },
        ),
        examples,
    )


def _real_signal(name_: str, rank: int, examples: Mapping[str, str]) -> Any:
    """Declare the public function of an inverse transform whose result is real."""

    def public(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input_tensor)
        if fft_length is None:
            # Of the two lengths with n // 2 + 1 frequencies the even one, 2 * bins - 2.
            bins = None if x.rank is None else x.shape[-1]
            size: Any = apply("Maximum", size_along(x, -1) * 2 - 2, 0) if bins is None else max(0, 2 * bins - 2)
        else:
            *others, size = _read_fft_length(fft_length, rank)
            # The spectrum is cut or padded to the frequencies of a signal of `size` samples.
            x = fit_sizes(x, [*others, size // 2 + 1])
        length = constant(np.int32(size)) if isinstance(size, int) else size
        return apply("IRFFT", x, length, name=name, rank=rank)

    return _publish_transform(
        public,
        name_,
        f"Inverse of `{name_[1:]}`: a real signal from the frequencies from 0 up to half the rate.",
        Family(
            {
                "input_tensor": f"complex64 or complex128 Tensor of rank {rank} or more",
                "fft_length": f"""vector of {rank} int32 or int64, optional
    Sizes of the signal, to which the spectrum is cut or filled up with zeros. The last one is ``2 * (bins - 1)`` by
    default, so that a signal of an odd length needs this.""",
            },
            """Tensor
    float32 or float64. What a spectrum of a real signal cannot have, an imaginary part at frequency 0 say, is
    left out of account.""",
            {
                "DtypeError": "If the spectrum is not complex.",
                "ShapeError": "If it has fewer dimensions, or `fft_length` does not fit them.",
            },
        ),
        examples,
    )


_FLAT, _ROWS = "[1 + 0j, 1, 1, 1]", "[[1 + 0j, 1], [1, 1]]"

fft: Unary = _complex_transform("fft", 1, False, {_FLAT: "array([4.+0.j, 0.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)"})
ifft: Unary = _complex_transform("ifft", 1, True, {_FLAT: "array([1.+0.j, 0.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)"})
fft2d: Unary = _complex_transform(
    "fft2d",
    2,
    False,
    {_ROWS: "array([[4.+0.j, 0.+0.j],\n       [0.+0.j, 0.+0.j]], dtype=complex64)"},
)
ifft2d: Unary = _complex_transform(
    "ifft2d",
    2,
    True,
    {_ROWS: "array([[1.+0.j, 0.+0.j],\n       [0.+0.j, 0.+0.j]], dtype=complex64)"},
)
fft3d: Unary = _complex_transform(
    "fft3d",
    3,
    False,
    {f"[{_ROWS}]": "array([[[4.+0.j, 0.+0.j],\n        [0.+0.j, 0.+0.j]]], dtype=complex64)"},
)
ifft3d: Unary = _complex_transform(
    "ifft3d",
    3,
    True,
    {f"[{_ROWS}]": "array([[[1.+0.j, 0.+0.j],\n        [0.+0.j, 0.+0.j]]], dtype=complex64)"},
)

rfft: OfRealSignal = _real_spectrum(
    "rfft", 1, {"[1.0, 0.0, 0.0, 0.0]": "array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)"}
)
rfft2d: OfRealSignal = _real_spectrum(
    "rfft2d",
    2,
    {"[[1.0, 2.0], [3.0, 4.0]]": "array([[10.+0.j, -2.+0.j],\n       [-4.+0.j,  0.+0.j]], dtype=complex64)"},
)
rfft3d: OfRealSignal = _real_spectrum(
    "rfft3d",
    3,
    {
        "tg.ones([1, 2, 2]), [1, 2, 4]": "array([[[4.+0.j, 2.-2.j, 0.+0.j],\n"
        "        [0.+0.j, 0.+0.j, 0.+0.j]]], dtype=complex64)"
    },
)

irfft: OfRealSignal = _real_signal("irfft", 1, {"[2 + 0j, 1, 0]": "array([1. , 0.5, 0. , 0.5], dtype=float32)"})
irfft2d: OfRealSignal = _real_signal(
    "irfft2d",
    2,
    {"[[4 + 0j, 0], [0, 0]]": "array([[1., 1.],\n       [1., 1.]], dtype=float32)"},
)
irfft3d: OfRealSignal = _real_signal(
    "irfft3d", 3, {"[[[3 + 0j, 0]]], [1, 1, 3]": "array([[[1., 1., 1.]]], dtype=float32)"}
)
