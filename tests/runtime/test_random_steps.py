"""Random operations: other numbers in each step, the same ones for the same step of another session."""

import numpy as np
import pytest
import tagloom as tg


def draws():
    """Draws at the top, in a loop, and in a branch."""
    array = tg.TensorArray("float32", 4)
    _, array = tg.while_loop(
        lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, tg.random_uniform([], name="inner"))), [0, array]
    )
    return [
        tg.random_normal([4]),
        tg.random_normal([4]),
        tg.random_uniform([4], 0, 1 << 20, "int32"),
        array.stack(),
        tg.cond(tg.constant(True), lambda: tg.random_uniform([4], seed=7), lambda: tg.zeros([4])),
    ]


async def steps(graph, fetches, count, **options):
    async with tg.Session(graph, **options) as session:
        return [await session.run(fetches) for _ in range(count)]


def distinct(arrays):
    return len({array.tobytes() for array in arrays}) == len(arrays)


async def test_each_step_and_each_operation_draws_its_own(graph, executor):
    results = await steps(graph, draws(), 3, executor=executor)
    assert distinct([array for step in results for array in step])
    assert all(len(set(step[3].tolist())) == 4 for step in results), "each iteration draws its own"


async def test_the_same_step_of_another_session_draws_the_same(graph):
    fetches = draws()
    expected = await steps(graph, fetches, 3)
    for options in ({}, {"executor": "reference"}, {"settings": tg.Settings(shuffle_seed=3)}):
        for left, right in zip(await steps(graph, fetches, 3, **options), expected, strict=True):
            for a, b in zip(left, right, strict=True):
                np.testing.assert_array_equal(a, b)


async def test_the_window_changes_nothing():
    results = []
    for window in (1, 4, 32):
        with tg.Graph(seed=5).as_default() as graph:
            _, result = tg.while_loop(
                lambda i, a: i < 6,
                lambda i, a: (i + 1, a * 0.5 + tg.random_normal([2])),
                [0, tg.zeros([2])],
                parallel_iterations=window,
            )
        results += await steps(graph, result, 1)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("same", [True, False])
async def test_the_seed_of_the_graph_counts(same):
    results = []
    for seed in (1, 1 if same else 2):
        with tg.Graph(seed=seed).as_default() as graph:
            fetches = draws()
        results.append((await steps(graph, fetches, 1))[0])
    for left, right in zip(*results, strict=True):
        assert (left.tobytes() == right.tobytes()) == same


async def test_two_fetches_of_one_draw_are_one_draw(graph, executor):
    draw = tg.random_uniform([3])
    (step,) = await steps(graph, [draw, draw + 0.0, tg.identity(draw)], 1, executor=executor)
    np.testing.assert_array_equal(step[0], step[1])
    np.testing.assert_array_equal(step[0], step[2])
