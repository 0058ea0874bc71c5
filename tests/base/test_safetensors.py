"""Files of arrays: every dtype comes back, the format's own library reads them, and no header is believed."""

import errno
import fcntl
import json
import os
import struct
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.safetensors import DamagedFile, TensorFile, reading, save_file, streams, write_tensors
from tagloom.base.safetensors.layout import LARGE, READ, SMALL_FLOATS
from tagloom.base.safetensors.streams import DIRECT, PIECE

VALUES = [np.zeros([0, 3]), np.array(3.0), np.arange(-2.0, 4.0).reshape(2, 3), np.linspace(-2, 2, 24).reshape(2, 3, 4)]
NUMERIC = [d for d in dtypes.VALUES if d is not dtypes.string]


def write(path, tensors, **options):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        return write_tensors(file, str(path), tensors.items(), **options)
    finally:
        os.close(file)


def read(path):
    with TensorFile(path) as file:
        return {name: array.copy() for name, array in file.items()}


def same(left, right):
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_numbers_come_back_bit_for_bit(tmp_path, dtype):
    with np.errstate(all="ignore"):
        wanted = {f"v{i}": value.astype(dtype.numpy) for i, value in enumerate(VALUES)}
    size = write(tmp_path / "file", wanted)
    assert size == os.path.getsize(tmp_path / "file")
    found = read(tmp_path / "file")
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        same(found[name], value)


def test_strings_come_back(tmp_path):
    wanted = {
        "s": np.array([["a", "ä€😀"], ["", "nul\0"]], dtypes.string.numpy),
        "none": np.zeros([0, 2], dtypes.string.numpy),
    }
    write(tmp_path / "file", wanted | {"x": np.array([1], np.int8)})
    found = read(tmp_path / "file")
    assert sorted(found) == ["none", "s", "x"]
    assert found["s"].tolist() == wanted["s"].tolist()
    assert found["none"].shape == (0, 2)


def test_arrays_lie_as_their_rows_do_and_little_endian(tmp_path):
    base = np.arange(24, dtype=">f4").reshape(4, 6)
    write(tmp_path / "file", {"columns": base[:, ::2], "transposed": base.T, "z": base.astype(">c8")})
    found = read(tmp_path / "file")
    for name, value in (("columns", base[:, ::2]), ("transposed", base.T), ("z", base.astype("c8"))):
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype.isnative


def test_metadata_come_back_and_arrays_are_aligned(tmp_path):
    write(tmp_path / "file", {"b": np.ones(3, bool), "d": np.ones(2)}, metadata={"who": "us"})
    with TensorFile(tmp_path / "file") as file:
        assert file.metadata == {"who": "us"}
        assert repr(file["d"]) == "<d float64[2]>"
    text = (tmp_path / "file").read_bytes()
    length = struct.unpack("<Q", text[:8])[0]
    header = json.loads(text[8 : 8 + length])
    assert (8 + length + header["d"]["data_offsets"][0]) % 8 == 0


def test_a_dtype_that_it_has_not_is_refused(tmp_path):
    for value in (np.array([object()]), np.zeros(1, "M8[s]"), np.zeros(1, [("a", "f4")])):
        with pytest.raises(tg.CheckpointError, match="cannot be saved") as caught:
            write(tmp_path / "file", {"x": value})
        assert caught.value.variable == "x"


def test_two_arrays_of_one_name_are_refused(tmp_path):
    with pytest.raises(tg.CheckpointError, match="one name"):
        write(tmp_path / "file", {"s:lengths": np.zeros(1), "s": np.array(["a"], dtypes.string.numpy)})


def test_the_formats_own_library_reads_them_and_is_read(tmp_path):
    theirs = pytest.importorskip("safetensors.numpy")
    wanted = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "i": np.array(-3, np.int64), "b": np.array([True])}
    write(tmp_path / "ours", wanted)
    theirs.save_file(wanted, tmp_path / "theirs")
    for found in (theirs.load_file(tmp_path / "ours"), read(tmp_path / "theirs")):
        for name, value in wanted.items():
            same(found[name], value)


def test_the_layout_is_that_of_the_format(tmp_path):
    """Held against bytes that were written out by hand, as the library may not be installed."""
    write(tmp_path / "file", {"a": np.array([[1, 2]], "<u2")})
    header = b'{"a":{"dtype":"U16","shape":[1,2],"data_offsets":[0,4]}}'
    assert (tmp_path / "file").read_bytes() == struct.pack("<Q", len(header)) + header + b"\1\0\2\0"


def test_complex64_is_the_formats_own_and_our_old_pairs_are_read(tmp_path):
    theirs = pytest.importorskip("safetensors.numpy")
    wanted = {"z": np.array([[1 + 2j, -3j]], np.complex64)}
    write(tmp_path / "ours", wanted)
    same(theirs.load_file(tmp_path / "ours")["z"], wanted["z"])
    theirs.save_file(wanted, tmp_path / "theirs")
    same(read(tmp_path / "theirs")["z"], wanted["z"])
    old = {"x": entry(shape=(1, 2, 2), offsets=(0, 16)), "__metadata__": {"dtypes": '{"x": "complex64"}'}}
    (tmp_path / "old").write_bytes(made(old, wanted["z"].tobytes()))
    same(read(tmp_path / "old")["x"], wanted["z"])


@pytest.mark.parametrize("text", ["float32", '["U8"]', '{"x": "torch.float32"}', '{"x": 1}'])
def test_others_may_use_our_key_of_the_metadata(tmp_path, text):
    header = {"x": entry(shape=(1,), offsets=(0, 4)), "__metadata__": {"dtypes": text}}
    (tmp_path / "file").write_bytes(made(header, np.ones(1, np.float32).tobytes()))
    assert read(tmp_path / "file")["x"].tolist() == [1.0]


@pytest.mark.parametrize("name", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"])
def test_floats_of_8_bits_are_read(tmp_path, name):
    header = {"x": entry(dtype=name, shape=(4,), offsets=(0, 4)), "y": entry(dtype="U8", shape=(1,), offsets=(4, 5))}
    (tmp_path / "file").write_bytes(made(header, bytes([0x3C, 0x3D, 0x40, 0x38, 7])))
    found = read(tmp_path / "file")
    assert found["y"].tolist() == [7]
    assert found["x"].dtype == SMALL_FLOATS[name]
    if name == "F8_E5M2":
        assert found["x"].astype(np.float32).tolist() == [1.0, 1.25, 2.0, 0.5]


@pytest.mark.parametrize("name", ["F4", "F6_E2M3", "F128", "a dtype of tomorrow"])
def test_an_array_of_an_unknown_dtype_is_refused_and_the_others_are_not(tmp_path, name):
    header = {"x": entry(dtype=name, shape=(16,), offsets=(0, 8)), "y": entry(dtype="U8", shape=(1,), offsets=(8, 9))}
    (tmp_path / "file").write_bytes(made(header, bytes(8) + b"\7"))
    with TensorFile(tmp_path / "file") as file:
        assert file["y"].copy().tolist() == [7]
        assert repr(file["x"]) == f"<x {name}[16]>"
        with pytest.raises(tg.CheckpointError, match="a dtype that is not read") as caught:
            file["x"].copy()
        assert not isinstance(caught.value, DamagedFile)
        assert (caught.value.variable, caught.value.got) == ("x", name)


@pytest.mark.parametrize("size", [0, 1, READ - 1, READ, READ + 1, LARGE, LARGE + 5])
def test_checksums_are_of_pieces_and_looked_at(tmp_path, size):
    wanted = {"a": np.random.default_rng(0).integers(0, 255, size, np.uint8), "s": np.array(["ä", "b"], "T")}
    sums = {}
    write(tmp_path / "file", wanted, checksums=sums)
    assert {name: len(each) for name, each in sums.items()} == {"a": -(-size // READ), "s": 1, "s:lengths": 1}
    with TensorFile(tmp_path / "file") as file:
        file.checksums = sums
        same(file["a"].copy(), wanted["a"])
        assert file["s"].copy().tolist() == ["ä", "b"]
        if size:
            file.checksums = sums | {"a": [*sums["a"][:-1], sums["a"][-1] ^ 1]}
            with pytest.raises(DamagedFile, match="another checksum"):
                file["a"].copy()
        file.checksums = sums | {"a": [*sums["a"], 1], "s:lengths": [0]}
        for name, message in (("a", "not those of its arrays"), ("s", "another checksum")):
            with pytest.raises(DamagedFile, match=message):
                file[name].copy()


# ---- what is no such file


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


HEADERS = {
    "dtype no string": ({"x": entry(dtype=["F32"])}, "has no dtype"),
    "unknown dtype backwards": ({"x": entry(dtype="F128", offsets=(8, 0))}, "size of its shape"),
    "unknown dtype beyond the end": ({"x": entry(dtype="F128", offsets=(0, 4000))}, "size of its shape"),
    "unknown dtype in a hole": ({"x": entry(dtype="F128", offsets=(0, 4))}, "longer or shorter"),
    "negative size": ({"x": entry(shape=(-2,))}, "no shape"),
    "sizes that are no numbers": ({"x": entry(shape=("2",))}, "no shape"),
    "a size that is a bool": ({"x": entry(shape=(True,), offsets=(0, 4))}, "no shape"),
    "huge sizes": ({"x": entry(shape=(1 << 40, 1 << 40))}, "size of its shape"),
    "sizes whose product wraps around": ({"x": entry(shape=(1 << 61, 8, 2))}, "size of its shape"),
    "sizes beyond 64 bits": ({"x": entry(shape=(1 << 70,))}, "no shape"),
    "too many dimensions": ({"x": entry(shape=(1,) * 65, offsets=(0, 4))}, "no shape"),
    "offsets beyond the end": ({"x": entry(shape=(1000,), offsets=(0, 4000))}, "size of its shape"),
    "offsets backwards": ({"x": entry(offsets=(8, 0))}, "size of its shape"),
    "three offsets": ({"x": entry(offsets=(0, 4, 8))}, "no place"),
    "no offsets": ({"x": {"dtype": "F32", "shape": [2]}}, "no place"),
    "an entry that is a list": ({"x": [1]}, "has no dtype"),
    "two arrays in one place": ({"x": entry(), "y": entry()}, "follow each other"),
    "a hole": ({"x": entry(shape=(1,), offsets=(4, 8))}, "follow each other"),
    "too little": ({"x": entry(shape=(1,), offsets=(0, 4))}, "longer or shorter"),
    "metadata that are numbers": ({"x": entry(), "__metadata__": {"a": 1}}, "no strings"),
    "metadata of arrays that are not there": (
        {"x": entry(), "__metadata__": {"dtypes": '{"y": "string"}'}},
        "that are not there",
    ),
    "a dtype that it can not have been": ({"x": entry(), "__metadata__": {"dtypes": '{"x": "complex128"}'}}, "stored"),
    "a list": ([1], "no JSON object"),
}


def made(header, data=b"\0" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize("what", HEADERS)
def test_a_header_is_not_believed(tmp_path, what):
    header, message = HEADERS[what]
    (tmp_path / "file").write_bytes(made(header))
    with pytest.raises(DamagedFile, match=message) as caught:
        TensorFile(tmp_path / "file")
    assert caught.value.file == str(tmp_path / "file")


TEXTS = {
    "empty": b"",
    "shorter than a length": b"\1\0\0",
    "a length beyond the end": struct.pack("<Q", 1000) + b"{}",
    "the largest length": b"\xff" * 8 + b"{}",
    "not UTF-8": made(b"\xff{}", b""),
    "not JSON": made(b"{", b""),
    "a key twice": made(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}', b""),
    "as deep as it gets": made(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", b""),
    "a number of a million digits": made(b'{"a":' + b"9" * 1_000_000 + b"}", b""),
    "a pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
}


@pytest.mark.parametrize("what", TEXTS)
def test_text_that_is_no_header_is_refused(tmp_path, what):
    (tmp_path / "file").write_bytes(TEXTS[what])
    with pytest.raises(DamagedFile):
        TensorFile(tmp_path / "file")


def test_each_shortened_file_is_refused(tmp_path):
    write(tmp_path / "file", {"x": np.arange(3.0), "s": np.array(["ab"], dtypes.string.numpy)})
    whole = (tmp_path / "file").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "file").write_bytes(whole[:size])
        with pytest.raises(DamagedFile):
            TensorFile(tmp_path / "file")
    (tmp_path / "file").write_bytes(whole + b"\0")
    with pytest.raises(DamagedFile):
        TensorFile(tmp_path / "file")


def test_mutated_files_are_read_or_refused(tmp_path):
    """Nothing but CheckpointError comes of bytes that are changed, and no array but of what was there."""
    write(
        tmp_path / "file",
        {"x": np.arange(3.0), "s": np.array(["ab", "c"], dtypes.string.numpy), "z": np.ones(2, "c16")},
    )
    whole = bytearray((tmp_path / "file").read_bytes())
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(500):
        changed = whole.copy()
        for place in random.integers(len(whole), size=random.integers(1, 4)):
            changed[place] = random.integers(256)
        (tmp_path / "file").write_bytes(changed)
        try:
            found = read(tmp_path / "file")
        except tg.CheckpointError:
            refused += 1
        else:
            assert sum(value.nbytes for value in found.values()) < 1000
    assert 100 < refused < 500


def test_lengths_of_strings_are_not_believed(tmp_path):
    entries = {
        "s": entry("U8", (2,), (16, 18)),
        "s:lengths": entry("I64", (2,), (0, 16)),
        "__metadata__": {"dtypes": '{"s": "string"}'},
    }
    for lengths in ([-1, 3], [1, 2], [1 << 62, 1 << 62], [0, 1]):
        (tmp_path / "file").write_bytes(made(entries, np.array(lengths, "<i8").tobytes() + b"ab"))
        with TensorFile(tmp_path / "file") as file, pytest.raises(DamagedFile, match="lengths"):
            file["s"].copy()


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nobody", tmp_path / "a\0b"):
        with pytest.raises(tg.CheckpointError):
            TensorFile(path)


def read_in_pieces(monkeypatch, by_threads):
    """Have arrays of 800 bytes be read in pieces of 80, by several threads or by the one that asks."""
    monkeypatch.setattr(reading, "READ", 80)
    monkeypatch.setattr(reading, "LARGE", 400 if by_threads else 1000)


@pytest.mark.parametrize("size", [1, 399, 400, 401, 1234])
def test_arrays_of_several_pieces(tmp_path, monkeypatch, size):
    monkeypatch.setattr(reading, "READ", 80)
    monkeypatch.setattr(reading, "LARGE", 400)
    values = np.arange(size).astype(np.uint8)
    write(tmp_path / "file", {"w": np.arange(3.0), "x": values, "y": -np.arange(50.0)})
    with TensorFile(tmp_path / "file") as file:
        assert (file["x"].copy() == values).all()
        assert (file["y"].copy() == -np.arange(50.0)).all()
    assert not [each.name for each in threading.enumerate() if each.name.startswith("tagloom-reader")]


def test_large_arrays_are_read_by_several_threads(tmp_path, monkeypatch):
    """Two pieces that wait for each other are both read."""
    read_in_pieces(monkeypatch, by_threads=True)
    write(tmp_path / "file", {"x": np.arange(100.0)})
    both = threading.Barrier(2)

    def read_at(file, into, offset):
        both.wait(60)
        return os.preadv(file, [into], offset)

    monkeypatch.setattr(reading, "_read_at", read_at)
    with TensorFile(tmp_path / "file") as file:
        assert (file["x"].copy() == np.arange(100.0)).all()


@pytest.mark.parametrize("by_threads", [False, True])
def test_a_file_that_becomes_shorter_is_noticed(tmp_path, monkeypatch, by_threads):
    read_in_pieces(monkeypatch, by_threads)
    write(tmp_path / "file", {"x": np.arange(100.0)})
    with TensorFile(tmp_path / "file") as file:
        os.truncate(tmp_path / "file", 200)
        with pytest.raises(DamagedFile, match="shorter while it was read"):
            file["x"].copy()
    with pytest.raises(tg.CheckpointError, match="closed before"):
        file["x"].copy()


@pytest.mark.parametrize("by_threads", [False, True])
def test_a_file_that_is_closed_while_it_is_read(tmp_path, monkeypatch, by_threads):
    """Threads end their piece and no more; the descriptor, which may be another file's by then, is not touched."""
    read_in_pieces(monkeypatch, by_threads)
    write(tmp_path / "file", {"x": np.arange(100.0)})
    reached, go, failed = threading.Event(), threading.Event(), []

    def read_at(file, into, offset):
        reached.set()
        go.wait(60)
        return os.preadv(file, [into], offset)

    monkeypatch.setattr(reading, "_read_at", read_at)
    file = TensorFile(tmp_path / "file")
    before = len(os.listdir("/proc/self/fd"))

    def copy():
        try:
            file["x"].copy()
        except tg.CheckpointError as error:
            failed.append(error.what)

    thread = threading.Thread(target=copy)
    thread.start()
    reached.wait(60)
    file.close()
    assert len(os.listdir("/proc/self/fd")) == before
    go.set()
    thread.join()
    assert failed == ["a file was closed before its arrays were read"]
    assert len(os.listdir("/proc/self/fd")) == before - 1


# ---- a file that appears whole


def test_a_file_is_replaced_or_stays(tmp_path):
    path = tmp_path / "file"
    save_file(str(path), [("x", np.zeros(2))])

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_file(str(path), [("x", np.ones(2))], stop)
    assert os.listdir(tmp_path) == ["file"]
    assert not read(path)["x"].any()
    save_file(str(path), [("x", np.ones(2))])
    assert read(path)["x"].all()


# ---- large files, which go past the operating system's cache


def large():
    return {"a": np.arange(DIRECT // 4 + 1000, dtype=np.float32), "b": np.array([7], np.int8), "c": np.arange(5.0)}


@pytest.mark.parametrize("how", ["direct", "no such flag", "refused later", "cut short", "none"])
def test_large_files_are_whole_however_they_are_written(tmp_path, monkeypatch, how):
    """By pieces straight to the disk where it can be, and by the cache from wherever it can not."""
    calls = []

    class Os:
        def __getattr__(self, name):
            return getattr(os, name)

        def write(self, file, data):
            direct = bool(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT)
            calls.append((direct, len(data)))
            if direct and how == "refused later" and len(calls) == 3:
                raise OSError(errno.EINVAL, "not aligned")
            if direct and how == "cut short" and len(calls) == 3:
                return os.write(file, memoryview(data)[: PIECE // 2])
            return os.write(file, data)

    class Fcntl:
        def __getattr__(self, name):
            return getattr(fcntl, name)

        def fcntl(self, file, command, argument=0):
            if how == "no such flag" and argument & os.O_DIRECT:
                raise OSError(errno.EINVAL, "no such flag")
            return fcntl.fcntl(file, command, argument)

    monkeypatch.setattr(streams, "os", Os())
    monkeypatch.setattr(streams, "fcntl", Fcntl())
    if how == "none":
        monkeypatch.setattr(streams, "_O_DIRECT", 0)
    size = write(tmp_path / "file", large())
    assert (
        size
        == os.path.getsize(tmp_path / "file")
        == sum(length for direct, length in calls if not direct)
        + sum(
            PIECE // 2 if how == "cut short" and n == 2 else PIECE if not (how == "refused later" and n == 2) else 0
            for n, (direct, _) in enumerate(calls)
            if direct
        )
    )
    directly = [direct for direct, _ in calls]
    assert sum(directly) == {"direct": 4, "refused later": 3, "cut short": 3}.get(how, 0)
    assert not directly[-1]
    found = read(tmp_path / "file")
    for name, value in large().items():
        same(found[name], value)


def test_a_full_disk_is_said_in_the_middle_of_a_large_file(tmp_path):
    """/dev/full takes nothing; it is no regular file, but a descriptor is all that is asked for."""
    file = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left"):
            write_tensors(file, "full", large().items())
    finally:
        os.close(file)
