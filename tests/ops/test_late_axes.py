"""Axes, orders and numbers of pieces that only a step knows do what known ones do, also in gradients."""

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

X = np.random.default_rng(5).uniform(0.5, 2, (2, 3, 4))
REDUCTIONS = ["sum", "mean", "max", "min", "prod", "logsumexp", "std", "variance", "euclidean_norm"]
AXES = [0, 1, -1, -3, [0, 2], [-1, 1], [2, 1, 0], [1], []]


def both_ways(build, argument, known=True):
    """Return the values and gradients of a function of x whose argument is known, and is fed."""
    found = []
    for late in (False, True):
        with tg.Graph().as_default() as graph:
            shape = X.shape if known or not late else None
            x = tg.placeholder("float64", shape)
            given = np.array(argument, np.int64 if known else np.int32)
            n = tg.placeholder(given.dtype.name, given.shape) if late else argument
            y = build(x, n)
            pieces = y if isinstance(y, list) else [y]
            differentiable = [each for each in pieces if each.dtype.is_floating]
            slopes = tg.gradients([each * each for each in differentiable], [x]) if differentiable else []
            slopes = [tg.convert_to_tensor(each) for each in slopes]
        with tg.SyncSession(graph, settings=ON) as session:
            found.append(session.run([*pieces, *slopes], {x: X, n: given} if late else {x: X}))
    return found


def assert_same(found):
    for early, late in zip(*found, strict=True):
        assert early.shape == late.shape
        assert early.dtype == late.dtype
        np.testing.assert_allclose(late, early, rtol=1e-12)


@pytest.mark.sampled(every=11)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, axis, keepdims, known):
    reduce = getattr(tg, f"reduce_{name}")
    assert_same(both_ways(lambda x, a: reduce(x, a, keepdims=keepdims), axis, known))


@pytest.mark.parametrize("axis", AXES)
def test_reductions_of_truths(axis):
    assert_same(both_ways(lambda x, a: tg.reduce_any(x > 1.6, a), axis))
    assert_same(both_ways(lambda x, a: tg.reduce_all(x > 0.6, a), axis))
    assert_same(both_ways(lambda x, a: tg.count_nonzero(x > 1, a), axis))


ALONG = {
    "argmax": tg.argmax,
    "argmin": lambda x, a: tg.argmin(x, a, output_type="int32"),
    "cumsum": lambda x, a: tg.cumsum(x, a, exclusive=True),
    "cumprod": lambda x, a: tg.cumprod(x, a, reverse=True),
    "cumulative_logsumexp": tg.cumulative_logsumexp,
    "reverse": lambda x, a: tg.reverse(x, tg.reshape(a, [1])),
    "concat": lambda x, a: tg.concat([x, 2.0 * x], a),
    "split": lambda x, a: tg.split(x, 1, a),
    "split sizes": lambda x, a: tg.split(x, [1, -1], a),
    "gather": lambda x, a: tg.gather(x, [[1, 0, 1]], axis=a),
    "gather one": lambda x, a: tg.gather(x, 1, axis=a),
    "expand_dims": tg.expand_dims,
    "roll": lambda x, a: tg.roll(x, 1, a),
    "count_nonzero": tg.count_nonzero,
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("name", ALONG)
def test_along_an_axis(name, axis, known):
    if name == "reverse" and not known:
        pytest.skip("needs the rank")
    assert_same(both_ways(ALONG[name], axis, known))


def test_reverse_by_several_axes_and_without_a_rank(graph):
    assert_same(both_ways(tg.reverse, [0, -1]))
    with pytest.raises(tg.GraphError, match="needs to know the rank"):
        tg.reverse(tg.placeholder("float32"), tg.placeholder("int32", [1]))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("perm", [[0, 1, 2], [2, 0, 1], [1, -1, 0]])
def test_transpose(perm, known):
    assert_same(both_ways(tg.transpose, perm, known))


def test_transpose_by_an_order_of_which_some_is_known():
    def build(x, n):
        return tg.transpose(x, tg.stack([2, n, 0]) if isinstance(n, tg.Tensor) else [2, n, 0])

    assert_same(both_ways(build, 1))


def test_second_derivatives():
    def slope(x, axis):
        (first,) = tg.gradients(tg.reduce_prod(x * x, axis), [x])
        return first

    assert_same(both_ways(slope, 1))


@pytest.mark.parametrize(
    "build",
    [lambda x, a: tg.reduce_sum(x, a), lambda x, a: tg.argmax(x, a), lambda x, a: tg.transpose(x, tg.stack([a, a, 0]))],
)
def test_axes_that_there_are_not(build):
    with tg.Graph().as_default() as graph:
        x, a = tg.placeholder("float64", X.shape), tg.placeholder("int32", [])
        y = build(x, a)
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError):
        session.run(y, {x: X, a: 3})


def test_what_is_no_axis(graph):
    x = tg.placeholder("float64", X.shape)
    with pytest.raises(tg.DtypeError, match="an axis is an integer"):
        tg.reduce_sum(x, tg.placeholder("float32", []))
    with pytest.raises(tg.ShapeError, match="an axis is a scalar"):
        tg.argmax(x, tg.placeholder("int32", [1]))
    with pytest.raises(tg.ShapeError, match="axes are a vector"):
        tg.reduce_sum(x, tg.placeholder("int32", [1, 1]))


def test_in_a_loop_whose_counter_is_the_axis():
    def body(i, total):
        return i + 1, total + tg.reduce_sum(tg.reduce_max(X, i))

    found = tg.function(lambda: tg.while_loop(lambda i, t: i < 3, body, [0, np.float64(0)])[1]).sync()
    np.testing.assert_allclose(found, sum(X.max(i).sum() for i in range(3)))


A, B = np.random.default_rng(6).standard_normal((2, 2, 3, 4)), np.random.default_rng(7).standard_normal((4, 3, 5))
PAIRS = [0, 1, [[3], [0]], [3, 0], [[2, 3], [1, 0]], [[-1, -2], [0, 1]], [[], []], [[2], [1]]]


@pytest.mark.parametrize("unknown", ["a", "b", "both", "axes", "pair of tensors", "all"])
@pytest.mark.parametrize("axes", PAIRS)
def test_tensordot(axes, unknown):
    with tg.Graph().as_default() as graph:
        a = tg.placeholder("float64", None if unknown in ("a", "both", "all") else A.shape)
        b = tg.placeholder("float64", None if unknown in ("b", "both", "all") else B.shape)
        feeds = {a: A, b: B}
        given = axes
        if unknown in ("axes", "all"):
            given = tg.placeholder("int32", np.shape(axes))
            feeds[given] = np.array(axes, np.int32)
        elif unknown == "pair of tensors" and isinstance(axes, list):
            given = [tg.placeholder("int64", np.shape(each)) for each in axes]
            feeds |= {tensor: np.array(each, np.int64) for tensor, each in zip(given, axes, strict=True)}
        y = tg.tensordot(a, b, given)
        slopes = tg.gradients(y * y, [a, b])
        wanted = tg.tensordot(A, B, axes)
        known = [tg.constant(A), tg.constant(B)]
        z = tg.tensordot(*known, axes)
        wanted_slopes = tg.gradients(z * z, known)
    with tg.SyncSession(graph, settings=ON) as session:
        found, expected = session.run([y, *slopes], feeds), session.run([wanted, *wanted_slopes])
    np.testing.assert_allclose(found[0], np.tensordot(A, B, axes), rtol=1e-10)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_tensordot_of_integers_without_a_rank():
    with tg.Graph().as_default() as graph:
        a = tg.placeholder("int32")
        y = tg.tensordot(a, [[1, 2], [3, 4]], 1)
    with tg.SyncSession(graph) as session:
        assert session.run(y, {a: [10, 1]}).tolist() == [13, 24]


@pytest.mark.parametrize(("axes", "message"), [([[3], [1]], "of one size"), ([[2, 3], [1]], "as many dimensions")])
def test_tensordot_of_sizes_that_differ(axes, message):
    with tg.Graph().as_default() as graph:
        a, b = tg.placeholder("float64"), tg.placeholder("float64")
        y = tg.tensordot(a, b, axes)
    with tg.SyncSession(graph) as session, pytest.raises(tg.OpError, match=message):
        session.run(y, {a: A, b: B})


def test_axes_of_tensordot_that_are_none(graph):
    for axes, error in (
        (tg.placeholder("int32"), tg.ShapeError),
        (tg.placeholder("int32", [3]), tg.GraphError),
        (tg.placeholder("int32", [2, 1, 1]), tg.GraphError),
    ):
        with pytest.raises(error, match="axes of tensordot"):
            tg.tensordot(A, B, axes)
