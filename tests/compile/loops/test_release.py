"""Saved values that are let go of when they are read for the last time."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import optimized
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

WIDE = 1 << 16  # bytes of what an iteration saves


def chain(n):
    """Return the input and result of a loop whose gradient needs a saved value of each of `n` iterations."""
    x = tg.placeholder("float32", [WIDE // 4])
    _, last = tg.while_loop(lambda i, _: i < n, lambda i, h: (i + 1, tg.sin(h)), [0, x])
    return x, last


def nested(counts, body, x, window=32):
    """Return the result of loops in loops around `body`."""
    if not counts:
        return body(x)
    inner = lambda i, h: (i + 1, nested(counts[1:], body, h, window))  # noqa: E731
    return tg.while_loop(lambda i, _: i < counts[0], inner, [0, x], parallel_iterations=window)[1]


def last_reads(fetches, feeds):
    """Return of each read of a saved value whether it is the last."""
    program = optimized(Program(fetches[0].graph, feeds, fetches), ON)
    return [bool(op.attrs["last"]) for op in program.graph.root.walk() if op.type == "SeriesRead"]


def run(fetches, feeds, settings=ON):
    async def main():
        async with tg.Session(fetches[0].graph, settings=settings) as session:
            return await session.run(fetches, feeds)

    return asyncio.run(main())


@pytest.mark.parametrize("window", [1, 8])
@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("counts", [(40,), (2, 20)])
def test_memory_is_free_while_the_backward_loop_goes_on(counts, window, release):
    live = []

    @tg.custom_gradient
    def noted(x):
        def note(g):
            live.append(session.statistics().live_bytes)
            return g

        return tg.identity(x), lambda g: tg.reshape(tg.py_function(note, [g], "float32"), [WIDE // 4])

    n = 40
    x = tg.placeholder("float32", [WIDE // 4])
    gradient = tg.gradients(nested(counts, lambda h: noted(tg.sin(h)), x, window), x)
    assert all(last_reads(gradient, [x]))

    async def main():
        nonlocal session
        async with tg.Session(x.graph, settings=replace(ON, release=release)) as session:
            await session.run(gradient, {x: np.ones(WIDE // 4, np.float32)})

    session = None
    asyncio.run(main())
    assert len(live) == n
    freed = live[0] - live[-1]
    assert freed > 0.8 * n * WIDE if release else freed < 4 * WIDE


def test_a_value_that_two_gradients_read_stays():
    x, last = chain(3)
    y = tg.reduce_sum(last)
    fetches = [*tg.gradients(y, x), *tg.gradients(y * y, x)]
    with tg.SyncSession(x.graph, settings=replace(ON, merge=False)) as session:
        first, second = session.run(fetches, {x: np.full(WIDE // 4, 0.5, np.float32)})
    total = np.sin(np.sin(np.sin(np.float32(0.5)))) * (WIDE // 4)
    np.testing.assert_allclose(second, 2 * total * first, rtol=1e-3)


def test_a_loop_that_runs_for_each_element_finds_everything():
    x = tg.placeholder("float64", [4])
    _, last = tg.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tg.sin(h)), [0, x])
    (hessian,) = tg.hessians(tg.reduce_sum(last), [x])
    given = np.linspace(0.1, 0.7, 4)
    (computed,) = run([hessian], {x: given})
    assert not all(last_reads([hessian], [x]))
    (plain,) = run([hessian], {x: given}, ON.without("all"))
    np.testing.assert_allclose(computed, plain, rtol=1e-12)


def test_a_read_in_a_branch_is_the_last_too():
    x = tg.placeholder("float64", [4])

    def body(i, h):
        return i + 1, tg.cond(tg.equal(i % 2, 0), lambda: tg.sin(h), lambda: h * 0.5)

    _, last = tg.while_loop(lambda i, _: i < 5, body, [0, x])
    fetches = tg.gradients(tg.reduce_sum(last), x)
    assert True in last_reads(fetches, [x])
    given = {x: np.linspace(0.1, 0.7, 4)}
    np.testing.assert_array_equal(run(fetches, given), run(fetches, given, ON.without("all")))


def test_of_segments_that_are_computed_again():
    x = tg.placeholder("float32", [WIDE // 4])
    _, last = tg.while_loop(lambda i, _: i < 9, lambda i, h: (i + 1, tg.sin(h)), [0, x], checkpoint_every=3)
    assert last_reads(tg.gradients(last, [x]), [x]) == [True, True]  # where a segment begins, and in it


def check(fetches, x):
    """Hold the values against those of the program as it was written."""
    given = {x: np.linspace(0.1, 0.7, x.shape.dims[0]).astype(x.dtype.name)}
    for a, b in zip(run(fetches, given), run(fetches, given, ON.without("release")), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("counts", "reads"), [((3, 4), 3), ((2, 3, 2), 6)])
def test_of_loops_in_loops(counts, reads):
    x = tg.placeholder("float64", [4])
    fetches = tg.gradients(nested(counts, tg.sin, x), x)
    assert last_reads(fetches, [x]) == [True] * reads  # of values, of series of them, and of numbers of iterations
    check(fetches, x)


def test_a_series_that_two_gradients_read_in_an_inner_loop_stays():
    x = tg.placeholder("float64", [4])
    y = nested((2, 3), tg.sin, x)
    fetches = [*tg.gradients(y, x), *tg.gradients(y * y, x)]
    assert not any(last_reads(fetches, [x]))
    check(fetches, x)


def test_a_second_gradient_of_loops_in_loops():
    x = tg.placeholder("float64", [4])
    (first,) = tg.gradients(nested((2, 3), tg.sin, x), x)
    fetches = [first, *tg.gradients(first, x)]
    check(fetches, x)


def test_an_inner_loop_in_a_branch():
    x = tg.placeholder("float64", [4])

    def body(i, h):
        return i + 1, tg.cond(tg.equal(i % 2, 0), lambda: nested((3,), tg.sin, h), lambda: h * 0.5)

    fetches = tg.gradients(tg.while_loop(lambda i, _: i < 5, body, [0, x])[1], x)
    check(fetches, x)


def test_a_gradient_of_an_inner_loop_in_the_loop_around_it():
    x = tg.placeholder("float64", [4])

    def body(i, h):
        inner = nested((3,), tg.sin, h)
        return i + 1, inner + tg.gradients(inner, h)[0]

    fetches = tg.gradients(tg.while_loop(lambda i, _: i < 2, body, [0, x])[1], x)
    check(fetches, x)
