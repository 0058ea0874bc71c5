"""Image files, decoded and encoded by Pillow (``pip install tagloom[images]``)."""

from __future__ import annotations

import importlib
import io
from typing import Any

import numpy as np

from .errors import DtypeError, GraphError
from .extras import install_hint

Array = np.ndarray[Any, Any]
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def pillow() -> Any:
    """Return the module PIL.Image; GraphError where Pillow is not installed."""
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise GraphError("images are decoded by Pillow", got="none installed", hint=install_hint("images")) from error


def mode_of(channels: int) -> str:
    """Return Pillow's mode for 1, 3 or 4 channels; GraphError for other numbers."""
    if not isinstance(channels, int) or channels not in _MODES:
        raise GraphError("images have no such channels", wanted="1, 3 or 4", got=channels, hint="3 for RGB")
    return _MODES[channels]


def decode(data: object, channels: int) -> Array:
    """Return the pixels of an image file; 0 channels stand for the file's own number.

    Parameters
    ----------
    data : bytes-like
    channels : {0, 1, 3, 4}

    Returns
    -------
    numpy.ndarray
        uint8, of shape [height, width, channels].

    Raises
    ------
    OSError
        If the bytes are no image, or a damaged one.
    DtypeError
        If the data is a string, or the image has float pixels, as a TIFF may: their level of white is unknown.
    """
    if isinstance(data, str):
        raise DtypeError(
            "an image is decoded from its bytes", wanted="bytes", got=f"{data!r:.60}", hint="open(path, 'rb').read()"
        )
    with _open_image(data) as image:
        if image.mode == "F":
            raise DtypeError(
                "an image of floats has no levels of 8 bits",
                wanted="integers of 1, 8 or 16 bits",
                got=f"{image.format} of floats",
                hint="read it by numpy.asarray(PIL.Image.open(path))",
            )
        pixels = np.asarray(_of_bytes(image).convert(mode_of(channels) if channels else _own_mode(image)))
    # Images of one channel have no axis of channels in Pillow.
    return pixels.reshape(*pixels.shape[:2], -1)


def _open_image(data: Any) -> Any:
    """Open some bytes as an image; Pillow's own error would name an object in memory, ours describes the bytes."""
    images = pillow()
    try:
        return images.open(io.BytesIO(data))
    except images.UnidentifiedImageError as error:
        what = f"{len(data)} bytes, which begin with {bytes(data[:8])!r}" if len(data) else "no bytes"
        raise images.UnidentifiedImageError(f"these are no image that Pillow knows: {what}") from error


def _own_mode(image: Any) -> str:
    """Return the mode of an image's pixels without a palette, in whole bytes."""
    is_transparent = "transparency" in image.info or image.mode in ("LA", "PA", "RGBA", "La", "RGBa")
    if is_transparent:
        return "RGBA"
    return "L" if image.mode in ("1", "L") or image.mode.startswith("I") else "RGB"


def _of_bytes(image: Any) -> Any:
    """Return an image of 16 bits per pixel reduced to the upper 8; Pillow's conversion clips to 255 instead."""
    if not image.mode.startswith("I"):
        return image
    upper = np.clip(np.asarray(image), 0, 0xFFFF) >> 8
    return pillow().fromarray(upper.astype(np.uint8))


def encode(pixels: Array, form: str, **options: Any) -> bytes:
    """Return an image of shape [height, width, channels] as a file of a format supported by Pillow."""
    image = pillow().fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()
