"""Images, convolutions and sequences at many elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .large_programs import Build, Program, call, floats, numbers, sizes

CHANNELS, SIDE = 8, 32
POOLED = {"window": (2, 2), "strides": (2, 2), "rates": (1, 1), "padding": "VALID"}
AT_EACH = {"window": (3, 3), "strides": (1, 1), "rates": (1, 1), "padding": "SAME"}
CONVOLVED = {"strides": (1, 1), "dilations": (1, 1), "padding": "SAME"}
FILTER = (3, 3, CHANNELS, CHANNELS)


def shape(n: int, shrunk: int = 1) -> tuple[int, int, int, int]:
    """Return the shape of images of about `n` elements, or of what is so many times smaller."""
    return (max(1, n // (SIDE * SIDE * CHANNELS)), SIDE // shrunk, SIDE // shrunk, CHANNELS)


def images(n: int, shrunk: int = 1) -> np.ndarray:
    """Return such images."""
    return floats(*shape(n, shrunk))


def picked(n: int, below: int = 4, shrunk: int = 2) -> np.ndarray:
    """Return a place in each window."""
    return numbers(*shape(n, shrunk), below=below)


def ctc(type: str, n: int, *more: Any) -> Program:
    """Return readings of 50 steps and 100 classes, with 20 labels each."""
    batch = max(1, n // 5000)
    labels = 1 + numbers(batch, 20, below=99)
    return call(
        type, floats(50, batch, 100), labels, np.full(batch, 20, np.int32), np.full(batch, 50, np.int32), *more, blank=0
    )


def beams(n: int) -> Program:
    """Return a search in few readings, since Python goes through the beams."""
    batch = max(1, n // 100_000)
    return call(
        "CTCBeamSearch",
        *(floats(10, batch, 10), np.full(batch, 10, np.int32)),
        **{"beam_width": 10, "paths": 1, "merge_repeated": False},
    )


def suppressed(n: int) -> Program:
    """Return the best 100 of many boxes."""
    count = n // 100
    low = numbers(count, 2, below=997).astype(np.float32)
    scores = numbers(count, below=count).astype(np.float32) / count
    boxes = np.concatenate([low, low + 30], 1)
    return call("NonMaxSuppression", boxes, scores, np.int32(100), np.float32(0.5), np.float32(0))


def suppressed_softly(n: int) -> Program:
    """Return the best 100 of fewer boxes, whose scores are lowered for each that is chosen."""
    count = n // 1000
    low = numbers(count, 2, below=997).astype(np.float32)
    scores = numbers(count, below=count).astype(np.float32) / count
    boxes = np.concatenate([low, low + 30], 1)
    limits = np.int32(100), np.float32(0.5), np.float32(0), np.float32(0.5)
    return call("SoftNonMaxSuppression", boxes, scores, *limits)


def drawing(n: int) -> Program:
    """Return images with the borders of a few boxes."""
    batch = images(n)
    boxes = np.tile(np.float32([[0.1, 0.1, 0.9, 0.9], [0.2, 0.3, 0.5, 0.6]]), (len(batch), 1, 1))
    return call("DrawBoundingBoxes", batch, boxes, floats(1, CHANNELS))


def pixels(n: int) -> np.ndarray:
    """Return an image of about `n` bytes."""
    side = max(1, int((n / 3) ** 0.5))
    return numbers(side, side, 3, below=255).astype(np.uint8)


def decoding(n: int) -> Program:
    """Return the decoding of such an image."""
    from tagloom.base.pixels import encode

    return call("DecodeImage", np.frombuffer(encode(pixels(n), "PNG"), np.uint8))


IMAGES: dict[str, Build] = {
    "DecodeImage": decoding,
    "EncodeImage": lambda n: call("EncodeImage", pixels(n), form="PNG"),
    "AvgPool": lambda n: call("AvgPool", images(n), **POOLED),
    "AvgPool: at each": lambda n: call("AvgPool", images(n), **AT_EACH),
    "AvgPoolGrad": lambda n: call("AvgPoolGrad", images(n, 2), sizes(*shape(n)), **POOLED),
    "CTCBeamSearch": beams,
    "CTCLoss": lambda n: ctc("CTCLoss", n // 10),
    "CTCLossGrad": lambda n: ctc("CTCLossGrad", n // 10, []),
    "ConvBias": lambda n: call("ConvBias", images(n // 8), floats(*FILTER), floats(FILTER[-1]), **CONVOLVED, relu=True),
    "Conv": lambda n: call("Conv", images(n // 8), floats(*FILTER), **CONVOLVED),
    "Conv: of one channel": lambda n: call(
        "Conv", floats(1, n // 1000, 1000, 1), floats(3, 3, 1, 1), **{**CONVOLVED, "padding": "VALID"}
    ),
    "ConvFilterBiasGrad": lambda n: call(
        "ConvFilterBiasGrad", images(n // 8), sizes(*FILTER), images(n // 8), **CONVOLVED
    ),
    "ConvFilterGrad": lambda n: call("ConvFilterGrad", images(n // 8), sizes(*FILTER), images(n // 8), **CONVOLVED),
    "ConvInputGradMasked": lambda n: call(
        "ConvInputGradMasked", sizes(*shape(n // 8)), floats(*FILTER), images(n // 8), images(n // 8), **CONVOLVED
    ),
    "ConvInputGrad": lambda n: call(
        "ConvInputGrad", sizes(*shape(n // 8)), floats(*FILTER), images(n // 8), **CONVOLVED
    ),
    "Dilation2D": lambda n: call("Dilation2D", images(n // 8), floats(3, 3, CHANNELS), **AT_EACH),
    "DilationPlace": lambda n: call("DilationPlace", images(n // 8), floats(3, 3, CHANNELS), **AT_EACH),
    "ExtractPatches": lambda n: call("ExtractPatches", images(n // 8), **AT_EACH),
    "ExtractPatchesGrad": lambda n: call(
        "ExtractPatchesGrad", floats(*shape(n // 8)[:3], 9 * CHANNELS), sizes(*shape(n // 8)), **AT_EACH
    ),
    "FlatPlaces": lambda n: call("FlatPlaces", picked(n), sizes(*shape(n)), **POOLED),
    "MaxPool": lambda n: call("MaxPool", images(n), **POOLED),
    "MaxPool: at each": lambda n: call("MaxPool", images(n), **AT_EACH),
    "MaxPoolGrad": lambda n: call("MaxPoolGrad", images(n, 2), picked(n), sizes(*shape(n)), **POOLED),
    "MaxPoolPick": lambda n: call("MaxPoolPick", images(n), picked(n), **POOLED),
    "MaxPoolPlace": lambda n: call("MaxPoolPlace", images(n), **POOLED),
    "DrawBoundingBoxes": drawing,
    "NonMaxSuppression": suppressed,
    "SoftNonMaxSuppression": suppressed_softly,
    "PlacePick": lambda n: call("PlacePick", floats(3, 3, CHANNELS), picked(n, 9, 1), **AT_EACH),
    "PlaceSum": lambda n: call("PlaceSum", images(n), picked(n, 9, 1), **AT_EACH),
    "Resize: bilinear": lambda n: call("Resize", images(n // 4), sizes(2 * SIDE, 2 * SIDE), method="bilinear"),
    "Resize: nearest": lambda n: call("Resize", images(n // 4), sizes(2 * SIDE, 2 * SIDE), method="nearest"),
    "Resize: from one": lambda n: call("Resize", floats(1, 2, 2, 1), sizes(n // 1000, 1000), method="bilinear"),
    "ResizeGrad": lambda n: call("ResizeGrad", images(n), sizes(SIDE // 2, SIDE // 2), method="bilinear"),
}
