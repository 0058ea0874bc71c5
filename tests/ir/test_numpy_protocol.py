"""NumPy's functions and operators given tensors."""

import numpy as np
import pytest
import tagloom as tg

A = np.float32([3.0, 4.0])
N = np.int32([9, -9])
FLAGS = np.array([True, False])

OPERATORS = {
    "+": lambda a, x: a + x,
    "-": lambda a, x: a - x,
    "*": lambda a, x: a * x,
    "/": lambda a, x: a / x,
    "**": lambda a, x: a**x,
    "==": lambda a, x: a == x,
    "!=": lambda a, x: a != x,
    "<": lambda a, x: a < x,
    ">=": lambda a, x: a >= x,
    "@": lambda a, x: a[None] @ x[:, None],
    "scalar *": lambda a, x: np.float64(2.0) * x,
    "scalar ==": lambda a, x: np.float64(2.0) == x,
    "scalar >": lambda a, x: np.int64(2) > x,
    "add": lambda a, x: np.add(a, x),
    "exp": lambda a, x: np.exp(x),
    "absolute": lambda a, x: np.abs(x),
    "maximum": lambda a, x: np.maximum(x, 1.5),
    "arctan2": lambda a, x: np.arctan2(a, x),
    "isnan": lambda a, x: np.isnan(x),
    "positive": lambda a, x: np.positive(x),
    "conjugate": lambda a, x: np.conjugate(x),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_array_on_the_left_and_universal_functions(graph, name):
    x = np.float32([1.0, 2.0])
    result = OPERATORS[name](A, tg.constant(x))
    assert isinstance(result, tg.Tensor)
    with tg.SyncSession(graph) as session:
        found = session.run(result)
    np.testing.assert_allclose(found, OPERATORS[name](A, x), rtol=1e-6)


def test_integers_and_flags(graph):
    n, p = tg.constant([2, 4]), tg.constant([True, True])
    pairs = [
        (N // n, N // [2, 4]),
        (N % n, N % [2, 4]),
        (divmod(N, n)[1], N % [2, 4]),
        (N & n, N & [2, 4]),
        (N << n, N << [2, 4]),
        (FLAGS & p, FLAGS),
        (FLAGS | p, [True, True]),
        (FLAGS ^ p, ~FLAGS),
        (np.invert(p), [False, False]),
        (np.logical_and(FLAGS, p), FLAGS),
    ]
    with tg.SyncSession(graph) as session:
        for tensor, wanted in pairs:
            np.testing.assert_array_equal(session.run(tensor), wanted)


def in_place(x):
    array = A.copy()
    array += x


REFUSED = {
    "sum": (np.sum, "tagloom.reduce_sum(t)"),
    "mean": (np.mean, "tagloom.reduce_mean(t)"),
    "concatenate": (lambda x: np.concatenate([x, x]), "tagloom.concat(t)"),
    "where": (lambda x: np.where(FLAGS, x, x), "tagloom.where(t)"),
    "cbrt": (np.cbrt, "use tagloom operations"),
    "add.reduce": (np.add.reduce, "tagloom.reduce_sum(t)"),
    "add.accumulate": (np.add.accumulate, "use tagloom operations"),
    "add with out=": (in_place, "tagloom.add(t)"),
    "exp with where=": (lambda x: np.exp(x, where=FLAGS), "tagloom.exp(t)"),
    "isclose": (lambda x: np.isclose(x, A), "use tagloom operations"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_functions_are_refused_with_the_name_here(graph, name):
    function, hint = REFUSED[name]
    with pytest.raises(tg.GraphError) as caught:
        function(tg.constant([1.0, 2.0], name="x"))
    assert caught.value.what == f"numpy.{name} wants arrays, and a symbolic tensor is none"
    assert hint in caught.value.hint
    assert caught.value.operation.name == "x"


def test_variables_are_tensors_here(graph):
    w = tg.Variable([1.0, 2.0])
    assert (A * w).op.type == "Mul"
    with pytest.raises(tg.GraphError, match=r"numpy\.sum wants arrays"):
        np.sum(w)
