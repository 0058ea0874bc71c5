"""session.partial_run: one step whose feeds are given, and whose fetches are taken, in parts."""

import asyncio
import random

import numpy as np
import pytest
import tagloom as tg

from tests.runtime.sums import Sums, counted, gated, raises, turns


@pytest.fixture
async def session(graph, executor):
    async with tg.Session(graph, executor=executor) as session:
        yield session


@pytest.fixture
def sums(graph):
    """a + b, and (a + b) * c."""
    return Sums()


# ---- in any order that is computable


@pytest.mark.rule(124)
async def test_two_parts(session, sums):
    handle = await session.partial_run_setup([sums.sum, sums.product], sums.feeds)
    assert await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3
    assert not handle.done
    assert await session.partial_run(handle, sums.product, {sums.c: 5}) == 15
    assert handle.done


@pytest.mark.rule(124, 125)
async def test_a_part_without_fetches_only_feeds(session, sums):
    handle = await session.partial_run_setup([sums.product], sums.feeds)
    assert await session.partial_run(handle, [], {sums.c: 5}) == []
    assert await session.partial_run(handle, {}, {sums.a: 1, sums.b: 2}) == {}
    assert await session.partial_run(handle, sums.product) == 15


@pytest.mark.rule(124)
async def test_what_needs_no_feed_is_there_at_once(session, sums):
    one = tg.constant(1.0) + 1.0
    handle = await session.partial_run_setup([one, sums.sum], sums.feeds)
    assert await session.partial_run(handle, one) == 2
    assert await session.partial_run(handle, "sum:0", {"a:0": 1, "b:0": 2}) == 3


@pytest.mark.rule(60, 124)
async def test_structures_names_operations_and_values_that_are_fed_and_fetched(session, sums):
    run = tg.group(sums.product)
    handle = await session.partial_run_setup({"all": [sums.a, sums.sum, run, sums.product.op]}, sums.feeds)
    first = await session.partial_run(handle, (sums.a, {"sum": sums.sum, "again": sums.sum}), {sums.a: 1, sums.b: 2})
    assert first == (1, {"sum": 3, "again": 3})
    assert first[1]["sum"] is not first[1]["again"]
    assert await session.partial_run(handle, [run, sums.product.op], {sums.c: 5}) == [None, None]
    assert handle.done


@pytest.mark.rule(60, 124)
async def test_any_tensor_may_be_fed_and_what_made_it_does_not_run(session, sums):
    calls = []
    made = counted(calls, sums.sum)
    doubled = made * 2.0
    handle = await session.partial_run_setup([doubled, made.op], [made, *sums.feeds])
    assert await session.partial_run(handle, made.op) is None  # it need not run
    assert await session.partial_run(handle, doubled, {made: 4}) == 8
    assert calls == []


@pytest.mark.rule(124)
@pytest.mark.parametrize("seed", range(12))
async def test_any_order_gives_what_one_run_gives(session, seed):
    rng = random.Random(seed)
    feeds = [tg.placeholder("float32", [3]) for _ in range(5)]
    values = [np.full(3, 0.5 + k, np.float32) for k in range(5)]
    nodes = [(t, {k}) for k, t in enumerate(feeds)]
    for _ in range(25):
        (x, p), (y, q) = rng.choices(nodes, k=2)
        z, extra = combine(rng, x, y)
        nodes.append((z, p | q if extra else p))
    fetches = rng.sample(nodes, 8)
    expected = await session.run([t for t, _ in fetches], dict(zip(feeds, values, strict=True)))
    handle = await session.partial_run_setup([t for t, _ in fetches], feeds)
    todo, fed = dict(enumerate(fetches)), set()
    order = rng.sample(range(5), 5)
    while todo:
        ready = [k for k, (_, needs) in todo.items() if needs <= fed]
        if ready and rng.random() < 0.7:
            (k,) = rng.sample(ready, 1)
            got = await session.partial_run(handle, todo.pop(k)[0])
            np.testing.assert_allclose(got, expected[k], rtol=1e-5)
        elif order:
            k = order.pop()
            await session.partial_run(handle, [], {feeds[k]: values[k]})
            fed.add(k)
    assert handle.done


def combine(rng, x, y):
    """Return a value made from two, and whether it needs the second."""
    kind = rng.randrange(6)
    if kind == 0:
        return tg.cond(tg.reduce_sum(x) > 4.0, lambda: x - y, lambda: tg.tanh(y)), True
    if kind == 1:
        return tg.while_loop(lambda i, s: i < 40, lambda i, s: [i + 1, tg.tanh(s + y)], [0, x])[1], True
    if kind == 2:
        return tg.sin(x), False
    if kind == 3:
        return tg.reduce_max(x) - x * 0.5, False
    return (x * 0.5 + y, True) if kind == 4 else (tg.maximum(x, y) * 0.25, True)


@pytest.mark.rule(124)
async def test_what_would_be_fused_is_not_kept_back(session):
    x, y = (tg.placeholder("float32", [3], name=name) for name in "xy")
    first = tg.tanh(x * 2.0) + 1.0
    second = tg.tanh(first * y) + x
    handle = await session.partial_run_setup([first, second], [x, y])
    assert await session.partial_run(handle, first, {x: np.zeros(3, np.float32)}, timeout=5) == pytest.approx(
        np.ones(3)
    )
    assert (await session.partial_run(handle, second, {y: np.zeros(3, np.float32)})).tolist() == [0, 0, 0]


@pytest.mark.rule(124)
async def test_a_loop_needs_all_that_goes_into_it(session, sums):
    _, x, y = tg.while_loop(
        lambda i, x, y: i < 100, lambda i, x, y: [i + 1, x + 1.0, y + x], [0, sums.a, sums.b], name="loop"
    )
    handle = await session.partial_run_setup([x, y], sums.feeds)
    with raises("can't be computed from the feeds that have been fed so far"):
        await session.partial_run(handle, x, {sums.a: 0})
    assert await session.partial_run(handle, x, {sums.a: 0, sums.b: 0}) == 100
    assert await session.partial_run(handle, y) == 4950


@pytest.mark.rule(124)
async def test_a_loop_made_by_hand_needs_all_that_enters_it(session, sums):
    zero = tg.enter(0, frame_name="hand", parallel_iterations=2)
    other = tg.enter(sums.b, frame_name="hand", parallel_iterations=2)
    i, _ = tg.merge([zero, zero])
    y, _ = tg.merge([other, other])
    more = tg.loop_cond(i < tg.enter(10, frame_name="hand", is_constant=True, parallel_iterations=2))
    done, again = tg.switch(i, more)
    y_done, y_again = tg.switch(y, more)
    one, two = (tg.enter(value, frame_name="hand", is_constant=True, parallel_iterations=2) for value in (1, 2.0))
    i.op.update_input(1, tg.next_iteration(again + one))
    y.op.update_input(1, tg.next_iteration(y_again * two))
    count, product = tg.exit(done), tg.exit(y_done)
    handle = await session.partial_run_setup([count, product], [sums.b])
    with raises("can't be computed"):
        await session.partial_run(handle, count)
    assert await session.partial_run(handle, [count, product], {sums.b: 1}) == [10, 1024]


# ---- what is refused, and changes nothing


@pytest.mark.rule(124)
async def test_what_was_not_named_is_refused(session, sums):
    handle = await session.partial_run_setup([sums.sum], [sums.a, sums.b])
    with raises("product:0 was not specified in partial_run_setup"):
        await session.partial_run(handle, sums.product)
    with raises("c:0 was not specified in partial_run_setup"):
        await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2, sums.c: 3})
    with raises("a was not specified"):
        await session.partial_run(handle, sums.a.op)
    assert await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3


@pytest.mark.rule(124)
async def test_each_feed_is_given_and_each_fetch_taken_once(session, sums):
    handle = await session.partial_run_setup([sums.sum, sums.product], sums.feeds)
    assert await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3
    with raises("a:0 has already been fed"):
        await session.partial_run(handle, sums.product, {sums.c: 5, sums.a: 1})
    with raises("sum:0 has already been fetched"):
        await session.partial_run(handle, [sums.product, sums.sum], {sums.c: 5})
    assert await session.partial_run(handle, sums.product, {sums.c: 5}) == 15


@pytest.mark.rule(124)
async def test_a_fetch_whose_feeds_are_missing_is_refused(session, sums):
    handle = await session.partial_run_setup([sums.sum, sums.product], sums.feeds)
    with raises("sum:0 can't be computed"):
        await session.partial_run(handle, [sums.sum, sums.product], {sums.a: 1})
    with raises("product:0 can't be computed from the feeds that have been fed so far") as caught:
        await session.partial_run(handle, sums.product, {sums.a: 1})
    assert caught.value.wanted == "values for b:0, c:0"
    assert caught.value.operation is sums.product.op
    assert await session.partial_run(handle, sums.product, {sums.a: 1, sums.b: 2, sums.c: 5}) == 15
    await handle.aclose()


@pytest.mark.rule(124)
async def test_a_placeholder_neither_named_nor_fed_is_refused(session, sums):
    with raises("you must feed a value for placeholder c"):
        await session.partial_run_setup([sums.sum, sums.product], [sums.a, sums.b])


@pytest.mark.rule(124)
async def test_something_must_be_fetched(session, sums):
    with raises("needs something to fetch") as caught:
        await session.partial_run_setup([], sums.feeds)
    assert caught.value.hint == "specify at least one target"


@pytest.mark.rule(61, 62, 124)
async def test_setup_refuses_what_run_does(session, sums):
    inner = []
    tg.while_loop(lambda i: i < 3, lambda i: [inner.append(i + 1) or inner[0]], [0])
    with raises("may not be fetched"):
        await session.partial_run_setup(inner, [])
    with raises("may not be fed"):
        await session.partial_run_setup(sums.sum, [*sums.feeds, inner[0]])
    with raises("fed twice"):
        await session.partial_run_setup(sums.sum, [sums.a, sums.a, sums.b])
    with raises("trace= takes an object for the step to fill"):
        await session.partial_run_setup(sums.sum, sums.feeds, trace=True)


@pytest.mark.rule(124)
async def test_a_value_that_does_not_fit_is_refused(session, sums):
    handle = await session.partial_run_setup([sums.sum], sums.feeds)
    with pytest.raises(tg.ShapeError, match="wrong shape"):
        await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: [2]})
    with pytest.raises(tg.DtypeError, match="wrong dtype"):
        await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2j})
    assert await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3


async def test_only_handles_of_the_session(session, graph, sums):
    async with tg.Session(graph) as other:
        handle = await other.partial_run_setup([sums.sum], sums.feeds)
        for wrong in (handle, None, "handle"):
            with raises("no partial run of this session"):
                await session.partial_run(wrong, sums.sum)


# ---- one execution underlies all parts


@pytest.mark.rule(125)
async def test_work_is_done_once_and_shared(session, sums):
    calls = []
    slow = counted(calls, sums.sum)
    one, two = slow * 2.0, slow * sums.c
    handle = await session.partial_run_setup([one, two], sums.feeds)
    assert await session.partial_run(handle, one, {sums.a: 1, sums.b: 2}) == 6
    assert calls == [3]
    assert await session.partial_run(handle, two, {sums.c: 5}) == 15
    assert calls == [3]


@pytest.mark.rule(125)
async def test_a_variable_is_read_once_and_numbers_are_drawn_once(session, sums):
    w = tg.Variable(1.0, name="w")
    noise = tg.random_uniform([])
    read = w.read_value() + noise
    await session.run(tg.global_variables_initializer())
    later = read + sums.a
    handle = await session.partial_run_setup([read, later], [sums.a])
    first = await session.partial_run(handle, read)
    await session.write_variables({"w": 100.0})
    assert await session.partial_run(handle, later, {sums.a: 0}) == first


@pytest.mark.rule(125)
async def test_updates_wait_for_their_part(session, sums):
    w = tg.Variable(1.0, name="w")
    update = w.assign(sums.product)
    await session.run(tg.global_variables_initializer())
    handle = await session.partial_run_setup([sums.sum, update.op], sums.feeds)
    await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2})
    assert (await session.read_variables())["w"] == 1
    await session.partial_run(handle, update.op, {sums.c: 5})
    assert (await session.read_variables())["w"] == 15


@pytest.mark.rule(125)
async def test_several_handles_and_runs_together(session, sums):
    handles = [await session.partial_run_setup([sums.sum, sums.product], sums.feeds) for _ in range(3)]
    for k, handle in enumerate(handles):
        assert await session.partial_run(handle, sums.sum, {sums.a: k, sums.b: 2}) == k + 2
    assert await session.run(sums.product, {sums.a: 1, sums.b: 2, sums.c: 3}) == 9
    assert session.statistics().steps_running == 3
    for k, handle in reversed(list(enumerate(handles))):
        assert await session.partial_run(handle, sums.product, {sums.c: 10}) == 10 * (k + 2)
    assert session.statistics().steps_running == 0


@pytest.mark.rule(125)
async def test_two_parts_wait_at_the_same_time(session, sums):
    gates = [asyncio.Event(), asyncio.Event()]
    slow = [gated(gate, value) for gate, value in zip(gates, (sums.a, sums.b), strict=True)]
    handle = await session.partial_run_setup(slow, [sums.a, sums.b])
    first = asyncio.create_task(session.partial_run(handle, slow[0], {sums.a: 1}))
    second = asyncio.create_task(session.partial_run(handle, slow[1], {sums.b: 2}))
    await turns()
    with raises("has already been fetched"):
        await session.partial_run(handle, slow[1])
    gates[1].set()
    assert await second == 2
    assert not first.done()
    gates[0].set()
    assert await first == 1


@pytest.mark.rule(125)
async def test_a_handle_takes_a_place_until_its_step_ends(graph, executor, sums):
    settings = tg.Settings(admission_seconds=0)
    async with tg.Session(graph, executor=executor, max_steps=1, settings=settings) as session:
        handle = await session.partial_run_setup([sums.sum], sums.feeds)
        for refused in (session.run(tg.constant(1.0)), session.partial_run_setup([sums.sum], sums.feeds)):
            with pytest.raises(tg.Overloaded):
                await refused
        assert await session.partial_run(handle, sums.sum, {sums.a: 1, sums.b: 2}) == 3
        async with await session.partial_run_setup([sums.sum], sums.feeds):
            assert session.statistics().steps_running == 1
        assert await session.run(tg.constant(1.0)) == 1


@pytest.mark.rule(125)
async def test_setup_waits_for_its_place(graph, executor, sums):
    async with tg.Session(graph, executor=executor, max_steps=1) as session:
        handle = await session.partial_run_setup([sums.sum], sums.feeds)
        gone, next_one = (asyncio.create_task(session.partial_run_setup([sums.sum], sums.feeds)) for _ in range(2))
        await turns(3)
        gone.cancel()
        await handle.aclose()
        async with await next_one:
            assert session.statistics().steps_running == 1


async def test_what_is_fed_and_fetched_belongs_to_the_caller(session):
    x, y = tg.placeholder("float32", [2]), tg.placeholder("float32", [2])
    doubled = x * 2.0
    total = doubled + x + y
    handle = await session.partial_run_setup([x, doubled, total], [x, y])
    fed = np.array([1, 2], np.float32)
    same, first = await session.partial_run(handle, [x, doubled], {x: fed})
    fed[:], same[:], first[:] = 100, 200, 300
    assert (await session.partial_run(handle, total, {y: [0, 0]})).tolist() == [3, 6]
