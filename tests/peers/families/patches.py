"""Patches of images and volumes, dilation and erosion."""

import numpy as np

from tests.peers.calls import Call, family


def _sizes(random, rank, most):
    return [1, *(int(n) for n in random.integers(1, most + 1, rank)), 1]


def _image(random, rank):
    shape = (*random.integers(1, 3, 1), *random.integers(5, 9, rank), *random.integers(1, 4, 1))
    return random.standard_normal(shape).astype(np.float32)


def _padding(random):
    return str(random.choice(["SAME", "VALID"]))


def _patches(random):
    windows = [_sizes(random, 2, most) for most in (3, 3, 2)]
    return Call(
        "extract_image_patches", [_image(random, 2), *windows, _padding(random)], theirs="image.extract_image_patches"
    )


def _volume_patches(random):
    windows = [_sizes(random, 3, most) for most in (3, 2)]
    return Call("extract_volume_patches", [_image(random, 3), *windows, _padding(random)])


def _morphology(random):
    name = str(random.choice(["dilation2d", "erosion2d"]))
    x = _image(random, 2)
    weights = random.standard_normal((*random.integers(1, 4, 2), x.shape[-1])).astype(np.float32)
    strides, rates = (_sizes(random, 2, 2) for _ in range(2))
    if random.random() < 0.2:
        x, weights = np.round(x * 9).astype(np.int32), np.round(weights * 9).astype(np.int32)
    return Call(name, [x, weights, strides, rates, _padding(random)], theirs=f"nn.{name}")


@family
def patches(random):
    """Draw a call of a function that goes by windows of images."""
    kinds = [_patches, _volume_patches, _morphology, _morphology]
    return kinds[int(random.integers(len(kinds)))](random)
