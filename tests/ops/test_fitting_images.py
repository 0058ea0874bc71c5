"""Images resized with their proportions, compared in several sizes, and boxes whose scores decay."""

import numpy as np
import pytest
import tagloom as tg

IMAGE = np.arange(4 * 6, dtype=np.float32).reshape(4, 6, 1)


@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic", "area"])
@pytest.mark.parametrize("size", [(4, 6), (9, 6), (2, 7), (1, 20), (3, 3)])
def test_static_and_late_sizes_agree(method, size):
    with tg.Graph().as_default() as graph:
        image = tg.placeholder("float32", [None, None, 1])
        height, width = tg.placeholder("int32", []), tg.placeholder("int32", [])
        late = tg.resize_image_with_pad(image, height, width, method)
        early = tg.resize_image_with_pad(IMAGE, *size, method)
    with tg.SyncSession(graph) as session:
        found = session.run([late, early], {image: IMAGE, height: size[0], width: size[1]})
    assert early.shape == [*size, 1]
    np.testing.assert_array_equal(*found)


def test_the_image_stands_in_the_middle():
    found = tg.function(lambda: tg.resize_image_with_pad(IMAGE, 7, 6)).sync()
    np.testing.assert_array_equal(found[1:5], IMAGE)
    assert not found[[0, 5, 6]].any()


def test_a_method_that_there_is_not():
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="method"):
        tg.resize_image_with_pad(IMAGE, 7, 6, "lanczos")


def test_sizes_of_comparisons_that_windows_do_not_fit_into():
    x = np.zeros([1, 16, 16, 1], np.float32)
    with tg.Graph().as_default(), pytest.raises(tg.ShapeError, match="smaller than the windows"):
        tg.ssim_multiscale(x, x, 1.0)
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="compared in sizes"):
        tg.ssim_multiscale(x, x, 1.0, [])


def test_images_of_unknown_size_are_halved_alike():
    x = np.random.default_rng(0).random([2, 15, 13, 2], np.float32)
    y = x**2
    with tg.Graph().as_default() as graph:
        late = tg.placeholder("float32", [None, None, None, None])
        values = [tg.ssim_multiscale(a, y, 1.0, [0.4, 0.6], 3) for a in (x, late)]
    with tg.SyncSession(graph) as session:
        first, second = session.run(values, {late: x})
    np.testing.assert_allclose(first, second, rtol=1e-6)
    assert (first > 0).all()
    assert (first < 1).all()


def test_scores_that_decay_change_the_order_and_end_below_the_threshold():
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [3, 3, 4, 4]], np.float32)

    def choose(least):
        return tg.function(
            lambda: tg.non_max_suppression_with_scores(boxes, [0.9, 0.8, 0.5], 3, 1.0, least, 0.5)
        ).sync()

    chosen, scores = choose(0.0)
    assert chosen.tolist() == [0, 2, 1]
    np.testing.assert_allclose(scores, [0.9, 0.5, 0.8 * np.exp(-(0.9**2))], rtol=1e-6)
    assert choose(0.4)[0].tolist() == [0, 2]


def test_padding_of_chosen_boxes_has_a_known_shape():
    with tg.Graph().as_default():
        chosen, count = tg.non_max_suppression_padded(np.zeros([3, 4]), np.zeros(3), 5, pad_to_max_output_size=True)
    assert (chosen.shape, count.shape) == ([5], [])
