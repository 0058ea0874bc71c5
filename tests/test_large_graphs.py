"""No chain and no nest meets Python's recursion limit."""

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
