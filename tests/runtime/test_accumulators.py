"""Accumulators between the steps of a session."""

import asyncio

import pytest
import tagflow as tg


@pytest.mark.rule(131)
@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize(("reduction", "wanted"), [("MEAN", 2.0), ("SUM", 6.0)])
def test_a_take_waits_for_enough_and_late_gradients_are_dropped(executor, reduction, wanted):
    async def main():
        with tg.Graph().as_default() as graph:
            sums = tg.ConditionalAccumulator("float32", reduction_type=reduction)
            x, step = tg.placeholder("float32", []), tg.placeholder("int64", [])
            apply, take, count = sums.apply_grad(x, step).outputs[0], sums.take_grad(3), sums.num_accumulated()
        async with tg.Session(graph, executor=executor) as session:
            lost = asyncio.create_task(session.run(take))
            waiting = asyncio.create_task(session.run(take))
            for _ in range(20):
                await asyncio.sleep(0)
            lost.cancel()
            for value in (1.0, 2.0, 3.0):
                assert await session.run(apply, {x: value, step: 0})
            assert await waiting == wanted
            assert not await session.run(apply, {x: 9.0, step: 0})
            assert await session.run(count) == 0

    asyncio.run(main())


@pytest.mark.rule(131)
def test_what_does_not_fit_is_refused():
    with tg.Graph().as_default() as graph:
        sums = tg.ConditionalAccumulator("float32")
        first, other, none = sums.apply_grad([1.0]), sums.apply_grad([1.0, 2.0]), sums.take_grad(0)
    with tg.SyncSession(graph) as session:
        session.run(first)
        with pytest.raises(tg.OpError, match="has another shape"):
            session.run(other)
        with pytest.raises(tg.OpError, match="asked for no gradient"):
            session.run(none)
