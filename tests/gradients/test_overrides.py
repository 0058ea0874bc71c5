"""Gradients that replace those of operation types inside a scope."""

import pickle

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON


@tg.RegisterGradient("Tripled")
def tripled(op, grad):
    return 3.0 * grad


@tg.RegisterGradient("OfSquare")
def of_square(op, grad):
    return [grad * op.inputs[0] * op.inputs[0]]  # instead of 2 x


@tg.RegisterGradient("LeftOnly")
def left_only(op, grad):
    return grad, None


@tg.RegisterGradient("TooMany")
def too_many(op, grad):
    return grad, grad


def run(graph, fetches, feeds):
    with tg.SyncSession(graph, settings=ON) as session:
        return [np.asarray(each).tolist() for each in session.run(fetches, feeds)]


@pytest.fixture
def x(graph):
    return tg.placeholder("float32", [], "x")


def test_only_what_is_built_inside(graph, x):
    before = tg.exp(x)
    with graph.gradient_override_map({"Exp": "Tripled"}):
        inside = tg.exp(x)
        other = tg.sin(x)
    after = tg.exp(x)
    slopes = [tg.gradients(y, x)[0] for y in (before, inside, other, after)]
    np.testing.assert_allclose(run(graph, slopes, {x: 0.0}), [1, 3, 1, 1])


def test_the_value_stays(graph, x):
    with graph.gradient_override_map({"Square": "OfSquare"}):
        y = tg.square(x)
    assert run(graph, [y, *tg.gradients(y, x)], {x: 3.0}) == [9, 9]


def test_the_inner_scope_wins_and_the_outer_one_comes_back(graph, x):
    with graph.gradient_override_map({"Exp": "Tripled"}):
        with graph.gradient_override_map({"Exp": "Identity"}):
            inner = tg.exp(x)
        outer = tg.exp(x)
    assert run(graph, [*tg.gradients(inner, x), *tg.gradients(outer, x)], {x: 0.0}) == [1, 3]


@pytest.mark.parametrize("type", ["Sign", "Floor", "Round", "Identity"])
def test_an_operation_without_a_gradient_gets_one(graph, x, type):
    build = {"Sign": tg.sign, "Floor": tg.floor, "Round": tg.round, "Identity": tg.stop_gradient}[type]
    type = build(x).op.type
    with graph.gradient_override_map({type: "Tripled"}):
        y = build(x * 2.0)
    assert run(graph, tg.gradients(y, x), {x: 0.3}) == [6]


def test_second_order(graph, x):
    with graph.gradient_override_map({"Square": "OfSquare"}):
        y = tg.square(x)
    (first,) = tg.gradients(y, x)
    (second,) = tg.gradients(first, x)
    (third,) = tg.gradients(second, x)
    assert run(graph, [first, second, third], {x: 5.0}) == [25, 10, 2]


@pytest.mark.parametrize("keywords", [{}, {"checkpoint_every": 2}, {"swap_memory": True}])
def test_in_a_loop(graph, x, keywords):
    def body(i, v):
        with graph.gradient_override_map({"Square": "OfSquare"}):
            return i + 1, tg.square(v)

    y = tg.while_loop(lambda i, v: i < 2, body, [0, x], **keywords)[1]
    (first,) = tg.gradients(y, x)
    (second,) = tg.gradients(first, x)
    # y = (x^2)^2, whose gradient is taken to be (x^2)^2 * x^2 = x^6.
    assert run(graph, [y, first, second], {x: 2.0}) == [16, 64, 192]


def test_around_a_loop_and_a_branch(graph, x):
    with graph.gradient_override_map({"Square": "OfSquare"}):
        looped = tg.while_loop(lambda i, v: i < 1, lambda i, v: (i + 1, tg.square(v)), [0, x])[1]
        chosen = tg.cond(x > 0, lambda: tg.square(x), lambda: x)
    slopes = [tg.gradients(y, x)[0] for y in (looped, chosen)]
    assert run(graph, slopes, {x: 3.0}) == [9, 9]


def test_in_a_function_that_is_computed_again(graph, x):
    @tg.recompute_grad
    def f(v):
        with graph.gradient_override_map({"Square": "OfSquare"}):
            return tg.square(tg.square(v))

    assert run(graph, tg.gradients(f(x), x), {x: 2.0}) == [64]


def test_an_input_without_a_gradient(graph, x):
    with graph.gradient_override_map({"Mul": "LeftOnly"}):
        y = (x + 1.0) * (x + 2.0)
    assert run(graph, tg.gradients(y, x), {x: 5.0}) == [1]


def test_gradients_of_variables(graph):
    v = tg.Variable(2.0)
    with graph.gradient_override_map({"Square": "OfSquare"}):
        y = tg.square(v * 1.0)
    slope = tg.gradients(y, v)
    with tg.SyncSession(graph) as session:
        session.run(v.initializer)
        assert session.run(slope) == [4]


def test_texts_and_pickles_keep_the_name(graph, x):
    with graph.gradient_override_map({"Square": "OfSquare"}):
        tg.square(x, name="y")
    for again in (pickle.loads(pickle.dumps(graph)), tg.Graph.from_text(graph.to_text())):
        with again.as_default():
            slope = tg.gradients(again.get_tensor_by_name("y:0"), again.get_tensor_by_name("x:0"))
        assert run(again, slope, {"x:0": 3.0}) == [9]


def test_what_there_is_not(graph, x):
    for overrides, message in (
        ({"Exponent": "Tripled"}, "no gradient to replace"),
        ({"While": "Tripled"}, "no gradient to replace"),
        ({"Exp": "Quadrupled"}, "no such gradient"),
        ({"Exp": "LogicalAnd"}, "no such gradient"),
        ("Exp", "takes a dict"),
    ):
        with pytest.raises(tg.GraphError, match=message), graph.gradient_override_map(overrides):
            pass
    with graph.gradient_override_map({"Exp": "TooMany"}):
        y = tg.exp(x)
    with pytest.raises(tg.GraphError, match="wrong number of cotangents"):
        tg.gradients(y, x)


def test_a_name_is_registered_once():
    def other(op, grad):
        return grad

    with pytest.raises(tg.GraphError, match="already"):
        tg.RegisterGradient("Tripled")(other)
    with pytest.raises(tg.GraphError, match="already"):
        tg.RegisterGradient("Exp")(other)
    with pytest.raises(tg.GraphError, match="needs a name"):
        tg.RegisterGradient(other)
    assert tg.RegisterGradient("Tripled")(tripled) is tripled


@pytest.mark.parametrize(
    "build",
    [
        lambda x: tg.reduce_sum(x * x, 1),
        lambda x: tg.cumsum(x * x, 1),
        lambda x: tg.max_pool((x * x)[None, :, :, None], 2, 1, "SAME"),
        lambda x: tg.avg_pool((x * x)[None, :, :, None], 2, 1, "SAME"),
        lambda x: tg.resize_bilinear((x * x)[None, :, :, None], [5, 5]),
        lambda x: tg.extract_image_patches((x * x)[None, :, :, None], 2, 1, 1, "SAME"),
    ],
)
def test_colocated_operations_have_second_derivatives(graph, build):
    x = tg.placeholder("float64", [3, 4])
    plain = tg.gradients(tg.gradients(build(x), x), x)
    with tg.colocate_with(x):
        colocated = tg.gradients(tg.gradients(build(x), x), x)
    found = run(graph, [*plain, *colocated], {x: np.arange(12.0).reshape(3, 4)})
    assert found[0] == found[1]
