"""Images in pipelines: decoding by Pillow (``pip install tagloom[images]``), and random changes by NumPy.

Random functions take a `numpy.random.Generator`, such as ``Dataset.map(f, seed=...)`` passes to `f`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import ShapeError
from ..base.pixels import decode, mode_of
from ..ir.misuse import refuses_misuse
from ..runtime.functions.arguments import TensorSpec
from .dataset import Dataset
from .sources import Files, from_files

Array = np.ndarray[Any, Any]
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601


@refuses_misuse
def from_images(files: Files, channels: int = 3, parallel: int = 2) -> Dataset:
    """Return paths and images of image files, read and decoded in threads.

    Parameters
    ----------
    files : str, Path or iterable of them
        As for `from_files`.
    channels : {1, 3, 4}
        Gray, RGB or RGBA.
    parallel : int
        Number of images decoded at the same time.

    Returns
    -------
    Dataset
        Of pairs: a path, and a uint8 array of shape [height, width, channels].

    Examples
    --------
    >>> import asyncio, tempfile, numpy as np, tagloom as tg
    >>> from PIL import Image
    >>> async def main(directory):
    ...     Image.fromarray(np.zeros([4, 6, 3], np.uint8)).save(directory + "/black.png")
    ...     return [image.shape async for path, image in tg.data.from_images(directory + "/*.png")]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    [(4, 6, 3)]
    """
    mode_of(channels)

    def read_image(path: str) -> tuple[str, Array]:
        with open(path, "rb") as file:
            return path, decode_image(file.read(), channels)

    read_image.__qualname__ = "from_images"  # the name in errors
    spec = (TensorSpec([], "string"), TensorSpec([None, None, channels], "uint8"))
    made = from_files(files).map(read_image, parallel=parallel, threads=True)
    made.element_spec = spec  # certain, without a check of each image
    return made


@refuses_misuse
def decode_image(data: bytes, channels: int = 3) -> Array:
    """Return the pixels of an image in a format that Pillow supports, such as JPEG and PNG.

    Parameters
    ----------
    data : bytes
        The content of a file.
    channels : {1, 3, 4}
        Gray, RGB or RGBA.

    Returns
    -------
    numpy.ndarray
        uint8, of shape [height, width, channels].

    Raises
    ------
    GraphError
        If Pillow is not installed, or for other `channels`.
    OSError
        If the data is no image, or damaged.

    Examples
    --------
    >>> import io, numpy as np, tagloom as tg
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.fromarray(np.full([2, 2], 7, np.uint8)).save(file, "png")
    >>> tg.data.decode_image(file.getvalue(), channels=1)[:, :, 0].tolist()
    [[7, 7], [7, 7]]
    """
    mode_of(channels)
    return decode(data, channels)


@refuses_misuse
def random_crop(image: Array, size: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return a part of an image at a random position.

    Parameters
    ----------
    image : numpy.ndarray
        Of shape [height, width, ...].
    size : tuple of (int, int)
        Height and width of the part.
    rng : numpy.random.Generator

    Returns
    -------
    numpy.ndarray
        A view of shape [*size, ...].

    Raises
    ------
    ShapeError
        If the image is smaller.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.arange(12).reshape(3, 4)
    >>> tg.data.random_crop(image, (2, 2), np.random.default_rng(0)).tolist()
    [[5, 6], [9, 10]]
    """
    tops, lefts = image.shape[0] - size[0], image.shape[1] - size[1]
    if tops < 0 or lefts < 0:
        raise ShapeError(
            "an image is smaller than the part to be cut out",
            wanted=f"at least {list(size)}",
            got=list(image.shape),
            hint="enlarge or pad it before",
        )
    top, left = int(rng.integers(tops + 1)), int(rng.integers(lefts + 1))
    return image[top : top + size[0], left : left + size[1]]


@refuses_misuse
def random_flip(image: Array, rng: np.random.Generator) -> Array:
    """Return an image, or with probability 1/2 its mirror image, with left and right exchanged.

    Parameters
    ----------
    image : numpy.ndarray
        Of shape [height, width, ...].
    rng : numpy.random.Generator

    Returns
    -------
    numpy.ndarray
        A view.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.data.random_flip(np.array([[1, 2]]), np.random.default_rng(0)).tolist()
    [[2, 1]]
    """
    return image[:, ::-1] if rng.random() >= 0.5 else image


@refuses_misuse
def random_distort(
    image: Array,
    rng: np.random.Generator,
    brightness: float = 0.125,
    contrast: tuple[float, float] = (0.5, 1.5),
    saturation: tuple[float, float] = (0.5, 1.5),
) -> Array:
    """Return an image with random changes of brightness, contrast and, for RGB, saturation.

    Parameters
    ----------
    image : numpy.ndarray
        Of shape [height, width, channels]; uint8, or floats from 0 to 1.
    rng : numpy.random.Generator
    brightness : float
        Largest change, as a fraction of the range of values.
    contrast, saturation : tuple of (float, float)
        Ranges of the factors by which distances from the mean pixel, and from gray, are multiplied.

    Returns
    -------
    numpy.ndarray
        float32, from 0 to 1.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> image = np.full([2, 2, 3], 128, np.uint8)
    >>> changed = tg.data.random_distort(image, np.random.default_rng(0))
    >>> changed.dtype.name, changed.shape, bool(0.3 < changed.mean() < 0.7)
    ('float32', (2, 2, 3), True)
    """
    pixels = image.astype(np.float32) / 255 if image.dtype == np.uint8 else image.astype(np.float32)
    pixels += np.float32(rng.uniform(-brightness, brightness))
    mean = pixels.mean(axis=(0, 1), keepdims=True)
    pixels = mean + np.float32(rng.uniform(*contrast)) * (pixels - mean)
    factor = np.float32(rng.uniform(*saturation))
    if pixels.shape[-1] == 3:
        gray = (pixels @ _GRAY)[..., None]
        pixels = gray + factor * (pixels - gray)
    clipped: Array = np.clip(pixels, 0, 1, out=pixels)
    return clipped
