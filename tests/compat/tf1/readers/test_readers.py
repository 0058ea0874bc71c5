"""Readers, and files as operations."""

import asyncio
import gzip
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.record_files import RecordFile
from tagloom.compat import tf1

from tests.data.running import plain

EXECUTORS = pytest.mark.parametrize("executor", ["machine", "reference"])


def reading(make, paths):
    """Return a graph with a reader, its result, and an operation that gives it files."""
    with tg.Graph().as_default() as graph:
        files = tg.FIFOQueue(8, "string", shapes=[[]])
        reader = make()
        key, value = reader.read(files)
        fill, done = files.enqueue_many([list(map(str, paths))]), files.close()
        counts = reader.num_records_produced(), reader.num_work_units_completed()
        return graph, (key, value), (fill, done), counts, reader.reset()


@EXECUTORS
async def test_lines_of_files_from_a_queue(executor, tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_text("")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"three"))
    paths = [tmp_path / name for name in ("a.txt", "b.txt", "c.gz")]
    graph, record, fills, counts, reset = reading(tf1.TextLineReader, paths)
    async with tg.Session(graph, executor=executor) as session:
        for each in fills:
            await session.run(each)
        found = [plain(await session.run(record)) for _ in range(3)]
        with pytest.raises(tg.QueueClosed, match="insufficient"):
            await session.run(record)
        assert plain(await session.run(counts)) == (3, 3)
        await session.run(reset)
        assert plain(await session.run(counts)) == (0, 0)
    keys = [f"{paths[0]}:1", f"{paths[0]}:2", f"{paths[2]}:1"]
    assert found == list(zip(keys, ["one", "two", "three"], strict=True))


async def test_reads_at_the_same_time_get_different_lines(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(50)))
    graph, (_, line), fills, _, _ = reading(tf1.TextLineReader, [tmp_path / "a.txt"])
    async with tg.Session(graph) as session:
        waits = [asyncio.create_task(session.run(line)) for _ in range(50)]
        waits[3].cancel()
        await session.run(fills[0])
        found = [int(value.item()) for value in await asyncio.gather(*waits[:3], *waits[4:])]
        found.append(int((await session.run(line)).item()))
    assert sorted(found) == list(range(50))


async def test_what_is_read_during_a_reset_is_of_no_other_file(tmp_path, monkeypatch):
    begun, may_end, read_block = asyncio.Event(), threading.Event(), RecordFile.read_block
    loop = asyncio.get_running_loop()

    def slow(self, start):
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(5)
        return read_block(self, start)

    monkeypatch.setattr(RecordFile, "read_block", slow)
    (tmp_path / "a.txt").write_text("a0\na1\na2\n")
    (tmp_path / "b.txt").write_text("b0\nb1\n")
    graph, record, fills, counts, reset = reading(tf1.TextLineReader, [tmp_path / "a.txt", tmp_path / "b.txt"])
    async with tg.Session(graph) as session:
        await session.run(fills[0])
        first = asyncio.create_task(session.run(record))
        await begun.wait()
        await session.run(reset)
        may_end.set()
        found = [plain(await first), plain(await session.run(record))]
        assert plain(await session.run(counts)) == (2, 0)
    assert found == [(f"{tmp_path / 'b.txt'}:1", "b0"), (f"{tmp_path / 'b.txt'}:2", "b1")]


async def test_tfrecords_and_whole_files(tmp_path):
    records = [b"", b"abc", bytes(range(256)) * 300]
    with tg.data.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for record in records:
            writer.write(record)
    graph, (key, value), fills, _, _ = reading(tf1.TFRecordReader, [tmp_path / "a.tfrecord"])
    async with tg.Session(graph) as session:
        await session.run(fills[0])
        assert [(await session.run(value)).tobytes() for _ in records] == records
    for dtype, wanted in (("uint8", [0xC3, 0xA4]), ("string", "\u00e4")):
        (tmp_path / "b").write_text("\u00e4", "utf-8")
        graph, (key, value), fills, _, _ = reading(lambda dtype=dtype: tf1.WholeFileReader(dtype), [tmp_path / "b"] * 2)
        async with tg.Session(graph) as session:
            await session.run(fills[0])
            for _ in range(2):
                assert plain(await session.run((key, value))) == (f"{tmp_path}/b", wanted)


async def test_what_can_not_be_read_is_passed_by_the_next_step(tmp_path):
    with tg.data.TFRecordWriter(tmp_path / "a") as writer:
        for record in (b"one", b"two", b"three"):
            writer.write(record)
    data = bytearray((tmp_path / "a").read_bytes())
    data[19 + 12] ^= 1  # in the second record
    (tmp_path / "a").write_bytes(data)
    graph, (_, value), fills, _, _ = reading(tf1.TFRecordReader, [tmp_path / "no", tmp_path / "a"])
    async with tg.Session(graph) as session:
        await session.run(fills[0])
        with pytest.raises(tg.OpError, match="No such file"):
            await session.run(value)
        assert (await session.run(value)).tobytes() == b"one"
        with pytest.raises(tg.OpError, match="checksum"):
            await session.run(value)
        assert (await session.run(value)).tobytes() == b"three"


async def test_a_reader_goes_on_from_a_snapshot(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{i} {'x' * 50}\n" for i in range(3000)))
    graph, (_, line), fills, counts, _ = reading(tf1.TextLineReader, [tmp_path / "a.txt"])
    async with tg.Session(graph) as session:
        await session.run(fills[0])
        for _ in range(2000):
            await session.run(line)
        saved = await session.snapshot()
    async with tg.Session(graph) as session:
        await session.restore({"readers": saved["readers"]})
        assert (await session.run(line)).item().startswith("2000 ")
        assert plain(await session.run(counts)) == (2001, 0)


def test_a_reader_wants_names_of_files():
    with tg.Graph().as_default():
        with pytest.raises(tg.DtypeError, match="no names of files"):
            tf1.TextLineReader().read(tg.FIFOQueue(1, "int32"))
        with pytest.raises(tg.GraphError, match="compression"):
            tf1.TextLineReader(compression="zip")
        with pytest.raises(tg.DtypeError, match="content"):
            tf1.WholeFileReader("float32")


@EXECUTORS
async def test_files_are_written_found_and_read(executor, tmp_path):
    with tg.Graph().as_default() as graph:
        path, text = tg.placeholder("string", []), tg.placeholder("string", [])
        write = tg.write_file(path, text)
        raw = tg.write_file(path, tg.placeholder("uint8", [None], name="raw"))
        bytes_, string = tg.read_file(path), tg.read_file(path, dtype="string")
        found = tg.matching_files([f"{tmp_path}/**/*.txt", f"{tmp_path}/none*"])
        with pytest.raises(tg.DtypeError, match="content"):
            tg.write_file(path, tg.constant(1.0))
        with pytest.raises(tg.DtypeError, match="content"):
            tg.read_file(path, dtype="int32")
    async with tg.Session(graph, executor=executor) as session:
        place = str(tmp_path / "new" / "a.txt")
        await session.run(write, {path: place, text: "\u00e4"})
        assert plain(await session.run([bytes_, string, found], {path: place})) == [[0xC3, 0xA4], "\u00e4", [place]]
        await session.run(raw, {path: place, "raw:0": np.array([255, 0], np.uint8)})
        assert plain(await session.run(bytes_, {path: place})) == [255, 0]
        with pytest.raises(tg.OpError, match="codec can't decode"):
            await session.run(string, {path: place})
        with pytest.raises(tg.OpError, match="No such file"):
            await session.run(bytes_, {path: place + "?"})
