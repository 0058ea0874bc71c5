"""Iterations over one Dataset: each draws anew, by the seed and its own number."""

import asyncio
import itertools
import threading

import numpy as np
import pytest
import tagloom as tg

from tests.data.running import plain, rest_of, run, through_a_file

IMAGES = np.arange(8 * 6 * 6 * 3, dtype=np.uint8).reshape(8, 6, 6, 3)


def numbers(count=20):
    return tg.data.from_iterable(range(count))


def drawn(x, rng):
    return int(rng.integers(1 << 30))


async def drawn_later(x, rng):
    await asyncio.sleep(0)
    return int(rng.integers(1 << 30))


def augmented(image, rng):
    return tg.data.random_distort(tg.data.random_flip(tg.data.random_crop(image, (4, 4), rng), rng), rng)


RANDOM = {
    "shuffle": lambda: numbers().shuffle(20, seed=1),
    "small_buffer": lambda: numbers().shuffle(4, seed=1),
    "map": lambda: numbers().map(drawn, seed=1),
    "async_map": lambda: numbers().map(drawn_later, seed=1, parallel=4),
    "map_in_threads": lambda: numbers().map(drawn, seed=1, parallel=2),
    "filter": lambda: numbers(60).filter(lambda x, rng: rng.random() < 0.5, seed=1),
    "images": lambda: tg.data.from_arrays(IMAGES).map(augmented, seed=1),
    "in_repeat": lambda: numbers().shuffle(20, seed=1).repeat(2),
    "in_batches": lambda: numbers().shuffle(20, seed=1).batch(4).prefetch(2),
    "in_interleave": lambda: numbers(2).interleave(lambda x: numbers().shuffle(20, seed=1), cycle_length=2),
    "before_interleave": lambda: (
        numbers().shuffle(20, seed=1).interleave(lambda x: tg.data.from_iterable([x, x]), cycle_length=2)
    ),
    "in_zip": lambda: tg.data.zip_datasets(numbers(), numbers().shuffle(20, seed=1)),
}
EACH = pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)


@EACH
def test_each_iteration_draws_anew_and_is_a_function_of_seed_and_number(make):
    data, same = make(), make()
    iterations = [run(data) for _ in range(3)]
    assert all(one != other for one, other in itertools.combinations(iterations, 2))
    assert [run(same) for _ in range(3)] == iterations
    assert run(make(), 2) == iterations[2]


@EACH
async def test_a_restored_iterator_goes_on_with_its_own_iteration_and_so_do_those_behind_it(make):
    data = make()
    await _all(data)
    async with data.iterator() as iterator:
        assert iterator.iteration == 1
        await iterator.next()
        state, rest = through_a_file(iterator.state()), await rest_of(iterator)
    after = await _all(data)
    resumed = make()
    async with resumed.iterator() as iterator:
        iterator.restore(state)
        assert iterator.iteration == 1
        assert await rest_of(iterator) == rest
    assert await _all(resumed) == after


async def _all(data):
    async with data.iterator() as iterator:
        return await rest_of(iterator)


async def test_two_iterators_at_once_are_two_iterations():
    data = numbers().shuffle(20, seed=1)
    async with data.iterator() as one, data.iterator() as other:
        assert (one.iteration, other.iteration) == (0, 1)
        pairs = [(await one.next(), await other.next()) for _ in range(20)]
    assert [a for a, _ in pairs] == run_of(0)
    assert [b for _, b in pairs] == run_of(1)


def run_of(iteration):
    """Return an iteration, in a loop of its own."""
    found = []

    async def main():
        async with numbers().shuffle(20, seed=1).iterator(iteration=iteration) as iterator:
            found.extend(await rest_of(iterator))

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
    return found


def test_one_order_is_kept_where_it_is_asked_for():
    data = numbers().shuffle(20, seed=1, reshuffle_each_iteration=False)
    assert run(data) == run(data) == run(data.repeat(2))[20:]
    draws = data.map(lambda x, rng: (x, int(rng.integers(1 << 30))), seed=2)
    first, second = run(draws), run(draws)
    assert [x for x, _ in first] == [x for x, _ in second]
    assert first != second


def test_parts_of_one_order_stay_apart():
    data = numbers().shuffle(20, seed=1, reshuffle_each_iteration=False)
    training, validation = data.take(15), data.skip(15)
    for _ in range(2):
        assert sorted(run(training) + run(validation)) == list(range(20))


def test_a_dataset_that_is_made_anew_of_a_shuffled_one_has_the_next_order():
    data = numbers().shuffle(20, seed=1)
    assert run(data.batch(20)) != run(data.batch(20))


def test_iterations_of_what_draws_nothing_do_not_count():
    source = numbers()
    training = source.shuffle(20, seed=1)
    first = run(training)
    run(source.batch(4))
    assert (run(training), first) == (run(numbers().shuffle(20, seed=1), 1), run(numbers().shuffle(20, seed=1), 0))


def test_a_dataset_that_is_read_twice_in_one_iteration_has_one_order_in_it():
    data = numbers().shuffle(20, seed=1)
    pairs = tg.data.zip_datasets(data, data.map(lambda x: -x))
    for _ in range(2):
        assert all(a == -b for a, b in run(pairs))


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "0"])
def test_a_number_of_an_iteration_is_checked(wrong):
    with pytest.raises(tg.GraphError, match="iteration is out of range"):
        numbers().iterator(iteration=wrong)


def test_a_negative_seed_of_a_map_is_refused():
    with pytest.raises(tg.GraphError, match="seed is out of range"):
        numbers().map(drawn, seed=-1)


async def test_a_state_of_before_iterations_were_counted_is_that_of_the_first():
    data = numbers().shuffle(20, seed=1)
    async with data.iterator(iteration=0) as iterator:
        await iterator.next()
        state, rest = iterator.state(), await rest_of(iterator)
    del state["iteration"]
    async with data.iterator() as iterator:
        iterator.restore(state)
        assert plain(await rest_of(iterator)) == rest


def test_the_first_order_of_a_seed_is_that_of_numpys_generator():
    """Orders are made of PCG64's words, by the transform that its Generator has had so far."""
    generator = np.random.default_rng([5])
    buffer, wanted = list(range(10)), []
    while buffer:
        place = int(generator.random() * len(buffer))
        buffer[place], buffer[-1] = buffer[-1], buffer[place]
        wanted.append(buffer.pop())
    assert run(numbers(10).shuffle(10, seed=5)) == wanted
