"""Images in other sizes, and boxes cut out of them."""

import numpy as np

from tests.peers.calls import Call, family


def _images(random, least=1):
    shape = (*random.integers(1, 3, 1), *random.integers(least, 8, 2), *random.integers(1, 4, 1))
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
    method = str(random.choice(["bilinear", "bilinear", "nearest"]))
    # In TensorFlow 'nearest' has a gradient by the boxes. Between two pixels alone all places have one slope, and the
    # gradient is the sum of the cotangents, whose cosines cancel.
    has_gradient = method == "bilinear" and random.random() < 0.7
    x, count = _images(random, 4 if has_gradient else 1), int(random.integers(1, 4))
    boxes = random.uniform(-0.2, 1.2, (count, 4)).astype(np.float32)
    which = random.integers(0, len(x), count).astype(np.int32)
    keywords = {"method": method, "extrapolation_value": float(random.integers(-2, 3))}
    return Call(
        "crop_and_resize",
        [x, boxes, which, _size(random)],
        keywords,
        theirs="image.crop_and_resize",
        differentiable=has_gradient,
    )


@family
def resizing(random):
    """Draw a call of a function that resizes."""
    return (_resize if random.random() < 0.75 else _crop)(random)
