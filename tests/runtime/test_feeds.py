"""What may be fed, and what it becomes."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.runtime.steps import feeds


@pytest.fixture
async def session(graph):
    async with tg.Session(graph) as session:
        yield session


@pytest.mark.rule(60)
async def test_arrays_of_another_dtype_of_their_kind(session, graph):
    x, n, z = (tg.placeholder(dtype, [None]) for dtype in ("float32", "int32", "complex64"))
    feeds = {x: np.array([1.5, 2.5]), n: np.arange(2), z: np.ones(2)}
    step = session.make_step([x, n, z], list(feeds))
    handle = await session.partial_run_setup([x, n, z], list(feeds))
    for found in (
        await session.run([x, n, z], feeds),
        await step(*feeds.values()),
        await session.partial_run(handle, [x, n, z], feeds),
    ):
        assert [value.dtype for value in found] == ["f4", "i4", "c8"]
        assert [value.tolist() for value in found] == [[1.5, 2.5], [0, 1], [1, 1]]


@pytest.mark.rule(60)
@pytest.mark.parametrize(
    ("dtype", "value", "hint"),
    [
        ("int32", np.ones(2), "numpy.asarray"),
        ("int32", np.array([2**40]), "wider"),
        ("float32", [1, 1e300], "can hold"),
    ],
)
async def test_values_that_do_not_fit(session, graph, dtype, value, hint):
    x = tg.placeholder(dtype, [None], name="x")
    with pytest.raises(tg.DtypeError, match="value fed for x:0 has the wrong dtype") as caught:
        await session.run(x, {x: value})
    assert caught.value.operation is x.op
    assert hint in caught.value.hint


async def test_strings_in_an_array_of_objects(session, graph):
    words = tg.placeholder("string", [None])
    found = await session.run(
        words + tg.constant(np.array(["!", "?"], dtype=object)), {words: np.array(["a", "b"], object)}
    )
    assert found.tolist() == ["a!", "b?"]


async def test_an_operation_stands_for_the_one_tensor_it_gives(session, graph):
    x = tg.placeholder("float32", [], name="x")
    y = x * 2.0
    assert [await session.run(y, {key: 3.0}) for key in ("x", x.op, "x:0")] == [6.0] * 3
    step = session.make_step(y, feeds=["x"])
    assert await step(4.0) == 8.0
    with pytest.raises(tg.GraphError, match="fed twice"):
        await session.run(y, {"x": 1.0, x: 2.0})


async def test_structures_are_taken_apart_once(session, monkeypatch):
    a, b = tg.placeholder("float32", [], name="a"), tg.placeholder("float32", [], name="b")
    seen, take_apart = [], feeds.fed_parts

    def count(key, value=None):
        seen.append(key)
        return take_apart(key, value)

    monkeypatch.setattr(feeds, "fed_parts", count)
    found = await session.run([a, b], {(a, "b:0"): (1.0, 2.0)})
    assert list(map(float, found)) == [1.0, 2.0]
    assert len(seen) == 3  # the structure and its two leaves
