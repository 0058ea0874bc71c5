"""Kernels on series: what a loop saved, slot by slot. A series can not be fed, so these are called directly."""

import numpy as np
import pytest
from tagloom.base.dtypes import float64
from tagloom.base.shapes import Shape
from tagloom.ir.apply import apply, constant
from tagloom.ir.definition import definition_of
from tagloom.ir.graph import Graph
from tagloom.kernels.scheduler.series import Series


def series(**slots):
    """Make a series from ``s3=value`` for slot 3."""
    made = Series()
    for name, value in slots.items():
        made.put(int(name[1:]), value if isinstance(value, Series) else np.asarray(value))
    return made


def contents(value):
    if isinstance(value, Series):
        return {i: contents(value.get(i)) for i in value.indices()}
    return np.asarray(value).tolist()


def run(type, *arguments, **attrs):
    return definition_of(type).kernel(np, *arguments, **attrs)


def test_an_empty_series_has_no_slots():
    assert contents(run("SeriesEmpty")) == {}


def test_addition_is_slot_by_slot_and_keeps_what_only_one_side_has():
    a, b = series(s0=1.0, s2=[1.0, 2.0]), series(s1=5.0, s2=[10.0, 20.0])
    assert contents(run("SeriesAdd", a, b)) == {0: 1.0, 1: 5.0, 2: [11.0, 22.0]}
    assert contents(a) == {0: 1.0, 2: [1.0, 2.0]}


def test_addition_goes_into_slots_that_are_series():
    a, b = series(s0=series(s1=1.0)), series(s0=series(s1=2.0, s4=3.0), s1=series(s0=4.0))
    assert contents(run("SeriesAdd", a, b)) == {0: {1: 3.0, 4: 3.0}, 1: {0: 4.0}}


@pytest.mark.parametrize(("slots", "wanted"), [({}, [0.0, 0.0]), ({"s1": [1.0, 2.0], "s7": [0.5, 0.25]}, [1.5, 2.25])])
def test_sum_adds_the_slots_to_zeros_of_the_shape(slots, wanted):
    total = run("SeriesSum", series(**slots), np.asarray([2], np.int32), float64)
    assert total.tolist() == wanted
    assert total.dtype == np.float64


def test_sum_of_a_series_of_series_is_slot_by_slot():
    rows = series(s0=series(s1=1.0), s3=series(s1=2.0, s2=5.0))
    assert contents(run("SeriesSumSeries", rows)) == {1: 3.0, 2: 5.0}
    assert contents(run("SeriesSumSeries", Series())) == {}


def test_spread_puts_the_value_in_every_slot_there_is():
    assert contents(run("SeriesSpread", np.asarray([1.0, 2.0]), series(s1=0.0, s4=0.0))) == {
        1: [1.0, 2.0],
        4: [1.0, 2.0],
    }
    assert contents(run("SeriesSpread", np.asarray(1.0), Series())) == {}


def test_concat_joins_the_rows_in_order_of_their_slots():
    rows = run(
        "SeriesConcat",
        series(s3=[[5.0, 6.0]], s0=[[1.0, 2.0], [3.0, 4.0]]),
        np.asarray([9, 2], np.int32),
        float64,
        Shape([None, 2]),
        axis=0,
    )
    assert rows.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_concat_of_nothing_has_no_rows_of_the_right_width():
    rows = run("SeriesConcat", Series(), np.asarray([9, 2], np.int32), float64, Shape([None, 2]), axis=0)
    assert rows.shape == (0, 2)


def test_split_takes_concat_apart_into_the_same_slots():
    like = series(s0=[[1.0], [2.0]], s1=np.zeros((0, 1)), s4=[[3.0]])
    parts = run("SeriesSplit", np.asarray([[7.0], [8.0], [9.0]]), like, axis=0, like_axis=0)
    assert contents(parts) == {0: [[7.0], [8.0]], 1: [], 4: [[9.0]]}


def test_reading_an_unwritten_slot_gives_zeros_or_an_empty_series():
    saved, shape = series(s1=[1.0, 2.0]), np.asarray([2], np.int32)
    assert run("SeriesReadOrZeros", saved, np.int64(1), shape, float64).tolist() == [1.0, 2.0]
    assert run("SeriesReadOrZeros", saved, np.int64(0), shape, float64).tolist() == [0.0, 0.0]
    nested = series(s2=series(s0=1.0))
    assert contents(run("SeriesReadSeries", nested, np.int64(2))) == {0: 1.0}
    assert contents(run("SeriesReadSeries", nested, np.int64(1))) == {}


def test_an_open_maybe_is_its_value():
    assert run("MaybeGet", np.asarray(3.0)) == 3.0


def test_static_shapes_come_from_attributes_and_shape_inputs():
    with Graph().as_default():
        empty, index, two = apply("SeriesEmpty"), constant(0, "int64"), constant([2], "int32")
        read = apply("SeriesRead", empty, index, dtype=float64, shape=Shape([3, None]))
        zeros = apply("SeriesReadOrZeros", empty, index, two, dtype=float64)
        rows = apply("SeriesConcat", empty, two, dtype=float64, shape=Shape([4, 2]))
        total = apply("SeriesSum", empty, two, dtype=float64)
    assert [str(t.shape) for t in (read, zeros, rows, total)] == ["[3,?]", "[2]", "[?,2]", "[2]"]
    assert {t.dtype for t in (read, zeros, rows, total)} == {float64}


def test_series_of_series_are_summed_slot_by_slot():
    total = run("SeriesSumSeries", series(s1=series(s0=1.0, s2=2.0), s4=series(s2=5.0)))
    assert contents(total) == {0: 1.0, 2: 7.0}


def test_spread_puts_a_value_where_another_series_has_one():
    assert contents(run("SeriesSpread", np.asarray(3.0), series(s1=1.0, s4=2.0))) == {1: 3.0, 4: 3.0}
