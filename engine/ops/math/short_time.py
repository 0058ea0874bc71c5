"""Short-time Fourier transforms: spectra of the frames of a signal, and signals from such spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.dtypes import DType
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from .signal import frame, hann_window, overlap_and_add, positive_int
from .spectra import fit_sizes, irfft, rfft

Window = Callable[..., Tensor]


def _enclosing_power_of_two(length: int) -> int:
    return 1 << (length - 1).bit_length()


def _transform_length(fft_length: Any, frame_length: int) -> int:
    return _enclosing_power_of_two(frame_length) if fft_length is None else static_int(fft_length, "fft_length")


@public
def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Short-time Fourier transform of real signals (Allen and Rabiner 1977, doi:10.1109/PROC.1977.10770).

    Parameters
    ----------
    signals : float32 or float64 Tensor of shape [..., samples]
    frame_length, frame_step : int
        Samples per frame, and between the starts of consecutive frames.
    fft_length : int, optional
        Samples to which each frame is cut or zero-padded; by default the next power of two.
    window_fn : callable, optional
        ``window_fn(frame_length, dtype=dtype)`` returns the factors of the samples in a frame.
    pad_end : bool
        Pad the last frames with zeros.

    Returns
    -------
    Tensor
        complex64 or complex128, of shape [..., frames, fft_length // 2 + 1].

    Raises
    ------
    DtypeError
        If the signals are not real.
    ShapeError
        If a length or step is not positive.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: abs(tg.stft(tg.ones([8]), frame_length=4, frame_step=2))).sync()
    array([[2., 1., 0.],
           [2., 1., 0.],
           [2., 1., 0.]], dtype=float32)
    """
    length = positive_int(frame_length, "frame_length")
    frames = frame(signals, length, frame_step, pad_end)
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return rfft(frames, [_transform_length(fft_length, length)], name)


@public
def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Signals from their short-time Fourier transform, with the least squared difference between the spectra.

    This requires a `window_fn` of ``inverse_stft_window_fn(frame_step, forward)`` with the window of `stft` as
    ``forward`` (Griffin and Lim 1984, doi:10.1109/TASSP.1984.1164317).

    Parameters
    ----------
    stfts : complex64 or complex128 Tensor of shape [..., frames, fft_length // 2 + 1]
    frame_length, frame_step, fft_length
        As for `stft`.
    window_fn : callable, optional
        ``window_fn(frame_length, dtype=dtype)`` returns the factors of the samples in a frame.

    Returns
    -------
    Tensor
        float32 or float64, of shape [..., (frames - 1) * frame_step + frame_length].

    Raises
    ------
    DtypeError
        If the transforms are not complex.
    ShapeError
        If a length or step is not positive.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> back = tg.inverse_stft_window_fn(2)
    >>> signal = np.array([0.0, 1, 2, 3, 4, 5, 6, 7])
    >>> same = tg.function(lambda: tg.inverse_stft(tg.stft(signal, 4, 2), 4, 2, window_fn=back)).sync()
    >>> np.round(same[2:6], 6)
    array([2., 3., 4., 5.])
    """
    length = positive_int(frame_length, "frame_length")
    # Transforms longer than a frame were of frames filled up with zeros.
    frames = fit_sizes(irfft(stfts, [_transform_length(fft_length, length)]), [length])
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return overlap_and_add(frames, frame_step, name)


@public
def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: Window = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """Return the window function with which `inverse_stft` inverts an `stft` with another window.

    Parameters
    ----------
    frame_step : int
        Samples between the starts of consecutive frames.
    forward_window_fn : callable
        The window function of `stft`.

    Returns
    -------
    callable
        ``window(frame_length, dtype)``: the forward window over the sum of squares of all overlapping windows.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.inverse_stft_window_fn(1)(2, dtype="float32")).sync()
    array([0., 1.], dtype=float32)
    """
    step = positive_int(frame_step, "frame_step")

    def inverse_window(frame_length: int, dtype: DType | str = "float32") -> Tensor:
        length = positive_int(frame_length, "frame_length")
        forward = convert_to_tensor(forward_window_fn(length, dtype=dtype))
        # Sample i of a frame overlaps the samples i + k * step of its neighbours: columns of rows of `step` samples.
        parts = -(-length // step)
        squares = apply("Reshape", fit_sizes(forward * forward, [parts * step]), [parts, step])
        # Adding zeros repeats the row of sums for all parts.
        total = apply("Sum", squares, axis=(0,), keepdims=True) + [[0.0]] * parts
        return apply("RealDiv", forward, apply("Reshape", total, [parts * step])[:length], name=name)

    return inverse_window
