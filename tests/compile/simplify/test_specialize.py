"""Static shapes found again from those that are fed: as much as is true, and no more."""

from collections import Counter

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile import Target, compile_until
from tagloom.ir.program import Program

from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")


def specialized(fetches, feeds, *shapes, row="specialize"):
    return compile_until(row, Program(fetches[0].graph, feeds, fetches), Target(ON, shapes=shapes))


def shapes_of(fetches, feeds, *shapes):
    return [str(t.shape) for t in specialized(fetches, feeds, *shapes).fetches]


def recurrent(batch):
    """Return the loss of a recurrent loop and its gradients, with what is fed."""
    x = tg.placeholder("float32", [4, batch, 3])
    w = tg.placeholder("float32", [6, 3])
    rows = tg.TensorArray("float32", 4).unstack(x)

    def body(t, out, h):
        h = tg.tanh(tg.concat([rows.read(t), h], 1) @ w)
        h = h - tg.reduce_mean(h, 1, keepdims=True)
        return t + 1, out.write(t, h), h

    start = tg.zeros([tg.shape(x)[1], 3])
    loop = tg.while_loop(lambda t, *_: t < 4, body, [0, tg.TensorArray("float32", 4), start])
    loss = tg.reduce_mean(tg.square(loop[1].stack() - x))
    return [loss, *tg.gradients(loss, [w, x])], [x, w]


def types(program):
    return Counter(op.type for op in program.graph.root.walk())


def test_an_unknown_batch_gets_what_a_known_one_gets():
    known = specialized(*recurrent(2), (4, 2, 3), (6, 3), row="release")
    found = specialized(*recurrent(None), (4, 2, 3), (6, 3), row="release")
    assert types(found) - types(known) == Counter()
    assert not types(found) & Counter({"Shape": 1, "SumTo": 1})


def test_the_graph_of_the_user_stays_as_it_was():
    x = tg.placeholder("float32", [None])
    y = x * 2.0
    specialized([y], [x], (3,))
    assert (str(x.shape), str(y.shape)) == ("[?]", "[?]")


def test_a_loop_variable_that_grows_is_of_unknown_size():
    x = tg.placeholder("float32", [None])
    invariants = [[], [None], [None]]
    loop = tg.while_loop(
        lambda i, a, b: i < 3,
        lambda i, a, b: (i + 1, tg.concat([a, a], 0), b + 1.0),
        [0, x, x],
        shape_invariants=invariants,
    )
    assert shapes_of([loop[1], loop[2]], [x], (2,)) == ["[?]", "[2]"]


def test_a_variable_that_gets_another_ones_shape_takes_it_only_if_they_agree():
    x, y = (tg.placeholder("float32", [None]) for _ in range(2))
    a, b = tg.while_loop(lambda a, b: tg.reduce_sum(a) < 9.0, lambda a, b: (b, a), [x, y])
    assert shapes_of([a, b], [x, y], (2,), (2,)) == ["[2]", "[2]"]
    assert shapes_of([a, b], [x, y], (2,), (3,)) == ["[?]", "[?]"]


def test_branches_agree_or_the_shape_is_unknown():
    x = tg.placeholder("float32", [None])
    same = tg.cond(tg.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x * 2.0)
    other = tg.cond(tg.reduce_sum(x) > 0, lambda: x, lambda: tg.concat([x, x], 0))
    assert shapes_of([same, other], [x], (2,)) == ["[2]", "[?]"]


def test_what_branches_save_has_its_shape():
    x = tg.placeholder("float32", [None, 3])
    y = tg.cond(tg.reduce_sum(x) > 0, lambda: tg.tanh(x) * tg.sigmoid(x), lambda: x)
    program = specialized(tg.gradients(y, [x]), [x], (2, 3), row="fold")
    assert {str(op.outputs[0].shape) for op in program.graph.root.walk() if op.type == "MaybeGet"} == {"[2,3]"}


def test_elements_of_one_shape_have_that_shape():
    x = tg.placeholder("float32", [None])
    array = tg.TensorArray("float32", 2, clear_after_read=False).write(0, x).write(1, x * 2.0)
    assert shapes_of([array.read(1), array.stack(), array.gather([0])], [x], (3,)) == ["[3]", "[2,3]", "[1,3]"]


def test_elements_of_many_shapes_have_none():
    x = tg.placeholder("float32", [None])
    array = tg.TensorArray("float32", 2, infer_shape=False).write(0, x).write(1, tg.concat([x, x], 0))
    assert shapes_of([array.read(0)], [x], (3,)) == ["[?]"]


def test_an_array_of_an_inner_loop_tells_of_its_elements_or_of_nothing():
    x = tg.placeholder("float32", [None])

    def body(i, total):
        array = tg.TensorArray("float32", 2, clear_after_read=False).write(0, x).write(1, total)
        return i + 1, array.read(0) * array.read(1)

    y = tg.while_loop(lambda i, total: i < 2, body, [0, x])[1]
    fetches = [y, *tg.gradients(y, [x])]
    assert shapes_of(fetches, [x], (3,)) == ["[3]", "[3]"]
    with tg.SyncSession(x.graph) as session:
        for _ in range(3):
            value, gradient = session.run(fetches, {x: np.array([1, 2, 3], np.float32)})
            np.testing.assert_allclose(value, [1, 8, 27])
            np.testing.assert_allclose(gradient, [3, 12, 27])


def test_a_time_of_unknown_length_is_known_behind_the_loop():
    x = tg.placeholder("float32", [None, 2])
    rows = tg.TensorArray("float32", tg.shape(x)[0]).unstack(x)
    out = tg.TensorArray("float32", tg.shape(x)[0])
    loop = tg.while_loop(
        lambda t, out: t < tg.shape(x)[0], lambda t, out: (t + 1, out.write(t, rows.read(t) * 2.0)), [0, out]
    )
    assert shapes_of([loop[1].stack()], [x], (5, 2)) == ["[5,2]"]


def test_a_shape_behind_a_switch_made_by_hand_stays_dead():
    x, p = tg.placeholder("float32", [None]), tg.placeholder("bool", [])
    dead, live = tg.switch(x, p)
    merged, _ = tg.merge([tg.cast(tg.shape(dead), "float32") * 2.0, tg.cast(tg.shape(live), "float32")])
    with tg.SyncSession(x.graph) as session:
        for value, wanted in ((True, 3), (False, 6), (True, 3), (False, 6)):
            assert session.run(merged, {x: np.ones(3, np.float32), p: value}) == [wanted]


def test_shapes_that_can_not_be_are_refused():
    x, y = tg.placeholder("float32", [None, 2]), tg.placeholder("float32", [None, 4])
    with pytest.raises(tg.ShapeError, match="inner dimensions"):
        specialized([x @ y], [x, y], (3, 2), (3, 4))
