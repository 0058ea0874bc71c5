"""What users of NumPy, JAX and PyTorch write as operators, attributes and methods of arrays."""

import numpy as np
import pytest
import tagloom as tg

X = np.float32([[1.5, -2.5, 3.0], [0.5, 2.5, -1.0]])
N = np.int32([5, -7, 12])

CASES = {
    "T": lambda x: x.T,
    "T of rank 3": lambda x: x[None].T,
    "reshape to sizes": lambda x: x.reshape(3, 2),
    "reshape to a list": lambda x: x.reshape([2, -1]),
    "reshape to one size": lambda x: x.reshape(-1),
    "astype": lambda x: x.astype("int32"),
    "newaxis": lambda x: x[:, tg.newaxis],
    "left shift": lambda x: x.astype("int32") << 2,
    "right shift": lambda x: x.astype("int32") >> 1,
    "divmod": lambda x: divmod(x, 2)[0] + divmod(x, 2)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_they_mean_what_they_mean_in_numpy(run, name):
    wanted = CASES[name](X)
    for x in (tg.constant(X), tg.placeholder_with_default(tg.constant(X), None)):
        np.testing.assert_array_equal(run(CASES[name](x)), wanted)


def test_the_other_way_round(run):
    n = tg.constant(N)
    found = run([3 << tg.abs(n), 1000 >> tg.abs(n), *divmod(100, n)])
    for got, wanted in zip(found, [3 << np.abs(N), 1000 >> np.abs(N), *divmod(np.int32(100), N)], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_rounding_is_to_even(run):
    assert run(round(tg.constant([0.5, 1.5, -2.5]))).tolist() == [0.0, 2.0, -2.0]


def test_variables_have_them_too(run):
    w = tg.Variable(X)
    assert (w.ndim, w.T.shape, w.reshape(6).shape, w.astype("float64").dtype) == (2, [3, 2], [6], "float64")


def test_ndim_is_known_or_none():
    assert [tg.placeholder("float32", shape).ndim for shape in ([], [None, 2], None)] == [0, 2, None]


@pytest.mark.parametrize("refused", [lambda x: f"{x:.3f}", lambda x: round(x, 2), lambda x: f"{x:d}"])
def test_what_needs_a_value_is_refused(refused):
    with pytest.raises(tg.GraphError, match="a symbolic tensor"):
        refused(tg.constant(1.0))


def test_a_format_without_digits_shows_the_tensor():
    x = tg.constant(1.0, name="x")
    assert f"{x}" == str(x) == "<Tensor x:0 float32[]>"
