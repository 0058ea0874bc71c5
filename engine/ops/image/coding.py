"""Decoding and encoding of image files, by Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes, pixels
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import one_of, static_int
from ..support.vectorizing.families import one_by_one
from .adjusting import convert_image_dtype

_PER_BYTE = 50  # cost of a byte of a compressed file, in elements of an elementwise operation


def _decode_image(xp: Any, contents: Any, channels: int) -> Any:
    """Return the pixels of a file; raise ShapeError unless its bytes are a vector."""
    if contents.ndim != 1:
        raise ShapeError(
            "the bytes of a file are a vector",
            wanted=Shape([None]),
            got=Shape(contents.shape),
            hint="decode one file after the other, by map_fn",
        )
    return pixels.decode(np.ascontiguousarray(contents).data, channels)


def _encode_image(xp: Any, image: Any, form: str, quality: int) -> Any:
    _check_image(Shape(image.shape), form)
    # A PNG loses nothing: its number is the level of compression, by default Pillow's.
    options = {"quality": quality} if form == "JPEG" else {} if quality < 0 else {"compress_level": quality}
    return np.frombuffer(pixels.encode(image, form, **options), np.uint8)


def _decoded_shape(op: Operation) -> Shape:
    op.inputs[0].shape.merge(Shape([None]))
    return Shape([None, None, op.attrs["channels"] or None])


def _encoded_shape(op: Operation) -> Shape:
    _check_image(op.inputs[0].shape, op.attrs["form"], op)
    return Shape([None])


def _check_image(image: Shape, form: str, op: Operation | None = None) -> None:
    """Raise ShapeError for a shape that the format cannot store."""
    # A JPEG has no opacity.
    known = {"PNG": (1, 3, 4, None), "JPEG": (1, 3, None)}[form]
    if image.rank not in (3, None) or (image.rank == 3 and image[2] not in known):
        raise ShapeError(
            f"a {form} is an image with a height, a width and channels",
            wanted=f"[height, width, {' or '.join(str(n) for n in known if n)}]",
            got=image,
            operation=op,
            hint="encode one image after the other, by map_fn",
        )


def _ppm_sample() -> tuple[Any, Any]:
    """Return an image of four pixels, and its file in the binary PPM format, which needs no encoder."""
    image = np.array([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [250, 251, 252]]], np.uint8)
    return image, np.frombuffer(b"P6 2 2 255\n" + image.tobytes(), np.uint8)


_IMAGE, _FILE = _ppm_sample()

define(
    "DecodeImage",
    "contents: host T -> image: host T",
    where={"T": (dtypes.uint8,)},
    attrs={"channels": 3},
    shape=_decoded_shape,
    rules=[Vectorize(one_by_one), ReadsValues(), Elements(lambda contents, **_: contents.size * _PER_BYTE)],
    kernel=_decode_image,
    gradient=NotDifferentiable("it reads bytes of a file"),
    samples=[
        Sample([_FILE], _IMAGE),
        Sample([_FILE], np.concatenate([_IMAGE, np.full((2, 2, 1), 255, np.uint8)], 2), {"channels": 4}),
    ],
)

define(
    "EncodeImage",
    "image: host T -> contents: host T",
    where={"T": (dtypes.uint8,)},
    attrs={"form": REQUIRED, "quality": -1},
    shape=_encoded_shape,
    rules=[Vectorize(one_by_one), Elements(lambda image, **_: image.size * _PER_BYTE)],
    kernel=_encode_image,
    gradient=NotDifferentiable("it gives bytes of a file"),
    samples=[],
)


@public
def decode_image(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Return the pixels of an image file: PNG, JPEG, GIF, BMP or another format of Pillow.

    Parameters
    ----------
    contents : uint8 Tensor of shape [n]
        The bytes, as `read_file` returns them.
    channels : {0, 1, 3, 4}
        Gray, RGB or RGBA; with 0, as many as the file has.

    Returns
    -------
    Tensor
        uint8, of shape [height, width, channels]; the first image, where a file has several.

    Raises
    ------
    GraphError
        If Pillow is not installed, or for other `channels`.
    DtypeError
        If `contents` are not uint8.
    OpError
        When a step runs it, if the file is no image, or damaged.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8)
    >>> tg.function(lambda: tg.decode_image(tg.encode_png(image))).sync()
    array([[[1, 2, 3],
            [4, 5, 6]]], dtype=uint8)
    """
    pixels.pillow()
    count = static_int(channels, "channels")
    if count:
        pixels.mode_of(count)
    data = convert_to_tensor(contents)
    if data.dtype is not dtypes.uint8:
        raise DtypeError(
            "image files are bytes",
            wanted="uint8",
            got=data.dtype,
            operation=data.op,
            hint="read_file returns bytes; np.frombuffer(data, np.uint8) makes an array of Python's bytes",
        )
    return apply("DecodeImage", data, name=name, channels=count)


def _apply_encode(image: Any, form: str, quality: int, name: str | None) -> Tensor:
    """Encode a uint8 image in a format; raise DtypeError for other dtypes."""
    pixels.pillow()
    x = convert_to_tensor(image)
    if x.dtype is not dtypes.uint8:
        raise DtypeError(
            f"a {form} has bytes",
            wanted="uint8",
            got=x.dtype,
            operation=x.op,
            hint='convert_image_dtype(image, "uint8", saturate=True)',
        )
    return apply("EncodeImage", x, name=name, form=form, quality=quality)


@public
def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Return an image as the bytes of a PNG file.

    Parameters
    ----------
    image : uint8 Tensor of shape [height, width, channels]
        1, 3 or 4 channels.
    compression : int
        From 0, fast, to 9, small; zlib's own level when -1.

    Returns
    -------
    Tensor
        uint8, of shape [n], as `write_file` takes them.

    Raises
    ------
    GraphError
        If Pillow is not installed, or for another `compression`.
    DtypeError, ShapeError
        If `image` has another dtype, or a shape that the format cannot store.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.encode_png(np.zeros([2, 2, 3], np.uint8))).sync()[1:4].tobytes()
    b'PNG'
    """
    return _apply_encode(
        image, "PNG", one_of(static_int(compression, "compression"), range(-1, 10), "compression"), name
    )


@public
def encode_jpeg(image: Any, quality: int = 95, name: str | None = None) -> Tensor:
    """Return an image as the bytes of a JPEG file, which loses some detail.

    Parameters
    ----------
    image : uint8 Tensor of shape [height, width, channels]
        1 or 3 channels.
    quality : int
        From 1 to 100.

    Returns
    -------
    Tensor
        uint8, of shape [n], as `write_file` takes them.

    Raises
    ------
    GraphError
        If Pillow is not installed, or for another `quality`.
    DtypeError, ShapeError
        If `image` has another dtype, or a shape that the format cannot store.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> gray = np.full([8, 8, 1], 100, np.uint8)
    >>> tg.function(lambda: tg.decode_image(tg.encode_jpeg(gray))).sync()[0, 0]
    array([100], dtype=uint8)
    """
    wanted = static_int(quality, "quality")
    if not 1 <= wanted <= 100:
        raise GraphError("there is no such quality", wanted="1 to 100", got=wanted, hint="leave it out")
    return _apply_encode(image, "JPEG", wanted, name)


@public
def adjust_jpeg_quality(image: Any, jpeg_quality: int, name: str | None = None) -> Tensor:
    """Encode and decode an image as JPEG, to train with the losses of such files.

    Parameters
    ----------
    image : uint8 or floating Tensor of shape [height, width, channels]
        1 or 3 channels; floating numbers from 0 to 1.
    jpeg_quality : int
        From 1 to 100.

    Returns
    -------
    Tensor
        Same dtype and shape. There are no gradients.

    Raises
    ------
    GraphError
        If Pillow is not installed, or for another quality.
    DtypeError, ShapeError
        If `image` has another dtype, or a shape that the format cannot store.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> noise = np.random.default_rng(0).integers(0, 256, [8, 8, 1], np.uint8)
    >>> found = tg.function(lambda: tg.adjust_jpeg_quality(noise, 10)).sync()
    >>> found.shape, bool(np.array_equal(found, noise))
    ((8, 8, 1), False)
    """
    x = convert_to_tensor(image)
    # A file decodes to its own number of channels otherwise.
    channels = x.shape[-1] if x.rank == 3 else None
    data = encode_jpeg(convert_image_dtype(x, dtypes.uint8, saturate=True), jpeg_quality)
    found = decode_image(data, channels if channels is not None else 0)
    # The shape of a decoded file is unknown, but the file has the size of the image.
    found.set_shape(x.shape)
    return convert_image_dtype(found, x.dtype, name=name)
