"""``associative_scan`` against ``scan`` and NumPy: lengths, axes, structures, gradients and errors."""

import numpy as np
import pytest
import tagloom as tg

LENGTHS = [0, 1, 2, 3, 7, 8, 33]


def recur(first, second):
    """Combine two steps of ``y = a * y + b``: associative, and not commutative."""
    return {"a": first["a"] * second["a"], "b": first["b"] * second["a"] + second["b"]}


def draws(*shape):
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape)


def recurrence(a, b, reverse=False):
    """Return the recurrence along the first dimension with NumPy."""
    y, out = np.zeros(b.shape[1:]), np.zeros_like(b)
    for k in reversed(range(len(a))) if reverse else range(len(a)):
        out[k] = y = a[k] * y + b[k]
    return out


def fed(values, is_known):
    return [tg.placeholder(v.dtype, v.shape if is_known else None) for v in values]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_values_are_those_of_the_recurrence(run, n, reverse, is_known):
    values = [draws(n, 2), draws(n, 2)]
    a, b = fed(values, is_known)
    found = tg.associative_scan(recur, {"a": a, "b": b}, reverse=reverse)
    result = run(found, dict(zip([a, b], values, strict=True)))
    np.testing.assert_allclose(result["b"], recurrence(*values, reverse))
    np.testing.assert_allclose(
        result["a"], np.cumprod(values[0][::-1] if reverse else values[0], 0)[:: 1 - 2 * reverse]
    )


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_any_dimension(run, n, axis, is_known):
    shape = [2, 3, 4]
    shape[axis] = n
    value = draws(*shape)
    x = tg.placeholder("float64", shape if is_known else [None] * 3)
    np.testing.assert_allclose(run(tg.associative_scan(tg.multiply, x, axis=axis), {x: value}), np.cumprod(value, axis))


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 33])
def test_gradients_of_both_orders_are_those_of_scan(run, n, reverse, is_known):
    values = [draws(n), draws(n)[::-1].copy()]
    a, b = fed(values, True)
    shape = [n] if is_known else [None]
    open_a, open_b = (tg.placeholder_with_default(t, shape) for t in (a, b))

    def derivatives(ys):
        loss = tg.reduce_sum(tg.sin(ys))
        first = tg.gradients(loss, [a, b], unconnected_gradients="zero")
        return [
            loss,
            *first,
            *tg.gradients([tg.reduce_sum(g * g) for g in first], [a, b], unconnected_gradients="zero"),
        ]

    fast = tg.associative_scan(recur, {"a": open_a, "b": open_b}, reverse=reverse)["b"]
    slow = tg.scan(recur, {"a": a, "b": b}, reverse=reverse)["b"]
    found, wanted = run([derivatives(fast), derivatives(slow)], {a: values[0], b: values[1]})
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_no_elements_have_a_gradient(run):
    x = tg.constant(np.zeros((0, 3)))
    (g,) = tg.gradients(tg.reduce_sum(tg.associative_scan(tg.add, x)) + tg.reduce_sum(x), [x])
    assert run(g).shape == (0, 3)


def test_elements_of_several_ranks_and_dtypes(run):
    x, k = draws(6, 2, 2), np.arange(6)
    found = tg.associative_scan(lambda p, q: (p[0] @ q[0], tg.maximum(p[1], q[1])), (tg.constant(x), tg.constant(k)))
    products, largest = run(found)
    wanted = [x[0]]
    for matrix in x[1:]:
        wanted.append(wanted[-1] @ matrix)
    np.testing.assert_allclose(products, wanted)
    np.testing.assert_array_equal(largest, k)


def test_depth_is_logarithmic():
    calls = []

    def add(a, b):
        calls.append(a)
        return a + b

    tg.associative_scan(add, tg.constant(np.ones(1024)))
    assert len(calls) == 2 * 10 - 1


def test_lengths_that_differ_are_refused(run):
    with pytest.raises(tg.ShapeError, match="different numbers of elements"):
        tg.associative_scan(recur, {"a": tg.constant(np.ones(3)), "b": tg.constant(np.ones(4))})
    values = [np.ones(3), np.ones(4)]
    a, b = fed(values, False)
    late = tg.associative_scan(recur, {"a": a, "b": b})
    with pytest.raises(tg.TagloomError, match="different numbers of elements"):
        run(late, {a: values[0], b: values[1]})


@pytest.mark.parametrize(
    ("error", "text", "fn", "elems", "axis"),
    [
        (tg.ShapeError, "without its dimension", tg.add, 1.0, 0),
        (tg.ShapeError, "without its dimension", tg.add, np.ones((2, 3)), 2),
        (tg.ShapeError, "another dimension for each rank", lambda a, b: a, (np.ones(2), np.ones((2, 2))), -1),
        (tg.GraphError, "axis of associative_scan is not an integer", tg.add, np.ones(3), "x"),
        (tg.GraphError, "nothing to go through", tg.add, [], 0),
        (tg.GraphError, "another structure", lambda a, b: (a, b), np.ones(3), 0),
        (tg.DtypeError, "changes a dtype", lambda a, b: tg.cast(a, "float32"), np.ones(3), 0),
        (tg.ShapeError, "changes a shape", lambda a, b: tg.reduce_sum(a + b), np.ones(3), 0),
    ],
)
def test_mistakes_are_explained(error, text, fn, elems, axis):
    with pytest.raises(error, match=text):
        tg.associative_scan(fn, elems, axis=axis)
