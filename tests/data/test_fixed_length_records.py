"""Records of one length, with headers and footers, in pipelines and by a reader."""

import gzip
import zlib

import pytest
import tagloom as tg
from tagloom.base.record_files import BLOCK_BYTES
from tagloom.compat import tf1

from tests.data.running import collect, rest_of, run, through_a_file

LARGE = BLOCK_BYTES + 1


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("compression", ["", "gzip", "zlib"])
@pytest.mark.parametrize(("size", "count"), [(1, 0), (1, 1), (3, 100_000), (LARGE, 3), (BLOCK_BYTES, 2)])
@pytest.mark.parametrize(("header", "footer"), [(0, 0), (5, 0), (0, 7), (LARGE, LARGE)])
def test_records_are_what_is_between_header_and_footer(tmp_path, compression, size, count, header, footer):
    records = [(i % 251).to_bytes(1, "little") * size for i in range(count)]
    content = b"h" * header + b"".join(records) + b"f" * footer
    pack = {"": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[compression]
    (tmp_path / "a").write_bytes(pack(content))
    data = tg.data.from_fixed_length_records([tmp_path / "a"] * 2, size, header, footer, compression=compression)
    assert run(data) == records * 2
    assert str(data.element_spec.shape) == f"[{size}]"


@pytest.mark.parametrize("footer", [0, 3])
async def test_a_file_that_ends_within_a_record(tmp_path, footer):
    (tmp_path / "a").write_bytes(bytes(10) + bytes(footer))
    data = tg.data.from_fixed_length_records([tmp_path / "a"] * 2, 4, footer_bytes=footer)
    found = await collect(data)
    assert [type(each) for each in found] == [bytes, bytes, tg.PipelineError] * 2
    assert "ends within a record of 4 bytes, after 2" in str(found[2])


@pytest.mark.parametrize("size", [0, 4, 7])
async def test_a_file_that_is_shorter_than_header_and_footer(tmp_path, size):
    (tmp_path / "a").write_bytes(bytes(size))
    found = await collect(tg.data.from_fixed_length_records(tmp_path / "a", 4, header_bytes=5, footer_bytes=3))
    assert [type(each) for each in found] == [tg.PipelineError]
    assert "fewer bytes than its header" in str(found[0])


async def test_a_state_goes_on_behind_what_was_taken(tmp_path):
    (tmp_path / "a").write_bytes(b"head" + bytes(i % 251 for i in range(300_000)))
    data = tg.data.from_fixed_length_records(tmp_path / "a", 3, header_bytes=4)
    async with data.iterator() as iterator:
        for _ in range(40_000):
            await iterator.next()
        state, rest = through_a_file(iterator.state()), await rest_of(iterator)
    async with data.iterator() as iterator:
        iterator.restore(state)
        assert await rest_of(iterator) == rest
        assert len(rest) == 60_000


def test_a_reader(tmp_path):
    (tmp_path / "a").write_bytes(b"H" + bytes(range(6)) + b"FF")
    with tg.Graph().as_default() as graph:
        files = tg.FIFOQueue(4, "string", shapes=[[]])
        put = files.enqueue_many([[str(tmp_path / "a")] * 2]), files.close()
        reader = tf1.FixedLengthRecordReader(3, header_bytes=1, footer_bytes=2)
        key, record = reader.read(files)
        assert str(record.shape) == "[3]"
        produced = reader.num_records_produced()
    with tg.SyncSession(graph) as session:
        for each in put:
            session.run(each)
        found = [session.run([key, record]) for _ in range(4)]
        assert [record.tolist() for _, record in found] == [[0, 1, 2], [3, 4, 5]] * 2
        assert str(found[1][0]).endswith("a:2")
        with pytest.raises(tg.QueueClosed):
            session.run(record)
        assert session.run(produced) == 4


def test_readers_of_one_name_agree_in_their_layout():
    with tg.Graph().as_default() as graph:
        files = tg.FIFOQueue(4, "string", shapes=[[]])
        _, one = tf1.FixedLengthRecordReader(3, shared_name="r").read(files)
        _, other = tf1.FixedLengthRecordReader(4, shared_name="r").read(files)
        put = files.enqueue("nowhere")
    with tg.SyncSession(graph) as session:
        session.run(put)
        with pytest.raises(tg.OpError):
            session.run(one)
        session.run(put)
        with pytest.raises(tg.OpError, match="shared by what differs"):
            session.run(other)


@pytest.mark.parametrize("arguments", [(0,), (-1,), (1, -1), (1, 0, -1), (1.5,), (True,)])
def test_lengths_are_checked(arguments):
    with pytest.raises(tg.GraphError, match="out of range"):
        tg.data.from_fixed_length_records("a", *arguments)
    with tg.Graph().as_default(), pytest.raises(tg.GraphError, match="no number of bytes"):
        tf1.FixedLengthRecordReader(*arguments)
