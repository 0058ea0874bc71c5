"""Crops, borders, colours and random changes of images, held against NumPy and colorsys."""

import colorsys

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

RANDOM = np.random.default_rng(11)
X = RANDOM.uniform(0.05, 0.95, (2, 5, 6, 3))
BYTES = RANDOM.integers(0, 256, (4, 5, 3)).astype(np.uint8)


def value(build):
    return tg.function(build).sync()


def placed(x, top, left, height, width):
    found = np.zeros((*x.shape[:-3], height, width, x.shape[-1]), x.dtype)
    found[..., top : top + x.shape[-3], left : left + x.shape[-2], :] = x
    return found


CUTS = {
    "crop": (lambda x, n: tg.crop_to_bounding_box(x, n(1), n(2), n(3), n(4)), X[:, 1:4, 2:6]),
    "crop of all": (lambda x, n: tg.crop_to_bounding_box(x, n(0), n(0), n(5), n(6)), X),
    "pad": (lambda x, n: tg.pad_to_bounding_box(x, n(1), n(2), n(7), n(9)), placed(X, 1, 2, 7, 9)),
    "middle": (lambda x, n: tg.central_crop(x, 0.5), X[:, 1:4, 1:5]),
    "most of it": (lambda x, n: tg.central_crop(x, 0.9), X),
    "smaller": (lambda x, n: tg.resize_image_with_crop_or_pad(x, n(2), n(3)), X[:, 1:3, 1:4]),
    "larger": (lambda x, n: tg.resize_image_with_crop_or_pad(x, n(8), n(9)), placed(X, 1, 1, 8, 9)),
    "both": (lambda x, n: tg.resize_image_with_crop_or_pad(x, n(2), n(9)), placed(X[:, 1:3], 0, 1, 2, 9)),
}


@pytest.mark.parametrize("late", ["nothing", "sizes", "shape", "both"])
@pytest.mark.parametrize("name", CUTS)
def test_parts_and_borders(name, late):
    build, wanted = CUTS[name]
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [None] * 4 if late in ("shape", "both") else X.shape)
        y = build(x, (lambda n: tg.placeholder_with_default(n, [])) if late in ("sizes", "both") else int)
        (slope,) = tg.gradients(y, [x])
    if late == "nothing":
        assert y.shape == wanted.shape
    with tg.SyncSession(graph, settings=ON) as session:
        found, total = session.run([y, slope], {x: X})
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(total, np.isin(X, wanted))


@pytest.mark.parametrize("rank", [3, 5])
def test_other_ranks(rank):
    x = X[0] if rank == 3 else X[None]
    assert value(lambda: tg.crop_to_bounding_box(x, 1, 1, 2, 2)).shape == (*x.shape[:-3], 2, 2, 3)
    assert value(lambda: tg.transpose_image(x)).shape == (*x.shape[:-3], 6, 5, 3)


def test_boxes_that_go_beyond_the_image(graph):
    for build in (
        lambda: tg.crop_to_bounding_box(X, 3, 0, 3, 3),
        lambda: tg.crop_to_bounding_box(X, 0, 4, 3, 3),
        lambda: tg.crop_to_bounding_box(X, -1, 0, 3, 3),
        lambda: tg.pad_to_bounding_box(X, 1, 0, 5, 6),
        lambda: tg.pad_to_bounding_box(X, 0, 1, 5, 6),
    ):
        with pytest.raises(tg.ShapeError) as caught:
            build()
        assert caught.value.source.file == __file__
    offset = tg.placeholder("int32", [])
    crop, padded = tg.crop_to_bounding_box(X, offset, 0, 3, 3), tg.pad_to_bounding_box(X, offset, 0, 6, 6)
    with tg.SyncSession(graph) as session:
        for wrong in (-1, 3):
            with pytest.raises(tg.OpError, match=r"beyond the height|negative"):
                session.run(crop, {offset: wrong})
        with pytest.raises(tg.OpError, match="beyond the height"):
            session.run(padded, {offset: 2})


@pytest.mark.parametrize("fraction", [0, -1, 1.5, "half"])
def test_fractions_out_of_range(graph, fraction):
    with pytest.raises(tg.GraphError, match="no such part"):
        tg.central_crop(X, fraction)


def pixelwise(change):
    def changed(x):
        return np.array([colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*p))) for p in x.reshape(-1, 3)]).reshape(
            x.shape
        )

    return changed


ADJUSTMENTS = {
    "brightness": (lambda x: tg.adjust_brightness(x, 0.2), lambda x: x + 0.2),
    "contrast": (
        lambda x: tg.adjust_contrast(x, 1.7),
        lambda x: (x - x.mean((-3, -2), keepdims=True)) * 1.7 + x.mean((-3, -2), keepdims=True),
    ),
    "gamma": (lambda x: tg.adjust_gamma(x, 1.6, 0.9), lambda x: 0.9 * x**1.6),
    "hue": (lambda x: tg.adjust_hue(x, 0.3), pixelwise(lambda h, s, v: ((h + 0.3) % 1, s, v))),
    "hue back": (lambda x: tg.adjust_hue(x, -0.6), pixelwise(lambda h, s, v: ((h - 0.6) % 1, s, v))),
    "saturation": (lambda x: tg.adjust_saturation(x, 1.4), pixelwise(lambda h, s, v: (h, min(s * 1.4, 1), v))),
}


@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_adjustments(name):
    build, numpy = ADJUSTMENTS[name]
    np.testing.assert_allclose(value(lambda: build(X)), numpy(X), rtol=1e-6, atol=1e-12)
    assert value(lambda: build(X.astype(np.float16))).dtype == np.float16
    as_bytes = np.floor(np.clip(numpy(BYTES / 255), 0, 1) * 255.5)
    difference = value(lambda: build(BYTES)).astype(int) - as_bytes.astype(int)
    assert np.abs(difference).max() <= 1  # where float32 rounds to the other side
    assert (difference == 0).mean() > 0.9


@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_gradients_of_adjustments(name):
    build, numpy = ADJUSTMENTS[name]
    weights, step = RANDOM.standard_normal(X.shape), 1e-6
    direction = RANDOM.standard_normal(X.shape)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", X.shape)
        (slope,) = tg.gradients(tg.reduce_sum(build(x) * weights), [x])
    with tg.SyncSession(graph) as session:
        found = (session.run(slope, {x: X}) * direction).sum()
    ahead, behind = ((numpy(X + sign * step * direction) * weights).sum() for sign in (1, -1))
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=1e-5)


CONVERSIONS = [
    (np.uint8([0, 7, 255]), "float32", np.float32([0, 7 / 255, 1])),
    (np.float32([0, 0.25, 1]), "uint8", np.uint8([0, 63, 255])),
    (np.float64([0, 0.25, 1]), "int16", np.int16([0, 8191, 32767])),
    (np.uint8([0, 7, 255]), "uint16", np.uint16([0, 7 * 256, 255 * 256])),
    (np.uint16([0, 7 * 256 + 3, 65535]), "uint8", np.uint8([0, 7, 255])),
    (np.float32([0.5]), "float64", np.float64([0.5])),
    (np.int16([5, -3]), "int16", np.int16([5, -3])),
]


@pytest.mark.parametrize(("given", "dtype", "wanted"), CONVERSIONS)
def test_conversions(given, dtype, wanted):
    found = value(lambda: tg.convert_image_dtype(given, dtype))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found.dtype == wanted.dtype


def test_every_byte_survives_as_a_float():
    steps = np.arange(256, dtype=np.uint8)
    for dtype in ("float16", "float32", "float64"):
        found = value(lambda: tg.convert_image_dtype(tg.convert_image_dtype(steps, dtype), "uint8"))  # noqa: B023
        assert np.abs(found.astype(int) - steps).max() <= (dtype == "float16")


def test_saturation_of_conversions():
    x = np.float32([-0.5, 0.5, 1.5])
    assert value(lambda: tg.convert_image_dtype(x, "uint8", saturate=True)).tolist() == [0, 127, 255]


def test_grey_becomes_red_green_and_blue(graph):
    assert value(lambda: tg.grayscale_to_rgb(X[..., :1])).tolist() == np.repeat(X[..., :1], 3, -1).tolist()
    with pytest.raises(tg.ShapeError, match="one channel"):
        tg.grayscale_to_rgb(X)


RANDOM_CHANGES = {
    "brightness": (
        lambda x, seed: tg.random_brightness(x, 0.3, seed),
        lambda x, y: (np.ptp(y - x) < 1e-6) & (np.abs(y - x).max() <= 0.3 + 1e-6),
    ),
    "contrast": (
        lambda x, seed: tg.random_contrast(x, 0.5, 1.5, seed),
        lambda x, y: 0.499 < np.ptp(y) / np.ptp(x) < 1.501,
    ),
    "hue": (
        lambda x, seed: tg.random_hue(x, 0.2, seed),
        lambda x, y: np.allclose(x.max(-1), y.max(-1), atol=1e-5) and np.allclose(x.min(-1), y.min(-1), atol=1e-5),
    ),
    "saturation": (
        lambda x, seed: tg.random_saturation(x, 0.2, 0.9, seed),
        lambda x, y: np.allclose(x.max(-1), y.max(-1), atol=1e-5) and (y.min(-1) >= x.min(-1) - 1e-5).all(),
    ),
    "left right": (
        lambda x, seed: tg.random_flip_left_right(x, seed),
        lambda x, y: all((b == a).all() or (b == a[:, ::-1]).all() for a, b in zip(x, y, strict=True)),
    ),
    "up down": (
        lambda x, seed: tg.random_flip_up_down(x, seed),
        lambda x, y: all((b == a).all() or (b == a[::-1]).all() for a, b in zip(x, y, strict=True)),
    ),
}


@pytest.mark.parametrize("name", RANDOM_CHANGES)
def test_random_changes(name):
    build, fits = RANDOM_CHANGES[name]
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, None, None, 3])
        y, again = build(x, 7), build(x, 7)
    images = np.concatenate([X, X, X]).astype(np.float32)
    if name == "contrast":
        images = images[:1, :, :, :1].repeat(3, -1)
    with tg.SyncSession(graph) as session:
        runs = [session.run([y, again], {x: images}) for _ in range(12)]
    for found, same in runs:
        assert fits(images, found)
        np.testing.assert_array_equal(found, same)
    assert len({found.tobytes() for found, _ in runs}) > 3


@pytest.mark.parametrize(
    "build",
    [
        lambda: tg.random_brightness(X, -0.1),
        lambda: tg.random_hue(X, 0.6),
        lambda: tg.random_contrast(X, 1.0, 0.5),
        lambda: tg.random_saturation(X, -1.0, 0.5),
        lambda: tg.adjust_gamma(X, -1.0),
    ],
)
def test_amounts_out_of_range(graph, build):
    with pytest.raises(tg.GraphError, match="wanted"):
        build()
