"""custom_gradient: what its gradient function says is what flows."""

import numpy as np
import pytest
import tagloom as tg


def double(value):
    return tg.constant(np.asarray(value, np.float64))


@tg.custom_gradient
def tripled(x):
    """A square that claims three times its slope, so that one sees which gradient was taken."""
    return x * x, lambda dy: dy * 6.0 * x


@tg.custom_gradient
def log1pexp(x):
    e = tg.exp(x)
    return tg.log(1.0 + e), lambda dy: dy * (1.0 - 1.0 / (1.0 + e))


def test_value_and_gradient(run):
    x = double(2.0)
    y = tripled(x)
    assert run([y, tg.gradients(y, [x])]) == [4.0, [12.0]]


def test_a_stable_gradient(run):
    x = double(1000.0)
    (g,) = tg.gradients(log1pexp(x), [x])
    assert run(g) == 1.0


def test_upstream_gradient_is_passed_in(run):
    x = double([2.0, 3.0])
    (g,) = tg.gradients(tripled(x) * double([10.0, 100.0]), [x])
    assert run(g).tolist() == [120.0, 1800.0]


def test_second_and_third_order_differentiate_the_gradient_function(run):
    x = double(2.0)
    y = tripled(x * x)  # claims dy/dx = 6 x^2 * 2 x = 12 x^3
    (first,) = tg.gradients(y, [x])
    (second,) = tg.gradients(first, [x])
    (third,) = tg.gradients(second, [x])
    assert run([first, second, third]) == [96.0, 144.0, 144.0]


def test_closure_over_outer_tensors(run):
    w, x = double(5.0), double(2.0)

    @tg.custom_gradient
    def scaled(x):
        return x * w, lambda dy: dy * w * w

    (gx,) = tg.gradients(scaled(x), [x])
    (gw,) = tg.gradients(gx, [w])
    assert run([gx, gw]) == [25.0, 10.0]
    assert tg.gradients(scaled(x), [w]) == [None]  # the gradient function speaks for all of f


def test_in_a_loop(run):
    x, w = double(1.1), double(2.0)

    @tg.custom_gradient
    def step(a):
        square = a * a
        return square * w, lambda dy: dy * (2.0 * a * w + square * 0.0)

    _, y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, step(a)), (0, x))
    _, plain = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * a * w), (0, x))
    ours, wanted = [], []
    for found, value in ((ours, y), (wanted, plain)):
        (first,) = tg.gradients(value, [x])
        found += [value, first, tg.gradients(first, [x])[0]]
    ours, wanted = run([ours, wanted])
    np.testing.assert_allclose(ours, wanted)


@pytest.mark.parametrize(("chosen", "slope"), [(True, 12.0), (False, 1.0)])
def test_in_a_branch(run, chosen, slope):
    x = double(2.0)
    y = tg.cond(tg.placeholder_with_default(chosen, []), lambda: tripled(x), lambda: x + 0.0)
    (g,) = tg.gradients(y, [x])
    (second,) = tg.gradients(g, [x], unconnected_gradients="zero")
    assert run([g, second]) == [slope, 6.0 if chosen else 0.0]


def test_in_a_branch_in_a_loop(run):
    x = double(2.0)

    def body(i, a):
        return i + 1, tg.cond(tg.equal(i % 2, 0), lambda: tripled(a), lambda: a * 3.0)

    _, y = tg.while_loop(lambda i, a: i < 3, body, (0, x))  # ((x^2) * 3)^2 with claimed slopes 6a
    (g,) = tg.gradients(y, [x])
    assert run([y, g]) == [144.0, 6 * 12 * 3 * 6 * 2]


def test_gradient_function_with_control_flow(run):
    @tg.custom_gradient
    def power(x):
        def gradient(dy):
            positive = tg.cond(dy > 0.0, lambda: dy * x, lambda: dy * 0.0)
            return tg.while_loop(lambda i, g: i < 3, lambda i, g: (i + 1, g * x), (0, positive))[1]

        return x * 1.0, gradient

    x = double(2.0)
    (g,) = tg.gradients(power(x), [x])
    (up, down) = tg.gradients(power(x), [x], grad_ys=[double(-1.0)])[0], tg.gradients(g, [x])[0]
    assert run([g, up, down]) == [16.0, 0.0, 32.0]


def test_several_values_and_arguments(run):
    @tg.custom_gradient
    def both(x, y):
        return (x + y, x * y), lambda a, b: (a * 10.0 + b, b * 100.0)

    x, y = double(2.0), double(3.0)
    total, product = both(x, y)
    assert run([total, product, tg.gradients([total, product], [x, y])]) == [5.0, 6.0, [11.0, 100.0]]
    assert run(tg.gradients(total, [x, y])) == [10.0, 0.0]  # zeros arrive where nothing flows


def test_structures_literals_and_no_gradient(run):
    @tg.custom_gradient
    def weighted(parts, scale):
        value = parts["a"] * parts["b"] * scale
        return {"value": value, "n": tg.constant(7)}, lambda dv, dn: ({"a": dv, "b": dv * 2.0}, None)

    a, b, scale = double(2.0), double(3.0), double(4.0)
    made = weighted({"a": a, "b": b}, scale)
    grads = tg.gradients(made["value"], [a, b])
    assert run([made["value"], made["n"], grads]) == [24.0, 7, [1.0, 2.0]]
    assert tg.gradients(made["value"], [scale]) == [None]
    assert run(weighted({"a": a, "b": b}, np.float64(2.0))["value"]) == 12.0


def test_keyword_arguments_are_passed_on(run):
    @tg.custom_gradient
    def power(x, *, times):
        return x * times, lambda dy: dy * 100.0 * times

    x = double(2.0)
    y = power(x, times=3.0)
    assert run([y, tg.gradients(y, [x])]) == [6.0, [300.0]]


def test_sparse_gradient(run):
    table = double(np.ones((4, 2)))

    @tg.custom_gradient
    def rows(t):
        def gradient(dy):
            return tg.IndexedSlices(dy * 5.0, tg.constant([2, 0]), tg.shape(t))

        return tg.gather(t, [2, 0]), gradient

    (g,) = tg.gradients(rows(table), [table])
    assert isinstance(g, tg.IndexedSlices)
    assert run(tg.convert_to_tensor(g)).tolist() == [[5, 5], [0, 0], [5, 5], [0, 0]]


def test_wrong_number_of_gradients():
    @tg.custom_gradient
    def bad(x, y):
        return x * y, lambda dy: dy

    x = double(1.0)
    with pytest.raises(tg.GraphError, match="wrong number of gradients") as caught:
        tg.gradients(bad(x, x), [x])
    assert (caught.value.wanted, caught.value.got) == ("one for each of the 2 arguments", 1)
    assert caught.value.source.file == __file__


def test_a_function_without_gradient():
    with pytest.raises(tg.GraphError, match="does not return its values and a gradient function"):
        tg.custom_gradient(lambda x: x * x)(double(1.0))


def test_name_and_docstring_stay():
    assert tripled.__name__ == "tripled"
    assert tripled.__doc__.startswith("A square")


def test_on_a_method(run):
    class Model:
        @tg.custom_gradient
        def product(self, x, y):
            return x * y, lambda g: (g * x * self.factor, g * y)

        @staticmethod
        @tg.custom_gradient
        def double(x):
            return x * 2.0, lambda g: g * 7.0

        factor = 10.0

    x, y = tg.constant(3.0), tg.constant(5.0)
    assert run(tg.gradients(Model().product(x, y), [x, y])) == [30.0, 5.0]
    assert run(tg.gradients(Model().double(x), [x])) == [7.0]
    assert Model.product.__name__ == "product"


class TestPassThrough:
    def test_the_gradient_passes_by(self, run):
        x = double([0.2, 1.7])
        y = tg.grad_pass_through(tg.round)(x)
        assert [part.tolist() for part in run([y, *tg.gradients(y * y, [x])])] == [[0.0, 2.0], [0.0, 4.0]]

    def test_of_several_values_in_a_loop(self, run):
        a, b = double(2.0), double(5.0)

        @tg.grad_pass_through
        def swapped(x, y):
            """Trade places."""
            return y, x

        def body(i, x, y):
            x, y = swapped(x * 2.0, y * 3.0)
            return i + 1, x, y

        _, x, y = tg.while_loop(lambda i, *_: i < 3, body, [0, a, b])
        assert swapped.__doc__ == "Trade places."
        assert run([x, y, tg.gradients(x, [a, b], unconnected_gradients="zero")]) == [90.0, 24.0, [8.0, 0.0]]

    def test_as_a_method(self, run):
        class Quantizer:
            scale = 10.0

            @tg.grad_pass_through
            def __call__(self, x):
                return tg.round(x * self.scale) / self.scale

        x = double(0.123)
        y = Quantizer()(x)
        assert run([y, tg.gradients(y, [x])]) == [0.1, [1.0]]

    def test_needs_as_many_results_as_arguments(self, graph):
        x, y = double(1.0), double(2.0)
        z = tg.grad_pass_through(lambda a, b: a + b)(x, y)
        with pytest.raises(tg.GraphError, match="wrong number of gradients"):
            tg.gradients(z, [x])


class TestPreventGradient:
    def test_the_value_passes(self, run):
        x = double([1.0, 2.0])
        assert run(tg.prevent_gradient(x)).tolist() == [1.0, 2.0]

    def test_a_gradient_through_it_is_an_error_that_names_the_line(self, graph):
        x = double(2.0)
        y = tg.prevent_gradient(x * x, "not here") + x
        with pytest.raises(tg.GraphError, match="no gradient may flow through this tensor: not here") as caught:
            tg.gradients(y, [x])
        assert "tg.prevent_gradient(x * x" in str(caught.value)

    def test_in_a_loop(self, graph):
        x = double(2.0)
        _, y = tg.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tg.prevent_gradient(a)), [0, x])
        with pytest.raises(tg.GraphError, match="no gradient may flow"):
            tg.gradients(y, [x])

    def test_beside_it_gradients_flow(self, run):
        x, y = double(2.0), double(3.0)
        assert run(tg.gradients(tg.prevent_gradient(x) * y, [y])) == [2.0]
