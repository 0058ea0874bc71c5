"""No chain and no nest meets Python's recursion limit."""

import numpy as np
import pytest
import tagflow as tg

pytestmark = pytest.mark.usefixtures("graph")


def chain(x, length):
    for _ in range(length):
        x = x * 1.0001
    return x


def test_a_long_chain_runs(graph):
    x = tg.placeholder("float64", [])
    (gradient,) = tg.gradients(chain(x, 5000), [x])
    with tg.SyncSession(graph) as session:
        assert session.run(gradient, {x: 1.0}) == pytest.approx(1.0001**5000)


def test_a_deep_nest_of_conds_runs(graph):
    p, x = tg.placeholder("bool", []), tg.placeholder("float64", [])

    def nested(depth):
        return tg.cond(p, lambda: nested(depth - 1) * x, lambda: x) if depth else x

    (gradient,) = tg.gradients(nested(30), [x])
    with tg.SyncSession(graph) as session:
        assert session.run(gradient, {x: 1.1, p: True}) == pytest.approx(31 * 1.1**30)
        assert session.run(gradient, {x: 1.1, p: False}) == 1.0


def test_a_long_body_with_products_runs(graph):
    x, w = tg.placeholder("float64", [2, 64, 64]), tg.placeholder("float64", [64, 64])

    def body(t, a):
        index = t
        for _ in range(1500):
            index = index + 1 - 1
        a = a + x[index] @ w
        for _ in range(1500):
            a = a + x[t]
        return t + 1, a

    last = tg.while_loop(lambda t, a: t < 2, body, [0, tg.zeros([64, 64], "float64")])[1]
    values = np.ones((2, 64, 64))
    with tg.SyncSession(graph) as session:
        np.testing.assert_allclose(session.run(last, {x: values, w: np.eye(64)}), 2 * 1501 * values[0])
