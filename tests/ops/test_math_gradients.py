"""Gradients of mathematical operations where they are delicate: kinks, ties, zeros, high orders, compositions."""

import math

import numpy as np
import pytest
from tagloom.ir.apply import constant
from tagloom.ops.control import checks
from tagloom.ops.control.placeholders import placeholder
from tagloom.ops.linalg import norms
from tagloom.ops.math import arithmetic, elementwise, linear, reductions
from tagloom.ops.math import cumulative as products
from tagloom.ops.nn import activations, normalization
from tagloom.ops.nn import losses as nn
from tagloom.ops.support.common import ones_like

from tests.ops.evaluation import declare_all, evaluate, pull_back

pytestmark = pytest.mark.usefixtures("graph")

declare_all()


def f64(values):
    return constant(np.float64(values))


def value(tensor, feeds=None):
    with np.errstate(all="ignore"):
        return evaluate([tensor], feeds or {})[0]


def derivative(y, x, order=1):
    """Differentiate the sum of `y` again and again; each step sums over the elements of `x`."""
    for _ in range(order):
        (y,) = pull_back([y], [ones_like(y)], [x])
    return y


def slope(function, at, step=1e-6):
    """Differentiate a function of arrays, whose results are added up, by central differences."""
    result = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[i] = step
        result[i] = (np.sum(function(at + move)) - np.sum(function(at - move))) / (2 * step)
    return result


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_powers_of_zero(order):
    x = f64([0.0, 2.0])
    wanted = [math.factorial(3) / math.factorial(3 - order) * v ** (3 - order) if order < 4 else 0.0 for v in (0, 2)]
    assert value(derivative(x**3.0, x, order)).tolist() == wanted


def test_mixed_derivative_of_a_power():
    x, y = f64(2.0), f64(0.0)
    (by_x,) = pull_back([x**y], [f64(1.0)], [x])
    assert value(derivative(by_x, y)) == pytest.approx(0.5)


def test_exponent_of_a_base_that_is_not_positive_gets_no_gradient():
    y = f64([2.0, 2.0])
    assert value(derivative(arithmetic.pow(f64([0.0, -1.0]), y), y)).tolist() == [0, 0]


@pytest.mark.parametrize("reduce", [reductions.reduce_max, reductions.reduce_min])
@pytest.mark.parametrize("keepdims", [False, True])
def test_ties_share_the_gradient(reduce, keepdims):
    x = f64([[3, 3, 3, 3], [1, 1, 1, 2]]) if reduce is reductions.reduce_min else f64([[3, 3, 3, 3], [1, 2, 2, 2]])
    result = value(derivative(reduce(x, 1, keepdims), x))
    np.testing.assert_allclose(result.sum(1), [1, 1])
    np.testing.assert_allclose(result[0], 0.25)
    assert sorted(result[1].tolist()) == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


def test_of_two_equals_the_first_takes_the_gradient():
    x, y = f64([1.0, 2.0]), f64([1.0, 3.0])
    for function, wanted in ((arithmetic.maximum, [1, 0]), (arithmetic.minimum, [1, 1])):
        to_x, to_y = pull_back([function(x, y)], [f64([1.0, 1.0])], [x, y])
        assert value(to_x).tolist() == wanted
        assert value(to_x + to_y).tolist() == [1, 1]


def test_clip_passes_gradients_at_its_bounds():
    x = f64([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert value(derivative(elementwise.clip_by_value(x, -1.0, 1.0), x)).tolist() == [0, 1, 1, 1, 0]


def test_kinks_of_activations():
    x = f64([0.0])
    for function in (activations.relu, activations.relu6):
        assert value(derivative(function(x), x)).tolist() == [0]
    assert value(derivative(abs(x), x)).tolist() == [0]
    assert value(derivative(nn.sigmoid_cross_entropy_with_logits(labels=f64([0.25]), logits=x), x)).tolist() == [0.25]


@pytest.mark.parametrize("factors", [[2, 3, 5], [0, 3, 5], [0, 0, 5], [0, 0, 0]])
def test_products_with_zeros_to_third_order(factors):
    x = f64(factors)
    a, b, c = factors
    product = products.reduce_prod(x)
    assert value(derivative(product, x)).tolist() == [b * c, a * c, a * b]
    assert value(derivative(product, x, 2)).tolist() == [b + c, a + c, a + b]
    assert value(derivative(product, x, 3)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), None])
@pytest.mark.parametrize("known", [True, False])
def test_products_over_axes(axis, known):
    array = np.float64([[0, 2, -1], [3, 0.5, 4]])
    x = placeholder("float64", array.shape if known else None)
    result = value(derivative(products.reduce_prod(x, axis), x), {x: array})
    np.testing.assert_allclose(result, slope(lambda v: np.prod(v, axis=axis), array), atol=1e-8)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_running_products_with_zeros(exclusive, reverse, order):
    array = np.float64([[2, 0, -1, 0.5], [0, 0, 3, 2]])
    x = placeholder("float64", [None, 4])
    run = products.cumprod(x, 1, exclusive, reverse)
    lower = derivative(run, x, order - 1)
    wanted = slope(lambda v: value(lower, {x: v}), array)
    np.testing.assert_allclose(value(derivative(run, x, order), {x: array}), wanted, atol=1e-7)


def test_high_orders_in_closed_form():
    x = f64([0.3, 0.7])
    v = np.float64([0.3, 0.7])
    np.testing.assert_allclose(value(derivative(elementwise.exp(x * 2), x, 5)), 32 * np.exp(2 * v))
    np.testing.assert_allclose(value(derivative(elementwise.log(x), x, 4)), -6 / v**4)
    np.testing.assert_allclose(value(derivative(elementwise.rsqrt(x), x, 3)), -15 / 8 * v**-3.5)
    y = 1 / (1 + np.exp(-v))
    third = y * (1 - y) * (1 - 6 * y + 6 * y * y)
    np.testing.assert_allclose(value(derivative(activations.sigmoid(x), x, 3)), third)
    np.testing.assert_allclose(value(derivative(activations.softplus(x), x, 4)), third)


def test_softmax_pulls_back_nothing_for_equal_cotangents():
    x = f64([[1.0, 2.0, 4.0]])
    np.testing.assert_allclose(value(derivative(nn.softmax(x), x)), 0, atol=1e-15)


def test_cross_entropies_agree_and_so_do_their_hessians():
    logits, classes = f64([[1.0, -0.5, 2.0], [0.25, 3.0, -1.0]]), np.int32([2, 0])
    dense = nn.softmax_cross_entropy_with_logits(labels=np.eye(3)[classes], logits=logits)
    sparse = nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
    weights = f64([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
    for order in range(3):
        np.testing.assert_allclose(value(dense), value(sparse), rtol=1e-12)
        scale = weights if order else 1
        dense, sparse = (derivative(loss * scale, logits) for loss in (dense, sparse))


def test_cross_entropy_of_labels_that_do_not_sum_to_one():
    labels, logits = np.float64([[2.0, 0.5]]), np.float64([[0.3, -1.0]])
    p, x = constant(labels), constant(logits)
    to_p, to_x = pull_back([nn.softmax_cross_entropy_with_logits(labels=p, logits=x)], [f64([1.0])], [p, x])

    def loss(p, x):
        return -(p * (x - np.log(np.exp(x).sum()))).sum()

    np.testing.assert_allclose(value(to_p), slope(lambda v: loss(v, logits), labels), rtol=1e-7)
    np.testing.assert_allclose(value(to_x), slope(lambda v: loss(labels, v), logits), rtol=1e-7)


def test_sparse_cross_entropy_with_an_unknown_number_of_classes():
    x = placeholder("float64")
    logits = np.float64([[1.0, -0.5, 2.0], [0.25, 3.0, -1.0]])
    loss = nn.sparse_softmax_cross_entropy_with_logits(labels=np.int64([2, 0]), logits=x)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(value(derivative(loss, x), {x: logits}), shares - np.eye(3)[[2, 0]], rtol=1e-12)


def test_norms():
    array = np.float64([[3, -4], [1, 2]])
    x = constant(array)
    for order, wanted in (("euclidean", 2), (1, 1), (np.inf, np.inf), (3.0, 3.0)):
        np.testing.assert_allclose(value(norms.norm(x, order, axis=1)), np.linalg.norm(array, wanted, axis=1))
    assert value(linear.l2_loss(x)) == 15
    np.testing.assert_allclose(value(derivative(norms.norm(x, axis=1), x)), array / [[5], [math.sqrt(5)]])


def test_clip_by_norm():
    x = f64([3.0, 4.0])
    np.testing.assert_allclose(value(checks.clip_by_norm(x, 1.0)), [0.6, 0.8])
    np.testing.assert_allclose(value(checks.clip_by_norm(x, 10.0)), [3, 4])
    wanted = slope(lambda v: v / np.sqrt((v * v).sum()), np.float64([3, 4]))
    np.testing.assert_allclose(value(derivative(checks.clip_by_norm(x, 1.0), x)), wanted, rtol=1e-6)
    zero = f64([0.0, 0.0])
    assert value(derivative(checks.clip_by_norm(zero, 1.0), zero)).tolist() == [1, 1]


def test_clip_by_global_norm():
    (a, nothing, b), norm = checks.clip_by_global_norm([f64([3.0]), None, f64([[4.0]])], 1.0)
    assert nothing is None
    assert value(norm) == 5
    np.testing.assert_allclose(value(a), [0.6])
    np.testing.assert_allclose(value(b), [[0.8]])
    (kept,), _ = checks.clip_by_global_norm([f64([3.0])], 4.0)
    assert value(kept).tolist() == [3]
    (broken,), _ = checks.clip_by_global_norm([f64([np.inf, 1.0])], 4.0)
    assert np.isnan(value(broken)).all()


def test_check_numerics_names_the_gradient():
    x = f64([0.0])
    checked = checks.check_numerics(x, "input")
    with pytest.raises(FloatingPointError, match="gradient of CheckNumerics: input"):
        value(derivative(elementwise.log(checked), x))


def test_moments_to_second_order():
    array = np.float64([[1, 2, 4], [0, -1, 3]])
    x = constant(array)
    mean, variance = normalization.moments(x, [1])
    np.testing.assert_allclose(value(mean), array.mean(1))
    np.testing.assert_allclose(value(variance), array.var(1))
    np.testing.assert_allclose(value(derivative(variance**2.0, x)), slope(lambda v: v.var(1) ** 2, array), rtol=1e-6)
    weights = np.float64([1, -2, 0.5])
    first = derivative(variance, x) * weights
    wanted = slope(lambda v: 2 / 3 * (v - v.mean(1, keepdims=True)) * weights, array)
    np.testing.assert_allclose(value(derivative(first, x)), wanted, atol=1e-8)


def test_normalization_and_gelu():
    array = np.float64([[3, -4], [0.5, 1]])
    x = constant(array)
    np.testing.assert_allclose(value(normalization.l2_normalize(x, 1)), array / np.sqrt((array**2).sum(1))[:, None])
    exact = [[v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in array]
    np.testing.assert_allclose(value(activations.gelu(x)), exact)
    np.testing.assert_allclose(value(activations.gelu(x, approximate=True)), exact, atol=1e-3)
    np.testing.assert_allclose(value(activations.log_sigmoid(x)), -np.log1p(np.exp(-array)))
    np.testing.assert_allclose(value(normalization.bias_add(x, [1.0, 2.0])), array + [1, 2])
