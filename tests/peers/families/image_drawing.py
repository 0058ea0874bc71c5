"""Frames in images, proportions that stay, luma, comparison in several sizes, scores that decay."""

import numpy as np

from tests.peers.calls import Call, family


def _uniform(random, *shape):
    return random.uniform(0, 1, shape).astype(np.float32)


def _drawn(random):
    batch, height, width = map(int, random.integers([1, 1, 1], [3, 9, 9]))
    channels = int(random.choice([1, 3, 4]))
    boxes = random.uniform(-0.4, 1.4, (batch, random.integers(0, 4), 4)).astype(np.float32)
    boxes = np.where(random.random(boxes.shape) < 0.2, np.round(boxes), boxes)
    keywords = {"colors": _uniform(random, 3, channels).tolist()} if random.random() < 0.6 else {}
    # Gradients are ours alone.
    return Call(
        "draw_bounding_boxes",
        [_uniform(random, batch, height, width, channels), boxes],
        keywords,
        theirs="image.draw_bounding_boxes",
        differentiable=False,
    )


def _fitted(random):
    # Of powers of two quotients are exact in single precision, as TensorFlow computes them. It refuses images without
    # rows or columns, which have one here.
    height, width, *target = (int(n) for n in 2 ** random.integers(0, 4, 4))
    target = [max(target[0], target[1] // width, 1), max(target[1], target[0] // height, 1)]
    if height * target[1] < width or width * target[0] < height:
        target = [height, width]
    shape = (*[2] * int(random.integers(0, 2)), height, width, 2)
    method = str(random.choice(["bilinear", "nearest", "bicubic", "area"]))
    numbers = {"bilinear": 0, "nearest": 1, "bicubic": 2, "area": 3}
    return Call(
        "resize_image_with_pad",
        [_uniform(random, *shape), *target],
        {"method": method},
        theirs="image.resize_image_with_pad",
        their_keywords={"method": numbers[method]},
        differentiable=method == "bilinear",
    )


def _recoloured(random):
    name = str(random.choice(["rgb_to_yuv", "yuv_to_rgb", "rgb_to_yiq", "yiq_to_rgb"]))
    image = _uniform(random, *random.integers(1, 4, random.integers(1, 3)), 3)
    # Of TensorFlow's matrix of YIQ one factor has four digits, so that gray is not quite without colour.
    return Call(name, [image], theirs=f"image.{name}", tolerance=1e-3 if "yiq" in name else 1e-5)


def _compared(random):
    size = int(random.integers(2, 4))
    x = _uniform(random, 2, *map(int, random.integers(12, 20, 2)), 2)
    y = np.clip(x + random.normal(0, 0.2, x.shape), 0, 1).astype(np.float32)
    factors = [0.3, 0.7] if random.random() < 0.5 else [0.2, 0.3, 0.5]
    return Call(
        "ssim_multiscale",
        [x, y, 1.0, factors, size],
        theirs="image.ssim_multiscale",
        tolerance=1e-4,
        differentiable=False,  # powers of what is cut off at 0 have no derivative there
    )


def _chosen(random):
    count = int(random.integers(1, 10))
    boxes = np.sort(random.uniform(0, 1, (count, 2, 2)), 1).reshape(count, 4).astype(np.float32)
    limits = [float(random.uniform(0.2, 1)), float(random.uniform(0, 0.3))]
    arguments = [boxes, _uniform(random, count), int(random.integers(1, 9)), *limits]
    if random.random() < 0.5:
        sigma = float(random.choice([0.0, 0.3, 0.8]))
        name = "non_max_suppression_with_scores"
        return Call(name, [*arguments, sigma], theirs=f"image.{name}", differentiable=False)
    is_padded = bool(random.random() < 0.5)
    name = "non_max_suppression_padded"
    return Call(name, [*arguments, is_padded], theirs=f"image.{name}", differentiable=False)


@family
def image_drawing(random):
    """Draw a call of a function of images that TensorFlow got later."""
    kinds = [_drawn, _fitted, _recoloured, _compared, _chosen]
    return kinds[int(random.integers(len(kinds)))](random)
