"""Images resized to fit into a size, with their proportions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.dtypes import int32, int64
from ...ir.apply import apply
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.concat import stack
from ..array.shapes import expand_dims, squeeze
from ..math.arithmetic import maximum, minimum
from ..math.casting import cast
from ..support.arguments import known_rank, one_of
from ..support.common import dimension_of
from .cropping import Size, pad_to_bounding_box, size_of
from .resize import resize_area, resize_bicubic, resize_bilinear, resize_nearest_neighbor
from .transforms import image_tensor

_METHODS: dict[str, Callable[..., Tensor]] = {
    "bilinear": resize_bilinear,
    "nearest": resize_nearest_neighbor,
    "bicubic": resize_bicubic,
    "area": resize_area,
}


@public
def resize_image_with_pad(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: str = "bilinear",
    align_corners: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resize images as far as they fit into a size, with their proportions, and put zeros around them.

    Parameters
    ----------
    image : Tensor of an integer or floating dtype, of shape [height, width, channels] or with a batch in front
    target_height, target_width : int32 scalar
    method : {'bilinear', 'nearest', 'bicubic', 'area'}
        Method of the function with this name after `resize_`, such as `resize_bilinear`.
    align_corners : bool
        As for `resize_bilinear`.

    Returns
    -------
    Tensor
        Of the dtype of the method's function, of shape [..., target_height, target_width, channels]. The image stands
        in the middle; an odd row or column of zeros is added below or on the right.

    Raises
    ------
    ShapeError
        If a size is known to be negative, or the rank is unknown or not 3 or 4.
    GraphError
        If there is no such method.

    Examples
    --------
    >>> import tagloom as tg
    >>> image = [[[1.0], [3.0]]]
    >>> tg.function(lambda: tg.resize_image_with_pad(image, 3, 4)).sync()[:, :, 0]
    array([[1., 2., 3., 3.],
           [1., 2., 3., 3.],
           [0., 0., 0., 0.]], dtype=float32)
    """
    resize = _METHODS[one_of(method, tuple(_METHODS), "method")]
    x = image_tensor(image)
    rank = known_rank(x, "resize_image_with_pad")
    batch = x if rank == 4 else expand_dims(x, 0)
    height, width = dimension_of(batch, 1), dimension_of(batch, 2)
    wanted = size_of(target_height, "target_height"), size_of(target_width, "target_width")
    rows, columns = _largest_fitting_size(height, width, *wanted)
    resized = resize(batch, stack([rows, columns]), align_corners)
    # An odd row or column of zeros goes below or to the right.
    framed = pad_to_bounding_box(resized, (wanted[0] - rows) // 2, (wanted[1] - columns) // 2, *wanted)
    return apply("Identity", framed if rank == 4 else squeeze(framed, 0), name=name)


def _largest_fitting_size(height: Size, width: Size, most_rows: Size, most_columns: Size) -> tuple[Size, Size]:
    """Return the largest size with these proportions within bounds, rounded down, but at least 1 pixel."""
    if all(isinstance(size, int) for size in (height, width, most_rows, most_columns)):
        # Products first, so that only the last division rounds; an image without columns divides by 1.
        rows = min(most_rows, height * most_columns // max(width, 1))
        return max(rows, 1), max(min(most_columns, width * most_rows // max(height, 1)), 1)
    # In int64, because the products of two sizes may exceed int32.
    h, w, r, c = (cast(size, int64) for size in (height, width, most_rows, most_columns))
    rows, columns = minimum(r, h * c // maximum(w, 1)), minimum(c, w * r // maximum(h, 1))
    return cast(maximum(rows, 1), int32), cast(maximum(columns, 1), int32)
