"""Frames around boxes: where they are, and what gradients reach."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.testing import check_gradients

IMAGES = np.arange(2 * 5 * 6 * 2, dtype=np.float64).reshape(2, 5, 6, 2)
BOXES = np.array([[[0.0, 0.0, 0.5, 0.5], [0.3, -0.5, 1.0, 0.9]], [[0.5, 0.5, 0.2, 0.9], [1.5, 0.0, 2.0, 1.0]]])
COLORS = np.array([[-1.0, -2.0, 5.0], [-3.0, -4.0, 5.0]])


def test_a_box_that_is_turned_around_or_outside_is_not_drawn():
    drawn = tg.function(lambda: tg.draw_bounding_boxes(IMAGES, BOXES, COLORS)).sync()
    np.testing.assert_array_equal(drawn[1], IMAGES[1])
    assert drawn[0, 0, 0].tolist() == [-1, -2]
    assert drawn[0, [1, 4], 0].tolist() == [[-3, -4]] * 2
    np.testing.assert_array_equal(drawn[0, 3, 0], IMAGES[0, 3, 0])  # no line at the left, outside of the image


def test_gradients_reach_images_and_colors():
    check_gradients(lambda x, c: tg.reduce_sum(tg.draw_bounding_boxes(x, BOXES, c) ** 2.0), [IMAGES / 60, COLORS])


def test_images_of_bytes_have_colors_of_their_own():
    drawn = tg.function(lambda: tg.draw_bounding_boxes(np.zeros([1, 3, 3, 3], np.uint8), [[[0.0] * 4]])).sync()
    assert drawn[0, 0, 0].tolist() == [255, 255, 0]


def test_without_boxes_nothing_is_drawn():
    drawn = tg.function(lambda: tg.draw_bounding_boxes(IMAGES, np.zeros([2, 0, 4]), COLORS)).sync()
    np.testing.assert_array_equal(drawn, IMAGES)


@pytest.mark.parametrize(
    ("boxes", "colors", "match"),
    [
        (np.zeros([1, 3, 4]), COLORS, "contradict"),
        (np.zeros([2, 3, 3]), COLORS, "contradict"),
        (BOXES, np.zeros([2, 1]), "each colour has a number"),
        (BOXES, np.zeros([2]), "each colour has a number"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(boxes, colors, match):
    with tg.Graph().as_default(), pytest.raises(tg.ShapeError, match=match):
        tg.draw_bounding_boxes(IMAGES, boxes, colors)


def test_what_a_step_brings_is_checked():
    with tg.Graph().as_default() as graph:
        images, colors = tg.placeholder("float64", None), tg.placeholder("float64", None)
        drawn = tg.draw_bounding_boxes(images, BOXES, colors)
    with tg.SyncSession(graph) as session:
        for feeds in ({images: IMAGES[:1], colors: COLORS}, {images: IMAGES, colors: np.zeros([0, 2])}):
            with pytest.raises(tg.OpError, match="draw_bounding_boxes"):
                session.run(drawn, feeds)


def test_more_channels_than_colors_have_are_refused():
    with tg.Graph().as_default(), pytest.raises(tg.ShapeError, match="at most 4 channels"):
        tg.draw_bounding_boxes(np.zeros([1, 3, 3, 5]), [[[0.0] * 4]])
