"""``recompute_grad``: values and gradients are those of the function, and nobody holds what is in between."""

import numpy as np
import pytest
import tagloom as tg

from tests.gradients.building import assert_near, repeat, scalar, unknown
from tests.support.execute import Calls
from tests.support.settings import ON

RNG = np.random.default_rng(3)


def both(program, orders=2):
    """Return what to fetch for a program of a function as it is, and for it computed again."""
    found = []
    for wrapped in (lambda f: f, tg.recompute_grad):
        ys, xs = program(wrapped)
        values = list(ys)
        for _ in range(orders):
            total = tg.add_n([tg.reduce_sum(y * y) for y in ys])
            ys = [tg.convert_to_tensor(g) for g in tg.gradients(total, xs, unconnected_gradients="zero")]
            values += ys
        found.append(values)
    return found


def assert_same(run, program, orders=2):
    wanted, got = run(both(program, orders))
    assert_near(got, wanted)


class TestValues:
    def test_are_those_of_the_function(self, run):
        x, w = unknown(RNG.normal(size=(2, 3))), unknown(RNG.normal(size=(3, 3)))

        def program(wrapped):
            f = wrapped(lambda a: tg.tanh(tg.sin(a @ w) @ w))
            return [f(f(x))], [x, w]

        assert_same(run, program, 3)

    def test_of_branches_and_loops_inside(self, run):
        x, w = unknown(RNG.normal(size=(4, 3))), scalar(1.3)

        def f(a):
            a = tg.map_fn(lambda row: tg.tanh(row * w), a)
            a = tg.cond(tg.reduce_sum(a) > 0.0, lambda: a * a, lambda: tg.exp(a))
            return repeat(3, lambda i, b: (tg.sin(b) * w,), a)[0]

        assert_same(run, lambda wrapped: ([wrapped(f)(x)], [x, w]))

    def test_in_a_branch_in_a_loop(self, run):
        x, w = scalar(0.4), scalar(1.3)

        def program(wrapped):
            f = wrapped(lambda a: tg.tanh(tg.sin(a * w) * w))
            return repeat(4, lambda i, a: (tg.cond(i % 2 < 1, lambda: f(a), lambda: a * w),), x), [x, w]

        assert_same(run, program)

    @pytest.mark.sampled(every=2)
    def test_inside_of_another_and_of_a_loop_with_checkpoints(self, run):
        x, w, count = scalar(0.4), scalar(1.3), unknown(np.int32(5))

        def program(wrapped):
            inner = wrapped(lambda a: tg.tanh(tg.sin(a * w)))
            outer = wrapped(lambda a: inner(inner(a)) * w)
            loop = tg.while_loop(lambda i, a: i < count, lambda i, a: (i + 1, outer(a)), [0, x], checkpoint_every=2)
            return [loop[1]], [x, w]

        assert_same(run, program)

    def test_of_rows_of_a_variable(self, session):
        table, ids = tg.Variable(RNG.normal(size=(5, 2)), name="table"), unknown(np.array([1, 3, 1]))

        def program(wrapped):
            f = wrapped(lambda: tg.tanh(tg.gather(table, ids) * tg.gather(table, ids + 1)))
            return [f()], [table]

        fetches = both(program)
        session.run(tg.global_variables_initializer())
        wanted, got = session.run(fetches)
        assert_near(got, wanted)

    def test_structures_and_arguments_of_any_kind(self, run):
        x = scalar(0.5)

        @tg.recompute_grad
        def f(values, power, *, scale=1.0):
            """Say what it does."""
            return {"a": [values["x"] ** power * scale]}

        found = f({"x": x}, 3, scale=2.0)
        assert f.__name__ == "f"
        assert f.__doc__ == "Say what it does."
        assert run([found["a"][0], tg.gradients(found["a"][0], [x])]) == [0.25, [1.5]]

    def test_with_respect_to_what_stops(self, run):
        x, w = scalar(0.5), scalar(2.0)
        y = tg.recompute_grad(lambda a: tg.stop_gradient(a * w) * w)(x)
        assert run(tg.gradients(y, [x, w], unconnected_gradients="zero")) == [0.0, 1.0]


class TestOnce:
    def test_random_numbers_are_drawn_again_as_they_were(self, run):
        x = unknown(np.ones(8))
        y = tg.recompute_grad(lambda a: a * tg.random_uniform([8], dtype="float64"))(x)
        value, (slope,) = run([y, tg.gradients(y, [x])])
        assert_near([slope], [value])
        assert len(set(value.tolist())) == 8

    def test_in_each_iteration_of_a_loop(self, run):
        f = tg.recompute_grad(lambda a: tg.tanh(a * tg.random_uniform([8], dtype="float64")))
        x = unknown(np.ones(8))
        (y,) = repeat(3, lambda i, a: (f(a),), x)
        value, (slope,) = run([y, tg.gradients(y, [x])])
        assert np.all((slope > 0) & (slope < value))  # each factor and each slope of tanh is below 1

    def test_functions_are_called_once(self, run):
        calls, x = Calls(), scalar(3.0)

        def f(a):
            called = calls.watch(a)
            return a * tg.stop_gradient(called) * tg.exp(a - called)

        y = tg.recompute_grad(f)(x)
        assert run([y, tg.gradients(y, [x])]) == [9.0, [12.0]]
        assert calls.count == 1

    def test_updates_happen_once(self, session):
        v, x = tg.Variable(np.float64(2.0)), scalar(3.0)
        y = tg.recompute_grad(lambda a: a * v.assign_add(1.0) * a)(x)
        gradient = tg.gradients(y, [x])
        session.run(tg.global_variables_initializer())
        assert session.run([y, gradient]) == [27.0, [18.0]]
        assert session.run(v) == 3.0


def test_only_what_goes_in_is_held_until_the_gradient(graph):
    """Twelve functions of eight arrays: computed again they hold one array for each function, and those of one."""
    x, w = tg.placeholder("float32", [100, 100]), tg.placeholder("float32", [100, 100])

    def peak(wrapped):
        def f(a):
            for _ in range(8):
                a = tg.tanh(a @ w)
            return a

        y = x
        for _ in range(12):
            y = wrapped(f)(y)
        gradient = tg.gradients(y, [x])
        with tg.SyncSession(graph, settings=ON) as session:
            session.run(gradient, dict.fromkeys([x, w], np.eye(100, dtype=np.float32)))
            return session.statistics().peak_bytes / 40_000

    assert peak(lambda f: f) > 12 * 8
    assert peak(tg.recompute_grad) < 12 + 2 * 8


def test_what_is_inside_can_not_be_fetched(graph):
    kept = []
    tg.recompute_grad(lambda a: kept.append(tg.exp(a)) or a)(scalar(1.0))
    with pytest.raises(tg.GraphError, match="inside"), tg.SyncSession(graph) as session:
        session.run(kept[0])
