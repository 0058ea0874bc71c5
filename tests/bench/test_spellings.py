"""Every spelling of a program computes the same values and gradients, and says how its loops ran."""

import inspect
from contextlib import AsyncExitStack
from types import SimpleNamespace

import numpy as np
import pytest
import tagloom as tg

from bench.experiment import PEER_MODULES
from bench.protocol import compare
from bench.spellings import EXPERIMENT, engines, solvers
from bench.spellings.catalogue import PROGRAMS, cases

SMALL = cases("small", *PROGRAMS)
TOLERANCE = EXPERIMENT.tolerance


def label(case):
    return f"{case['program']} {case['spelling']}{' gradient' if case['gradient'] else ''}"


def first_of(case):
    return {**case, "spelling": next(iter(PROGRAMS[case["program"]].spellings))}


async def run(factory, case):
    """Return a step's values and notes."""
    async with AsyncExitStack() as stack:
        step = factory(case, stack)
        step = await step if inspect.isawaitable(step) else step
        values = step()
        values = await values if inspect.isawaitable(values) else values
        return [np.asarray(value) for value in values], step.notes()


async def by_reference(case, numbers=None):
    """Return the values of a case's graph by the reference executor."""
    graph, feeds, fetches = engines.build(tg, case)
    numbers = numbers or engines.drawn(case)[1]
    async with tg.Session(graph, executor="reference") as session:
        found = await session.run(fetches, dict(zip(feeds, numbers.values(), strict=True)))
    return [np.asarray(value) for value in found]


@pytest.mark.sampled(every=40)
@pytest.mark.parametrize("case", SMALL, ids=label)
async def test_a_spelling_computes_what_the_first_spelling_does_by_reference(case):
    values, notes = await run(engines.tagloom, case)
    assert compare(await by_reference(first_of(case)), values, TOLERANCE) is None
    assert set(notes) == set(EXPERIMENT.notes)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if PROGRAMS[name].trained])
async def test_a_gradient_is_the_slope_of_the_value(name):
    case = first_of({"program": name, "gradient": False, "size": "small"})
    program, numbers = engines.drawn(case)
    random = np.random.default_rng(1)
    ways = {key: random.standard_normal(numbers[key].shape).astype(np.float32) for key in program.trained}
    values = await by_reference({**case, "gradient": True})
    slope = sum(np.sum(g * way) for g, way in zip(values[-len(ways) :], ways.values(), strict=True))
    step = 2e-3
    sides = [{**numbers, **{key: numbers[key] + s * step * ways[key] for key in ways}} for s in (1, -1)]
    high, low = [float((await by_reference(case, side))[0]) for side in sides]
    assert (high - low) / (2 * step) == pytest.approx(slope, rel=0.05, abs=0.01)


@pytest.mark.parametrize("case", [case for case in SMALL if first_of(case) == case], ids=label)
async def test_jax_computes_the_same(case):
    pytest.importorskip("jax", reason="jax is not installed; it is one of bench/requirements-peers.txt")
    (values, _), (wanted, _) = await run(engines.jax, case), await run(engines.tagloom, case)
    assert compare(wanted, values, TOLERANCE) is None


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize(("name", "most"), [("runge_kutta", solvers.MOST_STEPS), ("newton", solvers.MOST_NEWTON)])
async def test_bounded_loops_of_jax_are_long_enough(name, most, size):
    values, _ = await run(engines.tagloom, first_of({"program": name, "gradient": False, "size": size}))
    assert 2 < values[-1] <= most


async def test_solvers_solve():
    case = {"gradient": False, "size": "small"}
    (_, z, _), _ = await run(engines.tagloom, first_of({"program": "newton", **case}))
    right = engines.drawn({"program": "newton", **case})[1]["right"]
    left = np.stack([z[:, 0] - 0.8 * np.sin(z[:, 1]), z[:, 1] - 0.7 * np.cos(z[:, 0])], 1)
    np.testing.assert_allclose(left, right, atol=1e-5)
    (x, _), _ = await run(engines.tagloom, first_of({"program": "bisection", **case}))
    numbers = engines.drawn({"program": "bisection", **case})[1]
    values, slopes = numbers["table"].T
    ends = np.append(values, values[-1] + slopes[-1] / len(slopes))
    np.testing.assert_allclose(x, np.interp(numbers["wanted"], ends, np.linspace(0, 1, len(ends))), atol=1e-4)


def test_a_variant_sets_batch_memory_and_devices():
    for name, program in PROGRAMS.items():
        spelling = next(iter(program.spellings))
        case = {"program": name, "spelling": f"{spelling} unknown_batch", "gradient": False, "size": "small"}
        _, feeds, _ = engines.build(tg, case)
        for feed, key in zip(feeds, engines.drawn(case)[1], strict=True):
            unknown = [axis for axis, size in enumerate(feed.shape) if size is None]
            assert unknown == ([program.batch[key]] if key in program.batch else [])
    assert engines.spelling({"spelling": "stack memory_limit"})[1].session == {"memory_limit": "16GiB"}
    assert engines.spelling({"spelling": "stack two_devices"})[1].session == {"devices": 2}
    assert engines.spelling({"spelling": "stack"}) == ("stack", engines.VARIANTS[""])


def test_twelve_programs_have_three_spellings_or_more():
    assert len(PROGRAMS) == 12
    assert all(len(program.spellings) >= 3 for program in PROGRAMS.values())
    found = {(c["program"], c["gradient"]) for c in EXPERIMENT.cases}
    assert found == {(name, g) for name in PROGRAMS for g in (False, True) if PROGRAMS[name].trained or not g}
    assert 0 < len(EXPERIMENT.quick().cases) < len(EXPERIMENT.cases)
    assert {case["size"] for case in EXPERIMENT.quick().cases} == {"small"}
    assert {"tagloom", *PEER_MODULES} >= set(EXPERIMENT.engines)


def test_notes_are_the_reasons_of_loops_that_are_not_native_and_the_kernels_called():
    loops = [
        SimpleNamespace(name="a", limited_by="native", not_native=None, called=("Sort", "Cumsum")),
        SimpleNamespace(name="b", limited_by="variable", not_native="PyFunction does more than compute", called=()),
    ]
    notes = engines.describe_loops(SimpleNamespace(loops=loops))
    assert notes == {"not_native": "b: PyFunction does more than compute", "called": "Cumsum, Sort"}
    assert engines.describe_loops(SimpleNamespace(loops=loops[:1]))["not_native"] == ""


def test_spellings_are_compared_with_the_fastest():
    medians = [({"spelling": name}, rate) for name, rate in (("a", 2.0), ("b", 8.0), ("c", 4.0))]
    assert [(c["spelling"], to, r) for c, to, r in engines.sides(medians)] == [
        ("a", "fastest_spelling", 0.25),
        ("b", "fastest_spelling", 1.0),
        ("c", "fastest_spelling", 0.5),
    ]
