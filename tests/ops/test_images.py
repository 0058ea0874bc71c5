"""Images: sizes and ranks that are known late, borders, dtypes, and what is refused."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import DtypeError, GraphError, ShapeError

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((2, 4, 5, 3))


@pytest.mark.parametrize("name", ["nearest_neighbor", "bilinear", "bicubic", "area"])
def test_sizes_may_be_known_late(name):
    resize = getattr(tg, f"resize_{name}")
    with tg.Graph().as_default() as graph:
        x, size = tg.placeholder("float64"), tg.placeholder("int32", [2])
        y = resize(x, size)
        assert y.shape == [None] * 4
        assert resize(X, [7, 3]).shape == [2, 7, 3, 3]
        assert resize(X, size).shape == [2, None, None, 3]
        (slope,) = tg.gradients(y, [x])
    with tg.SyncSession(graph) as session:
        found, total = session.run([y, slope], {x: X, size: [7, 3]})
        again = tg.function(lambda: resize(X, [7, 3])).sync()
    np.testing.assert_array_equal(found, again)
    np.testing.assert_allclose(total.sum(), 2 * 7 * 3 * 3)


@pytest.mark.parametrize("name", ["bilinear", "bicubic", "area"])
def test_integers_and_short_floats_are_resized_in_float32(name):
    for dtype in ("uint8", "float16", "int64"):
        call = tg.function(lambda: getattr(tg, f"resize_{name}")(tg.cast(np.abs(X) * 9, dtype), [2, 2]))  # noqa: B023
        assert call.sync().dtype == np.float32


def test_the_same_size_is_the_same_image():
    for name in ("nearest_neighbor", "bilinear", "bicubic", "area"):
        np.testing.assert_allclose(tg.function(lambda: getattr(tg, f"resize_{name}")(X, [4, 5])).sync(), X)  # noqa: B023


def test_area_of_a_single_pixel_with_corners_aligned_is_that_pixel():
    assert (
        tg.function(lambda: tg.resize_area([[[[7.0]]]], [2, 3], align_corners=True)).sync().ravel().tolist() == [7] * 6
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.resize_bilinear(X, [2, 2], True, True), GraphError, "cannot be resized so"),
        (lambda: tg.resize_bilinear(X[0], [2, 2]), ShapeError, "contradict"),
        (lambda: tg.resize_bilinear(X, [2, 2, 3]), ShapeError, "a height and a width"),
        (lambda: tg.crop_and_resize(X, [[0.0] * 4], [0], [2, 2], "cubic"), GraphError, "no such method"),
        (lambda: tg.crop_and_resize(X, [[0.0] * 3], [0], [2, 2]), ShapeError, "contradict"),
        (lambda: tg.crop_and_resize(X, [[0.0] * 4], [0], [2]), GraphError, "a height and a width"),
        (lambda: tg.crop_and_resize(X, [[0.0] * 4] * 3, [0], [2, 2]), ShapeError, "contradict"),
        (lambda: tg.ssim(X, X, 1.0, 6), ShapeError, "smaller than the windows"),
        (lambda: tg.extract_image_patches(X, 9, 1, 1, "VALID"), ShapeError, "larger than the image"),
        (lambda: tg.extract_volume_patches(X, 2, 1, "VALID"), ShapeError, "contradict"),
        (lambda: tg.dilation2d(X, np.zeros((2, 2, 4))), ShapeError, "does not fit"),
        (lambda: tg.dilation2d(X, tg.placeholder("float64", [None, 2, 3])), ShapeError, "have to be known"),
        (lambda: tg.erosion2d(X, np.zeros((2, 2, 3)), padding="BOTH"), GraphError, "no such padding"),
        (lambda: tg.non_max_suppression(np.zeros((3, 4)), np.zeros(2), 1), ShapeError, "has a score"),
        (lambda: tg.rot90(tg.placeholder("float32")), ShapeError, "has to be known"),
        (lambda: tg.flip_left_right([1.0, 2.0]), ShapeError, "rank 3"),
        (lambda: tg.sobel_edges(X[0]), ShapeError, "rank 4"),
        (lambda: tg.rgb_to_hsv(X[..., :2]), ShapeError, "three colours"),
        (lambda: tg.rgb_to_hsv(np.zeros(3, np.uint8)), DtypeError, "floating"),
        (lambda: tg.rgb_to_grayscale(np.zeros(3, np.complex64)), DtypeError, "floating"),
        (lambda: tg.ssim(X, X, 1.0, filter_size=0), GraphError, "at least one"),
    ],
)
def test_what_is_no_image_is_refused_while_the_graph_is_built(call, error, message):
    with tg.Graph().as_default(), pytest.raises(error, match=message):
        call()


def test_images_of_no_size_are_refused():
    for x, size in ((X[:, :0], [2, 2]), (X, [0, 2])):
        with pytest.raises(tg.OpError, match="at least one row and column"):
            tg.function(lambda: tg.resize_bilinear(x, size)).sync()  # noqa: B023


def test_crops_of_integers_are_of_the_dtype_of_the_boxes():
    x = np.arange(12, dtype=np.uint8).reshape(1, 3, 4, 1)
    boxes = np.array([[1.0, 1, 0, 0], [np.nan] * 4, [0.5, 0.0, 3.0, 1.0]])
    for method in ("bilinear", "nearest"):
        crops = tg.function(lambda: tg.crop_and_resize(x, boxes, [0, 0, 0], [3, 4], method, -1.0)).sync()  # noqa: B023
        assert crops.dtype == np.float64
        np.testing.assert_array_equal(crops[0, :, :, 0], x[0, ::-1, ::-1, 0])
        assert (crops[1] == -1).all()
        assert (crops[2, 1:] == -1).all()


def test_a_box_in_an_image_that_there_is_not_is_refused():
    for which in (-1, 2):
        with pytest.raises(tg.OpError, match="gather"):
            tg.function(lambda: tg.crop_and_resize(X, [[0.0, 0.0, 1.0, 1.0]], [which], [2, 2])).sync()  # noqa: B023


def test_a_step_counts_the_boxes_where_the_graph_does_not_know_how_many():
    with tg.Graph().as_default() as graph:
        which = tg.placeholder("int32")
        crops = tg.crop_and_resize(X, tg.placeholder_with_default([[0.0, 0.0, 1.0, 1.0]] * 3, [None, 4]), which, [2, 2])
    with tg.SyncSession(graph) as session:
        assert session.run(crops, {which: [0, 1, 0]}).shape == (3, 2, 2, 3)
        with pytest.raises(tg.OpError, match="Reshape"):
            session.run(crops, {which: [0]})


def test_crops_have_gradients_by_images_and_boxes():
    boxes = np.array([[0.11, 0.83, 0.72, 0.24], [-0.3, 0.2, 0.6, 1.3]])

    def total(x, boxes):
        return tg.reduce_sum(tg.crop_and_resize(x, boxes, [1, 0], [3, 2]) ** 2.0)

    slopes = tg.grad(total, argnums=(0, 1)).sync(X, boxes)
    run = tg.function(total)
    for k, (at, slope) in enumerate(zip((X, boxes), slopes, strict=True)):
        direction = RANDOM.standard_normal(at.shape)
        ends = [[X, boxes], [X, boxes]]
        for end, sign in zip(ends, (1, -1), strict=True):
            end[k] = at + sign * 1e-6 * direction
        difference = (run.sync(*ends[0]) - run.sync(*ends[1])) / 2e-6
        np.testing.assert_allclose((slope * direction).sum(), difference, rtol=1e-6)


def test_patches_of_booleans_are_those_of_a_reshape():
    x = RANDOM.random((1, 4, 4, 2)) < 0.5
    found = tg.function(lambda: tg.extract_image_patches(x, 2, 2, 1, "VALID")).sync()
    wanted = x.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 2, 8)
    np.testing.assert_array_equal(found, wanted)


def test_erosion_is_by_the_kernel_turned_around():
    x, kernel = X[:1, :, :, :1], RANDOM.standard_normal((2, 3, 1))
    found = tg.function(lambda: tg.erosion2d(x, kernel)).sync()[0, :, :, 0]
    wanted = [[(x[0, i : i + 2, j : j + 3, 0] - kernel[::-1, ::-1, 0]).min() for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(found, wanted)


def test_a_turned_image_comes_back_after_four_quarters():
    for x in (X, X[0], X[None]):
        turned = tg.function(lambda: [tg.rot90(x, k) for k in range(-1, 4)]).sync()  # noqa: B023
        np.testing.assert_array_equal(turned[1], x)
        np.testing.assert_array_equal(turned[0], turned[4])
        np.testing.assert_array_equal(turned[2], np.rot90(x, axes=(-3, -2)))
        np.testing.assert_array_equal(turned[3], np.rot90(x, 2, axes=(-3, -2)))


def test_images_without_contrast_become_zero():
    x = np.full((2, 3, 3, 1), 7, np.uint8)
    found = tg.function(lambda x: tg.per_image_standardization(x), input_signature=[tg.TensorSpec(None, "uint8")])
    assert found.sync(x).dtype == np.float32
    assert not found.sync(x).any()


def test_images_without_contrast_have_a_gradient():
    slope = tg.grad(lambda x: tg.reduce_sum(tg.per_image_standardization(x)[0, 0]))
    found = slope.sync(np.ones((2, 2, 1)))
    np.testing.assert_allclose(found.ravel(), 2 * np.array([0.75, -0.25, -0.25, -0.25]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_standardized_in_float32(dtype):
    run = tg.function(lambda x: tg.per_image_standardization(tg.cast(x, dtype)))
    assert run.sync(np.array([[[1000.0], [-1000.0]]])).ravel().tolist() == [1, -1]
    assert not run.sync(np.full((300, 300, 1), 3.0)).any()
    assert run.sync(X[0]).dtype == tg.as_dtype(dtype).numpy


def test_colours_go_there_and_back():
    x = RANDOM.uniform(0, 1, (4, 5, 3))
    np.testing.assert_allclose(tg.function(lambda: tg.hsv_to_rgb(tg.rgb_to_hsv(x))).sync(), x, rtol=1e-12)
    slope = tg.grad(lambda x: tg.reduce_sum(tg.rgb_to_hsv(x))).sync(np.full((1, 3), 0.5))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_compared_in_float32(dtype):
    kind = tg.as_dtype(dtype).numpy
    x = RANDOM.random((8, 8, 1)).astype(kind)
    y = np.clip(x.astype(float) + RANDOM.normal(0, 0.01, x.shape), 0, 1).astype(kind)
    for measure in (tg.psnr, lambda *given: tg.ssim(*given, filter_size=3)):
        found = tg.function(lambda: measure(x, y, 1.0)).sync()  # noqa: B023
        wanted = tg.function(lambda: measure(x.astype(float), y.astype(float), 1.0)).sync()  # noqa: B023
        assert found.dtype == kind
        np.testing.assert_allclose(float(found), wanted, rtol=5e-3)
    near = np.full((2, 2, 1), 1e-4).astype(kind)
    assert np.isfinite(tg.function(lambda: tg.psnr(near, near * kind.type(0), 1.0)).sync())


def test_the_largest_value_may_be_a_tensor():
    for dtype, most in (("float64", 1.0), ("uint8", 255)):
        x = (np.abs(X[0]) * 40).astype(dtype)
        for measure in (tg.psnr, lambda *given: tg.ssim(*given, filter_size=3)):
            run = tg.function(lambda m: measure(x, x[:, ::-1], m))  # noqa: B023
            assert run.sync(np.array(most, dtype)) == tg.function(lambda: measure(x, x[:, ::-1], most)).sync()  # noqa: B023


def test_equal_images_are_alike():
    x = RANDOM.uniform(0, 1, (2, 12, 13, 3))
    alike, noise = tg.function(lambda: (tg.ssim(x, x, 1.0), tg.psnr(x, x, 1.0))).sync()
    np.testing.assert_allclose(alike, 1)
    assert np.isinf(noise).all()


def test_a_step_refuses_images_that_are_smaller_than_what_is_compared():
    run = tg.function(lambda x: tg.ssim(x, x, 1.0, 4), input_signature=[tg.TensorSpec([None, None, 1], "float64")])
    assert run.sync(X[0, :, :, :1]) == 1
    with pytest.raises(tg.OpError, match="windows of 4"):
        run.sync(X[0, :, :3, :1])


def test_boxes_with_half_the_precision():
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 1, 1, 2]], np.float16)
    call = tg.function(lambda: tg.non_max_suppression(boxes, np.float16([0.1, 0.2, np.nan]), 5))
    assert call.sync().tolist() == [1]
