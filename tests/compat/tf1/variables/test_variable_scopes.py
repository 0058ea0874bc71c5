"""``get_variable`` and ``variable_scope``: names, sharing, what a scope says of its variables, functions and loops.

Names in random programs are compared with TensorFlow's in `tests/peers/test_variable_scopes.py`.
"""

import copy
import pickle

import numpy as np
import pytest
import tagloom as tg
from tagloom.compat import tf1
from tagloom.compat.tf1 import AUTO_REUSE, get_variable, get_variable_scope, variable_scope


def names():
    return [v.name for v in tg.global_variables()]


def test_names_of_nested_scopes():
    with variable_scope("a"), tg.name_scope("not"), variable_scope("b") as scope:
        get_variable("w", [1])
    assert names() == ["a/b/w"]
    assert scope.name == "a/b"
    assert scope.original_name_scope == "a/not/b/"


def test_operations_get_a_name_scope():
    with variable_scope("a"):
        first = tg.identity(1.0, name="x")
    with variable_scope("a", auxiliary_name_scope=False):
        second = tg.identity(1.0, name="x")
    with variable_scope("a"):
        third = tg.identity(1.0, name="x")
    assert [t.op.name for t in (first, second, third)] == ["a/x", "x", "a_1/x"]


def test_a_variable_is_made_once_and_shared_where_that_is_said():
    with variable_scope("a"):
        w = get_variable("w", [2])
        with pytest.raises(tg.GraphError, match="variable 'a/w' exists already"):
            get_variable("w", [2])
    with variable_scope("a", reuse=True):
        assert get_variable("w") is get_variable("w", [2]) is w
        with pytest.raises(tg.GraphError, match="there is no variable 'a/v' to be reused"):
            get_variable("v", [2])
    with variable_scope("a", reuse=AUTO_REUSE), variable_scope("b", reuse=False):
        assert get_variable("v", [1]) is get_variable("v", [1])
    with variable_scope("a") as scope:
        scope.reuse_variables()
        assert get_variable("w") is w
    assert names() == ["a/w", "a/b/v"]


def test_sharing_as_something_else_is_refused():
    get_variable("w", [2])
    get_variable_scope().reuse_variables()
    with pytest.raises(tg.ShapeError, match="another shape"):
        get_variable("w", [3])
    with pytest.raises(tg.DtypeError, match="another dtype"):
        get_variable("w", [2], "int32")


def test_default_names_are_unique():
    for _ in range(2):
        with variable_scope(None, "a"):
            get_variable("w", [1])
    with variable_scope("b"), variable_scope(None, default_name="a"):
        get_variable("w", [1])
    assert names() == ["a/w", "a_1/w", "b/a/w"]


@pytest.mark.parametrize("given", [{}, {"default_name": "a", "reuse": True}, {"reuse": True}])
def test_scopes_without_a_name(given):
    with pytest.raises(tg.GraphError, match="name"), variable_scope(None, **given):
        pass


def test_a_scope_is_entered_again_from_anywhere():
    with variable_scope("a", initializer="ones") as a:
        w = get_variable("w", [1])
    with variable_scope("b", initializer="zeros"), variable_scope(a, reuse=True) as again:
        assert get_variable("w") is w
        assert (again.name, again.initializer, again.original_name_scope) == ("a", "ones", "a/")
        assert get_variable_scope() is again
    assert a.reuse is False


def test_each_graph_has_its_own():
    with variable_scope("a"):
        get_variable("w", [1])
        with tg.Graph().as_default():
            assert get_variable("w", [1]).name == "w"
        assert get_variable_scope().name == "a"


def test_initial_values(start):
    values = {
        "own": get_variable("own", [2], initializer=lambda shape, dtype: tg.fill(shape, tg.cast(3, dtype))),
        "name": get_variable("name", [2], initializer="ones"),
        "value": get_variable("value", initializer=[4.0, 5.0]),
        "integers": get_variable("integers", [2], "int32"),
        "truths": get_variable("truths", 1, "bool"),
    }
    with variable_scope("scope", initializer=tg.nn.constant_initializer(7), dtype="float64"):
        with variable_scope("inner"):
            values["scope"] = get_variable("w", [])
        values["number"] = get_variable("number", initializer=2.0)
    drawn = get_variable("drawn", [40, 60])
    found = start([values, drawn])
    wanted = {"own": [3, 3], "name": [1, 1], "value": [4, 5], "integers": [0, 0], "truths": [False], "scope": 7}
    for key, value in {**wanted, "number": 2}.items():
        np.testing.assert_array_equal(found[0][key], value, key)
    assert [found[0][k].dtype for k in ("integers", "truths", "scope", "number")] == ["i4", "?", "f8", "f4"]
    assert np.sqrt(6 / 100) * 0.9 < abs(found[1]).max() <= np.sqrt(6 / 100)


def test_a_new_variable_needs_a_shape():
    with pytest.raises(tg.GraphError, match="has no shape"):
        get_variable("w")


def test_regularizers(start):
    with variable_scope("a", regularizer=tg.l2_loss):
        v = get_variable("v", initializer=[3.0, 4.0])
        get_variable("w", initializer=[1.0], regularizer=lambda w: tg.reduce_sum(10.0 * w))
        get_variable("u", initializer=[1.0], regularizer=lambda w: None)
    get_variable("free", initializer=[100.0])
    losses = tf1.get_regularization_losses()
    v.assign([0.0, 2.0])
    assert start(losses) == [12.5, 10.0]
    assert len(tf1.get_regularization_losses("a/v")) == 1
    (slope,) = tg.gradients(losses, [v])
    np.testing.assert_array_equal(start(slope), [3.0, 4.0])


def test_getters_see_the_full_name_and_the_inner_comes_first():
    seen = []

    def named(which):
        def getter(get, name, **given):
            seen.append((which, name, given["shape"]))
            return get(name, **given)

        return getter

    with variable_scope("a", custom_getter=named("outer")), variable_scope("b", custom_getter=named("inner")):
        w = get_variable("w", [2], custom_getter=named("own"))
    assert isinstance(w, tg.Variable)
    assert seen == [(which, "a/b/w", tg.Shape([2])) for which in ("own", "inner", "outer")]


def test_a_getter_may_give_something_else():
    with variable_scope("a", custom_getter=lambda get, name, **given: get(name, **given) * 2.0):
        assert isinstance(get_variable("w", [2]), tg.Tensor)


def test_trainable():
    get_variable("v", [1], trainable=False)
    w = get_variable("w", [1])
    assert tg.trainable_variables() == [w]


class TestWhereItIsCalled:
    def test_in_a_loop_and_a_branch_it_is_made_at_the_root(self, start):
        def body(i, x):
            with variable_scope("body", reuse=AUTO_REUSE):
                return i + 1, x * get_variable("w", initializer=2.0)

        _, x = tg.while_loop(lambda i, x: i < 3, body, [0, 1.0])
        p = tg.placeholder("bool", [])
        y = tg.cond(p, lambda: x + get_variable("v", [], initializer="ones"), lambda: x)
        with variable_scope("body", reuse=True):
            (slope,) = tg.gradients(y, [get_variable("w")])
        assert names() == ["body/w", "v"]
        assert start([y, slope], {p: True}) == [9.0, 12.0]

    def test_a_function_that_is_traced_again_has_the_same(self):
        @tg.function
        def f(x):
            with variable_scope("a"):
                w = get_variable("w", [], initializer="ones")
            with pytest.raises(tg.GraphError, match="exists already"), variable_scope("a"):
                get_variable("w", [], initializer="ones")
            return x * tg.cast(w.assign_add(1.0), x.dtype)

        assert [f.sync(1.0), f.sync(np.array(1.0)), f.sync(np.float32([1.0]))] == [2.0, 3.0, [4.0]]
        assert f.traces == 3

    def test_functions_share_by_name(self):
        graph = tg.Graph()

        def scaled(x):
            with variable_scope("shared", reuse=AUTO_REUSE):
                return x * get_variable("w", initializer=3.0)

        f, g = tg.function(scaled, graph=graph), tg.function(lambda x: scaled(x) + 1.0, graph=graph)
        assert (f.sync(2.0), g.sync(2.0)) == (6.0, 7.0)
        with graph.as_default():
            assert names() == ["shared/w"]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_a_graph_keeps_its_names_when_it_is_copied(graph, again):
    with variable_scope("a", reuse=AUTO_REUSE):
        get_variable("w", [1])
    with again(graph).as_default() as other, variable_scope("a", reuse=True):
        assert get_variable("w").graph is other
    assert pickle.loads(pickle.dumps(AUTO_REUSE)) is AUTO_REUSE
