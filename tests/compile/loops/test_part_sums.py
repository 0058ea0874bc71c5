"""Gradients of slices and rows are added to sums where they stand, without zeros around them."""

import asyncio
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile.loops.part_sums import add_parts
from tagloom.ir.program import Program, copy_program

from tests.support.compiling import lowered
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

TIMES, ROWS, COLUMNS = 9, 11, 24
EXECUTORS = {
    "machine": ON.without("straight", "cluster"),
    "python": ON.without("straight", "cluster", "native", "loops"),
    "walk": replace(ON, llvm=False),
    "llvm": ON,
}


def below(n):
    return lambda i, *_: i < n


def one_row(x, k):
    return tg.while_loop(below(TIMES), lambda i, a: (i + 1, tg.tanh(a + x[i])), [0, tg.zeros_like(x[0])])[1]


def rows_from_both_ends(x, k):
    body = lambda i, a: (i + 1, tg.tanh(a + x[i]) * x[-1 - i])  # noqa: E731
    return tg.while_loop(below(TIMES), body, [0, tg.ones_like(x[0])])[1]


def columns_backwards(x, k):
    return tg.while_loop(below(TIMES), lambda i, a: (i + 1, a * tg.sin(x[::-1, i])), [0, tg.ones_like(x[:, 0])])[1]


def windows(x, k):
    body = lambda i, a: (i + 1, tg.tanh(a + tg.reduce_sum(x[i : i + k], 0)))  # noqa: E731
    return tg.while_loop(below(TIMES), body, [0, tg.zeros_like(x[0])])[1]


def elements_by_vectors(x, k):
    body = lambda i, a: (i + 1, a * tg.gather_nd(x, tg.stack([[i, i + k], [0, k], [0, k]])))  # noqa: E731
    return tg.while_loop(below(TIMES), body, [0, tg.ones([3], x.dtype)])[1]


def rows_replaced(x, k):
    body = lambda i, a: (i + 1, tg.tensor_scatter_update(a, [[i]], [tg.sin(a[i]) + a[i + 1]]))  # noqa: E731
    return tg.while_loop(below(TIMES), body, [0, x * 2.0])[1]


def rows_replaced_by_others_of_the_tensor(x, k):
    body = lambda i, a: (i + 1, tg.tensor_scatter_update(a, [[i], [i + 1]], a[i + 1 :][:2]))  # noqa: E731
    return tg.while_loop(below(TIMES), body, [0, x * 2.0])[1]


def rows_read_after_they_were_replaced(x, k):
    def body(i, a, b):
        new = tg.tensor_scatter_update(a, [[i], [0]], [a[i + 1], a[0] + 1.0])
        return i + 1, new, b + new[0] - a[0] * a[i]

    return tg.while_loop(below(TIMES), body, [0, x * 2.0, tg.zeros_like(x[0])])[2]


def rows_added(x, k):
    body = lambda i, a: (i + 1, tg.tensor_scatter_add(a, [[i], [0], [0]], [a[i + 1], a[1], a[2]]))  # noqa: E731
    return tg.while_loop(below(TIMES), body, [0, x * 2.0])[1]


def exchanged_variables(x, k):
    """Two variables that change places, of which one is updated."""
    body = lambda i, a, b: (i + 1, tg.tensor_scatter_update(b, [[i]], [a[i]]), a)  # noqa: E731
    return tg.add_n(tg.while_loop(below(TIMES), body, [0, x * 2.0, x * x])[1:])


def nested(x, k):
    def body(i, a):
        return i + 1, tg.while_loop(below(3), lambda j, b: (j + 1, tg.sin(b + x[i + j])), [0, a])[1]

    return tg.while_loop(below(TIMES - 2), body, [0, tg.zeros_like(x[0])])[1]


def without_loops(x, k):
    return x[0] * x[k] + x[::-1][2]


PROGRAMS = [
    one_row,
    rows_from_both_ends,
    columns_backwards,
    windows,
    elements_by_vectors,
    rows_replaced,
    rows_replaced_by_others_of_the_tensor,
    rows_read_after_they_were_replaced,
    rows_added,
    exchanged_variables,
    nested,
    without_loops,
]
ADDED = {
    one_row: {"AddToSlice": 1},
    rows_from_both_ends: {"AddToSlice": 2},
    elements_by_vectors: {"AddToRows": 1},
    without_loops: {"AddToSlice": 2},
}


def built(program, dtype="float32", shape=(ROWS, COLUMNS)):
    """Return feeds, and a program's results with gradients."""
    x, k = tg.placeholder(dtype, shape), tg.placeholder("int32", [])
    y = program(x, k)
    values = np.random.default_rng(1).normal(size=(ROWS, COLUMNS)).astype(dtype)
    return {x: values, k: 2}, [y, *tg.gradients(tg.reduce_sum(y * y), [x])]


def run(fetches, feeds, settings, **options):
    with tg.SyncSession(fetches[0].graph, settings=settings, **options) as session:
        return [session.run(fetches, feeds) for _ in range(2)][-1]


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("shape", [(ROWS, COLUMNS), (None, None)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_bits_are_the_same_on_all_executors(program, dtype, shape):
    feeds, fetches = built(program, dtype, shape)
    wanted = run(fetches, feeds, EXECUTORS["python"])
    without = run(fetches, feeds, replace(ON, accumulate=False))
    for settings in EXECUTORS.values():
        for options in ({}, {"memory_limit": "64MiB"}, {"devices": ["/cpu:0", "/cpu:1"]}):
            found = run(fetches, feeds, settings, **options)
            assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    for one, other in zip(wanted, without, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-12)


@pytest.mark.parametrize("program", ADDED, ids=lambda program: program.__name__)
def test_parts_are_added(program):
    feeds, fetches = built(program)
    types = Counter(op.type for op in lowered(Program(fetches[0].graph, [*feeds], fetches), ON).graph.root.walk())
    assert {type: types[type] for type in ("AddToSlice", "AddToRows") if types[type]} == ADDED[program]


def test_a_switch_leaves_sums_as_they_are():
    feeds, fetches = built(one_row)
    program = Program(fetches[0].graph, [*feeds], fetches)
    assert "AddToSlice" not in {op.type for op in lowered(program, replace(ON, accumulate=False)).graph.root.walk()}


def test_kernels_of_outside_packages_are_left():
    feeds, fetches = built(without_loops)
    program = copy_program(Program(fetches[0].graph, [*feeds], fetches))
    left = add_parts(program, lambda op: op.type == "StridedSliceGrad")
    assert "AddToSlice" not in {op.type for op in left.graph.root.walk()}


def test_sums_have_the_same_bits_whether_their_shape_is_known_or_not():
    values = np.random.default_rng(3).normal(size=(2, 3)).astype("float32")

    def gradient(shape):
        x = tg.placeholder("float32", shape)
        y = tg.while_loop(below(5), lambda i, a: (i + 1, tg.sin(x[0]) * x[1] + a * x[-1]), [0, x[0]])[1]
        return run(tg.gradients(y, [x]), {x: values}, ON)[0]

    assert gradient([2, 3]).tobytes() == gradient([None, None]).tobytes()


def test_scalars_and_small_vectors():
    x, v = tg.placeholder("float32", []), tg.placeholder("float32", [2])
    y = tg.while_loop(below(3), lambda i, a: (i + 1, a * v[0] + v[1] * x[...]), [0, x])[1]
    for settings in EXECUTORS.values():
        found = run(tg.gradients(y, [x, v]), {x: 2.0, v: np.float32([3, 5])}, settings)
        assert [a.tolist() for a in found] == [3.0**3 + 5 * 13, [2 * 27.0 + 10 * 7.0, 26.0]]


def test_terms_that_broadcast_are_added_as_before():
    x, row = tg.placeholder("float32", [None, None]), tg.placeholder("float32", [None, None])
    [g] = tg.gradients(x[0], [x])
    values = np.arange(6, dtype="float32").reshape(2, 3)
    for settings in EXECUTORS.values():
        found = run([g + row], {x: values, row: np.ones((1, 3), "float32")}, settings)
        np.testing.assert_array_equal(found[0], [[2, 2, 2], [1, 1, 1]])


def test_inner_sums_that_broadcast_are_added_as_before():
    x, row = tg.placeholder("float32", [None, None]), tg.placeholder("float32", [None, None])
    more = tg.placeholder("float32", [None, None, None])
    [g] = tg.gradients(x[0], [x])
    feeds = {x: np.ones((2, 3), "float32"), row: np.full((1, 3), 2.0, "float32"), more: np.ones((4, 1, 3), "float32")}
    for settings in EXECUTORS.values():
        for total in ((g + row) + more, more + (row + g)):
            found = run([total], feeds, settings)
            np.testing.assert_array_equal(found[0], np.broadcast_to([[4, 4, 4], [3, 3, 3]], (4, 2, 3)))


@pytest.mark.parametrize("name", ["machine", "walk"])
def test_an_iteration_takes_no_room_for_the_whole_array(name):
    """Neither for its gradient, nor for what a row is put into."""
    size = 1 << 20
    x = tg.placeholder("float64", [size // 64, 64])
    y = tg.while_loop(below(50), lambda i, a: (i + 1, tg.sin(a) * x[i]), [0, x[0]])[1]
    z = tg.while_loop(below(50), lambda i, a: (i + 1, tg.tensor_scatter_update(a, [[i]], [a[i] + 1.0])), [0, x + 1.0])[
        1
    ]
    for fetches in (tg.gradients(y, [x]), [z]):
        with tg.SyncSession(x.graph, settings=EXECUTORS[name]) as session:
            session.run(fetches, {x: np.ones((size // 64, 64))})
            assert session.statistics().peak_bytes < 3.5 * 8 * size


def test_a_slice_that_does_not_fit_is_an_error_of_its_iteration(graph):
    x, n = tg.placeholder("float32", [ROWS, COLUMNS]), tg.placeholder("int32", [])
    y = tg.while_loop(below(n), lambda i, a: (i + 1, tg.tensor_scatter_update(a, [[i]], [a[0]])), [0, x])[1]

    async def check():
        async with tg.Session(graph, settings=ON) as session:
            values = np.ones((ROWS, COLUMNS), "float32")
            with pytest.raises(tg.OpError, match="indices have to be in") as caught:
                await session.run(y, {x: values, n: ROWS + 1})
            assert f"/{ROWS}" in str(caught.value)  # the instance's iteration
            np.testing.assert_array_equal(await session.run(y, {x: values, n: ROWS}), values)

    asyncio.run(check())
