"""check_gradients: right gradients pass in every dtype and order, wrong ones are named with their worst element."""

import re

import numpy as np
import pytest
import tagloom as tg
from tagloom.testing import check_gradients


def repeated(x, n):
    """Return x to the power n + 1, through a loop with a branch."""

    def body(i, y):
        return i + 1, tg.cond(i < 1, lambda: y * x, lambda: x * y)

    return tg.while_loop(lambda i, _: i < n, body, [0, x])[1]


@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_right_gradients_pass(executor, known, order):
    check_gradients(repeated, [np.float64([0.5, -1.5]), 2], order, known_shapes=known, executor=executor)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex128", "complex64"])
def test_tolerances_follow_the_dtype(dtype):
    x = np.array([0.5, -1.25], tg.as_dtype(dtype).numpy)
    check_gradients(lambda x: x * x + x, [x])
    with pytest.raises(AssertionError, match="order 1 of wrong"):
        check_gradients(wrong, [x])


def test_a_result_of_fewer_digits_decides():
    check_gradients(lambda x: tg.cast(x, "float16") * 2.0, [np.float64([0.5, 1.0])], order=1)


@tg.custom_gradient
def wrong(x):
    return x * x, lambda g: g * x


@tg.custom_gradient
def wrong_derivative_of_the_gradient(x):
    @tg.custom_gradient
    def slope(x):
        return 2.0 * x, lambda g: g * 3.0

    return x * x, lambda g: g * slope(x)


def test_a_wrong_gradient_is_named_with_its_worst_element():
    with pytest.raises(AssertionError) as caught:
        check_gradients(lambda d: {"y": wrong(d["a"]) + d["b"]}, [{"a": np.float64([[1.0, -8.0]]), "b": 0.0}])
    text = str(caught.value)
    assert "order 1 of <lambda>" in text
    assert "argument: [0]['a'], element [0, 1]" in text
    assert "2 of 2 elements differ" in text
    wanted, got = (float(re.search(rf"{word}: (\S+) by", text)[1]) for word in ("wanted", "got"))
    assert wanted == pytest.approx(2 * got, rel=1e-4)
    assert "custom_gradient" in text


def test_a_wrong_derivative_of_a_gradient_is_of_the_second_order():
    check_gradients(wrong_derivative_of_the_gradient, [np.float64([1.0, 2.0])], order=1)
    with pytest.raises(AssertionError, match="order 2 of wrong_derivative"):
        check_gradients(wrong_derivative_of_the_gradient, [np.float64([1.0, 2.0])], order=2)


def test_a_gradient_that_is_missing_is_wrong():
    with pytest.raises(AssertionError, match="got: 0 by"):
        check_gradients(lambda x: tg.stop_gradient(x) * 2.0, [3.0])


def test_a_gradient_that_is_no_number_is_wrong():
    @tg.custom_gradient
    def lost(x):
        return x * 1.0, lambda g: g * np.nan

    with pytest.raises(AssertionError, match="got: nan"):
        check_gradients(lost, [3.0])


def test_a_kink_is_told_from_a_mistake():
    with pytest.raises(AssertionError, match="kink or a jump"):
        check_gradients(tg.abs, [1e-5])
    check_gradients(tg.abs, [1e-5], order=1, step=1e-6)


def test_tolerances_can_be_given():
    with pytest.raises(AssertionError):
        check_gradients(tg.exp, [1.0], rtol=0.0, atol=0.0, order=3)
    check_gradients(wrong, [3.0], order=1, rtol=0.6)


def test_of_large_arguments_some_elements_are_moved():
    x = np.linspace(0.5, 1.5, 1000)
    check_gradients(lambda x: tg.reduce_sum(x * x), [x], order=1, elements=20)
    with pytest.raises(AssertionError, match="20 of 20 elements differ"):
        check_gradients(wrong, [x], elements=20)


def test_variables_have_their_initial_values():
    def model(x):
        layer = tg.nn.Dense(3, kernel_initializer="ones", dtype="float64")
        return tg.tanh(layer(x))

    check_gradients(model, [np.float64([[0.5, -0.25]])])


def test_arguments_that_do_not_move_stay():
    check_gradients(lambda x, k, flag: tg.cond(flag, lambda: tg.gather(x, k), lambda: x), [np.ones(3), [0, 2], True])


@pytest.mark.parametrize(
    ("function", "arguments", "error", "words"),
    [
        (lambda x: x + 1, [3], tg.DtypeError, "nothing to differentiate"),
        (lambda: tg.constant(1.0), [], tg.DtypeError, "nothing to differentiate"),
        (lambda x: tg.argmax(x), [np.ones(3)], tg.DtypeError, "nothing to differentiate"),
        (lambda x: x * tg.random_uniform([], dtype="float64"), [3.0], tg.GraphError, "different results for equal"),
    ],
)
def test_what_can_not_be_checked_is_refused(function, arguments, error, words):
    with pytest.raises(error, match=words):
        check_gradients(function, arguments)


def test_orders_begin_at_one():
    with pytest.raises(tg.GraphError, match="order of 1"):
        check_gradients(tg.exp, [1.0], order=0)


async def test_it_may_be_called_while_an_event_loop_runs():
    check_gradients(tg.exp, [1.0])
