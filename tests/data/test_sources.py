"""Sources of elements."""

import asyncio
import gzip
import threading
import time
import zipfile
from collections import namedtuple

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.record_files import is_named

from tests.data.running import collect, plain, run, through_a_file


def test_slices_of_arrays_keep_their_structure():
    Pair = namedtuple("Pair", "x y")
    x, y = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "c"], np.dtypes.StringDType())
    assert run(tg.data.from_arrays(x)) == [[0, 1], [2, 3], [4, 5]]
    assert run(tg.data.from_arrays((x, y)).take(1)) == [([0, 1], "a")]
    assert run(tg.data.from_arrays({"x": x, "more": {"y": y}}).skip(2)) == [{"x": [4, 5], "more": {"y": "c"}}]
    (last,) = asyncio.run(collect(tg.data.from_arrays(Pair(x, y)).skip(2)))
    assert isinstance(last, Pair)
    assert last.y == "c"


def test_slices_are_read_only_views():
    x = np.zeros([2, 3])
    first, _ = asyncio.run(collect(tg.data.from_arrays(x)))
    assert np.shares_memory(first, x)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    x[0, 0] = 1  # the user's own array can be written to all the same


def test_arrays_must_be_equally_long():
    with pytest.raises(tg.ShapeError, match="equally long"):
        tg.data.from_arrays((np.zeros(2), np.zeros(3)))
    with pytest.raises(tg.ShapeError, match="equally long"):
        tg.data.from_arrays(np.float32(1))


def test_an_archive_with_arrays_that_are_not_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), o=np.array([{}, 1, 2], object), d=np.zeros(3, "M8[s]"), r=np.zeros(3, [("ä", "f4")]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "numbers")
    assert run(tg.data.from_npz(path, ["x"]).map(lambda element: int(element["x"]))) == [0, 1, 2]
    with pytest.raises(tg.GraphError, match="of dtypes that no tensor has") as caught:
        tg.data.from_npz(path)
    assert list(caught.value.got) == ["o", "d", "r"]
    assert "['x']" in caught.value.hint


def test_npz(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(6, dtype=np.int16).reshape(3, 2), y=np.ones(3), other=np.zeros(7))
    data = tg.data.from_npz(path, ["x", "y"])
    assert str(data.element_spec) == "{'x': int16[2], 'y': float64[]}"
    assert run(data.batch(2)) == [{"x": [[0, 1], [2, 3]], "y": [1, 1]}, {"x": [[4, 5]], "y": [1]}]
    with pytest.raises(tg.GraphError, match="no such arrays"):
        tg.data.from_npz(path, ["z"])
    with pytest.raises(tg.ShapeError, match="equally long"):
        tg.data.from_npz(path)


def test_an_iterable_begins_anew_in_each_epoch():
    calls = []

    def numbers():
        calls.append(1)
        yield from range(2)

    assert run(tg.data.from_iterable(numbers).repeat(3)) == [0, 1] * 3
    assert len(calls) == 3
    assert run(tg.data.from_iterable([1, 2]).repeat(2)) == [1, 2, 1, 2]


def test_an_iterator_has_one_epoch():
    assert run(tg.data.from_iterable(iter("ab")).repeat(1)) == ["a", "b"]
    found = asyncio.run(collect(tg.data.from_iterable(iter("ab")).repeat(2).take(3)))
    assert found[:2] == ["a", "b"]
    assert "only once" in str(found[2].__cause__)


def test_what_is_no_iterable_is_refused():
    with pytest.raises(tg.GraphError, match="no iterable"):
        tg.data.from_iterable(3)
    with pytest.raises(tg.GraphError, match="no asynchronous iterable"):
        tg.data.from_async([1])


def test_an_iterable_that_holds_the_loop_goes_to_a_thread():
    threads = []

    def slow():
        for i in range(4):
            threads.append(threading.current_thread())
            time.sleep(0.01)
            yield i

    assert run(tg.data.from_iterable(slow)) == [0, 1, 2, 3]
    assert threads[0] is threading.main_thread()
    assert threads[-1] is not threading.main_thread()


def test_an_iterator_with_a_state_of_its_own_is_not_begun_anew():
    class Numbers:
        taken = 0

        def __init__(self):
            self.next = 0

        def __iter__(self):
            return self

        def __next__(self):
            Numbers.taken += 1
            self.next += 1
            return self.next

        def state_dict(self):
            return {"next": self.next}

        def load_state_dict(self, state):
            self.next = state["next"]

    async def main():
        data = tg.data.from_iterable(Numbers).take(100).map(lambda x: x)
        async with data.iterator() as one, data.iterator() as other:
            begin = [await one.next() for _ in range(50)]
            state = through_a_file(one.state())
            before = Numbers.taken
            other.restore(state)
            return begin, await other.next(), Numbers.taken - before

    begin, following, taken = asyncio.run(main())
    assert begin == list(range(1, 51))
    assert following == 51
    assert taken < 50


def write(path, text):
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\n\r\nb", ["a", "", "b"]),
        ("\u00e4\u2028b\x0bc\n".encode(), ["\u00e4\u2028b\x0bc"]),
    ],
)
def test_lines(tmp_path, content, lines):
    assert run(tg.data.from_text(write(tmp_path / "a.txt", content))) == lines
    (tmp_path / "b.gz").write_bytes(gzip.compress(content))
    assert run(tg.data.from_text(tmp_path / "b.gz")) == lines


def long_text(count):
    return "".join(f"line {i} {'x' * (i % 50)}\n" for i in range(count))


@pytest.mark.parametrize("suffix", ["txt", "gz"])
def test_lines_of_several_blocks_from_any_place(tmp_path, suffix):
    texts = [long_text(4000), long_text(3000)]
    paths = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress(text.encode()) if suffix == "gz" else text.encode())
    wanted = "".join(texts).splitlines()
    data = tg.data.from_text(str(tmp_path / f"*.{suffix}"))

    async def main(place):
        async with data.iterator() as one, data.iterator() as other:
            for _ in range(place):
                await one.next()
            other.restore(through_a_file(one.state()))
            return [line async for line in other]

    assert run(data) == wanted
    for place in (1, 1500, 3999, 4000, 4001, 6999, 7000):
        assert asyncio.run(main(place)) == wanted[place:], place


def test_a_line_that_is_no_text_is_an_error_that_names_it(tmp_path):
    data = tg.data.from_text(write(tmp_path / "a.txt", b"one\n\xff\xfe\nthree\n"))
    one, error, three = asyncio.run(collect(data))
    assert (one, three) == ("one", "three")
    assert isinstance(error, tg.PipelineError)
    assert error.origin == f"{tmp_path}/a.txt, line 2"
    assert "not UTF-8" in str(error)
    assert run(data.ignore_errors()) == ["one", "three"]


def test_a_file_that_is_not_there(tmp_path):
    (error,) = asyncio.run(collect(tg.data.from_text(tmp_path / "no.txt")))
    assert isinstance(error.__cause__, FileNotFoundError)
    there = write(tmp_path / "a.txt", b"a\n")
    assert run(tg.data.from_text([tmp_path / "no.txt", there]).ignore_errors()) == ["a"]


async def test_a_pattern_without_files_is_an_error(tmp_path):
    async with tg.data.from_files(str(tmp_path / "*.txt")).iterator() as iterator:
        with pytest.raises(tg.PipelineError, match="no file matches"):
            await iterator.next()


def test_files_of_patterns_come_in_order(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c.txt", "[x].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [path[len(str(tmp_path)) + 1 :] for path in run(tg.data.from_files(f"{tmp_path}/**/*.txt"))]
    assert names == ["[x].txt", "a.txt", "b.txt", "sub/c.txt"]
    assert run(tg.data.from_files(tmp_path / "[x].txt")) == [f"{tmp_path}/[x].txt"]
    assert run(tg.data.from_files([tmp_path / "b.txt", tmp_path / "a.txt"])) == [
        f"{tmp_path}/b.txt",
        f"{tmp_path}/a.txt",
    ]


def test_unknown_compressions_are_refused(tmp_path):
    with pytest.raises(tg.GraphError, match="compression"):
        tg.data.from_text("a", compression="zip")


def test_async_sources_begin_anew_and_give_what_they_have():
    async def ticks():
        for i in range(3):
            await asyncio.sleep(0.001)
            yield np.float32(i)

    assert run(tg.data.from_async(ticks).repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert plain(asyncio.run(collect(tg.data.from_async(ticks, output=tg.TensorSpec([])).batch(3)))) == [[0, 1, 2]]


@pytest.mark.parametrize("parallel", [1, 4])
async def test_a_generator_runs_in_one_task(parallel):
    tasks = []

    async def ticks():
        try:
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                for i in range(20):
                    tasks.append(asyncio.current_task())
                    yield await group.create_task(asyncio.sleep(0.001, i))
        finally:
            tasks.append(asyncio.current_task())

    async def same(x):
        return x

    data = tg.data.from_async(ticks).map(same, parallel=parallel)
    assert [x async for x in data] == list(range(20))
    assert len(tasks) == 21
    tasks.clear()
    assert [x async for x in data.take(3).prefetch(2)] == [0, 1, 2]
    assert len(set(tasks)) == 1


@pytest.mark.parametrize(
    ("path", "pattern", "is_there"),
    [
        ("/data/a.txt", "/data/*.txt", True),
        ("/data/a.txt", "/data//*.txt", True),
        ("/data/b/a.txt", "/data/*.txt", False),
        ("/data/../a.txt", "/data/*/a.txt", False),
        ("/data/../a.txt", "/data/**", False),
        ("/data/../a.txt", "/data/../*.txt", True),
        ("/data/a.txt", "/data/**/*.txt", True),
        ("/data/b/c/a.txt", "/data/**/*.txt", True),
        ("data/a.txt", "/data/*.txt", False),
        ("odd[1].txt", "odd[1].txt", True),
        ("/etc/passwd", "/data/*", False),
    ],
)
def test_a_path_is_one_that_a_pattern_can_match(path, pattern, is_there):
    assert is_named(path, ["other", pattern]) is is_there


def _with(state, **changes):
    if isinstance(state, dict):
        return {key: changes.get(key, _with(each, **changes)) for key, each in state.items()}
    return [_with(each, **changes) for each in state] if isinstance(state, list) else state


@pytest.mark.parametrize("source", [tg.data.from_text, tg.data.from_files])
async def test_a_state_lets_no_other_file_be_read(tmp_path, source):
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "a.key").write_text("secret\n")
    data = source(str(tmp_path / "*.txt"))
    async with data.iterator() as iterator:
        await iterator.next()
        state = through_a_file(iterator.state())
        for changes in ({"paths": [str(tmp_path / "a.key")]}, {"file": -1, "next": -1}):
            with pytest.raises(tg.GraphError, match="state of a pipeline"):
                iterator.restore(_with(state, **changes))
        iterator.restore(state)


async def test_a_state_counts_nothing_below_zero():
    for data in (tg.data.from_arrays(np.arange(9)), tg.data.from_iterable(range(9)), tg.data.from_arrays([1]).take(9)):
        async with data.iterator() as iterator:
            state = iterator.state()
            with pytest.raises(tg.GraphError, match="no state of a pipeline"):
                iterator.restore(_with(state, own={"count": -1, "iterator": None} if "count" in str(state) else -1))


def test_a_compressed_file_that_is_damaged_is_one_error_and_the_next_one_is_read(tmp_path):
    damaged = bytearray(gzip.compress(b"".join(b"%d\n" % (i * i * 7919) for i in range(20000))))
    damaged[2000:2040] = bytes(each ^ 0xFF for each in damaged[2000:2040])
    (tmp_path / "a.txt.gz").write_bytes(damaged)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"x\ny\n"))
    found = asyncio.run(collect(tg.data.from_text(tmp_path / "*.gz")))
    errors = [x for x in found if isinstance(x, Exception)]
    assert [type(error) for error in errors] == [tg.PipelineError]
    assert "a.txt.gz" in str(errors[0])
    assert found[-2:] == ["x", "y"]


@pytest.mark.parametrize("build", ["alone", "interleaved", "in batches"])
async def test_elements_do_not_wait_for_one_that_comes_late(build):
    """A request is for as many elements as came quickly before, and the source may wait for ever after some of them."""
    goes_on = asyncio.Event()

    async def elements():
        for i in range(105):
            yield i
        await goes_on.wait()
        yield 105

    dataset = {
        "alone": lambda: tg.data.from_async(elements),
        "interleaved": lambda: tg.data.from_iterable([0]).interleave(lambda _: tg.data.from_async(elements)),
        "in batches": lambda: tg.data.from_async(elements).batch(5),
    }[build]()
    async with asyncio.timeout(60), dataset.iterator() as iterator:
        found = [await iterator.next() for _ in range(21 if build == "in batches" else 105)]
        assert np.concatenate(found).tolist() == [*range(105)] if build == "in batches" else found == [*range(105)]
        goes_on.set()
        last = await iterator.next()
        assert np.ravel(last).tolist() == [105]
        with pytest.raises(StopAsyncIteration):
            await anext(iterator)


async def test_the_state_is_known_while_a_late_element_is_awaited():
    """An iterator that saves its state is not asked for it in the middle of an element."""
    goes_on = asyncio.Event()

    class Counter:
        def __init__(self):
            self.count, self.is_busy = 0, False

        def __aiter__(self):
            return self

        async def __anext__(self):
            self.is_busy = True
            if self.count == 50:
                await goes_on.wait()
            self.count += 1
            self.is_busy = False
            if self.count > 60:
                raise StopAsyncIteration
            return self.count

        def state_dict(self):
            assert not self.is_busy
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

    async with asyncio.timeout(60), tg.data.from_async(Counter).iterator() as iterator:
        assert [await iterator.next() for _ in range(50)] == [*range(1, 51)]
        late = asyncio.create_task(iterator.next())
        await asyncio.sleep(0)
        state = iterator.state()
        goes_on.set()
        assert await late == 51
    async with tg.data.from_async(Counter).iterator() as again:
        again.restore(state)
        assert [int(x) async for x in again] == [*range(51, 61)]
