"""``fori_loop``: bounds, structures, gradients, native runs and errors."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.loops import Loop


def powers(x, n):
    return tg.fori_loop(0, n, lambda i, y: y * x + tg.cast(i, y.dtype), tg.ones_like(x))


@pytest.mark.parametrize(("lower", "upper"), [(0, 5), (3, 7), (-2, 2), (4, 4), (5, 1), (np.int64(1), np.int32(4))])
def test_body_runs_for_each_integer_of_the_range(run, lower, upper):
    found = tg.fori_loop(lower, upper, lambda i, a: {"sum": a["sum"] + i, "last": (i,)}, {"sum": 10, "last": (-1,)})
    inside = list(range(lower, upper))
    value = run(found)
    assert int(value["sum"]) == 10 + sum(inside)
    assert int(value["last"][0]) == (inside[-1] if inside else -1)


def test_bounds_are_tensors_of_any_integer_dtype(run):
    n = tg.placeholder("int64", [])
    total = tg.fori_loop(1, n, lambda i, a: a + i, tg.constant(0, "int64"))
    assert total.dtype is tg.int64
    assert int(run(total, {n: 5})) == 10
    assert int(run(total, {n: 0})) == 0


def test_large_python_bounds_count_in_int64(run):
    low = 2**40
    assert int(run(tg.fori_loop(low, low + 3, lambda i, a: a + (i - low), tg.constant(0, "int64")))) == 3


def test_known_bounds_are_a_known_number_of_iterations(graph):
    y = tg.fori_loop(2, 9, lambda i, y: y * 2.0, tg.constant(1.0))
    assert Loop(y.op).trip_count() == 7


def test_literals_take_the_dtype_of_the_body(run):
    x = tg.constant(0.5, "float64")
    y = tg.fori_loop(0, 3, lambda i, y: y + x, 0.0)
    assert y.dtype is tg.float64
    assert float(run(y)) == 1.5


def test_arrays_are_carried(run):
    array = tg.fori_loop(0, 4, lambda i, a: a.write(i, i * i), tg.TensorArray("int32", 4))
    np.testing.assert_array_equal(run(array.stack()), [0, 1, 4, 9])


@pytest.mark.parametrize("is_known", [True, False])
def test_gradients_of_both_orders(run, is_known):
    x, n = tg.constant(1.5, "float64"), 4 if is_known else tg.placeholder("int32", [])
    y = powers(x, n)
    (first,) = tg.gradients(y, [x])
    (second,) = tg.gradients(first, [x])
    # y = x^4 + 0 x^3 + 1 x^2 + 2 x + 3
    found = run([y, first, second], {} if is_known else {n: 4})
    np.testing.assert_allclose(found, [1.5**4 + 1.5**2 + 6, 4 * 1.5**3 + 5, 12 * 1.5**2 + 2])


def test_loop_runs_natively():
    with tg.Graph().as_default() as graph:
        y = powers(tg.constant([0.5, 0.25]), 50)
    with tg.SyncSession(graph) as session:
        session.run(y)
        (loop,) = session.report().loops
    assert (loop.limited_by, loop.not_native) == ("native", None)


@pytest.mark.parametrize("bound", [1.5, True, "2", None])
def test_other_bounds_are_refused(bound):
    with pytest.raises(tg.DtypeError, match="upper bound of fori_loop is not an integer"):
        tg.fori_loop(0, bound, lambda i, a: a, 0)


def test_bounds_of_two_dtypes_or_of_a_rank_are_refused():
    with pytest.raises(tg.DtypeError, match="two dtypes"):
        tg.fori_loop(tg.constant(0), tg.constant(3, "int64"), lambda i, a: a, 0)
    with pytest.raises(tg.ShapeError, match="lower bound of fori_loop is not a scalar"):
        tg.fori_loop(tg.constant([0, 1]), 3, lambda i, a: a, 0)


def test_another_structure_is_refused():
    with pytest.raises(tg.LoopVariableError, match="structure of the carried value"):
        tg.fori_loop(0, 3, lambda i, a: (a, a), (1, (2, 3)))
