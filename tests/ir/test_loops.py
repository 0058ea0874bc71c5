"""What is known of loops: counters, how often they run, and how values go on from iteration to iteration."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile import compile_until
from tagloom.ir.loops import Loop, is_counted
from tagloom.ir.program import Program

pytestmark = pytest.mark.usefixtures("graph")


def loops(fetches, feeds=()):
    program = compile_until("hoist", Program(fetches[0].graph, list(feeds), fetches))
    return [op for op in program.graph.root.walk() if op.is_while]


def counting(predicate, start=0, step=1, dtype="int32"):
    """Return a loop over a counter whose predicate is given."""
    change = lambda i, a: (i + step, a * 2.0)  # noqa: E731
    init = [tg.constant(np.asarray(start, dtype)), 1.0]
    (loop,) = loops([tg.while_loop(lambda i, a: predicate(i), change, init)[1]])
    return loop


@pytest.mark.parametrize(
    ("predicate", "start", "step", "wanted"),
    [
        (lambda i: i < 7, 0, 1, 7),
        (lambda i: i < 7, 9, 1, 0),
        (lambda i: i < 7, 0, 2, 4),
        (lambda i: i <= 7, 0, 1, 8),
        (lambda i: tg.not_equal(i, 5), 0, 1, 5),
        (lambda i: i > 0, 300, -1, 300),
        (lambda i: tg.logical_and(i < 70, i * 3 < 30), 0, 1, 10),
        (lambda i: tg.logical_not(tg.logical_or(i >= 40, i < 0)), 0, 1, 40),
        (lambda i: tg.cast(i, "float32") * 0.5 < 8.0, 0, 1, 16),
        (lambda i: i % 1000 < 999, 0, 1, 999),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_predicate_is_tried_for_its_counters(predicate, start, step, wanted, dtype):
    loop = counting(predicate, start, step, dtype)
    assert Loop(loop).trip_count() == wanted
    assert is_counted(loop)


def test_a_loop_that_is_too_long_to_try_has_no_trip_count():
    loop = counting(lambda i: i < 1 << 20)
    assert Loop(loop).trip_count() is None
    assert is_counted(loop)


def test_a_counter_that_would_overflow_is_not_tried():
    assert Loop(counting(lambda i: i >= 2**31 - 5, 2**31 - 5, 1)).trip_count() is None


@pytest.mark.parametrize("dtype", ["int32", "int64"])
async def test_a_counter_from_which_the_smallest_integer_is_taken_wraps(graph, dtype):
    smallest = np.iinfo(dtype).min
    start, step = (tg.constant(np.asarray(value, dtype)) for value in (0, smallest))
    y = tg.while_loop(lambda i: i + 5 > 0, lambda i: i - step, [start])
    (loop,) = loops([y])
    assert Loop(loop).step(loop.regions[1].params[0]) is None
    async with tg.Session(graph) as session:
        assert await session.run(y) == smallest


def test_the_backward_loop_runs_as_often():
    x = tg.placeholder("float32", [3])
    y = tg.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tg.tanh(a)), [0, x])[1]
    forward, backward = loops(tg.gradients(y, [x]), [x])
    assert [Loop(op).trip_count() for op in (forward, backward)] == [5, 5]


def test_a_loop_ended_by_what_it_computes_is_not_counted_nor_is_its_gradient():
    x = tg.placeholder("float32", [3])
    ends = lambda i, a: tg.logical_and(i < 5, tg.reduce_sum(a) < 9.0)  # noqa: E731
    y = tg.while_loop(ends, lambda i, a: (i + 1, tg.tanh(a)), [0, x])[1]
    found = loops([y, *tg.gradients(y, [x])], [x])
    assert [(Loop(op).trip_count(), is_counted(op)) for op in found] == [(None, False)] * 2


@pytest.mark.parametrize("before", [0, 5])
def test_a_variable_of_the_loop_around_is_known_when_the_inner_loop_begins(before):
    """Though the outer loop changes it by what it computes, and wherever it stands among the outer loop's variables."""

    def outer(*values):
        i, a = values[0], values[-1]
        end = tg.while_loop(lambda j: tg.cast(j, "float32") < a, lambda j: j + 2, [i])
        return (i + 1, *values[1:-1], tg.tanh(a) + tg.cast(end, "float32"))

    init = [0, *[tg.constant(1.0)] * before, tg.placeholder("float32", [])]
    result = tg.while_loop(lambda i, *_: i < 3, outer, init)[-1]
    found = {len(op.regions[1].params): op for op in loops([result], [init[-1]])}
    inner, around = found[min(found)], found[max(found)]
    assert Loop(inner).trip_count() is None
    assert is_counted(inner)
    (mine,) = [p for p in inner.regions[1].params if Loop(inner).step(p) == 2]
    assert Loop(inner).start(mine).region is around.regions[1]
    assert all(Loop(inner).step(p) is None for p in around.regions[1].params)
    assert Loop(around).trip_count() == 3


def test_a_length_that_is_fed_is_counted():
    n = tg.placeholder("int32", [])
    (loop,) = loops([tg.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2.0), [0, 1.0])[1]], [n])
    assert Loop(loop).trip_count() is None
    assert is_counted(loop)


def test_slopes_of_what_is_made_of_counters():
    n, values = tg.placeholder("int32", []), {}

    def body(i, j, a):
        values.update(
            i=i, j=j, sum=i + n, back=n - i, twice=2 * i + j, both=i * j, cast=tg.cast(i, "int64"), square=i * i
        )
        return i + 1, j - 3, a + tg.cast(tg.add_n([tg.cast(v, "int32") for v in values.values()]), "float32")

    tg.while_loop(lambda i, j, a: i < n, body, [0, 0, 0.0])
    loop = Loop(next(op for op in n.graph.root.operations if op.is_while))
    slopes = {name: loop.slope(t) for name, t in values.items()}
    assert slopes == {"i": 1, "j": -3, "sum": 1, "back": -1, "twice": -1, "both": None, "cast": 1, "square": None}
