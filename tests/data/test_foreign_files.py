"""Files that others wrote, whole, damaged or odd: they are read, or refused by an error that names the file."""

import io
import zipfile

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes

from tests.data.running import run

HEADER = b"\x93NUMPY\x01\x00"


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name + ".npy", data)
    return path


def array_file(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


DAMAGED_MEMBERS = {
    "nothing": b"",
    "no array": b"hello",
    "a version of tomorrow": b"\x93NUMPY\x09\x00garbage",
    "half a header": HEADER + b"\x10\x00{'descr': 'f4'   ",
    "keys that have no order": HEADER + b"\x14\x00{'descr': '<f4', 1: 2}"[:22],
    "a header that is no literal": HEADER + b"\x08\x00{open()}",
}


@pytest.mark.parametrize("data", DAMAGED_MEMBERS.values(), ids=DAMAGED_MEMBERS)
def test_arrays_whose_header_is_damaged_are_refused(tmp_path, data):
    with pytest.raises(tg.GraphError, match="npz file cannot be read") as caught:
        tg.data.from_npz(archive(tmp_path / "a.npz", x=data))
    assert str(tmp_path / "a.npz") in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"hello", array_file(np.arange(3))], ids=["empty", "text", "npy"])
def test_what_is_no_archive_is_refused(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(tg.GraphError, match="npz file cannot be read"):
        tg.data.from_npz(tmp_path / "a.npz")


def test_any_byte_of_an_archive_may_be_damaged(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(4))
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            found = run(tg.data.from_npz(path))
        except tg.GraphError:
            continue
        errors = [each for each in found if isinstance(each, Exception)]  # where only the data are damaged
        assert all(isinstance(each, tg.PipelineError) for each in errors), place


def test_an_archive_of_other_layouts_is_read(tmp_path):
    members = {"v": array_file(np.arange(2, dtype=">i2"), version=(3, 0)), "u": array_file(np.array(["ä", "b"]))}
    found = run(tg.data.from_npz(archive(tmp_path / "a.npz", **members)))
    assert found == [{"v": 0, "u": "ä"}, {"v": 1, "u": "b"}]
    assert run(tg.data.from_npz(tmp_path / "a.npz", "v")) == [{"v": 0}, {"v": 1}]


@pytest.mark.parametrize("value", [np.arange(3), np.arange(6.0).reshape(2, 3), np.zeros((0, 2)), np.arange(6)[::2]])
def test_arrays_are_written_as_their_bytes(tmp_path, value):
    with tg.data.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        writer.write(value)
        writer.write(memoryview(value))
        writer.write(b"end")
    assert run(tg.data.from_tfrecord(tmp_path / "a.tfrecord")) == [value.tobytes(), value.tobytes(), b"end"]


@pytest.mark.parametrize("value", ["text", 3, None, ["a"]])
def test_records_that_are_no_bytes_are_refused(tmp_path, value):
    with tg.data.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        with pytest.raises(tg.DtypeError, match="made of bytes"):
            writer.write(value)
        writer.write(b"whole")
    assert run(tg.data.from_tfrecord(tmp_path / "a.tfrecord")) == [b"whole"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.array([["a", "ä"], ["b", ""]]), [b"a", "ä".encode(), b"b", b""]),
        ([["a", b"b"], ["c", "d"]], [b"a", b"b", b"c", b"d"]),
        ([[b"a\0"], [b"b"]], [b"a\0", b"b"]),
        (np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (np.array(["a", b"b"], object), [b"a", b"b"]),
        (np.array(["a"], np.dtypes.StringDType()), [b"a"]),
        (np.array([], np.dtypes.StringDType()), []),
        (bytearray(b"ab"), [b"ab"]),
        (memoryview(b"ab"), [b"ab"]),
        (np.ones([1, 2], dtypes.bfloat16.numpy), [1.0, 1.0]),
        ([np.inf, -np.inf], [np.inf, -np.inf]),
        ([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
        (np.array([7], np.uint64), [7]),
    ],
)
def test_features_of_an_example(value, wanted):
    found = tg.data.parse_example(tg.data.make_example({"k": value}))["k"]
    assert list(found) == wanted


@pytest.mark.parametrize("value", [[2**63], [2**70], [1e300], [1j], ["a", 1], [[1], [2, 3]], None])
def test_features_that_would_change_are_refused(value):
    with pytest.raises(tg.DtypeError, match="feature 'k'"):
        tg.data.make_example({"k": value})


def test_features_have_names():
    for features in ([1], {1: [2]}):
        with pytest.raises(tg.DtypeError, match="have names"):
            tg.data.make_example(features)


@pytest.mark.parametrize("record", ["text", None, 3])
def test_what_is_no_record_is_no_example(record):
    with pytest.raises(tg.TagloomError, match=r"no tf\.train\.Example"):
        tg.data.parse_example(record)


def test_files_are_named_by_paths(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n")
    assert run(tg.data.from_text(str(tmp_path / "a.txt").encode())) == ["one"]
    for wrong in (3, None, [None]):
        with pytest.raises(tg.GraphError, match="these are not files"):
            tg.data.from_text(wrong)


def test_a_file_shorter_than_its_header_is_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"12345")
    (error,) = run(tg.data.from_fixed_length_records(tmp_path / "a.bin", 2, header_bytes=9))
    assert "fewer bytes than its header" in str(error)
    assert run(tg.data.from_fixed_length_records(tmp_path / "a.bin", np.int64(2), header_bytes=5)) == []


@pytest.mark.parametrize("data", [b"", b"hello"])
def test_bytes_that_are_no_image_are_named(data):
    pytest.importorskip("PIL")
    with pytest.raises(OSError, match="no image that Pillow knows") as caught:
        tg.data.decode_image(data)
    assert "BytesIO" not in str(caught.value)


def test_images_whose_levels_are_unknown_are_refused():
    images = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    images.fromarray(np.ones([2, 2], np.float32)).save(file, "tiff")
    for channels in (1, 3):
        with pytest.raises(tg.DtypeError, match="image of floats"):
            tg.data.decode_image(file.getvalue(), channels)
    with pytest.raises(tg.DtypeError, match="from its bytes"):
        tg.data.decode_image("picture.png")


def test_a_graphs_text_may_begin_with_a_byte_order_mark():
    with tg.Graph().as_default() as graph:
        tg.exp(1.0)
    text = graph.to_text()
    assert tg.Graph.from_text("\ufeff" + text.replace("\n", "\r\n")).to_text() == text
    for wrong in (text.encode(), None):
        with pytest.raises(tg.GraphError, match="made from its text"):
            tg.Graph.from_text(wrong)
