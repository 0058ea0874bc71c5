"""``checkpoint_every``: what a loop does not save is computed again, and nothing that has effects happens twice."""

from collections import Counter

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program
from tagloom.ir.text import parse, to_text

from tests.gradients.building import assert_near, scalar, unknown
from tests.support.compiling import lowered
from tests.support.settings import ON
from tests.support.tiers import choose

EVERY = choose([1, 2, 3, 100], [2, 100])
COUNT = choose(3, 2)  # of iterations whose gradients are taken in a body
WINDOWS = [1, 32]


def loop(count, body, *values, **options):
    """Run ``values = body(i, *values)`` for `count` iterations, which is not known while building."""
    limit = unknown(np.int32(count))
    return list(tg.while_loop(lambda i, *_: i < limit, lambda i, *v: (i + 1, *body(i, *v)), [0, *values], **options))[
        1:
    ]


def both(program, every=EVERY, orders=2):
    """Return what to fetch for a program without checkpoints, and for it with them; a program gives ys and xs."""
    return [taken(*program(k), orders) for k in (None, *every)]


def taken(ys, xs, orders):
    """Return values, and their derivatives of each order."""
    found = list(ys)
    for _ in range(orders):
        total = tg.add_n([tg.reduce_sum(y * y) for y in ys])
        ys = [tg.convert_to_tensor(g) for g in tg.gradients(total, xs, unconnected_gradients="zero")]
        found += ys
    return found


def assert_same(run, program, every=EVERY, orders=2, rtol=1e-9):
    wanted, *others = run(both(program, every, orders))
    for got in others:
        assert_near(got, wanted, rtol)


def operations(*fetches):
    """Return the operations of the lowered program that computes the fetches."""
    return lowered(Program(fetches[0].graph, [], list(fetches))).graph.get_operations()


def pushed(*fetches):
    """Return what is saved, by the dtypes and the shape."""
    saved = [op.inputs[0] for op in operations(*fetches) if op.type == "SeriesPush"]
    return Counter(f"{t.dtype}{t.shape}" for t in saved)


def cell(w):
    return lambda i, a: (tg.tanh(a * w + tg.cast(i, a.dtype) * 0.1),)


@pytest.mark.rule(84, 85, 98)
class TestValues:
    @pytest.mark.sampled(every=7)
    @pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
    def test_are_those_of_a_loop_that_saves_all(self, run, count):
        x, w = unknown(np.array([0.3, -0.2])), unknown(np.array([1.2, 0.7]))

        def program(k):
            return loop(count, cell(w), x, checkpoint_every=k), [x, w]

        assert_same(run, program)

    @pytest.mark.sampled(every=2)
    def test_to_third_order(self, run):
        x, w = scalar(0.3), scalar(1.2)
        assert_same(run, lambda k: (loop(choose(5, 3), cell(w), x, checkpoint_every=k), [x, w]), [1, 2], 3)

    @pytest.mark.parametrize("rows", [2, 300])
    def test_bit_for_bit_where_products_are_not_gathered(self, graph, rows):
        rng = np.random.default_rng(rows)
        x, w, b = (unknown(rng.normal(size=s), dtype="float32") for s in ([rows, 8], [8, 8], [8]))

        def program(k):
            return loop(9, lambda i, a: (tg.sigmoid(a @ w + b) - 0.4,), x, checkpoint_every=k), [x, w, b]

        with tg.SyncSession(graph, settings=ON.without("batch")) as session:  # which sums by segments
            wanted, *others = session.run(both(program, orders=1))
        for got in others:
            for a, b in zip(got, wanted, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_where_data_end_the_loop(self, run):
        x = unknown(np.array([1.3, 0.9]))

        def program(k):
            return [
                tg.while_loop(lambda a: tg.reduce_sum(a) < 30.0, lambda a: a * a * 0.5 + a, [x], checkpoint_every=k)
            ], [x]

        assert_same(run, program)

    @pytest.mark.parametrize("window", WINDOWS)
    def test_with_a_bound_and_a_window(self, run, window):
        x, w = scalar(0.3), scalar(1.2)

        def program(k):
            options = {"maximum_iterations": 5, "parallel_iterations": window, "swap_memory": True}
            return loop(9, cell(w), x, checkpoint_every=k, **options), [x, w]

        assert_same(run, program)

    @pytest.mark.sampled(every=2)
    def test_of_rows(self, run):
        x, table = scalar(0.3), unknown(np.linspace(0.1, 1.0, 10).reshape(5, 2))

        def body(i, a):
            row = tg.gather(table, [i % 5, (i * 2) % 5])
            return (tg.tanh(a + tg.reduce_sum(row * row)),)

        assert_same(run, lambda k: (loop(6, body, x, checkpoint_every=k), [x, table]))

    def test_of_a_function_with_a_gradient_of_its_own(self, run):
        x = scalar(0.3)

        @tg.custom_gradient
        def odd(a):
            s = tg.sin(a)
            return s * a, lambda dy: dy * s * tg.cos(a)

        assert_same(run, lambda k: (loop(5, lambda i, a: (odd(a * 1.5),), x, checkpoint_every=k), [x]))

    def test_without_back_prop(self, run):
        x = scalar(0.3)
        (y,) = loop(3, cell(x), x, checkpoint_every=2, back_prop=False)
        assert tg.gradients(y, [x]) == [None]

    @pytest.mark.sampled(every=2)
    def test_of_structures_of_more_than_one_variable(self, run):
        x, w = unknown(np.array([0.3, -0.2])), scalar(1.2)

        def body(i, a, b, k):
            return b * w, tg.sin(a) + tg.cast(k, "float64"), k - 2

        assert_same(run, lambda k: (loop(5, body, x, x * 2.0, 7, checkpoint_every=k)[:2], [x, w]))


class TestNesting:
    @pytest.mark.parametrize("inner", [None, 2])
    def test_of_a_loop_in_a_loop(self, run, inner):
        x, w = scalar(0.3), scalar(1.2)

        def body(i, a):
            return tuple(loop_until(i, cell(w), a, checkpoint_every=inner))

        def loop_until(limit, body, *values, **options):
            counted = tg.while_loop(
                lambda j, *_: j < limit % 4, lambda j, *v: (j + 1, *body(j, *v)), [0, *values], **options
            )
            return list(counted)[1:]

        assert_same(run, lambda k: (loop(6, body, x, checkpoint_every=k), [x, w]), choose([None, 1, 2, 4], [None, 2]))

    @pytest.mark.sampled(every=2)
    def test_of_branches(self, run):
        x, w = scalar(0.3), scalar(1.2)

        def body(i, a):
            inner = tg.cond(a > 0.5, lambda: tg.sin(a) * w, lambda: tg.exp(a) * a)
            return (
                tg.cond(i % 3 > 0, lambda: tg.cond(i > 3, lambda: inner * w, lambda: tg.cos(inner)), lambda: a + w),
            )

        assert_same(run, lambda k: (loop(7, body, x, checkpoint_every=k), [x, w]))

    def test_in_a_branch(self, run):
        x, w = scalar(0.3), scalar(1.2)

        def program(k):
            taken = tg.cond(unknown(True), lambda: loop(5, cell(w), x, checkpoint_every=k)[0], lambda: x)
            return [taken], [x, w]

        assert_same(run, program)

    @pytest.mark.sampled(every=2)
    def test_of_gradients_in_the_body(self, run):
        x, w = scalar(0.3), scalar(1.2)

        def program(k):
            def body(i, a):
                (y,) = loop(COUNT, cell(w), a, checkpoint_every=k)
                return (a - 0.1 * tg.gradients(y * y, [a])[0],)

            return loop(COUNT, body, x, checkpoint_every=k), [x, w]

        assert_same(run, program, [2])

    def test_of_hessians(self, run):
        x = unknown(np.array([0.3, -0.2]))
        found = [tg.hessians(tg.reduce_sum(loop(4, cell(x), x, checkpoint_every=k)[0]), [x])[0] for k in (None, 1, 3)]
        wanted, *others = run(found)
        for got in others:
            assert_near([got], [wanted])

    @pytest.mark.sampled(every=2)
    def test_of_map_fn_scan_and_folds(self, run):
        xs = unknown(np.linspace(0.1, 1.0, 6).reshape(6, 1))

        def program(k):
            def combine(a, b):
                return tg.tanh(a * 1.3 + b)

            ys = [f(combine, xs, checkpoint_every=k) for f in (tg.foldl, tg.foldr, tg.scan)]
            return [*ys, tg.map_fn(lambda a: tg.sin(a) * a, xs, checkpoint_every=k)], [xs]

        assert_same(run, program)


@pytest.mark.rule(85)
class TestEffects:
    @pytest.mark.parametrize("clear", [True, False])
    def test_arrays_are_read_and_written_once(self, run, clear):
        xs = unknown(np.linspace(0.1, 1.0, 10).reshape(5, 2))

        def program(k):
            rows = tg.TensorArray("float64", 5, clear_after_read=clear).unstack(xs)
            out = tg.TensorArray("float64", 5)

            def body(i, a, out):
                a = tg.tanh(a + rows.read(i))
                return a, out.write(i, a * a)

            a, out = loop(5, body, xs[0], out, checkpoint_every=k)
            return [a, out.stack()], [xs]

        assert_same(run, program)

    @pytest.mark.sampled(every=2)
    def test_an_array_of_an_iteration(self, run):
        x = scalar(0.3)

        def body(i, a):
            array = tg.TensorArray("float64", 2).write(0, tg.sin(a)).write(1, a * 2.0)
            return (array.read(0) * array.read(1) + a,)

        assert_same(run, lambda k: (loop(5, body, x, checkpoint_every=k), [x]))

    def test_variables_are_read_as_they_were(self, graph, session):
        x, v = scalar(0.3), tg.Variable(np.float64(1.5))

        def program(k):
            def body(i, a):
                read = v.read_value()
                with tg.control_dependencies([read]):
                    after = v.assign(read * 1.1)
                return (tg.sin(a) * read + after * a,)

            with tg.control_dependencies([v.assign(np.float64(1.5))]):
                start = tg.identity(x)
            return loop(5, body, start, checkpoint_every=k, parallel_iterations=1), [x]

        found = []
        for k in (None, 2):
            session.run(tg.global_variables_initializer())
            found.append(session.run(taken(*program(k), 2)))
            assert session.read_variables() == pytest.approx({v.name: 1.5 * 1.1**5})
        assert_near(*found)

    def test_functions_are_called_once(self, run):
        x = scalar(0.3)
        calls = []

        def halve(a):
            calls.append(float(a))
            return a * 0.5

        def body(i, a):
            return (tg.sin(a) * tg.py_function(halve, [a], "float64", output_shapes=[]) + a,)

        (y,) = loop(7, body, x, checkpoint_every=3)
        run([y, *tg.gradients(y, [x])])
        assert len(calls) == 7

    def test_print_prints_once(self, run, capfd):
        x = scalar(0.3)
        (y,) = loop(7, lambda i, a: (tg.sin(tg.print_(a, [i], "it ")) * a,), x, checkpoint_every=3)
        (z,) = loop(7, lambda i, a: (tg.sin(a) * a,), x)
        got, wanted = run([tg.gradients(t, [x])[0] for t in (y, z)])
        assert_near([got], [wanted])
        assert capfd.readouterr().err.count("it ") == 7

    def test_a_hand_made_loop_is_refused(self, run):
        x = scalar(0.3)

        def body(i, a):
            entered = tg.enter(a, "by_hand")
            return (tg.reshape(tg.exit(entered), []) * a,)

        (y,) = loop(3, body, x, checkpoint_every=2)
        with pytest.raises(tg.GraphError, match=r"hand-made loop cannot be recomputed[\s\S]*operation: Enter"):
            tg.gradients(y, [x])


@pytest.mark.rule(85)
class TestRandom:
    @pytest.mark.parametrize("every", EVERY)
    def test_draws_are_those_of_the_forward_iteration(self, run, every):
        x = unknown(np.ones(64))

        def body(i, a, kept):
            mask = tg.cast(tg.random_uniform([64]) > 0.3, "float64") * tg.random_normal([64], dtype="float64")
            inner = tg.cond(i % 2 > 0, lambda: mask, lambda: mask * tg.truncated_normal([64], dtype="float64"))
            return a * inner, kept * inner

        y, product = loop(5, body, x, tg.ones([64], "float64"), checkpoint_every=every)
        got, wanted = run([tg.gradients(y, [x])[0], product])
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
        assert np.count_nonzero(wanted) > 0

    def test_of_every_kind(self, run):
        x = unknown(np.linspace(0.2, 1.0, 8))

        def body(i, a, kept):
            drawn = [
                tg.cast(tg.random_uniform([8], 0, 9, "int64"), "float64"),
                tg.cast(tg.categorical(tg.zeros([1, 5]), 8), "float64")[0],
                tg.random_shuffle(tg.constant(np.arange(8.0))),
            ]
            factor = tg.add_n(drawn) * 0.1
            return a * factor, kept * factor

        y, product = loop(4, body, x, tg.ones([8], "float64"), checkpoint_every=2)
        got, wanted = run([tg.gradients(y, [x])[0], product])
        np.testing.assert_allclose(got, wanted, rtol=1e-12)

    def test_in_nested_loops(self, run):
        x = scalar(1.0)

        def body(i, a, kept):
            def inner(j, b, kept):
                factor = tg.random_uniform([], 0.5, 1.5, dtype="float64")
                return b * factor, kept * factor

            return tuple(loop(3, inner, a, kept, checkpoint_every=2))

        y, product = loop(5, body, x, tg.constant(np.float64(1.0)), checkpoint_every=2)
        got, wanted = run([tg.gradients(y, [x])[0], product])
        assert_near([got], [wanted])


class TestMemory:
    def test_saves_each_segment_once(self):
        x, w = scalar(0.3), scalar(1.2)
        (y,) = loop(9, cell(w), x, checkpoint_every=3)
        first, second = (tg.gradients(y * factor, [x]) for factor in (1.0, 2.0))
        assert pushed(*first) == {"float64[]": 2}  # where a segment begins, and in what runs again
        assert pushed(*first, *second) == {"float64[]": 3}

    def test_counters_and_masks_are_not_saved(self):
        x = unknown(np.ones(8))

        def body(i, k, a):
            return k - 3, a * tg.random_uniform([8], dtype="float64") * tg.cast(i + k, "float64")

        (g,) = tg.gradients(loop(9, body, 7, x, checkpoint_every=3)[1], [x])
        assert pushed(g) == {"int64[]": 1, "float64[8]": 1}  # the frame, the mask where it is drawn again

    @pytest.mark.parametrize("orders", [1, 2])
    def test_peak_falls(self, graph, orders):
        peaks, values = zip(*(lstm(400, k, orders) for k in (None, 20)), strict=True)
        assert_near(values[1], values[0], 1e-3)
        assert peaks[1] < peaks[0] / 5


def lstm(length, every, orders, batch=32, units=32):
    """Return the peak of a step that takes gradients through an LSTM, and what it gives."""
    rng = np.random.default_rng(0)
    with tg.Graph().as_default() as graph:
        xs = tg.placeholder("float32", [length, batch, 4])
        rows = tg.TensorArray("float32", length, element_shape=[batch, 4]).unstack(xs)
        w = unknown(rng.normal(size=(4 + units, 4 * units)).astype("float32") * 0.2)

        def body(i, c, h, loss):
            i, f, o, j = tg.split(tg.concat([rows.read(i), h], 1) @ w, 4, 1)
            c = tg.sigmoid(f) * c + tg.sigmoid(i) * tg.tanh(j)
            h = tg.sigmoid(o) * tg.tanh(c)
            return c, h, loss + tg.reduce_mean(h * h)

        zero = tg.zeros([batch, units])
        *_, loss = loop(length, body, zero, zero, tg.constant(0.0), checkpoint_every=every)
        fetches = taken([loss], [w], orders)
        with tg.SyncSession(graph, settings=ON) as session:
            found = session.run(fetches, {xs: rng.normal(size=(length, batch, 4)).astype("float32")})
            return session.statistics().peak_bytes, found


class TestArgument:
    @pytest.mark.parametrize("every", [0, -1, 1.5, True, "2", np.float32(2)])
    def test_must_be_a_positive_integer(self, every):
        with pytest.raises(tg.GraphError, match=r"checkpoint_every must be a positive integer[\s\S]*try: ") as caught:
            loop(3, lambda i, a: (a,), scalar(1.0), checkpoint_every=every)
        assert caught.value.hint

    def test_may_be_of_numpy(self, run):
        x = scalar(0.3)
        (y,) = loop(3, cell(x), x, checkpoint_every=np.int64(2))
        assert run(tg.gradients(y, [x]))

    def test_is_written_with_the_graph(self, graph):
        x = scalar(0.3)
        tg.gradients(loop(3, cell(x), x, checkpoint_every=2)[0], [x])
        text = to_text(graph)
        assert "checkpoint_every=2" in text
        assert to_text(parse(text)) == text

    def test_changes_nothing_without_gradients(self):
        x = scalar(0.3)
        before, after = (operations(*loop(3, cell(x), x, checkpoint_every=k)) for k in (None, 2))
        assert [op.type for op in before] == [op.type for op in after]
