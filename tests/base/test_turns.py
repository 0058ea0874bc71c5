"""Turns: one after the other, in the order in which they were asked for."""

import asyncio

import pytest
from tagloom.base.turns import Turns


async def test_turns_come_in_order_and_none_is_left():
    turns, order = Turns(), []

    async def take(number):
        async with turns.turn():
            assert turns.taken
            await asyncio.sleep(0)
            order.append(number)

    assert not turns.taken
    await asyncio.gather(*map(take, range(5)))
    assert order == list(range(5))
    assert not turns.taken


async def test_who_is_cancelled_while_waiting_has_none():
    turns = Turns()

    async def take():
        async with turns.turn():
            raise AssertionError("it came to its turn")

    async with turns.turn():
        waiting = asyncio.ensure_future(take())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert turns.taken
    assert not turns.taken


def test_they_serve_one_event_loop_after_the_other():
    turns = Turns()

    async def main():
        async def take():
            async with turns.turn():
                await asyncio.sleep(0)

        await asyncio.gather(take(), take())

    for _ in range(2):
        asyncio.run(main())
