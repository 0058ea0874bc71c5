"""Jacobians and Hessians of all elements at once are those of a loop over the elements."""

import dataclasses

import numpy as np
import pytest
import tagloom as tg

X = np.float64([0.3, -1.2, 2.0])


def scanned(x):
    return tg.scan(
        lambda a, e: tg.sin(a * e) + x, tg.constant([[0.5] * 3, [1.5] * 3, [0.25] * 3], "float64"), initializer=x
    )


def looped(x):
    return tg.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tg.tanh(y) * x + y[::-1]), (0, x))[1]


def chosen(x):
    return tg.cond(x[0] > 0.0, lambda: tg.cumsum(x) * x[1], lambda: x)


def recomputed(x):
    return tg.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tg.sin(y) * x), (0, x), checkpoint_every=2)[1]


@pytest.mark.parametrize(
    "function", [scanned, looped, chosen, recomputed, tg.softmax, lambda x: tg.gather(x, [0, 2, 2])]
)
def test_all_elements_at_once(function):
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [None])
        y = function(x)
        found = [tg.jacobian(y, x, vectorized=v) for v in (True, False)]
        found += [tg.hessians(y * y, x, vectorized=v)[0] for v in (True, False)]
    with tg.SyncSession(graph) as session:
        at_once, looped_over, hessian, by_rows = session.run(found, {x: X})
        assert session.run(found[0], {x: X[:3]}).shape == (*at_once.shape[:-1], 3)
    np.testing.assert_allclose(at_once, looped_over, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(hessian, by_rows, rtol=1e-10, atol=1e-12)


def test_batches_at_once():
    with tg.Graph().as_default() as graph:
        x = tg.constant(np.arange(6.0).reshape(2, 3))
        y = tg.softmax(x)[:, :2] * x[:, 1:]
        found = [tg.batch_jacobian(y, x, vectorized=v) for v in (True, False)]
    with tg.SyncSession(graph) as session:
        one, other = session.run(found)
    assert one.shape == (2, 2, 3)
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_no_loop_is_left():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [3])
        tg.jacobian(tg.sin(x) * x, x)
        assert not any(op.is_while for op in graph.root.operations)
        tg.jacobian(tg.sin(x) * x, x, vectorized=False)
        assert any(op.is_while for op in graph.root.operations)


def test_an_operation_without_a_rule_is_differentiated_in_a_loop(monkeypatch):
    from tagloom.ir import definition
    from tagloom.ir.rules.vectorizing import Vectorize

    without = dict(definition.definition_of("Cos").rules)
    without.pop(Vectorize)
    with tg.Graph().as_default() as graph:
        x = tg.constant(X)
        y = tg.sin(x) * x
        with monkeypatch.context() as patch:
            changed = dataclasses.replace(definition.definition_of("Cos"), rules=without)
            patch.setitem(definition._REGISTRY, "Cos", changed)
            patch.setitem(
                definition._REGISTRY, "Mul", dataclasses.replace(definition.definition_of("Mul"), rules=without)
            )
            with pytest.raises(tg.VectorizationError, match="Mul cannot be computed for many examples at once"):
                tg.jacobian(y, x, vectorized=True)
            found = tg.jacobian(y, x)
    with tg.SyncSession(graph) as session:
        np.testing.assert_allclose(session.run(found), np.diag(np.cos(X) * X + np.sin(X)))
