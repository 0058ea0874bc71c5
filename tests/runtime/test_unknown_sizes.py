"""Loops and their gradients with a batch of unknown size are native, with the bits of the step machine."""

import resource
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.unknown_programs import CHANGING, NATIVE, Weights
from tests.support.settings import ON

PLAIN = replace(ON, straight=False)
WAYS = {"straight": replace(ON, llvm=False), "llvm": ON, "general": replace(ON, specialize=0)}
SIZES = (4, 3, 1, 4, 5)
FAULTS = 100  # in a step, on average: before sizes of all steps shared their memory it was thousands


def fetches_of(program, x):
    """Return the value of a program with gradients of the batch and the weights."""
    weights = Weights()
    y = program(x, weights)
    found = tg.gradients(tg.reduce_sum(tg.square(y)), [x, *weights.all])
    return [y, *(tg.convert_to_tensor(g) for g in found if g is not None)]


def batches():
    return [np.random.default_rng(n).standard_normal((n, 8)) for n in SIZES]


async def run_fed(program, settings):
    """Return the values of steps that are fed batches of several sizes, and the reports of the loops."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [None, 8])
        fetches = fetches_of(program, x)
    async with tg.Session(graph, settings=settings) as session:
        return [await session.run(fetches, {x: batch}) for batch in batches()], session.report().loops


async def run_pipeline(program, settings):
    """Return the same where the batches come from a dataset."""
    with tg.Graph().as_default() as graph:
        dataset = tg.data.from_iterable(batches(), output=tg.TensorSpec([None, 8], "float64"))
        fetches = fetches_of(program, dataset.next())
    async with tg.Session(graph, settings=settings) as session:
        return [await session.run(fetches) for _ in SIZES], session.report().loops


async def check_bits(program, run):
    """Fail unless a program gives the same bits natively as on the step machine; yield the reports of its loops."""
    wanted, _ = await run(program, PLAIN)
    for settings in WAYS.values():
        found, loops = await run(program, settings)
        for left, right in zip(found, wanted, strict=True):
            assert [a.tobytes() for a in left] == [a.tobytes() for a in right]
        yield loops


@pytest.mark.sampled(every=11)
@pytest.mark.parametrize("run", [run_fed, run_pipeline], ids=["fed", "pipeline"])
@pytest.mark.parametrize("name", NATIVE)
async def test_gradients_of_unknown_batches_are_native(name, run):
    async for loops in check_bits(NATIVE[name], run):
        assert len(loops) >= 2
        assert [loop.not_native for loop in loops if loop.limited_by != "native"] == []


@pytest.mark.parametrize("name", CHANGING)
async def test_shapes_that_change_in_a_loop_stay_with_the_step_machine(name):
    async for forward, backward in check_bits(CHANGING[name], run_fed):
        assert "native" not in (forward.limited_by, backward.limited_by)
        assert "changes" in forward.not_native
        assert backward.not_native.endswith("depends on a value that changes")


@pytest.mark.parametrize("name", WAYS)
async def test_saved_sizes_may_be_others_in_each_step(graph, name):
    """Small loops keep runs: one that was recorded for some sizes must not run for others."""
    x, n = tg.placeholder("float64", [None]), tg.placeholder("int32", [])

    def body(i, a):
        part = tg.reshape(tg.tile(tg.reshape(a, [1, -1]), tg.stack([n, 1])), [-1])
        return i + 1, a * 0.5 + tg.reduce_sum(tg.sin(part)) * 0.1

    y = tg.while_loop(lambda i, _: i < 3, body, [0, x])[1]
    fetches = [y, *tg.gradients(y, [x])]
    feeds = [{x: np.linspace(0, 1, size), n: times} for size in (2, 3) for times in (1, 2, 3, 2, 1)] * 2
    found = []
    for settings in (WAYS[name], PLAIN):
        async with tg.Session(graph, settings=settings) as session:
            found.append([await session.run(fetches, each) for each in feeds])
            loops = session.report().loops
        if settings is not PLAIN:
            assert {loop.limited_by for loop in loops} == {"native"}
    for left, right in zip(*found, strict=True):
        assert [a.tobytes() for a in left] == [a.tobytes() for a in right]


@pytest.mark.parametrize("straight", [True, False], ids=["native", "step machine"])
async def test_steps_of_other_sizes_share_their_memory(graph, straight):
    x = tg.placeholder("float32", [None, 500])
    y = tg.while_loop(lambda i, _: i < 20, lambda i, a: (i + 1, 0.5 * a - tg.square(a) * a), [0, x])[1]
    fetches = [tg.reduce_sum(y), *tg.gradients(tg.reduce_sum(y), [x])]
    random = np.random.default_rng(1)
    sizes = [random.permutation(np.arange(60, 460, 20)) for _ in range(8)]
    rows = random.random((460, 500), np.float32)
    async with tg.Session(graph, settings=tg.Settings(straight=straight, llvm=False)) as session:
        counts = []
        for order in sizes:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for size in order:
                await session.run(fetches, {x: rows[:size]})
            counts.append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / len(order))
    assert min(counts[-3:]) <= FAULTS, counts
