"""Parts of a Dataset by the numbers of its elements."""

import pytest
import tagloom as tg

from tests.data.running import collect, plain, rest_of, run, through_a_file

NUMBERS = tg.data.from_iterable(range(1000))


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65, 130])
def test_shards_have_each_element_once(count):
    for index in range(count):
        assert run(NUMBERS.shard(count, index)) == list(range(index, 1000, count))


def test_more_shards_than_elements():
    assert [run(tg.data.from_iterable(range(2)).shard(4, index)) for index in range(4)] == [[0], [1], [], []]


def test_a_spec_stays():
    data = tg.data.from_iterable(range(4), output=tg.TensorSpec([], "int32"))
    assert data.shard(2, 0).element_spec == data.element_spec


async def test_an_error_is_in_one_shard():
    data = tg.data.from_iterable(["1", "2", "x", "4", "5", "6"]).map(int)
    shards = [await collect(data.shard(2, index)) for index in range(2)]
    assert isinstance(shards[0].pop(1), tg.PipelineError)
    assert shards == [[1, 5], [2, 4, 6]]


@pytest.mark.parametrize("taken", [0, 1, 17, 333])
async def test_a_state_goes_on_in_its_shard(taken):
    data = NUMBERS.shard(3, 1)
    async with data.iterator() as iterator:
        found = [plain(await iterator.next()) for _ in range(taken)]
        state = through_a_file(iterator.state())
    async with data.iterator() as iterator:
        iterator.restore(state)
        assert found + await rest_of(iterator) == list(range(1, 1000, 3))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((0, 0), "num_shards is out of range"),
        ((2, -1), "index is out of range"),
        ((2, 2), "no shard of this index"),
        ((2.0, 1), "num_shards is out of range"),
        ((2, True), "index is out of range"),
    ],
)
def test_arguments_are_checked(arguments, match):
    with pytest.raises(tg.GraphError, match=match):
        NUMBERS.shard(*arguments)
