"""Series: what a loop saves and another reads."""

import numpy as np
import pytest
from tagloom.base.tags import DEAD
from tagloom.kernels.core.table import Kind
from tagloom.kernels.cpu.product_sum import ProductSum
from tagloom.kernels.scheduler.series import Series

from tests.kernels.planning import BOOL, F32, F64, I32, I64, Planner, every_order


def below(limit):
    """Return a predicate kernel."""
    return lambda i, *_: np.bool_(i < limit)


def plus_one(i, *_):
    return np.int32(i + 1)


def saving_loop(plan, trips, save, start=None):
    """Build a loop whose body calls ``save(i)``; return its SERIES_EXIT and TRIP_COUNT."""
    frame = plan.frame("forward")
    plan.frames[frame]["num_series"] = 1
    finals = []

    def condition(i):
        predicate = plan.call(below(trips), i, outputs=(BOOL,))
        finals.append(predicate)
        return predicate

    def body(i):
        finals.append(save(i))
        return [plan.call(plus_one, i)]

    plan.loop(frame, [plan.const(0) if start is None else start], condition, body)
    return plan.final(Kind.SERIES_EXIT, finals[1], index=0), plan.final(Kind.TRIP_COUNT, finals[0])


def push(plan, value, index=None):
    inputs = [value] if index is None else [value, index]
    return plan.node(Kind.SERIES_PUSH, inputs, (F32,), index=0)


def read(plan, series, index, dtype=I32):
    return plan.node(Kind.SERIES_READ, [series, index], (dtype,))


@every_order
def test_values_are_saved_by_iteration(seed, window):
    plan = Planner(window)
    series, count = saving_loop(plan, 5, lambda i: push(plan, plan.call(lambda i: np.int32(i * i), i)))
    plan.fetch(series)
    plan.fetch(count)
    for index in (0, 4, 5, -1):
        plan.fetch(read(plan, series, plan.const(index, I64)))
    saved, count, *values = plan.run(seed=seed)
    assert count == 5
    assert count.dtype == I64
    assert [int(saved.get(k)) for k in saved.indices()] == [0, 1, 4, 9, 16]
    assert values == [0, 16, DEAD, DEAD]


@every_order
def test_values_are_saved_by_index(seed, window):
    plan = Planner(window)
    series, _ = saving_loop(
        plan, 3, lambda i: push(plan, i, plan.call(lambda i: np.int64(10 - 3 * i), i, outputs=(I64,)))
    )
    plan.fetch(series)
    saved = plan.run(seed=seed)[0]
    assert {k: int(saved.get(k)) for k in saved.indices()} == {4: 2, 7: 1, 10: 0}


@every_order
def test_dead_push_writes_nothing(seed, window):
    plan = Planner(window)

    def save(i):
        is_even = plan.call(lambda i: np.bool_(i % 2 == 0), i, outputs=(BOOL,))
        return push(plan, plan.switch(i, is_even)[1])

    series, count = saving_loop(plan, 6, save)
    plan.fetch(series)
    plan.fetch(count)
    saved, count = plan.run(seed=seed)
    assert saved.indices() == [0, 2, 4]
    assert count == 6


@every_order
def test_arrays_are_saved(seed, window):
    plan = Planner(window)
    make = lambda i: plan.call(lambda i: np.full(2, float(i)), i, outputs=(F64,))  # noqa: E731
    series, _ = saving_loop(plan, 3, lambda i: push(plan, make(i)))
    plan.fetch(read(plan, series, plan.const(2, I64), F64))
    assert plan.run(seed=seed)[0].tolist() == [2.0, 2.0]


@every_order
@pytest.mark.rule(39)
def test_zero_trips_save_nothing(seed, window):
    plan = Planner(window)
    series, count = saving_loop(plan, 0, lambda i: push(plan, i))
    plan.fetch(series)
    plan.fetch(count)
    saved, count = plan.run(seed=seed)
    assert (len(saved), count) == (0, 0)


@every_order
@pytest.mark.rule(40)
def test_finals_of_a_dead_loop_are_dead(seed, window):
    plan = Planner(window)
    dead = plan.switch(plan.const(0), plan.const(True, BOOL))[0]
    series, count = saving_loop(plan, 3, lambda i: push(plan, i), dead)
    plan.fetch(series)
    plan.fetch(count)
    plan.fetch(read(plan, series, plan.const(0, I64)))
    assert plan.run(seed=seed) == [DEAD] * 3


@every_order
def test_reading_backwards(seed, window):
    plan = Planner(window)
    series, count = saving_loop(plan, 6, lambda i: push(plan, i))
    frame = plan.frame("backward")

    def body(n, total, series, one):
        n = plan.ufunc("subtract", n, one)
        digits = plan.call(lambda t, v: np.int64(10 * t + v), total, read(plan, series, n), outputs=(I64,))
        return [n, digits]

    _, total = plan.loop(
        frame,
        [count, plan.const(0, I64)],
        lambda n, *_: plan.call(lambda n: np.bool_(n > 0), n, outputs=(BOOL,)),
        body,
        [series, plan.const(1, I64)],
    )
    plan.fetch(total)
    assert plan.run(seed=seed) == [543210]


@every_order
def test_series_of_series(seed, window):
    plan = Planner(window)
    outer, inner = plan.frame("outer"), None
    plan.frames[outer]["num_series"] = 1
    inner = plan.frame("inner", parent=outer)
    plan.frames[inner]["num_series"] = 1
    pushes = []

    def inner_body(j):
        pushes.append(push(plan, j))
        return [plan.call(plus_one, j)]

    def body(i):
        plan.loop(inner, [i], lambda j: plan.call(below(3), j, outputs=(BOOL,)), inner_body)
        pushes.append(push(plan, plan.final(Kind.SERIES_EXIT, pushes[0], index=0)))
        return [plan.call(plus_one, i)]

    plan.loop(outer, [plan.const(0)], lambda i: plan.call(below(3), i, outputs=(BOOL,)), body)
    plan.fetch(plan.final(Kind.SERIES_EXIT, pushes[1], index=0))
    saved = plan.run(seed=seed)[0]
    assert [[int(saved.get(i).get(k)) for k in saved.get(i).indices()] for i in range(3)] == [[0, 1, 2], [1, 2], [2]]


def test_negative_slot_fails_the_step():
    plan = Planner()
    saving_loop(plan, 3, lambda i: push(plan, i, plan.call(lambda i: np.int64(-1), i, outputs=(I64,))))
    machine = plan.start()
    machine.drain(1)
    assert isinstance(machine.failure[2], IndexError)
    assert machine.failure[1].endswith("@root/0/forward/0")


def test_series_by_hand():
    series = Series()
    series.put(3, np.float32(1.5))
    series.put(0, "anything")
    series.put(0, np.arange(2))
    assert series.get(0).tolist() == [0, 1]
    assert series.get(3) == 1.5
    assert series.get(1) is None
    assert series.get(10**12) is None
    assert series.get(-1) is None
    assert (len(series), series.indices(), repr(series)) == (2, [0, 3], "Series([0, 3])")
    with pytest.raises(IndexError, match="slot -1"):
        series.put(-1, 0)
    with pytest.raises(MemoryError):
        series.put(2**60, 0)


def test_i32_is_the_dtype_of_what_was_saved():
    plan = Planner()
    series, _ = saving_loop(plan, 1, lambda i: push(plan, i))
    plan.fetch(series)
    saved = plan.run()[0].get(0)
    assert (saved.dtype, saved.shape) == (I32, ())


def test_rows_of_another_library_are_slots_when_somebody_looks():
    rows, calls = np.arange(8.0).reshape(4, 2), []

    def call(function, *arguments):
        calls.append(len(arguments))
        return function(*arguments)

    series = Series()
    series.keep_rows(rows, 3, call=call)
    assert (len(series), series.rows is rows, series.num_rows, calls) == (3, True, 3, [])
    assert series.indices() == [0, 1, 2]
    assert np.shares_memory(series.get(1), rows)
    assert (series.rows, series.get(3), calls) == (None, None, [2])
    series.put(3, rows[0])
    assert len(series) == 4


def test_rows_that_were_not_written_are_empty_slots():
    series, copy = Series(), np.arange(4, dtype=np.int64)
    series.keep_rows(object(), 4, np.array([1, 0, 1, 0], np.uint8), copy=copy)
    part = series.part(1, 2)
    assert (part.parent is series, part.first, part.count) == (True, 1, 2)
    assert len(series) == 2
    assert (part.get(0), part.get(1)) == (None, 2)
    assert (series.indices(), part.indices()) == ([0, 2], [1])


def test_a_sum_of_products_is_replaced():
    total = ProductSum(np.ones((2, 2)))
    total.add(np.ones((3, 2)), np.ones((3, 2)))
    total.replace(other := np.zeros((2, 2)))
    assert total.value() is other
