"""Whose memory it is: what is fetched is the caller's, what is fed stays as it was."""

import numpy as np
import pytest
import tagloom as tg

ONES = np.ones(3, np.float32)


async def fetch_spoil_fetch(session, fetches, feeds=None):
    """Fetch, overwrite everything fetched, and return what a second step gives."""
    first = await session.run(fetches, feeds=feeds)
    before = [value.copy() for value in first]
    for value in first:
        assert value.flags.writeable
        value[...] = -99
    again = await session.run(fetches, feeds=feeds)
    for left, right in zip(again, before, strict=True):
        np.testing.assert_array_equal(left, right)
    return first, again


def constants():
    value = tg.constant(ONES)
    return [value, tg.identity(value), tg.constant(2.0), tg.reshape(value, [3, 1])]


def variables():
    w = tg.Variable(ONES, name="w")
    return [w, tg.identity(w), w.read_value(), tg.transpose(tg.reshape(w, [3, 1]))]


def updates():
    w = tg.Variable(ONES, name="w")
    return [w.assign(ONES * 2), tg.Variable(1.0, name="v").assign(3.0)]


def folded():
    return [tg.constant(ONES) + 1.0, tg.broadcast_to(tg.constant(1.0), [3]), tg.range(3)]


def carried():
    value = tg.constant(ONES)
    i, same, grown = tg.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a, b + a), [0, value, value])
    return [i, same, grown, tg.cond(i > 2, lambda: value, lambda: value * 2.0)]


def stored():
    array = tg.TensorArray("float32", 2, clear_after_read=False)
    array = array.write(0, tg.constant(ONES)).write(1, tg.constant(ONES) * 2.0)
    return [array.read(0), array.read(1), array.stack()]


@pytest.mark.parametrize("make", [constants, variables, updates, folded, carried, stored])
async def test_what_is_fetched_may_be_overwritten(graph, executor, make):
    fetches = make()
    async with tg.Session(graph, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        await fetch_spoil_fetch(session, fetches)


async def test_no_two_fetched_arrays_share_memory(graph, executor):
    x = tg.placeholder("float32", [3])
    y = x * 2.0
    fetches = [x, y, y, tg.identity(y), tg.reshape(y, [3, 1]), tg.transpose(tg.reshape(y, [1, 3])), y[1:]]
    async with tg.Session(graph, executor=executor) as session:
        results = await session.run(fetches, feeds={x: ONES})
    for i, left in enumerate(results):
        assert not np.shares_memory(left, ONES)
        assert not any(np.shares_memory(left, right) for right in results[:i])


async def test_a_variable_that_was_fetched_is_updated_apart(graph, executor):
    w = tg.Variable(ONES, name="w")
    add = w.assign_add(ONES)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        fetched = await session.run(w)
        read = (await session.read_variables())["w"]
        read[...] = fetched[...] = 7.0
        assert (await session.run(add)).tolist() == [2.0, 2.0, 2.0]
        assert fetched.tolist() == read.tolist() == [7.0, 7.0, 7.0]


async def test_a_value_given_to_a_variable_stays_the_callers(graph, executor):
    w = tg.Variable(ONES, name="w")
    x = tg.placeholder("float32", [3])
    value = np.full(3, 4, np.float32)
    async with tg.Session(graph, executor=executor) as session:
        for write in (lambda: session.write_variables({"w": value}), lambda: session.run(w.assign(x), {x: value})):
            await write()
            await session.run(w.assign_add(ONES).op)
            assert value.tolist() == [4.0, 4.0, 4.0]
            value[...] = 4.0
            assert (await session.run(w)).tolist() == [5.0, 5.0, 5.0]


class Quiet(np.ndarray):
    """An array of a subclass: NumPy looks at it through views."""


FEEDS = {
    "array": lambda: ONES * 3,
    "subclass": lambda: (ONES * 3).view(Quiet),
    "buffer": lambda: memoryview(ONES * 3),
    "column": lambda: np.ascontiguousarray(np.full((3, 2), 3, np.float32))[:, 0],
}


@pytest.mark.rule(43)
@pytest.mark.parametrize("kind", FEEDS)
async def test_feeds_are_never_written_to(graph, executor, kind):
    x = tg.placeholder("float32", [None])
    chain = tg.tanh(tg.exp(-(x + 1.0)) * 2.0) + 3.0
    _, looped = tg.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2.0), [0, x])
    fed = FEEDS[kind]()
    before = np.array(fed)
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step([chain, looped], [x])
        for _ in range(2):
            await step(fed)
            await session.run([x, chain, looped], feeds={x: fed})
    np.testing.assert_array_equal(np.array(fed), before)


async def test_a_function_sees_its_inputs_read_only_and_keeps_its_outputs(graph, executor):
    kept = np.full(3, 5, np.float32)

    def give(value):
        with pytest.raises(ValueError, match="read-only"):
            value[0] = 1.0
        return kept

    out = tg.py_function(give, [tg.constant(ONES)], "float32")
    async with tg.Session(graph, executor=executor) as session:
        first, second = await session.run([out, (out + 1.0) * 2.0])
        assert second.tolist() == [12.0, 12.0, 12.0]
        first[...] = 0.0
    assert kept.tolist() == [5.0, 5.0, 5.0]
