"""Images in pipelines."""

import asyncio
import importlib
import io

import numpy as np
import pytest
import tagloom as tg
from PIL import Image

from tests.data.running import collect, plain


def pattern(height=5, width=7):
    return np.random.default_rng(0).integers(0, 256, [height, width, 3], np.uint8)


def test_files_are_decoded(tmp_path):
    for i in range(3):
        Image.fromarray(pattern() + np.uint8(i)).save(tmp_path / f"{i}.png")
    data = tg.data.from_images(f"{tmp_path}/*.png")
    assert str(data.element_spec) == "(string[], uint8[?,?,3])"
    found = asyncio.run(collect(data))
    assert [path for path, _ in found] == [f"{tmp_path}/{i}.png" for i in range(3)]
    for i, (_, image) in enumerate(found):
        np.testing.assert_array_equal(image, pattern() + np.uint8(i))


@pytest.mark.parametrize(("channels", "shape"), [(1, (5, 7, 1)), (3, (5, 7, 3)), (4, (5, 7, 4))])
def test_channels(channels, shape):
    file = io.BytesIO()
    Image.fromarray(pattern()).save(file, "png")
    assert tg.data.decode_image(file.getvalue(), channels).shape == shape
    with pytest.raises(tg.GraphError, match="channels"):
        tg.data.decode_image(file.getvalue(), 2)


def test_a_file_that_is_no_image_is_an_error_that_names_it(tmp_path):
    (tmp_path / "a.png").write_bytes(b"nothing of the kind")
    (error,) = asyncio.run(collect(tg.data.from_images(tmp_path / "a.png")))
    assert isinstance(error, tg.PipelineError)
    assert "no image that Pillow knows" in str(error)


def test_without_pillow_the_extra_is_named(monkeypatch):
    def missing(name, *_):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(tg.GraphError, match=r"tagloom\[images\]"):
        tg.data.decode_image(b"")


def test_random_parts_are_parts():
    image, rng = pattern(), np.random.default_rng(1)
    places = set()
    for _ in range(200):
        part = tg.data.random_crop(image, (4, 5), rng)
        (place,) = [(i, j) for i in range(2) for j in range(3) if np.array_equal(image[i : i + 4, j : j + 5], part)]
        places.add(place)
    assert len(places) == 6
    assert np.array_equal(tg.data.random_crop(image, (5, 7), rng), image)
    with pytest.raises(tg.ShapeError, match="smaller"):
        tg.data.random_crop(image, (6, 7), rng)


def test_half_are_flipped():
    image, rng = pattern(), np.random.default_rng(1)
    flipped = sum(np.array_equal(tg.data.random_flip(image, rng), image[:, ::-1]) for _ in range(400))
    assert 150 < flipped < 250


def test_distortions_do_what_they_say():
    image, rng = pattern(), np.random.default_rng(1)
    plain_ = tg.data.random_distort(image, rng, 0, (1, 1), (1, 1))
    np.testing.assert_allclose(plain_, image / 255, atol=1e-6)
    gray = tg.data.random_distort(image, rng, 0, (1, 1), (0, 0))
    np.testing.assert_allclose(gray[..., 0], gray[..., 2], atol=1e-6)
    flat = tg.data.random_distort(image, rng, 0, (0, 0), (1, 1))
    np.testing.assert_allclose(flat, np.broadcast_to((image / 255).mean((0, 1)), image.shape), atol=1e-5)
    some = tg.data.random_distort(image, rng)
    assert some.dtype == np.float32
    assert 0 <= some.min() <= some.max() <= 1
    assert plain(image) == plain(pattern())  # is not written to


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_of_16_bits_the_upper_ones_are_taken(channels):
    file = io.BytesIO()
    Image.fromarray(np.array([[0x0000, 0x00FF, 0x4000, 0xFFFF]], np.uint16)).save(file, "png")
    pixels = tg.data.decode_image(file.getvalue(), channels)
    assert pixels[0, :, 0].tolist() == [0, 0, 0x40, 0xFF]
