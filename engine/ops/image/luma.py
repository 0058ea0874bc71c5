"""Colours as luma and two differences of colour: YUV, and the NTSC's YIQ."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.docstrings import Family
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..linalg.tensordot import tensordot
from .color import color_pixels

# A row for each result. The way back is the inverse.
_YUV = np.array(
    [
        [0.299, 0.587, 0.114],  # ITU-R BT.601
        [-0.14714119, -0.28886916, 0.43601035],
        [0.61497538, -0.51496512, -0.10001026],
    ]
)
_YIQ = np.array([[0.299, 0.587, 0.114], [0.59590059, -0.27455667, -0.32134392], [0.21153661, -0.52273617, 0.31119955]])
_COLOURS = Family(
    {"images": "Tensor of a floating dtype, of shape [..., 3]"},
    "Tensor\n    Same dtype and shape.",
    {"ShapeError": "If the last dimension is known not to be 3.", "DtypeError": "For other dtypes."},
)


def _mix_colors(images: Any, weights: Any, name: str | None) -> Tensor:
    x = color_pixels(images, floating=True)
    # Transposed, because the colours of a pixel are the last dimension: pixels are rows.
    y = tensordot(x, weights.T.astype(x.dtype.numpy), 1, name=name)
    y.set_shape(x.shape)
    return y


@public
@_COLOURS.complete
def rgb_to_yuv(images: Any, name: str | None = None) -> Tensor:
    """Turn red, green and blue into luma and the differences of blue and red from it (ITU-R BT.601).

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.rgb_to_yuv(np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]]))).sync().round(3) + 0.0
    array([[ 1.   ,  0.   ,  0.   ],
           [ 0.114,  0.436, -0.1  ]])
    """
    return _mix_colors(images, _YUV, name)


@public
@_COLOURS.complete
def yuv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Turn luma and the differences of blue and red from it into red, green and blue; undoes `rgb_to_yuv`.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> blue = np.array([0.0, 0.0, 1.0])
    >>> np.abs(tg.function(lambda: tg.yuv_to_rgb(tg.rgb_to_yuv(blue))).sync()).round(3)
    array([0., 0., 1.])
    """
    return _mix_colors(images, np.linalg.inv(_YUV), name)


@public
@_COLOURS.complete
def rgb_to_yiq(images: Any, name: str | None = None) -> Tensor:
    """Turn red, green and blue into luma and the NTSC's two axes of colour.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.rgb_to_yiq(np.array([1.0, 0.0, 0.0]))).sync().round(3)
    array([0.299, 0.596, 0.212])
    """
    return _mix_colors(images, _YIQ, name)


@public
@_COLOURS.complete
def yiq_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Turn luma and the NTSC's two axes of colour into red, green and blue; undoes `rgb_to_yiq`.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> red = np.array([1.0, 0.0, 0.0])
    >>> np.abs(tg.function(lambda: tg.yiq_to_rgb(tg.rgb_to_yiq(red))).sync()).round(3)
    array([1., 0., 0.])
    """
    return _mix_colors(images, np.linalg.inv(_YIQ), name)
