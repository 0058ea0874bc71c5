"""Arguments that are known while the graph is built: a step may not feed them something else (rule 58)."""

import numpy as np
import pytest
import tagloom as tg


@pytest.mark.rule(58, 60)
@pytest.mark.parametrize("relay", [lambda t: t, tg.identity])
def test_an_axis_may_be_a_constant_that_is_not_fed(relay):
    with tg.Graph().as_default() as graph:
        axis, x = tg.constant(0), tg.constant([[1, 2], [3, 4]])
        y = tg.reduce_sum(x, relay(axis))
    with tg.SyncSession(graph) as session:
        assert session.run([y, axis])[0].tolist() == [4, 6]
        with pytest.raises(tg.GraphError, match="used while the graph was built") as refused:
            session.run(y, {axis: 1})
        assert refused.value.operation is axis.op
        assert session.run(y, {x: [[1, 1], [1, 1]]}).tolist() == [2, 2]
    assert not graph.is_feedable(axis)


def refused(graph, fetch, tensor, value):
    """Whether a step is refused another value of a tensor that was looked at, by an error that says why."""
    with tg.SyncSession(graph) as session:
        with pytest.raises(tg.GraphError, match="used while the graph was built") as caught:
            session.run(fetch, {tensor: value})
        assert "placeholder_with_default" in caught.value.hint
        session.run(fetch)
    return caught.value.operation is tensor.op and not graph.is_feedable(tensor)


SHAPED = {
    "zeros": lambda n: tg.zeros(n),
    "reshape": lambda n: tg.reshape(tg.range(6), n),
    "broadcast": lambda n: tg.broadcast_to(tg.constant(1.0), n),
    "tile": lambda n: tg.tile(tg.zeros([1, 1]), n),
    "random": lambda n: tg.random_uniform(n),
    "one of the sizes": lambda n: tg.zeros(tg.concat([n[:1], [4]], 0)),
}


@pytest.mark.rule(58, 60)
@pytest.mark.parametrize("use", SHAPED.values(), ids=SHAPED)
def test_a_shape_may_be_a_constant_that_is_not_fed(use):
    with tg.Graph().as_default() as graph:
        sizes = tg.constant([2, 3])
        made = use(sizes)
    assert made.shape.dims[0] == 2
    assert refused(graph, made, sizes, [3, 2])


@pytest.mark.rule(58)
@pytest.mark.parametrize(
    "use",
    [
        tg.range,
        lambda n: tg.one_hot([0, 1], n),
        lambda n: tg.zeros([3, 4])[:n],
        lambda n: tg.TensorArray("float32", n).unstack(tg.zeros([2, 3])).stack(),
    ],
)
def test_a_length_may_be_a_constant_that_is_not_fed(use):
    with tg.Graph().as_default() as graph:
        n = tg.constant(2)
        made = use(n)
    assert refused(graph, made, n, 3)


@pytest.mark.rule(58)
def test_the_shape_of_a_tensor_is_not_fed_once_it_was_used():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder_with_default(tg.zeros([2, 3]), [None, 3])
        used, free = tg.shape(x), tg.shape(x)
        made = tg.zeros(used)
    assert made.shape == [None, 3]
    assert refused(graph, made, used, [2, 4])
    assert graph.is_feedable(free)


@pytest.mark.rule(60)
def test_what_a_step_may_change_has_open_dimensions():
    with tg.Graph().as_default() as graph:
        sizes = tg.placeholder_with_default(tg.constant([2, 3]), [2])
        nothing = tg.placeholder("int32", [0])
        made, scalar = tg.zeros(sizes), tg.reshape(tg.constant([7]), nothing)
    assert made.shape == [None, None]
    with tg.SyncSession(graph) as session:
        assert session.run(made).shape == (2, 3)
        assert session.run(made, {sizes: [4, 5]}).shape == (4, 5)
        assert session.run(scalar, {nothing: np.zeros(0, np.int32)}) == 7


def test_what_is_feedable_may_be_asked_by_name():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [], name="x")
        w = tg.Variable(1.0, name="w")
        nothing = tg.no_op(name="nothing")
    assert [graph.is_feedable(element) for element in (x, "x:0", "x", x.op, w, "w:0")] == [True] * 6
    assert [graph.is_feedable(element) for element in (nothing, "nothing", w.handle)] == [False] * 3
    assert [graph.is_fetchable(element) for element in ("x:0", "x", w, w.handle)] == [True, True, True, False]
    with pytest.raises(tg.GraphError, match="no such operation"):
        graph.is_feedable("y:0")
