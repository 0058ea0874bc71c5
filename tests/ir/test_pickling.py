"""Graphs in pickles and copies: the same programs, whatever their length, and they can be built on."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import tagloom as tg
from tagloom import training
from tagloom.ir import pickling
from tagloom.ir.notes import NO_NOTES
from tagloom.ir.verify import check


def pickled(thing, protocol=None):
    return pickle.loads(pickle.dumps(thing, protocol))


WAYS = [pickled, partial(pickled, protocol=2), copy.deepcopy]


def program():
    """A graph with loops, branches, saved values, variables and an optimizer."""
    with tg.Graph(seed=3).as_default() as graph, tg.device("/cpu:0"):
        x = tg.placeholder("float32", [None, 2], name="x")
        w = tg.Variable(np.eye(2, dtype=np.float32), name="w")

        def body(i, a, array):
            a = tg.cond(i % 2 > 0, lambda: a @ w, lambda: tg.tanh(a) + tg.random_normal([2]))
            return i + 1, a, array.write(i, tg.reduce_sum(a))

        array = tg.TensorArray("float32", 3, element_shape=[])
        _, y, array = tg.while_loop(lambda i, *_: i < 3, body, [0, x, array])
        loss = tg.reduce_sum(y) + tg.reduce_sum(array.stack())
        train = training.AdamOptimizer(0.1).minimize(loss)
        init = tg.global_variables_initializer()
    return {"graph": graph, "x": x, "loss": loss, "train": train, "init": init, "w": w}


def train(found):
    with tg.SyncSession(found["graph"]) as session:
        session.run(found["init"])
        feeds = {found["x"]: np.float32([[1.0, -2.0]])}
        losses = [session.run([found["loss"], found["train"]], feeds)[0] for _ in range(3)]
        return [*losses, session.read_variables()["w"]]


@pytest.mark.parametrize("again", WAYS)
def test_a_graph_and_what_is_held_of_it(again):
    made = program()
    found = again(made)
    graph = found["graph"]
    assert graph is not made["graph"]
    assert graph.to_text() == made["graph"].to_text()
    assert all(found[name].graph is graph for name in ("x", "loss", "train", "w"))
    assert graph.get_tensor_by_name("x:0") is found["x"]
    assert graph.collections["variables"][0] is found["w"]
    check(graph, "structured")
    for got, wanted in zip(train(found), train(made), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("again", WAYS)
def test_it_can_be_built_on(again):
    def more(found):
        with found["graph"].as_default():
            (g,) = tg.gradients(tg.gradients(found["loss"], [found["x"]]), [found["w"]])
            return found["graph"].to_text(), [t.op.name for t in (g, tg.constant(1.0, name="w/read"), found["w"] + 1.0)]

    made = program()
    assert more(again(made)) == more(made)


@pytest.mark.parametrize("again", WAYS)
def test_a_tensor_brings_its_graph_along(again):
    made = program()
    x, y = again([made["x"], made["loss"]])
    assert x.graph is y.graph is not made["graph"]
    assert [user.name for user in x.consumers()] == [user.name for user in made["x"].consumers()]
    region = again(made["loss"].graph.root)
    assert region.graph.root is region
    inner = next(op for op in made["graph"].get_operations() if op.is_while).regions[1]
    assert again(inner).path() == inner.path()


def test_a_copy_is_a_graph_of_its_own():
    made = program()
    again = copy.copy(made["graph"])
    assert again.to_text() == made["graph"].to_text()
    assert again.get_tensor_by_name("x:0") is not made["x"]
    assert copy.copy(made["x"]) is made["x"]


@pytest.mark.parametrize("again", WAYS)
def test_a_long_chain_is_no_deep_recursion(again):
    with tg.Graph().as_default():
        y = tg.placeholder("float32", [])
        for _ in range(2000):
            y = y + 1.0
    last = again(y)
    assert (last.name, len(last.graph.get_operations())) == (y.name, 4001)


def test_hand_made_loops_and_callables():
    with tg.Graph().as_default() as graph:
        start = tg.enter(tg.constant(0), "frame")
        most, one = (tg.enter(tg.constant(k), "frame", is_constant=True) for k in (3, 1))
        variable, _ = tg.merge([start, start])
        done, going = tg.switch(variable, tg.loop_cond(variable < most))
        variable.op.update_input(1, tg.next_iteration(going + one))
        last = tg.py_function(abs, [-tg.exit(done)], "int32", name="last")
    again = pickle.loads(pickle.dumps(graph))
    with tg.SyncSession(again) as session:
        assert session.run("last:0") == 3
    with graph.as_default():
        tg.py_function(lambda v: v, [last], "int32")
    copy.deepcopy(graph)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(graph)


def test_notes_that_stood_among_the_attributes_are_notes_again():
    """In graphs pickled by earlier versions."""
    with tg.Graph().as_default() as graph:
        tg.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * 2.0), [0, 1.0])
    again = pickle.loads(pickle.dumps(graph))
    found = pickling.details(again)
    for i, notes in found.pop("notes"):
        again.get_operations()[i].attrs |= {"label": notes.label, "initial": notes.initial}
        again.get_operations()[i].notes = NO_NOTES
    pickling.restore(again, found)
    (loop,) = (op for op in again.get_operations() if op.is_while)
    assert all(param.op.notes.label and param.op.notes.initial is not None for param in loop.regions[1].params)
    check(again, "structured")
