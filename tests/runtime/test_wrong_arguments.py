"""What calls of a session are given by mistake: the error names the argument, and what it takes."""

import numpy as np
import pytest
import tagloom as tg


@pytest.fixture
def program():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None], name="x")
        y = x * 2.0
    return graph, x, y


CASES = {
    "a switch for a report": ({"report": True}, "report= takes an object"),
    "a class for a report": ({"report": tg.Report}, "report= takes an object"),
    "a path for a trace": ({"trace": "trace.json"}, "trace= takes an object"),
    "a trace for a report": ({"report": tg.Trace()}, "report= takes an object"),
}


@pytest.mark.parametrize(("options", "message"), CASES.values(), ids=CASES)
async def test_what_is_filled_by_a_step(program, options, message):
    graph, x, y = program
    async with tg.Session(graph) as session:
        for call in (
            lambda: session.run(y, {x: [1.0]}, **options),
            lambda: session.make_step(y, [x])([1.0], **options),
        ):
            with pytest.raises(tg.GraphError, match=message):
                await call()
        assert (await session.run(y, {x: [1.0]})).tolist() == [2.0]
    with tg.SyncSession(graph, blocking=True) as session, pytest.raises(tg.GraphError, match=message):
        session.run(y, {x: [1.0]}, **options)


async def test_a_tensor_is_no_watch(program):
    graph, x, y = program
    async with tg.Session(graph) as session:
        for call in (lambda: session.run(y, {x: [1.0]}, watch=y), lambda: session.make_step(y, [x])([1.0], watch=y)):
            with pytest.raises(tg.GraphError, match="no watch"):
                await call()


@pytest.mark.parametrize("feeds", [[1.0], np.ones(2), "x", 3.0])
async def test_values_without_their_tensors(program, feeds):
    graph, _, y = program
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match="fed by their tensors"):
            await session.run(y, feeds)


def test_rows_of_a_tensor_are_not_deleted(program):
    _, x, _ = program
    with pytest.raises(tg.GraphError, match="does not change") as caught:
        del x[0]
    assert "concat" in caught.value.hint


def test_pairs_of_gradients_and_variables():
    with tg.Graph().as_default():
        v = tg.Variable(np.ones(2, np.float32))
        gradient = tg.gradients(tg.reduce_sum(v * v), v)[0]
        optimizer = tg.training.GradientDescentOptimizer(0.1)
        for pairs in ([(v, gradient)], [gradient], [(gradient, v, 1)]):
            with pytest.raises(tg.GraphError, match="pairs of a gradient and its variable"):
                optimizer.apply_gradients(pairs)
        optimizer.apply_gradients([(gradient, v)])
