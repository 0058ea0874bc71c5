"""Where no graph is open, operations are built in the graph of what they are made of."""

import asyncio
import inspect
import pickle

import numpy as np
import pytest
import tagloom as tg
from tagloom import training


@pytest.fixture
def made():
    """A graph that is no longer open, and what was made in it."""
    with tg.Graph().as_default() as graph:
        things = {
            "x": tg.constant([[1.0, 2.0], [3.0, 4.0]], name="x"),
            "w": tg.Variable(np.eye(2, dtype=np.float32), name="w"),
            "n": tg.constant(3, name="n"),
            "p": tg.constant(True, name="p"),
            "ta": tg.TensorArray("float32", 2, element_shape=[], clear_after_read=False),
        }
    return graph, things


def slices(x, n):
    return tg.IndexedSlices(x, n[None], tg.constant([4, 2]))


USES = {
    "operator": (lambda x, **_: (1.0 + x) * 2, [[4, 6], [8, 10]]),
    "comparison": (lambda x, **_: x == 2.0, [[False, True], [False, False]]),
    "slice": (lambda x, **_: x[1, :1], [3]),
    "literal first": (lambda x, **_: tg.add(1.0, x), [[2, 3], [4, 5]]),
    "reduction": (lambda x, **_: tg.reduce_sum(x, 1), [3, 7]),
    "shape of literals": (lambda x, **_: tg.reshape(x, [4]), [1, 2, 3, 4]),
    "list": (lambda x, **_: tg.concat([[[0.0, 0.0]], x], 0), [[0, 0], [1, 2], [3, 4]]),
    "nested lists": (lambda n, **_: tg.convert_to_tensor([[n, 1], [2, n]]), [[3, 1], [2, 3]]),
    "sizes": (lambda n, **_: tg.zeros([n, 1]), [[0], [0], [0]]),
    "keyword": (lambda n, **_: tg.one_hot(indices=[0], depth=n), [[1, 0, 0]]),
    "variable": (lambda w, **_: w + 1.0, [[2, 1], [1, 2]]),
    "assignment": (lambda w, **_: w.assign([[0.0, 1.0], [2.0, 3.0]]), [[0, 1], [2, 3]]),
    "update of rows": (lambda w, **_: w.scatter_add([1], [[1.0, 1.0]]), [[1, 0], [1, 2]]),
    "gradients": (lambda x, w, **_: tg.gradients(tg.reduce_sum(x @ w), [w])[0], [[4, 4], [6, 6]]),
    "while_loop": (lambda n, **_: tg.while_loop(lambda i: i < 3, lambda i: i + n, [n - n]), 3),
    "while_loop of captures": (
        lambda x, **_: tg.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a + x), (0, x))[0],
        2,
    ),
    "cond": (lambda p, **_: tg.cond(p, lambda: tg.constant(1.0), lambda: 2.0), 1),
    "case": (lambda p, **_: tg.case([(p, lambda: 1.0)], lambda: 2.0), 1),
    "switch_case": (lambda n, **_: tg.switch_case(n, [lambda: 1.0, lambda: 2.0]), 2),
    "map_fn": (lambda x, **_: tg.map_fn(lambda row: row * 2.0, x), [[2, 4], [6, 8]]),
    "scan": (lambda x, **_: tg.scan(lambda a, row: a + row, x), [[1, 2], [4, 6]]),
    "array": (lambda ta, **_: ta.write(0, 1.0).write(1, 2.0).stack(), [1, 2]),
    "array of a size": (lambda n, **_: tg.TensorArray("float32", n).size(), 3),
    "py_function": (lambda x, **_: tg.py_function(lambda v: v.sum(), [x], "float32"), 10),
    "custom_gradient": (lambda x, **_: tg.custom_gradient(lambda a: (a, lambda d: d))(x), [[1, 2], [3, 4]]),
    "random": (lambda n, **_: tg.shape(tg.random_uniform([n])), [3]),
    "where": (lambda x, **_: tg.where(x > 2.0, x, 0.0), [[0, 0], [3, 4]]),
    "dependency": (lambda x, n, **_: tg.tuple_([x, n])[1], 3),
    "stack of values": (lambda n, **_: tg.stack([n, 1]), [3, 1]),
}


@pytest.mark.parametrize("use", USES)
def test_functions_and_methods(made, use):
    graph, things = made
    function, wanted = USES[use]
    result = function(**things)
    assert result.graph is graph
    with tg.SyncSession(graph) as session:
        session.run(things["w"].initializer)
        assert session.run(result).tolist() == wanted


def test_scopes(made):
    things = made[1]
    x = things["x"]
    with tg.control_dependencies([x]), tg.device("/cpu:0"):
        y = x * 2.0
    assert y.op.control_inputs == [x.op]
    assert y.device == "/device:CPU:0"
    with tg.colocate_with(things["w"]):
        assert (x * 2.0).op.attrs["colocate"] == "w"
    with tg.name_scope("layer", values=[x]):
        assert (x * 2.0).op.name == "layer/Mul"
    with tg.name_scope("layer", values=[x]) as scope:
        assert scope == "layer_1/"


def test_operations_of_a_graph(made):
    graph, things = made
    assert tg.group(things["x"]).graph is graph
    assert tg.variables_initializer([things["w"]]).graph is graph
    train = training.AdamOptimizer(0.1).minimize(tg.reduce_sum(things["w"] ** 2.0))
    assert train.graph is graph
    assert len(graph.collections["variables"]) > 1
    again = tg.Variable(things["x"])
    assert again.graph is graph


def test_the_graph_is_open_for_that_call_only(made):
    made[1]["x"] * 2.0
    with pytest.raises(tg.GraphError, match="no graph is open"):
        tg.get_default_graph()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tg.constant(1.0),
        lambda: tg.placeholder("float32"),
        lambda: tg.Variable(1.0),
        lambda: tg.zeros([2]),
        lambda: tg.while_loop(lambda i: i < 3, lambda i: i + 1, [0]),
        lambda: tg.trainable_variables(),
        lambda: tg.name_scope("a").__enter__(),
    ],
)
def test_what_is_made_of_nothing_needs_an_open_graph(make):
    with pytest.raises(tg.GraphError, match="no graph is open here") as caught:
        make()
    assert "`with graph.as_default():`" in caught.value.hint


def test_a_session_needs_a_graph():
    for kind in (tg.Session, tg.SyncSession):
        with pytest.raises(tg.GraphError, match="no graph is open here") as caught:
            kind()
        assert "tagloom.Session(graph)" in caught.value.hint


def test_two_graphs_do_not_mix(made):
    x = made[1]["x"]
    with tg.Graph().as_default():
        other = tg.constant(1.0)
        with pytest.raises(tg.GraphError, match="x:0 is of another graph"):
            x * 2.0
    for mix in (lambda: x + other, lambda: tg.concat([x, other[None, None]], 0), lambda: tg.gradients(x, [other])):
        with pytest.raises(tg.GraphError, match="is of another graph"):
            mix()


@pytest.mark.rule(63)
def test_a_tensor_of_a_body_is_not_used_at_the_root(made):
    leaked = []
    tg.while_loop(lambda i: i < 3, lambda i: leaked.append(i * 2) or i + 1, [made[1]["n"]])
    with pytest.raises(tg.GraphError, match="used outside the loop body"):
        leaked[0] + 1


def test_each_thread_and_task_finds_it(made):
    graph, things = made

    async def build():
        return things["x"] * 2.0

    async def main():
        return await asyncio.gather(build(), asyncio.to_thread(lambda: things["x"] * 2.0))

    assert {t.graph for t in asyncio.run(main())} == {graph}


def test_slices_know_their_graph(made):
    graph, things = made
    with graph.as_default():
        rows = slices(things["x"][:1], things["n"])
    assert tg.convert_to_tensor(rows).graph is graph
    assert tg.reduce_sum(rows).graph is graph


def run_waiting(fetch, **options):
    with tg.SyncSession(fetch.graph) as session:
        return session.run(fetch, **options)


CALLS = {
    "an old name": (lambda x: tg.reduce_sum(x, reduction_indices=1), "axis=, as in reduce_sum(input_tensor, axis=None"),
    "a near name": (lambda x: tg.reduce_sum(x, axi=1), "axis=, as in reduce_sum("),
    "no such thing": (lambda x: tg.Variable(x, collections=[]), "Variable(initial_value, trainable=True"),
    "too many": (lambda x: tg.softmax_cross_entropy_with_logits(x, x), "with_logits(*, labels, logits, axis=-1"),
    "too few": (lambda x: tg.relu(), "relu(features, name=None)"),
    "a method": (lambda x: tg.Variable(x).assign_add(value=1.0), "assign_add(delta, name=None, *, ordered=True)"),
    "a session": (lambda x: tg.Session(x.graph, config=None), "Session(graph=None, *, executor='machine'"),
    "feeds": (lambda x: asyncio.run(tg.Session(x.graph).run(x, feed_dict={})), "feeds=, as in Session.run("),
    "feeds, waited for": (lambda x: run_waiting(x, feed_dict={}), "feeds=, as in SyncSession.run("),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_says_how_it_is_called(graph, name):
    call, note = CALLS[name]
    with pytest.raises(TypeError) as caught:
        call(tg.constant([[1.0]]))
    (found,) = caught.value.__notes__
    assert found.startswith("  try: ")
    assert note in found


def test_errors_of_what_is_called_are_not_explained(graph):
    with pytest.raises(TypeError) as caught:
        tg.while_loop(lambda i: i < 3, lambda i: [].append(i, i), [0])
    assert not hasattr(caught.value, "__notes__")


def test_marks_leave_functions_as_they_were():
    assert inspect.iscoroutinefunction(tg.Session.run)
    assert list(inspect.signature(tg.reduce_sum).parameters) == ["input_tensor", "axis", "keepdims", "name"]
    assert pickle.loads(pickle.dumps(tg.reshape)) is tg.reshape
