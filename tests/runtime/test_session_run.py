"""run and make_step: what may be fetched and fed, in which structures, and what is kept compiled."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import tagloom as tg


@dataclass
class Losses:
    total: object
    parts: list


Pair = namedtuple("Pair", "first second")


@pytest.fixture
def program(graph):
    """A graph with x (fed), y = 2x, z = y + 1, and a variable w = 5."""
    x = tg.placeholder("float32", [None], name="x")
    y = tg.multiply(x, 2.0, name="y")
    z = tg.add(y, 1.0, name="z")
    w = tg.Variable(5.0, name="w")
    return x, y, z, w


ONES = np.ones(2, np.float32)


STRUCTURES = {
    "single": (lambda x, y, z, w: y, 2.0),
    "list": (lambda x, y, z, w: [y, z], [2.0, 3.0]),
    "tuple": (lambda x, y, z, w: (z, y), (3.0, 2.0)),
    "namedtuple": (lambda x, y, z, w: Pair(y, z), Pair(2.0, 3.0)),
    "dict": (lambda x, y, z, w: {"z": z, "y": [y]}, {"z": 3.0, "y": [2.0]}),
    "dataclass": (lambda x, y, z, w: Losses(z, [y, (z,)]), Losses(3.0, [2.0, (3.0,)])),
    "nested": (lambda x, y, z, w: [[y, z], []], [[2.0, 3.0], []]),
    "empty": (lambda x, y, z, w: [], []),
    "names": (lambda x, y, z, w: ["y:0", "z:0", "w:0"], [2.0, 3.0, 5.0]),
    "operation name": (lambda x, y, z, w: ["y", "y:0"], [None, 2.0]),
    "operation": (lambda x, y, z, w: (y.op, y), (None, 2.0)),
    "single operation": (lambda x, y, z, w: y.op, None),
    "variable": (lambda x, y, z, w: {"w": w, "y": y}, {"w": 5.0, "y": 2.0}),
    "duplicates": (lambda x, y, z, w: [y, z, y, "y:0"], [2.0, 3.0, 2.0, 2.0]),
    "what is fed": (lambda x, y, z, w: [x, y], [1.0, 2.0]),
}


@pytest.mark.parametrize("name", STRUCTURES)
async def test_fetches_come_back_in_their_structure(program, graph, executor, name):
    make, expected = STRUCTURES[name]
    fetches = make(*program)
    async with tg.Session(graph, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        results = [
            await session.run(fetches, feeds={program[0]: ONES}),
            await session.make_step(fetches, [program[0]])(ONES),
        ]
    for result in results:
        check(result, expected)


def check(result, expected):
    if expected is None:
        assert result is None
    elif isinstance(expected, float):
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.float32
        assert result.shape == (() if expected == 5.0 else (2,))
        assert (result == expected).all()
    elif isinstance(expected, dict):
        assert type(result) is dict
        assert list(result) == list(expected)
        check(list(result.values()), list(expected.values()))
    elif isinstance(expected, Losses):
        assert type(result) is Losses
        check([result.total, result.parts], [expected.total, expected.parts])
    else:
        assert type(result) is type(expected)
        assert len(result) == len(expected)
        for left, right in zip(result, expected, strict=True):
            check(left, right)


async def test_indexed_slices_come_back_as_such(graph, executor):
    table = tg.Variable(np.zeros((4, 2), np.float32))
    (slices,) = tg.gradients(tg.gather(table, [1, 3, 1]), [table])
    async with tg.Session(graph, executor=executor) as session:
        await session.run(tg.global_variables_initializer())
        result = await session.run({"g": slices})
    assert isinstance(result["g"], tg.IndexedSlices)
    assert result["g"].indices.tolist() == [1, 3, 1]
    assert result["g"].values.shape == (3, 2)
    assert result["g"].dense_shape.tolist() == [4, 2]


async def test_the_structure_given_may_be_changed_afterwards(program, graph):
    fetches = {"y": program[1], "z": program[2]}
    async with tg.Session(graph) as session:
        step = session.make_step(fetches, [program[0]])
        del fetches["z"]
        assert list(await step(ONES)) == ["y", "z"]


@pytest.mark.rule(60)
async def test_a_tensor_in_the_middle_is_fed(program, graph, executor):
    _, y, z, _ = program
    async with tg.Session(graph, executor=executor) as session:
        fetched, after = await session.run([y, z], feeds={y: [7.0]})
    assert (fetched, after) == ([7.0], [8.0])


@pytest.mark.rule(60)
async def test_what_makes_a_fed_tensor_does_not_run(graph, executor):
    calls = []
    made = tg.py_function(lambda: calls.append(1) or 1.0, [], "float32")
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(made + 1.0, feeds={made: 2.0}) == 3.0
        assert not calls
        assert await session.run(made + 1.0) == 2.0
        assert calls


@pytest.mark.rule(58)
async def test_a_constant_predicate_is_fed_with_the_opposite(graph, executor):
    predicate = tg.constant(True)
    result = tg.cond(predicate, lambda: tg.constant(1), lambda: tg.constant(2))
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(result) == 1
        assert await session.run(result, feeds={predicate: False}) == 2
        assert await session.run([result, predicate], feeds={predicate: True}) == [1, True]


@pytest.mark.rule(57)
async def test_only_what_is_fetched_runs(graph, executor):
    calls = []
    tg.py_function(lambda: calls.append("a") or 1.0, [], "float32")
    b = tg.py_function(lambda: calls.append("b") or 1.0, [], "float32")
    async with tg.Session(graph, executor=executor) as session:
        await session.run(b.op)
    assert calls == ["b"]


FEEDS = {
    "list": [1, 2],
    "tuple of floats": (1.0, 2.0),
    "array": np.float32([1, 2]),
    "big-endian": np.array([1, 2], ">f4"),
    "strided": np.float32([1, 0, 2, 0])[::2],
    "backwards": np.float32([2, 1])[::-1],
    "read-only": np.frombuffer(np.float32([1, 2]).tobytes(), np.float32),
    "unaligned": np.frombuffer(b"\0" + np.float32([1, 2]).tobytes(), np.float32, offset=1),
    "buffer": memoryview(np.float32([1, 2])),
}


@pytest.mark.parametrize("name", FEEDS)
async def test_feeds_of_all_kinds(program, graph, executor, name):
    x, y, _, _ = program
    async with tg.Session(graph, executor=executor) as session:
        assert (await session.make_step(y, [x])(FEEDS[name])).tolist() == [2.0, 4.0]


async def test_names_stand_for_tensors_in_feeds(program, graph):
    async with tg.Session(graph) as session:
        assert (await session.run("z:0", feeds={"x:0": [1.0]})).tolist() == [3.0]
        assert (await session.run("z:0", feeds={program[3]: 1.0, "x:0": [1.0]})).tolist() == [3.0]


async def test_strings_and_halves(graph, executor):
    text = tg.placeholder("string", [None])
    half = tg.placeholder("bfloat16", [])
    async with tg.Session(graph, executor=executor) as session:
        words, value = await session.run([text, half + 1.0], feeds={text: ["a", "bc"], half: 1.0})
    assert words.tolist() == ["a", "bc"]
    assert float(value) == 2.0


# ---- compiled steps


async def test_a_step_is_compiled_once(fast_paths, program, graph):
    x, y, z, _ = program
    async with tg.Session(graph) as session:
        for _ in range(3):
            await session.run([y, z], feeds={x: ONES})
            await session.run({"z": y, "y": z}, feeds={"x:0": ONES})
            await session.make_step((y, z), [x])(ONES)
        assert session.statistics().cached_steps == 2  # for any shapes, and for those that are fed again and again


async def test_gradients_added_later_leave_a_step_valid(graph, executor):
    x = tg.placeholder("float32", [])
    _, y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, 1.0])
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(y, [x])
        assert await step(2.0) == 8.0
        (first,) = tg.gradients(y, [x])
        assert await step(2.0) == 8.0
        assert session.statistics().cached_steps == 1
        assert await session.run(first, feeds={x: 2.0}) == 12.0
        (second,) = tg.gradients(first, [x])
        assert await session.run([y, first, second], feeds={x: 2.0}) == [8.0, 12.0, 12.0]
        assert await step(2.0) == 8.0


async def test_update_input_compiles_anew(program, graph, executor):
    x, _, z, _ = program
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(z, [x])
        assert (await step(ONES)).tolist() == [3.0, 3.0]
        z.op.update_input(0, x)
        assert (await step(ONES)).tolist() == [2.0, 2.0]
        assert (await session.run(z, feeds={x: ONES})).tolist() == [2.0, 2.0]


async def test_the_least_recently_used_step_is_dropped(graph):
    values = [tg.constant(float(i)) for i in range(4)]
    async with tg.Session(graph, settings=tg.Settings(step_cache_size=2)) as session:
        kept = session.make_step(values[0])
        for value in values:
            await session.run(value)
        assert session.statistics().cached_steps == 2
        assert await kept() == 0.0


# ---- variables


async def test_variables_are_read_and_written_by_name(program, graph, executor):
    w = program[3]
    other = tg.Variable([1.0, 2.0], name="other")
    async with tg.Session(graph, executor=executor) as session:
        assert await session.read_variables() == {}
        await session.write_variables({"w": 6.0, "other": np.float32([3, 4])})
        values = await session.read_variables()
        assert {name: value.tolist() for name, value in values.items()} == {"w": 6.0, "other": [3.0, 4.0]}
        assert list(await session.read_variables(["other"])) == ["other"]
        assert await session.run(w.assign_add(1.0)) == 7.0
        assert (await session.read_variables())["w"] == 7.0
        assert (await session.run(other)).tolist() == [3.0, 4.0]


async def test_variables_stand_for_their_names(program, graph, executor):
    w = program[3]
    other = tg.Variable([1.0, 2.0], name="other")
    async with tg.Session(graph, executor=executor) as session:
        await session.write_variables({w: 6.0, "other": [3.0, 4.0]})
        assert await session.read_variables("w") == await session.read_variables(w) == {"w": 6.0}
        assert list(await session.read_variables([other, "w"])) == ["other", "w"]


async def test_what_names_no_variable(program, graph):
    w = program[3]
    with tg.Graph().as_default():
        elsewhere = tg.Variable(1.0, name="w")
    async with tg.Session(graph) as session:
        for call in (session.read_variables, lambda name: session.write_variables({name: 1.0})):
            for wrong, text in [("typo", "no variable of this name"), (elsewhere, "another graph")]:
                with pytest.raises(tg.GraphError, match=text):
                    await call(wrong)
        for wrong in (["typo"], [w, "kernel"]):
            with pytest.raises(tg.GraphError, match=r"(?s)no variable of this name.*wanted: w\n"):
                await session.read_variables(wrong)
        for wrong in ([3], {1.0: w}):
            with pytest.raises(tg.GraphError, match="names no variable"):
                await session.read_variables(wrong)
        with pytest.raises(tg.UninitializedVariableError):
            await session.read_variables(w)


async def test_a_variable_that_does_not_fit_leaves_all_as_they_were(program, graph):
    tg.Variable([1.0, 2.0], name="other")
    async with tg.Session(graph) as session:
        await session.run(tg.global_variables_initializer())
        for values in ({"w": 1.0, "other": [1.0]}, {"w": 1.0, "nobody": 2.0}, {"w": 1.0, "other": np.zeros(2)}):
            with pytest.raises(tg.GraphError):
                await session.write_variables(values)
        assert (await session.read_variables())["w"] == 5.0


async def test_sessions_have_their_own_variables(program, graph):
    w = program[3]
    async with tg.Session(graph) as left, tg.Session(graph) as right:
        await left.write_variables({"w": 1.0})
        await right.write_variables({"w": 2.0})
        assert await left.run(w.assign_add(1.0)) == 2.0
        assert await right.run(w) == 2.0
        assert (await left.read_variables())["w"] == 2.0
