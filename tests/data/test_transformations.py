"""What is done with elements on their way."""

import asyncio
import threading
import time

import numpy as np
import pytest
import tagloom as tg

from tests.data.running import collect, run, through_a_file
from tests.support.waiting import turns

NUMBERS = tg.data.from_iterable(range(10))


def test_batches_have_the_dtypes_of_literals_and_arrays():
    (batch,) = asyncio.run(collect(tg.data.from_iterable([(1, 2.0, "a", True)]).batch(4)))
    assert [each.dtype for each in batch] == ["int32", "float32", np.dtypes.StringDType(), "bool"]
    (batch,) = asyncio.run(collect(tg.data.from_iterable(np.arange(3, dtype=np.int16)).batch(4)))
    assert batch.dtype == "int16"
    (batch,) = asyncio.run(collect(tg.data.from_iterable([[1, 2], [3, 4]]).batch(4)))
    assert batch.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("elements", "text"),
    [
        ([np.zeros(2), np.zeros(3)], "different shapes"),
        ([np.zeros(2), np.zeros(2, np.float32)], "different dtypes"),
        ([(1, 2), 3], "different structures"),
        ([{"a": 1}, {"b": 1}], "different structures"),
        ([b"a", b"b"], "bytes cannot be in a batch"),
    ],
)
def test_what_makes_no_batch_is_an_error(elements, text):
    data = tg.data.from_iterable([*elements, *[elements[0]] * 2]).batch(2)
    error, *rest = asyncio.run(collect(data))
    assert isinstance(error, tg.PipelineError)
    assert text in str(error)
    assert error.origin == "element 0 of the source"
    assert len(rest) == 1  # the batch behind it


def test_padded_batches():
    rows = tg.data.from_iterable([[1], [2, 3, 4], [5, 6]])
    assert run(rows.padded_batch(2)) == [[[1, 0, 0], [2, 3, 4]], [[5, 6]]]
    assert run(rows.padded_batch(2, padding_values=-1, drop_remainder=True)) == [[[1, -1, -1], [2, 3, 4]]]
    pairs = tg.data.from_iterable([(np.ones([1, 2]), ["a"]), (np.ones([2, 1]), ["b", "c"])])
    assert run(pairs.padded_batch(2)) == [
        ([[[1, 1], [0, 0]], [[1, 0], [1, 0]]], [["a", ""], ["b", "c"]]),
    ]
    scalars = tg.data.from_iterable([([1], 2.0), ([1, 2], 3.0)], output=(tg.TensorSpec([None]), tg.TensorSpec([])))
    assert run(scalars.padded_batch(2)) == [([[1, 0], [1, 2]], [2, 3])]
    named = tg.data.from_iterable([{"x": [1], "n": 1}, {"x": [1, 2], "n": 2}])
    assert run(named.padded_batch(2, padding_values={"x": 9, "n": 0})) == [{"x": [[1, 9], [1, 2]], "n": [1, 2]}]


def test_ranks_must_agree():
    (error,) = asyncio.run(collect(tg.data.from_iterable([[1], [[2]]]).padded_batch(2)))
    assert "different ranks" in str(error)


def test_large_batches_are_made_in_a_thread():
    rows = [np.full(1 << 18, i, np.float64) for i in range(2)]
    (batch,) = asyncio.run(collect(tg.data.from_iterable(rows).batch(2)))
    assert batch[:, 0].tolist() == [0, 1]


def test_buckets():
    rows = tg.data.from_iterable([[1] * n for n in (1, 5, 2, 3, 6, 1)])
    assert [np.shape(batch) for batch in run(rows.bucket_by_length(len, [3], [2, 3]))] == [(2, 2), (3, 6), (1, 1)]
    with pytest.raises(tg.GraphError, match="increasing boundaries"):
        rows.bucket_by_length(len, [3, 3], 2)
    with pytest.raises(tg.GraphError, match="increasing boundaries"):
        rows.bucket_by_length(len, [3], [2])
    found = asyncio.run(collect(tg.data.from_iterable([[1], 2]).bucket_by_length(len, [3], 1)))
    assert "has raised TypeError" in str(found[1])


def test_shuffling_is_a_function_of_seed_and_epoch():
    data = NUMBERS.shuffle(10, seed=5)
    assert run(data, 0) == run(data, 0) == run(NUMBERS.shuffle(10, seed=5))
    assert sorted(run(data)) == list(range(10))
    assert run(data) != list(range(10))
    twice = run(data.repeat(2))
    assert twice[:10] != twice[10:]
    assert run(NUMBERS.shuffle(10)) != run(NUMBERS.shuffle(10))
    same = run(NUMBERS.shuffle(10, seed=5, reshuffle_each_iteration=False).repeat(2))
    assert same[:10] == same[10:] == run(NUMBERS.shuffle(10, seed=5, reshuffle_each_iteration=False))


def test_a_shuffle_is_even():
    """Each of five elements is first as often as another, within five standard deviations."""
    firsts = [run(tg.data.from_iterable(range(5)).shuffle(5, seed=seed).take(1))[0] for seed in range(500)]
    counts = np.bincount(firsts, minlength=5)
    assert np.all(abs(counts - 100) < 5 * np.sqrt(500 * 0.2 * 0.8))


async def test_async_functions_run_at_the_same_time_and_results_are_in_order():
    running = most = 0

    async def slow(x):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (10 - x))
        running -= 1
        return x

    assert [x async for x in NUMBERS.map(slow, parallel=4)] == list(range(10))
    assert most == 4
    most = 0
    assert [x async for x in NUMBERS.map(slow)] == list(range(10))
    assert most == 1


async def test_threads_run_at_the_same_time():
    meeting = threading.Barrier(2, timeout=20)

    def meet(x):
        meeting.wait()
        return x

    assert [x async for x in NUMBERS.take(2).map(meet, parallel=2)] == [0, 1]


async def test_a_function_that_holds_the_loop_goes_to_threads():
    threads = []

    def slow(x):
        threads.append(threading.current_thread())
        time.sleep(0.01)
        return x

    assert [x async for x in NUMBERS.map(slow)] == list(range(10))
    assert threads[0] is threading.main_thread()
    assert set(threads[1:]).isdisjoint({threading.main_thread()})
    threads.clear()
    assert [x async for x in NUMBERS.map(slow, threads=False)] == list(range(10))
    assert set(threads) == {threading.main_thread()}


async def test_the_loop_goes_on_beside_a_long_pipeline():
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    begun = time.perf_counter()
    assert [x async for x in tg.data.from_iterable(range(60_000)).filter(lambda x: x == 59_999)] == [59_999]
    seconds = time.perf_counter() - begun
    counting.cancel()
    assert turns > seconds / 0.02  # a turn each 20 ms at least


def test_what_is_drawn_does_not_depend_on_how_many_run():
    def noisy(x, rng):
        return x + rng.random()

    async def later(x, rng):
        await asyncio.sleep(0)
        return noisy(x, rng)

    wanted = run(NUMBERS.map(noisy, seed=1).repeat(2))
    assert wanted[:10] != wanted[10:]
    assert run(NUMBERS.map(noisy, seed=1, parallel=3).repeat(2)) == wanted
    assert run(NUMBERS.map(later, seed=1, parallel=3).repeat(2)) == wanted
    assert run(NUMBERS.map(noisy, seed=2).repeat(2)) != wanted


async def test_prefetch_is_as_far_ahead_as_it_may():
    made = []

    def note(x):
        made.append(x)
        return x

    async with NUMBERS.map(note).prefetch(3).iterator() as iterator:
        assert await iterator.next() == 0
        for _ in range(50):
            await asyncio.sleep(0)
        assert made in ([0, 1, 2], [0, 1, 2, 3])  # room for one is not worth a turn


async def test_nothing_is_made_before_somebody_asks():
    made = []
    async with NUMBERS.map(made.append).iterator() as iterator:
        await turns()
        assert made == []
        await iterator.next()
        assert made == [0]


async def test_large_elements_are_made_one_by_one():
    made = 0

    def large(_):
        nonlocal made
        made += 1
        return np.empty(1 << 20)

    async with NUMBERS.map(large).iterator() as iterator:
        for taken in range(1, 8):
            await iterator.next()
            assert made <= taken + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: NUMBERS.batch(0),
        lambda: NUMBERS.take(-1),
        lambda: NUMBERS.repeat(-1),
        lambda: NUMBERS.shuffle(0),
        lambda: NUMBERS.prefetch(True),
        lambda: NUMBERS.map(int, parallel=0),
        lambda: NUMBERS.map(int, parallel=2, threads=False),
        lambda: NUMBERS.map(asyncio.sleep, threads=True),
        lambda: NUMBERS.check("int32"),
        lambda: tg.data.zip_datasets(),
        lambda: tg.data.zip_datasets([1]),
    ],
)
def test_what_makes_no_pipeline_is_refused(make):
    with pytest.raises(tg.GraphError) as caught:
        make()
    assert caught.value.hint


def test_nothing_for_ever_is_nothing():
    assert run(NUMBERS.take(0).repeat()) == []
    assert run(NUMBERS.repeat(0)) == []
    assert len(run(NUMBERS.repeat().take(25))) == 25


def test_interleaved_files(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(3)))
    data = tg.data.from_files(f"{tmp_path}/*").interleave(tg.data.from_text, cycle_length=2)
    assert run(data) == ["a0", "b0", "a1", "b1", "a2", "b2", "c0", "c1", "c2"]
    (error,) = asyncio.run(collect(tg.data.from_iterable([1]).interleave(lambda x: x)))
    assert "makes no pipelines" in str(error)


def test_specs_are_followed():
    data = tg.data.from_arrays((np.zeros([4, 3], np.float32), np.arange(4)))
    assert str(data.batch(2).element_spec) == "(float32[?,3], int64[?])"
    assert str(data.batch(2, drop_remainder=True).element_spec) == "(float32[2,3], int64[2])"
    assert str(data.enumerate().element_spec) == "(int64[], (float32[3], int64[]))"
    assert str(tg.data.from_tfrecord("x").padded_batch(2).element_spec) == "uint8[?,?]"
    assert data.map(lambda x: x).element_spec is None
    assert str(tg.data.zip_datasets(data, data).element_spec).count("float32[3]") == 2


def test_elements_are_held_against_their_spec():
    spec = {"x": tg.TensorSpec([None], "float32"), "y": tg.TensorSpec([], "int64")}
    good = {"y": 3, "x": [1, 2.5]}
    data = tg.data.from_iterable(
        [good, {"x": [1.0]}, {"x": [[1.0]], "y": 1}, {"x": [1.0], "y": 0.5}, {"x": np.zeros(1), "y": 1}], output=spec
    )
    first, *errors = asyncio.run(collect(data))
    assert (first["x"].dtype, first["y"].dtype, list(first)) == ("float32", "int64", ["x", "y"])
    assert [error.element for error in errors] == [1, 2, 3, 4]
    texts = ["another structure", "another shape", "another dtype", "another dtype"]
    for error, text in zip(errors, texts, strict=True):
        assert text in str(error)
        assert "wanted" in str(error)
    for dtype, value in (
        ("uint8", -1),
        ("uint8", 256),
        ("int64", 2**63),
        ("float32", 1e39),
        ("bool", 1),
        ("int32", True),
    ):
        (error,) = asyncio.run(collect(tg.data.from_iterable([value], output=tg.TensorSpec([], dtype))))
        assert "another dtype" in str(error), (dtype, value)
    for dtype, value in (("int64", 2**63 - 1), ("int64", -(2**63)), ("float32", float("inf")), ("float64", 1)):
        assert run(tg.data.from_iterable([value], output=tg.TensorSpec([], dtype))) == [value]
    assert run(tg.data.from_iterable([b"ab"], output=tg.TensorSpec([None], "uint8"))) == [[97, 98]]


@pytest.mark.parametrize("kind", ["shuffle", "skip"])
def test_several_errors_at_once_are_handed_on_one_by_one(kind):
    failing = tg.data.from_iterable(range(6)).map(lambda x: 1 // (x % 2))
    several = failing.shuffle(6, seed=0) if kind == "shuffle" else failing.skip(1)
    found = asyncio.run(collect(several.interleave(lambda x: tg.data.from_iterable([x, x]))))
    assert [x for x in found if not isinstance(x, tg.PipelineError)] == [1] * (6 if kind == "shuffle" else 4)
    assert len([x for x in found if isinstance(x, tg.PipelineError)]) == 3


@pytest.mark.parametrize("kind", ["shuffle", "skip"])
async def test_errors_that_were_not_handed_on_are_in_the_state(kind):
    failing = tg.data.from_iterable(range(6)).map(lambda x: 1 // (x % 2))
    data = failing.shuffle(6, seed=0) if kind == "shuffle" else failing.skip(3)
    stage = data.iterator()._stage
    first = await stage.pull(1)
    other = data.iterator()._stage
    other.restore(through_a_file(stage.state()))
    assert len(first) == 1
    rest = []
    while chunk := await other.pull(1):
        rest += chunk
    assert [type(value).__name__ for value, _ in rest].count("Failure") == 2


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_filter_that_gives_no_truth_value_is_an_error_of_its_element(parallel):
    async def later(x):
        return x > 2

    data = tg.data.from_arrays(np.arange(4).reshape(2, 2))
    for function in (lambda x: x > 2, later):
        found = asyncio.run(collect(data.filter(function, parallel=parallel)))
        assert [error.element for error in found] == [0, 1]
        assert "neither true nor false" in str(found[0])
        assert run(data.filter(function, parallel=parallel).ignore_errors()) == []


@pytest.mark.parametrize("threads", [False, True])
def test_a_coroutine_that_nobody_awaits_is_an_error(threads):
    async def fetch(x):
        return x

    for data in (NUMBERS.map(lambda x: fetch(x), threads=threads), NUMBERS.filter(lambda x: fetch(x), threads=threads)):
        found = asyncio.run(collect(data.take(1)))
        assert "returned a coroutine" in str(found[0])
        assert "map(fetch)" in str(found[0])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: NUMBERS.batch(2, drop_remainder="no"), "drop_remainder is a switch"),
        (lambda: NUMBERS.padded_batch(2, drop_remainder=1), "drop_remainder is a switch"),
        (lambda: NUMBERS.bucket_by_length(len, [1], 2, drop_remainder="no"), "drop_remainder is a switch"),
        (lambda: NUMBERS.shuffle(2, reshuffle_each_iteration="no"), "reshuffle_each_iteration is a switch"),
        (lambda: NUMBERS.map(str, threads="no"), "threads is a switch"),
        (lambda: NUMBERS.filter(str, threads="no"), "threads is a switch"),
        (lambda: NUMBERS.ignore_errors(log="no"), "log is a switch"),
        (lambda: NUMBERS.enumerate("a"), "start is out of range"),
    ],
)
def test_words_are_no_switches(make, match):
    with pytest.raises(tg.GraphError, match=match):
        make()
