"""Images turned around, scaled, recoloured and compared; boxes chosen."""

import numpy as np

from tests.peers.calls import Call, family


def _image(random, rank=4, least=2, most=7, channels=None):
    batch = random.integers(1, 4, rank - 3)
    shape = (*batch, *random.integers(least, most, 2), channels or random.integers(1, 4))
    return random.standard_normal(tuple(map(int, shape))).astype(np.float32)


def _rank(random):
    return int(random.integers(3, 5))


def _turned(random):
    name = str(random.choice(["flip_left_right", "flip_up_down", "rot90", "per_image_standardization"]))
    keywords = {"k": int(random.integers(-3, 5)) % 4} if name == "rot90" else {}
    return Call(name, [_image(random, _rank(random))], keywords, theirs=f"image.{name}")


def _measured(random):
    name = str(random.choice(["image_gradients", "total_variation", "sobel_edges"]))
    return Call(name, [_image(random, 4, 3)], theirs=f"image.{name}")


def _recoloured(random):
    name = str(random.choice(["rgb_to_grayscale", "rgb_to_hsv", "hsv_to_rgb"]))
    x = random.uniform(0, 1, (*random.integers(1, 5, 2), 3)).astype(np.float32)
    if name == "rgb_to_grayscale" and random.random() < 0.4:
        return Call(name, [np.round(x * 255).astype(np.uint8)], theirs=f"image.{name}")
    return Call(name, [x], theirs=f"image.{name}", differentiable=name != "hsv_to_rgb")


def _compared(random):
    # Of few pixels, and of nearly equal images, the gradient is a difference of what is alike, with few digits left.
    size = int(random.integers(3, 6))
    x = random.uniform(0, 1, (*random.integers(1, 3, 1), *random.integers(6, 10, 2), 2)).astype(np.float32)
    y = np.clip(x + random.normal(0, 0.3, x.shape), 0, 1).astype(np.float32)
    if random.random() < 0.3:
        x, y = (np.round(each * 255).astype(np.uint8) for each in (x, y))
    largest = 255 if x.dtype == np.uint8 else 1.0
    if random.random() < 0.5:
        return Call("psnr", [x, y, largest], theirs="image.psnr")
    return Call("ssim", [x, y, largest, size], {"filter_sigma": 1.0}, theirs="image.ssim")


def _boxes(random):
    count = int(random.integers(0, 12))
    corners, scores = random.uniform(0, 1, (count, 4)), random.uniform(0, 1, count)
    most = int(random.integers(0, 9))
    thresholds = {"iou_threshold": float(random.uniform(0, 0.6)), "score_threshold": float(random.uniform(0, 0.4))}
    return Call(
        "non_max_suppression",
        [corners.astype(np.float32), scores.astype(np.float32), most],
        thresholds,
        theirs="image.non_max_suppression",
    )


def _cut(random):
    x = _image(random, _rank(random), 3, 8)
    height, width = x.shape[-3:-1]
    kind = random.integers(4)
    if kind == 0:
        sizes = [int(random.integers(1, height + 1)), int(random.integers(1, width + 1))]
        offsets = [int(random.integers(height - sizes[0] + 1)), int(random.integers(width - sizes[1] + 1))]
        return Call("crop_to_bounding_box", [x, *offsets, *sizes], theirs="image.crop_to_bounding_box")
    if kind == 1:
        offsets = [int(n) for n in random.integers(0, 3, 2)]
        sizes = [height + offsets[0] + int(random.integers(3)), width + offsets[1] + int(random.integers(3))]
        return Call("pad_to_bounding_box", [x, *offsets, *sizes], theirs="image.pad_to_bounding_box")
    if kind == 2:
        return Call("central_crop", [x, float(random.choice([0.3, 0.5, 0.75, 1.0]))], theirs="image.central_crop")
    sizes = [int(n) for n in random.integers(1, 11, 2)]
    return Call("resize_image_with_crop_or_pad", [x, *sizes], theirs="image.resize_image_with_crop_or_pad")


def _adjusted(random):
    name = str(random.choice(["brightness", "contrast", "gamma", "hue", "saturation"]))
    x = random.uniform(0.05, 0.95, (*random.integers(2, 5, 2), 3)).astype(np.float32)
    amount = float(random.uniform(-0.4, 0.4) if name in ("brightness", "hue") else random.uniform(0.3, 1.7))
    return Call(
        f"adjust_{name}",
        [x, amount],
        theirs=f"image.adjust_{name}",
        differentiable=name not in ("hue", "saturation"),  # whose kernels are one, without a gradient, there
    )


@family
def images(random):
    """Draw a call of a function of images."""
    kinds = [_turned, _measured, _recoloured, _compared, _boxes, _cut, _adjusted]
    return kinds[int(random.integers(len(kinds)))](random)
