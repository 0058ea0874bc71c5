"""Images in other sizes, and boxes cut out of them."""

import numpy as np

from tests.peers.calls import Call, family


def _images(random):
    shape = (*random.integers(1, 3, 1), *random.integers(1, 8, 2), *random.integers(1, 4, 1))
    return random.standard_normal(shape).astype(np.float32)


def _size(random):
    return [int(n) for n in random.integers(1, 12, 2)]


def _resize(random):
    name = "resize_" + str(random.choice(["nearest_neighbor", "bilinear", "bicubic", "area"]))
    how = {"align_corners": bool(random.random() < 0.3)}
    if name != "resize_area":
        how["half_pixel_centers"] = not how["align_corners"] and bool(random.random() < 0.5)
    x, has_gradient = _images(random), name != "resize_area"
    if name == "resize_area":
        x = np.repeat(np.repeat(x, 2, 1), 2, 2)  # of one pixel with corners aligned TensorFlow makes NaN
    if name == "resize_nearest_neighbor" and random.random() < 0.2:
        x = np.round(x * 9).astype(np.int32)
    return Call(name, [x, _size(random)], how, theirs=f"image.{name}", differentiable=has_gradient)


def _crop(random):
    x, count = _images(random), int(random.integers(1, 4))
    boxes = random.uniform(-0.2, 1.2, (count, 4)).astype(np.float32)
    which = random.integers(0, len(x), count).astype(np.int32)
    method = str(random.choice(["bilinear", "bilinear", "nearest"]))
    keywords = {"method": method, "extrapolation_value": float(random.integers(-2, 3))}
    return Call(
        "crop_and_resize",
        [x, boxes, which, _size(random)],
        keywords,
        theirs="image.crop_and_resize",
        differentiable=method == "bilinear",  # that of 'nearest' has a gradient by the boxes in TensorFlow
        tolerance=1e-4,
    )


@family
def resizing(random):
    """Draw a call of a function that resizes."""
    return (_resize if random.random() < 0.75 else _crop)(random)
