"""Loops as machine code: the same bits as inner loops give, and what happens when there is no code."""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.apply import apply
from tagloom.kernels.native.jit import compilation, emit
from tagloom.kernels.native.jit.fused import FusedPart, can_be_loops
from tagloom.kernels.steps import STEPS

from tests.kernels import step_cases
from tests.support.settings import MACHINE, ON

pytest.importorskip("llvmlite")

EDGES = {
    "float32": [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-45, 3e38, -1e-30, 0.1, 7.0],
    "float64": [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 5e-324, 1e308, -1e-300, 0.1, 7.0],
    "int8": [0, 1, -1, 127, -128, 5, -7, 64],
    "int32": [0, 1, -1, 2**31 - 1, -(2**31), 5, -7, 1 << 20],
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), 5, -7, 1 << 40],
    "uint8": [0, 1, 255, 128, 5, 7],
    "uint32": [0, 1, 2**32 - 1, 2**31, 5, 7],
    "bool": [True, False],
}
FLOATS, INTEGERS = ("float32", "float64"), ("int8", "int32", "int64", "uint8", "uint32")
NUMBERS = (*FLOATS, *INTEGERS)
CAST = (*FLOATS, "int32", "int64", "bool")
SIGNED = (*FLOATS, "int8", "int32", "int64")

OPERATIONS = {
    "add": (lambda x, y: x + y, NUMBERS),
    "subtract": (lambda x, y: x - y, NUMBERS),
    "multiply": (lambda x, y: x * y, NUMBERS),
    "divide": (lambda x, y: x / y, FLOATS),
    "floor_divide": (lambda x, y: x // tg.where(y == 0, tg.ones_like(y), y), NUMBERS),
    "remainder": (lambda x, y: x % tg.where(y == 0, tg.ones_like(y), y), NUMBERS),
    "maximum": (tg.maximum, NUMBERS),
    "minimum": (tg.minimum, NUMBERS),
    "less": (lambda x, y: x < y, NUMBERS),
    "less_equal": (lambda x, y: x <= y, NUMBERS),
    "greater": (lambda x, y: x > y, NUMBERS),
    "greater_equal": (lambda x, y: x >= y, NUMBERS),
    "equal": (lambda x, y: x == y, (*NUMBERS, "bool")),
    "not_equal": (lambda x, y: x != y, (*NUMBERS, "bool")),
    "negative": (lambda x, y: -x, SIGNED),
    "absolute": (lambda x, y: abs(x), SIGNED),
    "square": (lambda x, y: tg.square(x), NUMBERS),
    "sqrt": (lambda x, y: tg.sqrt(x), FLOATS),
    "floor": (lambda x, y: tg.floor(x), FLOATS),
    "ceil": (lambda x, y: tg.ceil(x), FLOATS),
    "round": (lambda x, y: tg.round(x), FLOATS),
    "isnan": (lambda x, y: tg.is_nan(x), FLOATS),
    "squared_difference": (tg.squared_difference, FLOATS),
    "where": (lambda x, y: tg.where(x < y, x, y), NUMBERS),
    "logical_and": (tg.logical_and, ("bool",)),
    "logical_or": (tg.logical_or, ("bool",)),
    "logical_xor": (tg.logical_xor, ("bool",)),
    "logical_not": (lambda x, y: tg.logical_not(x), ("bool",)),
    "bitwise_and": (lambda x, y: x & y, INTEGERS),
    "bitwise_or": (lambda x, y: x | y, INTEGERS),
    "bitwise_xor": (lambda x, y: x ^ y, INTEGERS),
    "to_float32": (lambda x, y: tg.cast(x, "float32"), CAST),
    "to_float64": (lambda x, y: tg.cast(x, "float64"), CAST),
    "to_int64": (lambda x, y: tg.cast(x, "int64"), CAST[2:]),
    "to_int32": (lambda x, y: tg.cast(x, "int32"), CAST[2:]),
}


def pairs(dtype, count):
    """Return two arrays that meet in many ways."""
    edges = np.array(EDGES[dtype], dtype)
    return np.resize(np.repeat(edges, len(edges)), count), np.resize(edges, count)


async def values(graph, fetches, feeds, settings):
    async with tg.Session(graph, settings=settings) as session:
        found = await session.run(fetches, feeds)
        assert {loop.limited_by == "native" for loop in session.report().loops} == {settings.straight}
        return found


def assert_same_bits(found, wanted):
    """Compare arrays, zeros with their signs; any NaN equals any other."""
    np.testing.assert_array_equal(found, wanted)
    if found.dtype.kind == "f":
        there = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(wanted)[there])


@pytest.mark.sampled(every=40)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
async def test_elements_are_those_of_inner_loops(graph, name):
    function, dtypes = OPERATIONS[name]
    for dtype in dtypes:
        fetches, feeds = [], {}
        for shape in ((), (1,), (31,), (200,)):
            x, y = (tg.placeholder(dtype, shape) for _ in range(2))
            feeds |= dict(zip((x, y), (a.reshape(shape) for a in pairs(dtype, int(np.prod(shape)))), strict=True))
            start = tg.zeros_like(function(x, y))
            body = lambda i, x, y, _: (i + 1, y, x, function(x, y))  # noqa: E731
            fetches.append(tg.while_loop(lambda i, *_: i < 3, body, [0, x, y, start])[3])
        found = await values(graph, fetches, feeds, replace(ON, fuse=False))
        for one, other in zip(found, await values(graph, fetches, feeds, MACHINE), strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sides", [(1, 1, 1), (2, 2, 2), (4, 4, 4), (1, 8, 3), (3, 1, 5), (7, 2, 4), (2, 30, 1)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
async def test_small_products(graph, dtype, sides, transposed):
    rows, inner, columns = sides
    a = tg.placeholder(dtype, (inner, rows) if transposed[0] else (rows, inner))
    b = tg.placeholder(dtype, (columns, inner) if transposed[1] else (inner, columns))
    unchanged = tg.placeholder(dtype, b.shape)
    total = tg.placeholder(dtype, (rows, columns))

    def body(i, a, b, sum_, _):
        product, alone = (tg.matmul(a, each, *transposed) for each in (b, unchanged))
        return i + 1, -a, b * 0.5, sum_ + product, alone

    fetched = tg.while_loop(lambda i, *_: i < 4, body, [0, a, b, total, total])
    random = np.random.default_rng(0)
    feeds = {each: random.standard_normal(each.shape).astype(dtype) for each in (a, b, unchanged, total)}
    for each in (a, b, unchanged):
        feeds[each][feeds[each] < 0] = -0.0  # which sums begin with, or are
    for one, other in zip(
        await values(graph, fetched, feeds, ON), await values(graph, fetched, feeds, MACHINE), strict=True
    ):
        assert_same_bits(one, other)


def some_loops(count):
    """Return the results of loops that have code of their own, and what these should be."""
    loops = [tg.while_loop(lambda i: i < 10, lambda i, k=k: i + k, [0]) for k in range(1, count + 1)]
    return loops, [-(-10 // k) * k for k in range(1, count + 1)]


@pytest.fixture
def held_up(monkeypatch):
    """A lock that what compiles waits for, whether it has begun to, and what was compiled, with levels."""
    lock, begun, done = threading.Lock(), threading.Event(), []
    build = compilation.build_object

    def wait(text, level):
        begun.set()
        with lock:
            done.append((text, level.name))
        return build(text, level)

    monkeypatch.setenv("TAGLOOM_CACHE", "")
    monkeypatch.setattr(compilation, "build_object", wait)
    return lock, begun, done


async def test_all_loops_have_their_first_code_before_any_has_the_last(graph, held_up):
    lock, _, done = held_up
    loops, wanted = some_loops(3)
    async with tg.Session(graph, settings=replace(ON, llvm_seconds=1e-9)) as session:
        step = session.make_step(loops)
        with lock:
            for _ in range(3):
                assert await step() == wanted
        async with asyncio.timeout(20):
            while len(done) < 6:
                assert await step() == wanted
                await asyncio.sleep(0.001)
    assert [name for _, name in done] == ["quickly"] * 3 + ["fully"] * 3
    assert [text for text, _ in done[:3]] == [text for text, _ in done[3:]]


@pytest.mark.parametrize("count", [1, 3])
async def test_what_nobody_has_any_more_is_not_compiled(graph, held_up, count):
    lock, begun, done = held_up
    loops, wanted = some_loops(count)
    with lock:
        async with tg.Session(graph, settings=replace(ON, llvm_seconds=1e-9)) as session:
            for _ in range(3):
                assert await session.run(loops) == wanted
            async with asyncio.timeout(20):
                while not begun.is_set():
                    await asyncio.sleep(0.001)
        del session
        gc.collect()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert [name for _, name in done] == ["quickly"]


@pytest.mark.parametrize(("rows", "added"), [(2, "WORK"), (40, "ADD_ROWS"), (700, "ADD_ROWS")])
async def test_only_products_of_a_few_elements_are_added_in_line(graph, monkeypatch, rows, added):
    listed = []

    class Noted(compilation.Compilation):
        def __init__(self, name, steps, layout):
            listed.extend(steps)
            super().__init__(name, steps, layout)

    monkeypatch.setattr(compilation, "Compilation", Noted)
    x = tg.placeholder("float64", [rows, 4])

    def body(i, y, total):
        return i + 1, y * 0.5, total + tg.matmul(y, tg.sin(y), transpose_a=True)

    total = tg.while_loop(lambda i, *_: i < 3, body, [0, x, tg.zeros([4, 4], "float64")])[2]
    feeds = {x: np.ones((rows, 4))}
    assert_same_bits(await values(graph, total, feeds, ON), await values(graph, total, feeds, MACHINE))
    names = [each.code.name for each in listed]
    assert added in names
    assert names.count("ADD_ROWS") == (added == "ADD_ROWS")


async def test_a_loop_without_threads_waits_for_no_code(graph, monkeypatch):
    made = []

    class Noted(compilation.Compilation):
        def begin(self, at_once):
            super().begin(at_once)
            made.append(self)

    monkeypatch.setattr(compilation, "Compilation", Noted)
    loops, wanted = some_loops(1)
    await asyncio.get_running_loop().shutdown_default_executor()
    async with tg.Session(graph, settings=replace(ON, workers=0, llvm_seconds=1e-9)) as session:
        for _ in range(3):
            assert await session.run(loops) == wanted
    assert [(each.address, each.is_over) for each in made] == [(0, True)]


async def test_code_takes_over_from_a_run_that_is_on_its_way(graph, caplog):
    n = 3_000_000
    total = tg.while_loop(lambda i, _: i < n, lambda i, x: (i + 1, x * 0.5 + 1.0), [0, tg.constant(0.0, "float64")])
    with caplog.at_level(logging.DEBUG, logger="tagloom"):
        assert await values(graph, total, {}, replace(ON, llvm_seconds=1e-4)) == [n, 2.0]
    assert [r for r in caplog.records if "compiled by LLVM" in r.message]


async def test_a_loop_that_runs_shortly_is_not_compiled():
    program = """
import sys, tagloom as tg
with tg.Graph().as_default() as graph, tg.SyncSession(graph) as session:
    assert session.run(tg.while_loop(lambda i: i < 10, lambda i: i + 1, [0])) == [10]
assert not [name for name in sys.modules if name.startswith("llvmlite") or name.endswith(".emit")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_code_is_kept_on_disk(graph, caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path))
    y = tg.while_loop(lambda i: i < 10, lambda i: i + 1, [0])
    with caplog.at_level(logging.DEBUG, logger="tagloom"):
        for _ in range(2):
            assert await values(graph, y, {}, ON) == [10]
        (file,) = tmp_path.iterdir()
        file.write_bytes(file.read_bytes()[:-1])
        assert await values(graph, y, {}, ON) == [10]
    found = [r.message for r in caplog.records if r.message.startswith("while ")]
    assert [m.partition(" in ")[0] for m in found] == [
        "while compiled by LLVM fully",
        "while loaded from the disk cache",
        "while compiled by LLVM fully",
    ]


async def test_a_failing_compiler_is_said_once(graph, caplog, monkeypatch):
    def fail(text, level):
        raise RuntimeError("the compiler is ill")

    monkeypatch.setattr(compilation, "build_object", fail)
    y = tg.while_loop(lambda i: i < 10, lambda i: i + 1, [0])
    async with tg.Session(graph, settings=ON) as session:
        for _ in range(3):
            assert await session.run(y) == [10]
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert record.message == "while cannot be compiled and runs step by step"


async def test_a_long_program_is_not_compiled(graph, caplog):
    def body(i, x, y):
        for _ in range(150):
            x, y = x * 0.5 + y, y - x * 0.25
        return i + 1, x, y

    y = tg.while_loop(lambda i, *_: i < 3, body, [0, 1.0, 2.0])
    with caplog.at_level(logging.DEBUG, logger="tagloom"):
        np.testing.assert_array_equal(await values(graph, y, {}, ON), await values(graph, y, {}, MACHINE))
    assert not [r for r in caplog.records if "LLVM" in r.message]


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
async def test_elements_in_cells_and_in_arrays_have_code_of_their_own(graph, dtype):
    x = tg.placeholder(dtype, None)
    size = 4
    source = tg.TensorArray(dtype, size).unstack(x)
    target = tg.TensorArray(dtype, size)
    copied = tg.while_loop(lambda i, _: i < size, lambda i, t: (i + 1, t.write(i, source.read(i))), [0, target])[1]
    async with tg.Session(graph, settings=replace(ON, specialize=0)) as session:
        for shape in ((size,), (size, 1), (size,)):
            fed = np.arange(size).reshape(shape).astype(dtype)
            np.testing.assert_array_equal(await session.run(copied.stack(), {x: fed}), fed)
        (loop,) = session.report().loops
        assert loop.limited_by == "native"


async def test_any_byte_but_zero_is_true(graph):
    x, y = (tg.placeholder("bool", [4]) for _ in range(2))
    start = tg.zeros([4], "bool")
    fetches = [
        tg.while_loop(lambda i, *_: i < 3, lambda i, x, y, _, f=f: (i + 1, y, x, f(x, y)), [0, x, y, start])[3]
        for f in (lambda x, y: x == y, lambda x, y: x != y, tg.logical_and, tg.logical_or, tg.logical_xor)
    ]
    feeds = {x: np.array([0, 1, 2, 3], "u1").view("?"), y: np.array([0, 2, 2, 0], "u1").view("?")}
    found = await values(graph, fetches, feeds, ON)
    for one, other in zip(found, await values(graph, fetches, feeds, MACHINE), strict=True):
        np.testing.assert_array_equal(one.view("u1"), other.view("u1"))


async def test_many_signatures(graph):
    x = tg.placeholder("float32", [None])
    y = tg.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x + x), [0, x])[1]
    async with tg.Session(graph, settings=replace(ON, specialize=0)) as session:
        for n in (*range(20), *range(20)):
            np.testing.assert_array_equal(await session.run(y, {x: np.arange(n, dtype="f")}), 8 * np.arange(n))


def gated(x, row, y):
    """Slices of a sigmoid, and of a sum with one row for all; what is cut is wanted as a whole too."""
    all_gates = tg.sigmoid(tg.concat([x + row, y * 2.0, x - y], 1))
    one, two, three = tg.split(all_gates, 3, axis=1)
    return one * tg.tanh(two) + three, tg.reduce_sum(all_gates, 1, keepdims=True) * two


def chosen(x, row, y):
    """Truth values, calls whose operands are calls, and a number."""
    z = tg.where(x > row, tg.exp(-x * x), tg.square(y) - 0.5)
    return tg.sqrt(tg.abs(z)) / (tg.tanh(z) + 3.0), tg.maximum(z, x * row)


def cut_and_joined(x, row, y):
    """A concatenation whose parts are computed, of which a part is cut again."""
    whole = tg.concat([tg.sigmoid(x) * y, y, tg.negative(x)], 1)
    return whole[:, 1 : 1 + x.shape[1]] * row, tg.concat([y + x, x * y], 1)[:, : x.shape[1]] + row


def columns_cut(x, row, y):
    """Columns, cut from what is computed, stand for all others of their rows."""
    first, others = tg.split(x * row, [1, x.shape[1] - 1], 1)
    others, last = tg.split(tg.concat([others / (first * first + 1.0), y], 1), [2 * x.shape[1] - 2, 1], 1)
    return tg.concat([others[:, : x.shape[1] - 1] * last, first], 1), y * tg.cast(first > last, x.dtype) - last


def rows_alone(x, row, y):
    return x * row, tg.tanh(y) * tg.sigmoid(-x * y)


def skip_if_too_narrow(function, shape):
    least = {gated: 1, cut_and_joined: 1, columns_cut: 2}.get(function, 0)  # columns of a row
    if (shape[1] if len(shape) > 1 else 0) < least:
        pytest.skip("there is nothing to cut")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (4, 16), (3, 5), (2, 33), (7, 64)])
@pytest.mark.parametrize("function", [gated, chosen, columns_cut, cut_and_joined, rows_alone])
async def test_fused_operations_are_loops(graph, function, shape, dtype, monkeypatch):
    skip_if_too_narrow(function, shape)
    inline = []
    monkeypatch.setattr(emit, "can_be_loops", lambda fused: inline.append(can_be_loops(fused)) or inline[-1])
    x, y, row = (tg.placeholder(dtype, each) for each in (shape, shape, shape[1:]))
    fetched = tg.while_loop(
        lambda i, *_: i < 4, lambda i, x, y: (i + 1, *(z * 0.5 for z in function(x, row, y))), [0, x, y]
    )
    random = np.random.default_rng(shape[1])
    feeds = {each: random.standard_normal(each.shape).astype(dtype) for each in (x, y, row)}
    on = replace(ON, llvm=True, llvm_seconds=0.0, fuse=True, straight=True)
    for one, other in zip(
        await values(graph, fetched, feeds, on), await values(graph, fetched, feeds, MACHINE), strict=True
    ):
        assert_same_bits(one, other)
    assert any(inline)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(13, 700), (5, 1200), (64, 131), (6000, 1), (9000,)])
@pytest.mark.parametrize("function", [gated, chosen, columns_cut, cut_and_joined, rows_alone])
async def test_fused_operations_of_several_blocks_are_functions(graph, function, shape, dtype, monkeypatch):
    """Which several threads call for some rows each, in whatever parts."""
    skip_if_too_narrow(function, shape)
    written, function_of = [], FusedPart.write_function
    monkeypatch.setattr(
        FusedPart, "write_function", lambda part, name: written.append(function_of(part, name)) or written[-1]
    )
    x, y, row = (tg.placeholder(dtype, each) for each in (shape, shape, shape[1:]))
    fetched = tg.while_loop(
        lambda i, *_: i < 3, lambda i, x, y: (i + 1, *(z * 0.5 for z in function(x, row, y))), [0, x, y]
    )
    random = np.random.default_rng(shape[0])
    feeds = {each: random.standard_normal(each.shape).astype(dtype) for each in (x, y, row)}
    on = replace(ON, llvm=True, llvm_seconds=0.0, fuse=True, straight=True)
    wanted = await values(graph, fetched, feeds, MACHINE)
    for workers in (0, 1, 3):
        for one, other in zip(await values(graph, fetched, feeds, replace(on, workers=workers)), wanted, strict=True):
            assert_same_bits(one, other)
    assert any(written)


@pytest.mark.parametrize("step", sorted(STEPS))
async def test_every_step_of_fused_operations(graph, step):
    """In line, called, or where neither is, as a work: the bits are those of the fused operation's own kernel."""
    for dtype in FLOATS:
        attrs, inputs = step_cases.fused(step, dtype)
        fed = [tg.placeholder(each.dtype, each.shape) for each in inputs]

        def body(i, *state, fed=fed, attrs=attrs):
            return (
                i + 1,
                *(each * 0.5 for each in state[: len(fed)]),
                apply("Fused", list(state[: len(fed)]), **attrs)[0],
            )

        start = apply("Fused", fed, **attrs)[0]
        fetched = tg.while_loop(lambda i, *_: i < 3, body, [0, *fed, start])
        feeds = dict(zip(fed, inputs, strict=True))
        for one, other in zip(
            await values(graph, fetched, feeds, ON), await values(graph, fetched, feeds, MACHINE), strict=True
        ):
            assert_same_bits(one, other)
