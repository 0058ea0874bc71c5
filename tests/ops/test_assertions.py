"""Checks fail where what they say does not hold: while the graph is built if that is known, else in the step."""

import numpy as np
import pytest
import tagloom as tg

F = np.float32

# A check, arguments for which it holds, and arguments for which it does not.
OF_VALUES = {
    "equal": (tg.assert_equal, ([1, 2], [1, 2]), ([1, 2], [1, 3])),
    "equal, broadcast": (tg.assert_equal, ([2, 2], 2), ([2, 1], 2)),
    "none_equal": (tg.assert_none_equal, ([1, 2], [2, 1]), ([1, 2], [2, 2])),
    "less": (tg.assert_less, ([1, 2], 3), ([1, 3], 3)),
    "less_equal": (tg.assert_less_equal, ([1, 3], 3), ([1, 4], 3)),
    "greater": (tg.assert_greater, ([4, 5], 3), ([3, 5], 3)),
    "greater_equal": (tg.assert_greater_equal, ([3, 5], 3), ([2, 5], 3)),
    "positive": (tg.assert_positive, (F([1, 0.5]),), (F([1, 0]),)),
    "negative": (tg.assert_negative, ([-1, -2],), ([-1, 0],)),
    "non_negative": (tg.assert_non_negative, ([0, 2],), ([0, -1],)),
    "non_positive": (tg.assert_non_positive, ([0, -2],), ([0, 1],)),
    "near": (tg.assert_near, (F([1, 2]), F([1, 2]) * F(1 + 5e-7)), (F([1, 2]), F([1, 2.001]))),
    "near, NaN": (tg.assert_near, (F([1]), F([1])), (F([np.nan]), F([1]))),
    "near by atol": (lambda x, y: tg.assert_near(x, y, atol=0.1), (F([1]), F([1.09])), (F([1]), F([1.2]))),
    "near by rtol": (lambda x, y: tg.assert_near(x, y, rtol=0.1), (F([95]), F([100])), (F([80]), F([100]))),
    "near in float16": (tg.assert_near, (np.float16([1]), np.float16([1.005])), (np.float16([1]), np.float16([1.1]))),
    "nothing": (tg.assert_positive, (F([]),), (F([0]),)),
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_of_values(name):
    check, right, wrong = OF_VALUES[name]
    doubled = tg.function(lambda *xs: guarded(check, xs))
    assert doubled.sync(*right) == 2
    with pytest.raises(tg.OpError, match=r"assertion failed: .* does not hold everywhere") as caught:
        doubled.sync(*wrong)
    assert __file__ in str(caught.value)


def guarded(check, values):
    with tg.control_dependencies([check(*values)]):
        return tg.identity(tg.constant(2))


def test_of_values_in_a_loop():
    @tg.function
    def count(n):
        def body(i):
            with tg.control_dependencies([tg.assert_less(i, 3, message="too far")]):
                return i + 1

        return tg.while_loop(lambda i: i < n, body, [0])

    assert count.sync(3) == 3
    with pytest.raises(tg.OpError, match="too far"):
        count.sync(5)


def test_the_error_shows_the_data_that_is_given():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("int32", [None])
        checks = [tg.assert_positive(x, data=["ids are", x], summarize=1), tg.assert_positive(x)]
    with tg.SyncSession(graph) as session:
        with pytest.raises(tg.OpError, match=r"ids are.*\[0\.\.\.\]"):
            session.run(checks[0], {x: [0, 1]})
        with pytest.raises(tg.OpError, match=r"\[0 1\]"):
            session.run(checks[1], {x: [0, 1]})


@pytest.mark.parametrize("order", [lambda x: (x, 2), lambda x: (2, x)])
def test_a_literal_takes_the_dtype_of_the_other(order):
    assert tg.function(lambda x: guarded(tg.assert_equal, order(x))).sync(np.float64(2)) == 2


def test_near_is_for_floating_dtypes(graph):
    with pytest.raises(tg.DtypeError, match="assert_equal"):
        tg.assert_near([1], [1])


# A check of the rank of x, the ranks for which it holds.
OF_RANKS = {
    "rank": (lambda x, r: tg.assert_rank(x, r(2)), [2]),
    "at least": (lambda x, r: tg.assert_rank_at_least(x, r(1)), [1, 2, 3]),
    "in": (lambda x, r: tg.assert_rank_in(x, [r(0), r(2)]), [0, 2]),
    "scalar": (lambda x, r: tg.assert_scalar(x).op, [0]),
}


@pytest.mark.parametrize("name", OF_RANKS)
@pytest.mark.parametrize("rank", range(4))
def test_known_ranks_are_checked_while_the_graph_is_built(graph, name, rank):
    check, right = OF_RANKS[name]
    x = tg.placeholder("float32", [None] * rank)
    if rank in right:
        check(x, lambda r: r)
    else:
        with pytest.raises(tg.ShapeError) as caught:
            check(x, lambda r: r)
        assert caught.value.source.file == __file__


@pytest.mark.parametrize("given", [lambda r: r, lambda r: tg.placeholder_with_default(np.int32(r), [])])
@pytest.mark.parametrize("name", OF_RANKS)
@pytest.mark.parametrize("rank", range(4))
def test_other_ranks_are_checked_in_the_step(name, rank, given):
    check, right = OF_RANKS[name]
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32")
        op = check(x, given)
    with tg.SyncSession(graph) as session:
        feeds = {x: np.zeros([1] * rank, F)}
        if rank in right:
            session.run(op, feeds)
        else:
            with pytest.raises(tg.OpError):
                session.run(op, feeds)


def test_ranks_are_integer_scalars(graph):
    with pytest.raises(tg.ShapeError, match="a rank is a scalar"):
        tg.assert_rank([1.0], [1])
    with pytest.raises(tg.DtypeError):
        tg.assert_rank([1.0], 1.0)
    with pytest.raises(tg.GraphError, match="needs a rank"):
        tg.assert_rank_in([1.0], [])


def test_dtypes(graph):
    tg.assert_type(tg.constant(1.0), "float32")
    tg.assert_integer([1])
    with pytest.raises(tg.DtypeError, match=r"labels: .*wrong dtype"):
        tg.assert_type([1.0], tg.int32, message="labels")
    for value in (1.0, True, "a"):
        with pytest.raises(tg.DtypeError, match="an integer dtype"):
            tg.assert_integer(value)
    assert [tg.is_numeric_tensor(tg.constant(v)) for v in (1, 1.0, 1j, True, "a")] == [True, True, True, False, False]
    assert not tg.is_numeric_tensor(np.zeros(2))


@pytest.mark.parametrize("alone", [np.zeros(2), "text", b"bytes", 3, tg.SparseTensorValue([[0]], [1], [2])])
def test_one_value_is_no_proper_iterable(alone):
    with pytest.raises(tg.GraphError):
        tg.assert_proper_iterable(alone)


def test_proper_iterables(graph):
    for several in ([1], (), {1: 2}, iter([1])):
        tg.assert_proper_iterable(several)
    for alone in (tg.constant([1]), tg.Variable([1.0]), tg.SparseTensor([[0]], [1], [2])):
        with pytest.raises(tg.GraphError, match="one value stands where several are wanted"):
            tg.assert_proper_iterable(alone)


@pytest.mark.parametrize("values", [[], [1], [1, 1], [1, 2], [2, 1], [[1, 2], [3, 4]], [[1, 3], [2, 4]], [0.0, np.nan]])
def test_order(values):
    differences = np.diff(np.ravel(values))
    assert tg.function(tg.is_non_decreasing).sync(values) == (differences >= 0).all()
    assert tg.function(tg.is_strictly_increasing).sync(values) == (differences > 0).all()
