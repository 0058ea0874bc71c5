"""``==`` and ``!=`` are elementwise, as in NumPy, JAX and PyTorch; which tensor it is, says ``is``."""

import numpy as np
import pytest
import tagloom as tg


def run(graph, fetches, feeds=None):
    with tg.SyncSession(graph) as session:
        session.run(tg.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (2.0, [False, True, False]),
        (2, [False, True, False]),
        ([1.0, 0.0, 3.0], [True, False, True]),
        (np.float32([1, 2, 4]), [True, True, False]),
        (lambda: tg.constant(3.0), [False, False, True]),
        (lambda: tg.Variable(1.0), [True, False, False]),
    ],
)
def test_both_sides_and_both_operators(graph, other, equal):
    other = other() if callable(other) else other
    for x in (tg.constant([1.0, 2.0, 3.0]), tg.Variable([1.0, 2.0, 3.0])):
        found = [x == other, other == x, x != other, other != x]
        assert all(isinstance(t, tg.Tensor) and t.dtype == "bool" for t in found)
        same, reflected, differ, reflected_differ = run(graph, found)
        assert same.tolist() == reflected.tolist() == equal
        assert differ.tolist() == reflected_differ.tolist() == [not each for each in equal]


def test_strings_are_compared_with_strings(graph):
    assert run(graph, tg.constant(["a", "b"]) == "b").tolist() == [False, True]
    with pytest.raises(tg.DtypeError, match="does not fit the dtype"):
        tg.constant(1.0) == "b"  # noqa: B015


def test_what_is_no_value_is_an_error_as_for_equal(graph):
    x = tg.constant(1.0)
    for compare in (lambda: x == object(), lambda: tg.equal(x, object())):
        with pytest.raises(tg.DtypeError, match="cannot become a tensor"):
            compare()


def test_no_tensor_is_none(graph):
    for x in (tg.constant(1.0), tg.Variable(1.0)):
        assert (x == None) is False  # noqa: E711
        assert (x != None) is True  # noqa: E711
        assert None not in [x]


def test_tensors_are_found_by_identity(graph):
    x, y = tg.constant(1.0), tg.constant(1.0)
    w = tg.Variable(1.0)
    names = {x: "x", y: "y", w: "w", (x, 1): "pair"}
    assert [names[each] for each in (x, y, w, (x, 1))] == ["x", "y", "w", "pair"]
    assert len({x, y, w, x}) == 3
    assert x in [x, y]
    assert [y, x].index(y) == 0
    with pytest.raises(tg.GraphError, match="truth value") as caught:
        y in [x]  # noqa: B015
    assert "`a is b`" in caught.value.hint


@pytest.mark.parametrize("ask", [lambda x: 0 < x < 1, lambda x: x > 0 and x < 1, lambda x: not x, lambda x: bool(x)])
def test_the_hint_of_a_truth_value_has_the_operators(graph, ask):
    with pytest.raises(tg.GraphError, match="truth value") as caught:
        ask(tg.constant(0.5))
    assert all(each in caught.value.hint for each in ("cond", "where", "`&`", "`|`", "`~`", "(0 < t) & (t < 1)"))


def test_loops_end_by_what_is_equal(graph):
    i = tg.while_loop(lambda k: k != 3, lambda k: k + 1, [0])
    j = tg.while_loop(lambda k: k == 0, lambda k: k + 1, [0])
    ids = tg.constant([0, 1, 0])
    assert [v.tolist() for v in run(graph, [i, j, tg.where(ids == 0, 1.0, 2.0)])] == [3, 1, [1.0, 2.0, 1.0]]


@pytest.mark.parametrize("answer", [True, False, np.True_])
def test_a_loop_whose_predicate_is_a_python_bool_is_refused(graph, answer):
    with pytest.raises(tg.GraphError, match="Python bool") as caught:
        tg.while_loop(lambda k: answer, lambda k: k + 1, [0])
    assert "maximum_iterations" in caught.value.hint
    assert "test_equality.py" in str(caught.value.source)
    last = tg.while_loop(lambda k: answer, lambda k: k + 1, [0], maximum_iterations=3)
    assert run(graph, last) == (3 if answer else 0)
