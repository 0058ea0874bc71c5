"""Functions that leave 0 as it is take sparse tensors; others refuse them."""

import numpy as np
import pytest
import scipy.special
import tagloom as tg

FUNCTIONS = {
    "abs": np.abs,
    "negative": np.negative,
    "sign": np.sign,
    "square": np.square,
    "sqrt": np.sqrt,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "erf": scipy.special.erf,
    "erfinv": scipy.special.erfinv,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "sin": np.sin,
    "tan": np.tan,
    "asin": np.arcsin,
    "atan": np.arctan,
    "sinh": np.sinh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
}
DENSE = np.array([[0, 0.25, 0], [0.75, 0, 0.5]])
PLACES = np.argwhere(DENSE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    f = getattr(tg, name)
    with tg.Graph().as_default() as graph:
        values = tg.placeholder("float64", [3])
        y = f(tg.SparseTensor(PLACES, values, DENSE.shape))
        assert isinstance(y, tg.SparseTensor)
        dense, alone = tg.sparse_tensor_to_dense(y), f(values)
        slopes = [tg.convert_to_tensor(tg.gradients(t, values)[0]) for t in (dense, alone)]
    with tg.SyncSession(graph) as session:
        found, *both = session.run([dense, *slopes], {values: DENSE[DENSE != 0]})
    np.testing.assert_allclose(found, FUNCTIONS[name](DENSE), rtol=1e-12)
    np.testing.assert_allclose(*both)


@pytest.mark.parametrize("name", ["exp", "cos", "log", "sigmoid", "reciprocal"])
def test_functions_that_fill_a_tensor_are_refused(graph, name):
    x = tg.SparseTensor([[0, 1]], [1.0], [2, 2])
    with pytest.raises(tg.TagloomError):
        getattr(tg, name)(x)


@pytest.mark.parametrize("norm", [0.1, 5.0])
def test_clip_by_average_norm(norm):
    x = np.array([[3.0, 0.0], [4.0, 0.0]])
    found = tg.function(lambda: tg.clip_by_average_norm(x, norm)).sync()
    np.testing.assert_allclose(found, x * min(1, norm * 4 / 5))
    assert tg.function(lambda: tg.clip_by_average_norm(np.zeros(3), 1.0)).sync().tolist() == [0, 0, 0]
