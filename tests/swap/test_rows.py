"""Elements of TensorArrays under swap: fed rows enter memory when they are read, written ones may leave it."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("fast_paths")
LENGTH, WIDTH = 60, 4096  # rows of 16 KiB
ROWS = np.random.default_rng(0).standard_normal((LENGTH, WIDTH)).astype(np.float32)
POLICY = tg.SwapPolicy(threshold=0.5)


def build(swap_memory=True, clear=True, length=LENGTH, **options):
    """Return the graph of a loop over the rows of a feed, the feed, and a weight's gradient beside the sum."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, WIDTH])
        w = tg.constant(np.full(WIDTH, 0.5, np.float32))
        count = tg.shape(x)[0] if length is None else length
        xs = tg.TensorArray("float32", count, clear_after_read=clear).unstack(x)

        def body(i, h):
            return i + 1, tg.tanh(h * w + xs.read(i))

        start = [0, tg.zeros([WIDTH])]
        h = tg.while_loop(lambda i, h: i < count, body, start, swap_memory=swap_memory, **options)[1]
        return graph, x, [h, *tg.gradients(tg.reduce_sum(h), [w])]


async def run(graph, x, fetches, **options):
    """Return the values, the session's peak of bytes, and what it reports of swapping."""
    async with tg.Session(graph, **options) as session:
        values = await session.run(fetches, {x: ROWS})
        report = session.report().swap
        assert session.statistics().live_bytes < 4 * ROWS[0].nbytes, "the weight only"
        return values, session.statistics().peak_bytes, report


@pytest.mark.parametrize("length", [LENGTH, None])
@pytest.mark.parametrize("options", [{"swap_memory": True}, {"swap_memory": False, "checkpoint_every": 8}])
async def test_fed_rows_enter_memory_as_they_are_read(length, options):
    limit = 40 * ROWS[0].nbytes
    wanted, whole, _ = await run(*build(swap_memory=False, length=length))
    assert whole > ROWS.nbytes > limit
    values, peak, (report,) = await run(*build(length=length, **options), memory_limit=limit, swap=None)
    assert all(np.array_equal(a, b) for a, b in zip(wanted, values, strict=True))
    assert peak <= limit
    assert report.bytes_in["feed"] >= ROWS.nbytes


async def test_rows_that_are_saved_need_not_be_copied_out():
    graph, x, fetches = build()
    _, _, (report,) = await run(graph, x, fetches, memory_limit=30 * ROWS[0].nbytes, swap=POLICY)
    saved = LENGTH * ROWS[0].nbytes
    assert 0 < report.bytes_out["host"] < 2 * saved, "the states, not the rows"
    assert report.bytes_in["feed"] >= saved


async def test_a_feed_that_is_used_otherwise_too_is_in_memory_at_once():
    graph, x, fetches = build()
    with graph.as_default():
        fetches.append(tg.reduce_sum(x))
    limit = 40 * ROWS[0].nbytes
    with pytest.raises(tg.DeviceMemoryError, match="values fed"):
        await run(graph, x, fetches, memory_limit=limit, swap=POLICY)
    with pytest.raises(tg.DeviceMemoryError, match="values fed"):
        await run(*build(), memory_limit=limit, swap=False)


async def test_elements_may_be_read_again():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [LENGTH, WIDTH])
        xs = tg.TensorArray("float32", LENGTH, clear_after_read=False).unstack(x)
        total = tg.zeros([WIDTH])
        for order in (lambda i: i, lambda i: LENGTH - 1 - i):
            step = lambda i, s, order=order: (i + 1, s + xs.read(order(i)))  # noqa: E731
            total = tg.while_loop(lambda i, s: i < LENGTH, step, [0, total], swap_memory=True)[1]
    (value,), _, (report,) = await run(graph, x, [total], memory_limit=20 * ROWS[0].nbytes)
    np.testing.assert_allclose(value, 2 * ROWS.sum(0), rtol=1e-4, atol=1e-4)
    assert report.bytes_in["feed"] >= 2 * ROWS.nbytes
    assert report.hits > 0, "rows are brought ahead of need"


@pytest.mark.parametrize("stacked", [False, True])
async def test_written_elements_leave_and_come_back(stacked):
    n = LENGTH
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [WIDTH])
        array = tg.TensorArray("float32", n)

        def write(i, h, array):
            h = tg.tanh(h + x)
            return i + 1, h, array.write(i, h)

        start = [0, tg.zeros([WIDTH]), array]
        array = tg.while_loop(lambda i, *_: i < n, write, start, swap_memory=True)[2]
        if stacked:
            total = tg.reduce_sum(array.stack(), 0)
        else:
            read = lambda i, s: (i + 1, s + array.read(n - 1 - i))  # noqa: E731
            total = tg.while_loop(lambda i, s: i < n, read, [0, tg.zeros([WIDTH])], swap_memory=True)[1]
    limit = (n + 20 if stacked else 20) * ROWS[0].nbytes
    threshold = 0.1 if stacked else 0.6
    async with tg.Session(graph) as session:
        wanted = await session.run(total, {x: ROWS[0].copy()})
    async with tg.Session(graph, memory_limit=limit, swap=tg.SwapPolicy(threshold=threshold)) as session:
        value = await session.run(total, {x: ROWS[0].copy()})
        (report,) = session.report().swap
    assert np.array_equal(value, wanted)
    assert report.bytes_out["host"] > 20 * ROWS[0].nbytes
    assert report.peak_bytes["host"] <= n * ROWS[0].nbytes


async def test_rows_come_in_blocks():
    def body(i, h):
        return i + 1, tg.tanh(h + xs.read(i))

    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [LENGTH, WIDTH])
        xs = tg.TensorArray("float32", LENGTH).unstack(x)
        h = tg.while_loop(lambda i, h: i < LENGTH, body, [0, tg.zeros([WIDTH])], swap_memory=True)[1]
    found = []
    for rows in (0, 4):
        limit = 12 * 4 * ROWS[0].nbytes
        settings = ON if rows else replace(ON, block_bytes=0)
        async with tg.Session(graph, memory_limit=limit, settings=settings) as session:
            values = await session.run([h], {x: ROWS}, trace=(trace := tg.Trace()))
            assert session.statistics().peak_bytes <= limit
            found.append((values[0], [copy.bytes for copy in trace.copies]))
    (one, rows), (other, blocks) = found
    assert np.array_equal(one, other)
    assert sum(rows) == sum(blocks) == ROWS.nbytes
    assert set(blocks) == {4 * ROWS[0].nbytes}
