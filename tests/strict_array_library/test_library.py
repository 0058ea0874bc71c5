"""The stand-in for CuPy refuses what CuPy refuses; where CuPy is installed, what it has is compared with that."""

import inspect

import numpy as np
import pytest

from tests.strict_array_library.library import CUPYX, WAITS, Array, xp
from tests.strict_array_library.names import FUNCTIONS, LINALG, LOOPS, TYPES

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda x: np.asarray(x),
        lambda x: x + X,
        lambda x: X + x,
        lambda x: xp.add(x, X),
        lambda x: np.add(x, X),
        lambda x: xp.where(X > 1, x, x),
        lambda x: xp.concatenate([x, X]),
        lambda x: xp.sum(X),
        lambda x: x[np.array([0, 1])],
        lambda x: x[[0, 1]],
        lambda x: xp.zeros(x),
        lambda x: xp.sum(x, where=x > 1),
        lambda x: xp.sum(x, 0, np.float64, None, True, 0),
        lambda x: xp.bitwise_and(x, x),
        lambda x: xp.arctan2(x.astype(np.complex64), 1),
        lambda x: xp.zeros(2, np.dtypes.StringDType()),
        lambda x: xp.asarray(np.array(["a"], object)),
        lambda x: x.astype("bfloat16"),
        lambda x: xp.add.at(x.astype(np.int64), xp.asarray(0), 1),
        lambda x: np.add.at(x, xp.asarray(0), 1),
        lambda x: {x: 1},
    ],
)
def test_it_refuses(misuse):
    with pytest.raises(TypeError):
        misuse(xp.asarray(X))


def test_it_has_no_more_names_than_cupy():
    with pytest.raises(AttributeError, match="no attribute 'errstate'"):
        xp.errstate  # noqa: B018


def test_functions_and_operators_of_numpy_reach_it():
    x = xp.asarray(X)
    for found, wanted in (
        (np.float32(2) * x, 2 * X),
        (np.exp(x), np.exp(X)),
        (np.stack([x, x]), np.stack([X, X])),
        (1 - x, 1 - X),
        (np.matmul(x, x.T), X @ X.T),
    ):
        assert isinstance(found, Array)
        np.testing.assert_array_equal(found.get(), wanted)


def test_results_are_arrays_also_where_numpy_has_scalars():
    x = xp.asarray(X)
    assert all(isinstance(y, Array) and y.shape == () for y in (x[0, 0], x.sum(), xp.max(x), x.real[1, 1]))


def test_it_notes_when_the_host_waits():
    WAITS.reasons.clear()
    x = xp.asarray(X)
    (x + 1)[:, 1:].reshape(-1).sum()
    assert WAITS.reasons == []
    _ = bool(x[0, 0]), int(x[0, 0]), x.tolist(), x[x > 1], x.get(), xp.nonzero(x)
    assert WAITS.reasons == ["bool", "int", "tolist", "mask", "get", "nonzero"]


def test_what_fails_in_linear_algebra_is_noticed_where_that_is_asked_for():
    x = xp.asarray(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="errstate"):
        xp.linalg.inv(x)
    WAITS.reasons.clear()
    with CUPYX.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
        xp.linalg.inv(x)
    assert xp.linalg.det(x).shape == ()
    assert WAITS.reasons == ["linalg"]
    with pytest.raises(AttributeError, match=r"cupy\.linalg has no"):
        xp.linalg.cond  # noqa: B018
    with pytest.raises(TypeError, match="float32"):
        xp.linalg.det(x.astype(np.int32))


def test_its_names_are_cupys():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; it can be imported without a GPU")
    for name, loops in LOOPS.items():
        theirs = same_dtype_loops(getattr(cupy, name))
        assert all(any(np.can_cast(loop, other) for other in theirs) for loop in loops), name
    for name, words in FUNCTIONS.items():
        if name != "matmul":  # a generalised universal function, which has no signature
            assert parameters(getattr(cupy, name)) == words, name
    for name, words in LINALG.items():
        assert parameters(getattr(cupy.linalg, name)) == words, name
    assert all(getattr(cupy, name) is getattr(np, name) for name in TYPES)


def same_dtype_loops(ufunc):
    """Return the dtypes that all operands of a loop have."""
    operands = {loop.split("->")[0] for loop in ufunc.types}
    return [loop[0] for loop in operands if len(set(loop)) == 1]


def parameters(function):
    given, by_name = [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not by_name:
            given.append("*")
            by_name = True
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            given.append(name)
    return " ".join(given)
