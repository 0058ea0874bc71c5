"""map_fn by batches: the results of map_fn element by element, for all numbers of elements."""

import numpy as np
import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("graph")

NUMBERS = [0, 1, 2, 3, 6, 7]


def formula(x):
    return tg.sin(x) * tg.reduce_sum(x)


def loop_of_own_length(element):
    x, n = element["x"], element["n"]
    y = tg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tg.tanh(y + x)), [0, tg.zeros_like(x)])[1]
    return {"y": y, "n": tg.cast(n, "float32") + tg.reduce_max(x)}


def fed(array, is_known):
    # map_fn itself knows no shape of no elements that come from loops
    rest = [None] * (array.ndim - 1) if len(array) else array.shape[1:]
    shape = array.shape if is_known else [None, *rest]
    return tg.placeholder_with_default(tg.constant(array), shape)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("batch_size", [1, 3, 4, 100])
@pytest.mark.parametrize("n", NUMBERS)
def test_results_and_gradients_are_those_of_element_by_element(run, n, batch_size, is_known):
    x = fed(np.random.default_rng(n).normal(size=(n, 2)).astype("float32"), is_known)
    counts = fed(np.arange(n, dtype="int32") % 3, is_known)
    found = []
    for size in (batch_size, None):
        y = tg.map_fn(formula, x, batch_size=size)
        kinds = {"y": "float32", "n": "float32"}
        z = tg.map_fn(loop_of_own_length, {"x": x, "n": counts}, dtype=kinds, batch_size=size)
        gradients = tg.gradients(tg.reduce_sum(y * y) + tg.reduce_sum(z["y"] * z["y"]), [x])
        found.append([y, z["y"], z["n"], *gradients])
    ours, wanted = run(found)
    for one, other in zip(ours, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


def test_elements_of_no_width(run):
    x = fed(np.zeros((5, 0), "float32"), False)
    assert run(tg.map_fn(lambda x: x + 1.0, x, batch_size=2)).shape == (5, 0)


def test_the_function_is_called_once_for_equal_batches():
    calls = []
    tg.map_fn(lambda x: calls.append(x) or x, tg.zeros([6, 2]), batch_size=3)
    assert len(calls) == 1
    tg.map_fn(lambda x: calls.append(x) or x, tg.zeros([7, 2]), batch_size=3)
    assert len(calls) == 3


@pytest.mark.parametrize("size", [0, -1, True, 2.5, "all"])
def test_sizes_of_batches_are_positive_integers(size):
    with pytest.raises(tg.GraphError, match="batches of one or more elements"):
        tg.map_fn(lambda x: x, tg.range(4), batch_size=size)


def test_what_batches_cannot_be_of():
    sparse = tg.SparseTensor([[0, 1]], [2.0], [3, 2])
    with pytest.raises(tg.GraphError, match="no batches of sparse tensors"):
        tg.map_fn(lambda x: x, sparse, batch_size=2)
    with pytest.raises(tg.GraphError, match="another structure"):
        tg.map_fn(lambda x: (x, x), tg.range(4), batch_size=2)
    with pytest.raises(tg.DtypeError, match="another dtype"):
        tg.map_fn(lambda x: tg.cast(x, "float64"), tg.range(4), batch_size=2)
    variable = tg.Variable(0.0)
    with pytest.raises(tg.VectorizationError):
        tg.map_fn(lambda x: variable.assign_add(x), tg.zeros([4]), batch_size=2)
    with pytest.raises(tg.ShapeError, match="different numbers of elements"):
        tg.map_fn(lambda e: e[0] + e[1], (tg.zeros([4]), tg.zeros([3])), dtype="float32", batch_size=2)
