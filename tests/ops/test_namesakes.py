"""Functions that share a name, or a meaning, with one of NumPy's: the same values, or a difference that the docs tell.

What differs is TensorFlow's meaning, which tests/peers/families/namesakes.py checks; docs/differences.md lists it.
"""

import numpy as np
import pytest
import tagloom as tg

X = np.array([[3.0, -1.0, 2.0], [0.5, 2.5, -2.5]])
I, J = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
N = np.array([1.0, np.nan, -np.inf, 0.0])
V = np.array([3, 1, 2, 3, 1])
HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5])
EMPTY = np.zeros((2, 0))

SAME = {  # what tagloom computes, and NumPy
    "abs of the least": (lambda: tg.abs(np.int8([-128])), lambda: np.abs(np.int8([-128]))),
    "all of nothing": (lambda: tg.reduce_all(EMPTY.astype(bool), 1), lambda: np.all(EMPTY, 1)),
    "angle": (lambda: tg.angle(np.array([1j, -1])), lambda: np.angle(np.array([1j, -1]))),
    "argmax, ties": (lambda: tg.argmax(V, 0), lambda: np.argmax(V)),
    "argmax, NaN": (lambda: tg.argmax(N, 0), lambda: np.argmax(N)),
    "argmin, NaN": (lambda: tg.argmin(N, 0), lambda: np.argmin(N)),
    "argsort, ties": (lambda: tg.argsort(V), lambda: np.argsort(V, kind="stable")),
    "argsort down, ties": (lambda: tg.argsort(V, direction="DESCENDING"), lambda: np.argsort(-V, kind="stable")),
    "bincount": (lambda: tg.bincount(V), lambda: np.bincount(V)),
    "bitcast": (lambda: tg.bitcast(np.float32([1.0]), "int32"), lambda: np.float32([1.0]).view("int32")),
    "cast to integers": (lambda: tg.cast(np.array([1.7, -1.7]), "int32"), lambda: np.array([1, -1])),
    "cast around": (lambda: tg.cast(np.array([300]), "uint8"), lambda: np.array([300]).astype("uint8")),
    "clip, NaN": (lambda: tg.clip_by_value(N, -1.0, 1.0), lambda: np.clip(N, -1.0, 1.0)),
    "count_nonzero": (lambda: tg.count_nonzero(X), lambda: np.count_nonzero(X)),
    "cross": (lambda: tg.cross(X, X[::-1]), lambda: np.cross(X, X[::-1])),
    "cumsum along": (lambda: tg.cumsum(X, 1), lambda: np.cumsum(X, 1)),
    "cumsum, exclusive": (lambda: tg.cumsum(V, exclusive=True), lambda: np.cumsum(V) - V),
    "cumsum, reverse": (lambda: tg.cumsum(V, reverse=True), lambda: np.cumsum(V[::-1])[::-1]),
    "cumsum, both": (lambda: tg.cumsum(V, 0, True, True), lambda: np.cumsum(V[::-1])[::-1] - V),
    "diag": (lambda: tg.diag(V), lambda: np.diag(V)),
    "divide by zero": (lambda: tg.divide(np.array([1.0, 0.0]), 0.0), lambda: np.array([np.inf, np.nan])),
    "einsum": (lambda: tg.einsum("ij,kj", X, X), lambda: np.einsum("ij,kj", X, X)),
    "eye": (lambda: tg.eye(3, 2), lambda: np.eye(3, 2)),
    "fft": (lambda: tg.fft(X.astype(complex)), lambda: np.fft.fft(X)),
    "floordiv": (lambda: tg.floordiv(I, J), lambda: np.floor_divide(I, J)),
    "floormod": (lambda: tg.floormod(X, -2.0), lambda: np.mod(X, -2.0)),
    "hamming_window, not periodic": (lambda: tg.hamming_window(4, periodic=False), lambda: np.hamming(4)),
    "histogram": (lambda: tg.histogram_fixed_width(X, [-3.0, 3.0], 4), lambda: np.histogram(X, 4, (-3, 3))[0]),
    "left_shift too far": (
        lambda: tg.left_shift(np.int32([1]), np.int32([40])),
        lambda: np.left_shift(np.int32([1]), np.int32([40])),
    ),
    "l2_loss": (lambda: tg.l2_loss(X), lambda: (X**2).sum() / 2),
    "linspace": (lambda: tg.linspace(0.0, 1.0, 5), lambda: np.linspace(0, 1, 5)),
    "logsumexp of nothing": (lambda: tg.reduce_logsumexp(np.full((2, 2), -np.inf), 1), lambda: np.full(2, -np.inf)),
    "maximum, NaN": (lambda: tg.maximum(N, 0.5), lambda: np.maximum(N, 0.5)),
    "mean of nothing": (lambda: tg.reduce_mean(EMPTY, 1), lambda: np.full(2, np.nan)),
    "meshgrid": (lambda: tg.meshgrid(V[:2], V), lambda: np.meshgrid(V[:2], V)),
    "minimum, NaN": (lambda: tg.minimum(N, 0.5), lambda: np.minimum(N, 0.5)),
    "mod": (lambda: tg.mod(I, J), lambda: np.mod(I, J)),
    "moments": (lambda: tg.moments(X, [0]), lambda: [X.mean(0), X.var(0)]),
    "norm": (lambda: tg.norm(X), lambda: np.linalg.norm(X)),
    "norm, infinity": (lambda: tg.norm(X[0], np.inf), lambda: np.linalg.norm(X[0], np.inf)),
    "norm, 0": (lambda: tg.norm(X[0], 0), lambda: np.linalg.norm(X[0], 0)),
    "norm of matrices": (lambda: tg.norm(X, 2, axis=(0, 1)), lambda: np.linalg.norm(X, 2)),
    "pad, reflect": (lambda: tg.pad(X, [[1, 1], [0, 2]], "REFLECT"), lambda: np.pad(X, [[1, 1], [0, 2]], "reflect")),
    "pad, symmetric": (
        lambda: tg.pad(X, [[1, 1], [0, 2]], "SYMMETRIC"),
        lambda: np.pad(X, [[1, 1], [0, 2]], "symmetric"),
    ),
    "pow of integers": (lambda: tg.pow(I, 2), lambda: np.power(I, 2)),
    "pow, no real root": (lambda: tg.pow(np.array([-8.0]), 1 / 3), lambda: np.array([np.nan])),
    "qr": (lambda: tg.qr(X.T), lambda: list(np.linalg.qr(X.T))),
    "range of floats": (lambda: tg.range(0.0, 1.0, 0.3), lambda: np.arange(0.0, 1.0, 0.3)),
    "reduce_max, NaN": (lambda: tg.reduce_max(N), lambda: np.max(N)),
    "repeat": (lambda: tg.repeat(X, 2), lambda: np.repeat(X, 2)),
    "repeat along": (lambda: tg.repeat(X, [1, 2], axis=0), lambda: np.repeat(X, [1, 2], axis=0)),
    "reverse": (lambda: tg.reverse(X, [1]), lambda: np.flip(X, [1])),
    "rint, halves": (lambda: tg.rint(HALVES), lambda: np.rint(HALVES)),
    "roll": (lambda: tg.roll(X, [1, 1], [0, 1]), lambda: np.roll(X, [1, 1], [0, 1])),
    "round, halves": (lambda: tg.round(HALVES), lambda: np.round(HALVES)),
    "saturate_cast": (lambda: tg.saturate_cast(np.array([300, -1]), "uint8"), lambda: np.array([255, 0])),
    "searchsorted": (lambda: tg.searchsorted(np.sort(V), [2, 3]), lambda: np.searchsorted(np.sort(V), [2, 3])),
    "sign": (lambda: tg.sign(N), lambda: np.sign(N)),
    "sign, complex": (lambda: tg.sign(np.array([3 + 4j])), lambda: np.sign(np.array([3 + 4j]))),
    "sort, NaN": (lambda: tg.sort(N), lambda: np.sort(N)),
    "sort down": (lambda: tg.sort(X, direction="DESCENDING"), lambda: -np.sort(-X)),
    "split": (lambda: tg.split(X, 3, 1), lambda: np.split(X, 3, 1)),
    "square around": (lambda: tg.square(np.int8([100])), lambda: np.square(np.int8([100]))),
    "squeeze": (lambda: tg.squeeze(X[None, :, None]), lambda: X),
    "std, all elements": (lambda: tg.reduce_std(X), lambda: np.std(X)),
    "svd": (lambda: tg.svd(X, compute_uv=False), lambda: np.linalg.svd(X, compute_uv=False)),
    "tensordot": (lambda: tg.tensordot(X[0], X[0], 0), lambda: np.tensordot(X[0], X[0], 0)),
    "tile": (lambda: tg.tile(X, [2, 1]), lambda: np.tile(X, [2, 1])),
    "top_k, ties": (lambda: tg.top_k(np.array([1, 3, 3, 2]), 2), lambda: [np.array([3, 3]), np.array([1, 2])]),
    "transpose": (lambda: tg.transpose(X[None]), lambda: X[None].T),
    "unravel_index": (lambda: tg.unravel_index([3, 4], [2, 3]), lambda: np.stack(np.unravel_index([3, 4], [2, 3]))),
    "variance along": (lambda: tg.reduce_variance(X, 1), lambda: np.var(X, 1)),
    "x % y": (lambda: tg.constant(I) % J, lambda: I % J),
    "x // y": (lambda: tg.constant(I) // J, lambda: I // J),
    "x.argmax()": (lambda: tg.constant(X).argmax(), lambda: X.argmax()),
    "x.cumsum()": (lambda: tg.constant(X).cumsum(), lambda: X.cumsum()),
    "x.max(1)": (lambda: tg.constant(X).max(1), lambda: X.max(1)),
    "x.std()": (lambda: tg.constant(X).std(), lambda: X.std()),
    "x.transpose(...)": (lambda: tg.constant(X[None]).transpose(2, 0, 1), lambda: X[None].transpose(2, 0, 1)),
    "x.flatten()": (lambda: tg.constant(X).flatten(), lambda: X.flatten()),
    "x @ vector": (lambda: tg.constant(X) @ X[0], lambda: X @ X[0]),
}
OTHER = {  # what tagloom computes, what that is, and NumPy
    "argmax": (lambda: tg.argmax(X), [0, 1, 0], lambda: np.argmax(X)),
    "clip, bounds in the wrong order": (
        lambda: tg.clip_by_value(X[0], 2.0, 1.0),
        [2, 2, 2],
        lambda: np.clip(X[0], 2, 1),
    ),
    "cumsum": (lambda: tg.cumsum(X), np.cumsum(X, 0), lambda: np.cumsum(X)),
    "cumprod": (lambda: tg.cumprod(X), np.cumprod(X, 0), lambda: np.cumprod(X)),
    "diag of a matrix": (lambda: tg.diag(np.ones((1, 2))), np.eye(2)[None, :, None], lambda: np.diag(np.ones((1, 2)))),
    "hamming_window": (lambda: tg.hamming_window(4), np.hamming(5)[:4], lambda: np.hamming(4)),
    "norm": (lambda: tg.norm(X, 1), np.abs(X).sum(), lambda: np.linalg.norm(X, 1)),
    "prod of int32": (
        lambda: tg.reduce_prod(np.int32([10**5, 10**5])),
        10**10 % 2**32,
        lambda: np.prod(np.int32([10**5] * 2)),
    ),
    "setdiff1d": (lambda: tg.setdiff1d(V, [1])[0], [3, 2, 3], lambda: np.setdiff1d(V, [1])),
    "split": (lambda: tg.split(X, [1, 2], 1), [X[:, :1], X[:, 1:]], lambda: np.split(X, [1, 2], 1)),
    "sum of int8": (lambda: tg.reduce_sum(np.int8([100, 100])), -56, lambda: np.sum(np.int8([100, 100]))),
    "take": (lambda: tg.gather(X, [1, 0]), X[[1, 0]], lambda: np.take(X, [1, 0])),
    "trace": (lambda: tg.trace(np.ones((2, 3, 3))), [3, 3], lambda: np.trace(np.ones((2, 3, 3)))),
    "unique": (lambda: tg.unique(V)[0], [3, 1, 2], lambda: np.unique(V)),
    "where": (lambda: tg.where(X > 2), [[0, 0], [1, 1]], lambda: np.where(X > 2)),
}
REFUSED = {  # what NumPy has a value for, and the error with a hint
    "any of numbers": (lambda: tg.reduce_any(X), tg.DtypeError),
    "angle of real numbers": (lambda: tg.angle(X), tg.DtypeError),
    "divide of integers": (lambda: tg.divide(I, J), tg.DtypeError),
    "floordiv of integers by zero": (lambda: tg.floordiv(I, 0), tg.OpError),
    "index from the end": (lambda: tg.gather(X, [-1]), tg.OpError),
    "matmul of a vector": (lambda: tg.matmul(X, X[0]), tg.ShapeError),
    "maximum of nothing": (lambda: tg.reduce_max(EMPTY, 1), tg.OpError),
    "mean of integers": (lambda: tg.reduce_mean(V), tg.DtypeError),
    "pad by one number": (lambda: tg.pad(X, 1), tg.ShapeError),
    "pad, edge": (lambda: tg.pad(X, [[1, 1], [0, 2]], "edge"), tg.GraphError),
    "pow by a negative integer": (lambda: tg.pow(I, -1), tg.OpError),
    "sqrt of integers": (lambda: tg.sqrt(I), tg.DtypeError),
    "sum of booleans": (lambda: tg.reduce_sum(X > 0), tg.DtypeError),
    "tile by fewer numbers": (lambda: tg.tile(X, [2]), tg.ShapeError),
}


def values(functions):
    """Return what all functions build, in one graph and one step."""
    with tg.Graph().as_default() as graph:
        fetches = {name: function() for name, function in functions.items()}
    with tg.SyncSession(graph) as session:
        return session.run(fetches)


def alike(ours, theirs):
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, (list, tuple)):
        return False
    if isinstance(theirs, tuple):
        return False
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return ours.shape == theirs.shape and np.allclose(ours, theirs, equal_nan=True)


@pytest.fixture(scope="module")
def found():
    """The values of all of SAME and OTHER."""
    return values({("same", n): f for n, (f, _) in SAME.items()} | {("other", n): row[0] for n, row in OTHER.items()})


@pytest.mark.parametrize("name", SAME)
def test_it_is_what_numpy_computes(found, name):
    with np.errstate(all="ignore"):
        wanted = SAME[name][1]()
    assert alike(found["same", name], wanted), (found["same", name], wanted)


@pytest.mark.parametrize("name", OTHER)
def test_it_differs_from_numpy_as_the_docs_say(found, name):
    _, wanted, numpys = OTHER[name]
    assert alike(found["other", name], wanted), (found["other", name], wanted)
    assert not alike(found["other", name], numpys())


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_hint(name):
    function, kind = REFUSED[name]
    with pytest.raises(kind) as caught:
        tg.function(function).sync()
    assert caught.value.hint
