"""Image files in graphs: what Pillow writes is read, and the other way round."""

import io
import sys

import numpy as np
import pytest
import tagloom as tg

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(2).integers(0, 256, (5, 7, 4)).astype(np.uint8)


def file_of(pixels, form="PNG", mode=None, **options):
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    file = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(file, form, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def value(build):
    return tg.function(build).sync()


@pytest.mark.parametrize("form", ["PNG", "BMP", "GIF"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_files_without_loss(form, channels):
    pixels = PIXELS[..., :channels]
    if form == "GIF":
        if channels != 1:
            pytest.skip("has a palette")
        found = value(lambda: tg.decode_image(file_of(pixels, form), 1))
    else:
        found = value(lambda: tg.decode_image(file_of(pixels, form)))
    if form == "BMP" and channels == 4:
        pixels = found  # Pillow's file has no alpha
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_that_are_asked_for(channels):
    found = tg.function(lambda: tg.decode_image(file_of(PIXELS[..., :3]), channels))
    wanted = np.asarray(Image.fromarray(PIXELS[..., :3]).convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]))
    np.testing.assert_array_equal(found.sync(), wanted.reshape(5, 7, channels))
    with tg.Graph().as_default():
        assert tg.decode_image(tg.placeholder("uint8"), channels).shape == [None, None, channels]
        assert tg.decode_image(tg.placeholder("uint8")).shape == [None] * 3


def test_palettes_become_colours():
    palette = file_of(PIXELS[..., :3], mode="P")
    with Image.open(io.BytesIO(palette.tobytes())) as image:
        np.testing.assert_array_equal(value(lambda: tg.decode_image(palette)), np.asarray(image.convert("RGB")))


def test_sixteen_bits_keep_the_upper_eight():
    gray = np.array([[0, 256], [40000, 65535]], np.uint16)
    found = value(lambda: tg.decode_image(file_of(gray[..., None])))
    assert found[..., 0].tolist() == [[0, 1], [156, 255]]


@pytest.mark.parametrize("compression", [-1, 0, 9])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_what_is_encoded_is_read_by_pillow(channels, compression):
    data = value(lambda: tg.encode_png(PIXELS[..., :channels], compression))
    with Image.open(io.BytesIO(data.tobytes())) as image:
        assert image.format == "PNG"
        np.testing.assert_array_equal(np.asarray(image).reshape(5, 7, channels), PIXELS[..., :channels])


@pytest.mark.parametrize("channels", [1, 3])
def test_jpegs(channels):
    smooth = np.linspace(0, 255, 64 * channels).reshape(8, 8, channels).astype(np.uint8)
    found = value(lambda: tg.decode_image(tg.encode_jpeg(smooth)))
    assert np.abs(found.astype(int) - smooth).mean() < 4
    assert value(lambda: tg.encode_jpeg(smooth, 5)).size < value(lambda: tg.encode_jpeg(smooth, 100)).size


def test_of_a_file_in_a_graph(tmp_path):
    path = str(tmp_path / "image.png")
    with tg.Graph().as_default() as graph:
        written = tg.write_file(path, tg.encode_png(PIXELS))
        with tg.control_dependencies([written]):
            again = tg.decode_image(tg.read_file(path))
    with tg.SyncSession(graph) as session:
        np.testing.assert_array_equal(session.run(again), PIXELS)


@pytest.mark.parametrize("data", [b"", b"no image", file_of(PIXELS).tobytes()[:40]])
def test_damaged_files(data):
    with pytest.raises(tg.OpError) as caught:
        value(lambda: tg.decode_image(np.frombuffer(data, np.uint8)))
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tg.decode_image("text"), tg.DtypeError),
        (lambda: tg.decode_image(np.zeros((2, 2), np.uint8)), tg.ShapeError),
        (lambda: tg.decode_image(np.zeros(2, np.uint8), 2), tg.GraphError),
        (lambda: tg.encode_png(np.zeros((2, 2, 3), np.float32)), tg.DtypeError),
        (lambda: tg.encode_png(np.zeros((2, 2), np.uint8)), tg.ShapeError),
        (lambda: tg.encode_png(np.zeros((2, 2, 2), np.uint8)), tg.ShapeError),
        (lambda: tg.encode_jpeg(np.zeros((2, 2, 4), np.uint8)), tg.ShapeError),
        (lambda: tg.encode_png(PIXELS, 10), tg.GraphError),
        (lambda: tg.encode_jpeg(PIXELS[..., :3], 0), tg.GraphError),
    ],
)
def test_what_is_refused(graph, build, error):
    with pytest.raises(error):
        build()


def test_without_pillow(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    for build in (lambda: tg.decode_image(np.zeros(2, np.uint8)), lambda: tg.encode_png(PIXELS)):
        with pytest.raises(tg.GraphError, match=r"tagloom\[images\]"):
            build()
