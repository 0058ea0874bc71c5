"""Byte order marks: no reader of text has one in its first line."""

import codecs
import gzip
import pathlib

import pytest
import tagloom as tg
from tagloom.compat import tf1

from tests.data.running import rest_of, run, through_a_file

TEXT = codecs.BOM_UTF8 + "näme,age\nb,2\n".encode()


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_lines_of_a_pipeline(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(TEXT) if name.endswith(".gz") else TEXT)
    assert run(tg.data.from_text([tmp_path / name, tmp_path / name])) == ["näme,age", "b,2"] * 2


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"", []),
        (codecs.BOM_UTF8, []),
        (codecs.BOM_UTF8 + b"\n", [""]),
        (codecs.BOM_UTF8 + b"a", ["a"]),
        (codecs.BOM_UTF8 + codecs.BOM_UTF8 + b"a\n", ["\ufeffa"]),
        (b"a\n" + codecs.BOM_UTF8 + b"b\n", ["a", "\ufeffb"]),
    ],
)
def test_only_the_first_mark_of_a_file_goes(tmp_path, content, wanted):
    (tmp_path / "a.txt").write_bytes(content)
    assert run(tg.data.from_text(tmp_path / "a.txt")) == wanted


def test_a_first_line_that_is_not_utf_8_does_not_bring_it_back(tmp_path):
    (tmp_path / "a.txt").write_bytes(codecs.BOM_UTF8 + b"a\n\xff\n")
    assert run(tg.data.from_text(tmp_path / "a.txt").ignore_errors()) == ["a"]


async def test_a_state_within_the_first_block(tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT)
    data = tg.data.from_text(tmp_path / "a.txt")
    async with data.iterator() as iterator:
        assert await iterator.next() == "näme,age"
        state = through_a_file(iterator.state())
    async with data.iterator() as iterator:
        iterator.restore(state)
        assert await rest_of(iterator) == ["b,2"]


@pytest.mark.parametrize("content", [TEXT, codecs.BOM_UTF8])
def test_readers_of_a_graph(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with tg.Graph().as_default() as graph:
        files = tg.FIFOQueue(4, "string", shapes=[[]])
        put = files.enqueue_many([[str(path), str(path)]]), files.close()
        _, line = tf1.TextLineReader().read(files)
        text, data = tg.read_file(str(path), dtype="string"), tg.read_file(str(path))
        others = tg.FIFOQueue(4, "string", shapes=[[]])
        put_other = others.enqueue(str(path))
        _, whole = tf1.WholeFileReader("string").read(others)
    with tg.SyncSession(graph) as session:
        for each in (*put, put_other):
            session.run(each)
        decoded = content.decode("utf-8-sig")
        assert session.run(text).item() == session.run(whole).item() == decoded
        assert session.run(data).tobytes() == content
        for wanted in decoded.splitlines() * 2:
            assert session.run(line).item() == wanted
        with pytest.raises(tg.QueueClosed):
            session.run(line)


def test_weights_of_a_sampler(tmp_path):
    path = pathlib.Path(tmp_path, "weights.csv")
    path.write_bytes(codecs.BOM_UTF8 + b"1\n3\n")
    with tg.Graph().as_default() as graph:
        found = tg.fixed_unigram_candidate_sampler([[0]], 1, 2, True, 2, vocab_file=str(path))
    with tg.SyncSession(graph) as session:
        assert sorted(session.run(found[0]).tolist()) == [0, 1]
