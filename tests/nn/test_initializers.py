"""Initial values: their moments and limits, which shapes they are made for, and by which names."""

import math

import numpy as np
import pytest
import tagloom as tg
from tagloom.nn.by_name import as_initializer

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def value(initializer, shape, dtype=None):
    graph = tg.get_default_graph()
    made = initializer(shape, dtype)
    assert made.shape == tg.Shape(shape)
    with tg.SyncSession(graph) as session:
        return session.run(made)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint16", "int64", "bool", "complex64"])
def test_constants_are_of_the_dtype_asked_for(dtype):
    one = dtype == "bool" or 1
    for make, wanted in (
        (tg.nn.zeros_initializer(), 0),
        (tg.nn.ones_initializer(), 1),
        (tg.nn.constant_initializer(one), 1),
        (tg.nn.constant_initializer([[one, one, one]]), 1),
    ):
        found = value(make, [3], dtype)
        assert found.dtype == tg.as_dtype(dtype).numpy
        np.testing.assert_array_equal(found, np.broadcast_to(np.asarray(wanted), 3).astype(found.dtype))


def test_an_initializer_has_a_dtype_of_its_own():
    assert value(tg.nn.ones_initializer("int32"), []).dtype == np.int32
    assert tg.Variable(tg.nn.ones_initializer("int32"), shape=[2]).dtype is tg.int32
    assert tg.Variable(tg.nn.ones_initializer("int32"), shape=[2], dtype="float64").dtype is tg.float64
    assert value(tg.nn.zeros_initializer(), [0, 3]).shape == (0, 3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_draws_have_the_moments_asked_for(dtype):
    normal = value(tg.nn.random_normal_initializer(2.0, 0.5), [4000], dtype).astype(float)
    cut = value(tg.nn.truncated_normal_initializer(2.0, 0.5), [4000], dtype).astype(float)
    uniform = value(tg.nn.random_uniform_initializer(1.0, 3.0), [4000], dtype).astype(float)
    assert [abs(x.mean() - 2.0) < 0.05 for x in (normal, cut, uniform)] == [True] * 3
    assert abs(normal.std() - 0.5) < 0.03
    assert abs(cut - 2.0).max() <= 1.0 + 1e-2
    assert abs(uniform.std() - 2 / math.sqrt(12)) < 0.03


FANS = {  # of a shape: inputs and outputs
    (400,): (400, 400),
    (40, 90): (40, 90),
    (3, 5, 8, 20): (120, 300),
}
SCALED = {
    "glorot_uniform": (1.0, "avg", True),
    "glorot_normal": (1.0, "avg", False),
    "he_uniform": (2.0, "in", True),
    "he_normal": (2.0, "in", False),
    "lecun_uniform": (1.0, "in", True),
    "lecun_normal": (1.0, "in", False),
}


@pytest.mark.parametrize("shape", list(FANS))
@pytest.mark.parametrize("name", SCALED)
def test_variances_are_scaled_by_inputs_and_outputs(name, shape):
    scale, which, is_uniform = SCALED[name]
    fan_in, fan_out = FANS[shape]
    variance = scale / {"avg": (fan_in + fan_out) / 2, "in": fan_in}[which]
    found = value(getattr(tg.nn, f"{name}_initializer")(), shape)
    assert abs(found.mean()) < 6 * math.sqrt(variance / found.size)
    assert found.var() == pytest.approx(variance, rel=0.25)
    limit = math.sqrt(3 * variance) if is_uniform else 2 * math.sqrt(variance) / 0.8796
    assert limit * 0.9 < abs(found).max() <= limit * (1 + 1e-6)


@pytest.mark.parametrize(("mode", "n"), [("fan_in", 40), ("fan_out", 90), ("fan_avg", 65)])
@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "untruncated_normal", "uniform"])
def test_variance_scaling(mode, n, distribution):
    found = value(tg.nn.variance_scaling_initializer(3.0, mode, distribution), [40, 90])
    assert found.var() == pytest.approx(3 / n, rel=0.15)
    ratio = abs(found).max() / math.sqrt(3 / n)
    assert {"uniform": ratio <= 1.7321, "untruncated_normal": ratio > 2.5}.get(distribution, 2 < ratio <= 2.2738)


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 3, 4), (1, 6), (0, 3)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_orthogonal_matrices(shape, dtype):
    found = value(tg.nn.orthogonal_initializer(2.0), shape, dtype).astype(float)
    flat = found.reshape(math.prod(shape[:-1]), shape[-1])
    flat = flat if flat.shape[0] >= flat.shape[1] else flat.T
    tolerance = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(flat.T @ flat, 4 * np.eye(flat.shape[1]) if flat.size else 0, atol=tolerance)


def test_orthogonal_matrices_have_no_preferred_sign():
    found = value(tg.nn.orthogonal_initializer(), [200, 1])
    signs = [value(tg.nn.orthogonal_initializer(seed=i), [1, 1]).item() for i in range(40)]
    assert abs(found.mean()) < 0.02
    assert sorted(set(signs)) == [-1.0, 1.0]


def test_filters_with_an_orthogonal_middle():
    found = value(tg.nn.delta_orthogonal_initializer(3.0), [3, 4, 2, 5], "float64")
    np.testing.assert_allclose(found[1, 1] @ found[1, 1].T, 9 * np.eye(2), atol=1e-12)
    found[1, 1] = 0
    assert not found.any()


def test_identity():
    np.testing.assert_array_equal(value(tg.nn.identity_initializer(3.0), [2, 3], "float64"), 3 * np.eye(2, 3))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("orthogonal", [3]), ("identity", [2, 2, 2]), ("delta_orthogonal", [2, 2]), ("delta_orthogonal", [3, 3, 4, 2])],
)
def test_shapes_that_they_are_not_made_for(name, shape):
    with pytest.raises(tg.ShapeError, match="try"):
        as_initializer(name)(shape)


@pytest.mark.parametrize("given", [{"scale": 0.0}, {"mode": "fan"}, {"distribution": "cauchy"}])
def test_variance_scaling_of_what_there_is_not(given):
    with pytest.raises(tg.GraphError):
        tg.nn.variance_scaling_initializer(**given)


def test_seeds():
    with_seed = [value(tg.nn.glorot_uniform_initializer(seed=3), [4, 4]) for _ in range(2)]
    without = [value(tg.nn.glorot_uniform_initializer(), [4, 4]) for _ in range(2)]
    assert (with_seed[0] == with_seed[1]).all()
    assert (without[0] != without[1]).any()
    tg.set_random_seed(5)
    assert (value(tg.nn.glorot_uniform_initializer(seed=3), [4, 4]) != with_seed[0]).any()


NAMES = [n.removesuffix("_initializer") for n in tg.nn.__all__ if n.endswith("_initializer")]


@pytest.mark.parametrize("name", NAMES)
def test_by_name(name):
    assert value(as_initializer(name), [3, 4], "float64").shape == (3, 4) if name != "delta_orthogonal" else True


def test_no_such_name():
    with pytest.raises(tg.GraphError, match="no initializer of this name") as caught:
        as_initializer("xavier")
    assert "glorot_uniform" in str(caught.value)


class TestOfVariables:
    def test_a_function_of_shape_and_dtype(self):
        seen = []

        def make(shape, dtype):
            seen.append((shape, dtype))
            return tg.zeros(shape, dtype)

        assert tg.Variable(make, shape=[2], dtype="float64").dtype is tg.float64
        assert tg.Variable(make, shape=[3]).shape == [3]
        assert seen == [([2], tg.float64), ([3], tg.float32)]

    def test_a_function_of_a_shape(self):
        assert tg.Variable(lambda shape: np.ones(shape), shape=[2, 3], dtype="float64").shape == [2, 3]

    def test_a_function_of_nothing(self):
        assert tg.Variable(lambda: np.ones(2, np.float32), shape=[None]).shape == [None]

    def test_without_a_shape(self):
        with pytest.raises(tg.GraphError, match=r"none is given[\s\S]*shape=\[2, 3\]"):
            tg.Variable(tg.nn.ones_initializer())
        with pytest.raises(tg.ShapeError, match="not fully known"):
            tg.Variable(tg.nn.ones_initializer(), shape=[None])


def test_a_public_function_may_be_an_initializer(start):
    layer = tg.nn.Dense(2, kernel_initializer=tg.ones, input_size=3, dtype="float64")
    w = tg.compat.tf1.get_variable("w", [2], "int32", tg.zeros)
    kernel, zeros = start([layer.kernel, w])
    assert (kernel.dtype, kernel.tolist()) == (np.float64, [[1, 1]] * 3)
    assert (zeros.dtype, zeros.tolist()) == (np.int32, [0, 0])
