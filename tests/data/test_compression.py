"""Compressed files of records: by gzip, by zlib, and words that name nothing."""

import gzip
import io
import zlib

import pytest
import tagloom as tg
from tagloom.base.compressed_files import open_for_reading, open_for_writing
from tagloom.compat import tf1

from tests.data.running import collect, rest_of, run, through_a_file

RECORDS = [bytes([i % 256]) * (i % 700) for i in range(2000)]


@pytest.mark.parametrize("word", ["gzip", "zlib", "GZIP", "ZLIB", "", None, "auto"])
def test_what_is_written_with_a_word_is_read_with_it(tmp_path, word):
    path = tmp_path / "records"
    with tg.data.TFRecordWriter(path, compression=word) as writer:
        for record in RECORDS:
            writer.write(record)
    assert list(map(bytes, run(tg.data.from_tfrecord(path, compression=word)))) == RECORDS
    plain_size = sum(len(record) + 16 for record in RECORDS)
    is_compressed = word and word != "auto"
    assert (path.stat().st_size < plain_size // 10) == bool(is_compressed)


def test_the_formats_are_those_of_others(tmp_path):
    for word, decompress in (("gzip", gzip.decompress), ("zlib", zlib.decompress)):
        with tg.data.TFRecordWriter(tmp_path / word, compression=word) as writer:
            writer.write(b"abc")
            writer.flush()
            writer.write(b"")
        assert len(decompress((tmp_path / word).read_bytes())) == 19 + 16


WORDS = ["bogus", "gz", "bzip2", 1, b"gzip"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "open_",
    [
        lambda path, word: tg.data.TFRecordWriter(path, compression=word),
        lambda path, word: tg.data.from_tfrecord(path, compression=word),
        lambda path, word: tg.data.from_text(path, compression=word),
        lambda path, word: tg.data.from_fixed_length_records(path, 4, compression=word),
        lambda path, word: tf1.TFRecordReader(compression=word),
        lambda path, word: tf1.TextLineReader(compression=word),
        lambda path, word: tf1.FixedLengthRecordReader(4, compression=word),
    ],
    ids=["TFRecordWriter", "tfrecord", "text", "fixed", "TFRecordReader", "TextLineReader", "FixedLengthRecordReader"],
)
def test_other_words_are_refused(tmp_path, word, open_):
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="of this compression"):
        open_(tmp_path / "records", word)
    assert not list(tmp_path.iterdir())


def test_text_by_zlib(tmp_path):
    (tmp_path / "a.z").write_bytes(zlib.compress(b"one\ntwo\n") + zlib.compress(b"three"))
    assert run(tg.data.from_text(tmp_path / "a.z", compression="zlib")) == ["one", "two", "three"]


@pytest.mark.parametrize("word", ["gzip", "zlib"])
async def test_a_state_goes_on_within_what_is_compressed(tmp_path, word):
    with tg.data.TFRecordWriter(tmp_path / "records", compression=word) as writer:
        for record in RECORDS:
            writer.write(record)
    data = tg.data.from_tfrecord(tmp_path / "records", compression=word)
    async with data.iterator() as iterator:
        for _ in range(1500):
            await iterator.next()
        state, rest = through_a_file(iterator.state()), await rest_of(iterator)
    async with data.iterator() as iterator:
        iterator.restore(state)
        assert await rest_of(iterator) == rest == RECORDS[1500:]


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage"])
async def test_what_is_damaged_is_an_error_and_not_the_end(tmp_path, damage):
    path = tmp_path / "records"
    with tg.data.TFRecordWriter(path, compression="zlib") as writer:
        for record in RECORDS:
            writer.write(record)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[len(data) // 2] ^= 16
    else:
        data += b"garbage"
    path.write_bytes(data)
    found = await collect(tg.data.from_tfrecord(path, compression="zlib"))
    assert any(isinstance(each, tg.PipelineError) for each in found)
    assert [each for each in found if isinstance(each, bytes)] == RECORDS[: sum(isinstance(e, bytes) for e in found)]


def test_a_zlib_file_is_a_file(tmp_path):
    content = bytes(range(256)) * 1000
    with open_for_writing(str(tmp_path / "a"), "zlib") as file:
        file.write(content[:1000])
        file.flush()
        file.write(content[1000:])
    file.close()
    with open_for_reading(str(tmp_path / "a"), "zlib") as file:
        assert file.read(10) == content[:10]
        assert file.seek(200_000) == file.tell() == 200_000
        assert file.read(5) == content[200_000:200_005]
        assert file.seek(3) == 3
        assert file.read() == content[3:]
        assert file.seek(-1, io.SEEK_END) == len(content) - 1
        assert file.read() == content[-1:]
    (tmp_path / "empty").write_bytes(b"")
    with open_for_reading(str(tmp_path / "empty"), "zlib") as file:
        assert file.read() == b""
