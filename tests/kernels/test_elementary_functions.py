"""Our own exp and tanh: how exact they are, and that an element's bits depend on nothing but the element."""

from pathlib import Path

import numpy as np
import pytest
import tagloom as tg
from tagloom.kernels.elementary.functions import OWN, elementary_function, with_vectors_of

pytestmark = pytest.mark.skipif(not OWN, reason="needs a processor with AVX2 and FMA")

HAS_AVX_512 = " avx512f" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False
TYPES = [np.float32, np.float64]
WORST = {"exp": 0.7, "tanh": 2.0}  # units in the last place
ENDS = {"exp": {np.float32: (-87, 88.7), np.float64: (-708, 709.7)}, "tanh": dict.fromkeys(TYPES, (-25, 25))}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1000.0, -1000.0, 1e-40, -1e-40, 1e30, -1e30]


def values(name, dtype):
    """Return numbers of all sizes for which a function is a normal number."""
    rng = np.random.default_rng(0)
    low, high = ENDS[name][dtype]
    small = np.exp(rng.uniform(-30, 3, 100_000)) * rng.choice([-1, 1], 100_000)
    found = np.concatenate([rng.uniform(low, high, 100_000), rng.uniform(-1, 1, 100_000), small])
    return found[(found >= low) & (found <= high)].astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WORST)
def test_results_are_within_units_in_the_last_place(name, dtype):
    x = values(name, dtype)
    expected = getattr(np, name)(x.astype(np.longdouble))
    unit = np.spacing(np.abs(expected.astype(dtype))).astype(np.longdouble)
    assert np.max(np.abs(OWN[name](x) - expected) / unit) < WORST[name]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WORST)
def test_special_values_are_numpys(name, dtype):
    x = np.array(SPECIAL, dtype)
    with np.errstate(over="ignore", under="ignore"):
        expected = getattr(np, name)(x)
    with np.errstate(all="raise"):  # nothing is said of results that are too large, as kernels in C say nothing
        found = OWN[name](x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[:4], np.signbit(expected)[:4])


@pytest.mark.parametrize("dtype", TYPES)
def test_exp_ends_in_subnormal_numbers_and_infinity(dtype):
    ends = {np.float32: [-87.5, -95, -103.9, -104.1, 88.8], np.float64: [-708.5, -740, -745.1, -745.2, 709.8]}
    x = np.array(ends[dtype], dtype)
    with np.errstate(all="ignore"):
        expected = np.exp(x.astype(np.longdouble)).astype(dtype)
    least = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(OWN["exp"](x), expected, rtol=np.finfo(dtype).eps, atol=least)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WORST)
def test_bits_do_not_depend_on_where_an_element_is(name, dtype):
    own, rng = OWN[name], np.random.default_rng(1)
    for count in [*range(1, 40), 63, 64, 65, 200]:
        x = (3 * rng.standard_normal(count)).astype(dtype)
        alone = np.array([own(e) for e in x], dtype)
        column = np.zeros((count, 2), dtype)
        own(x, out=column[:, 1])
        np.testing.assert_array_equal(own(x), alone)
        np.testing.assert_array_equal(own(x[::-1]), alone[::-1])
        np.testing.assert_array_equal(own(x[::3]), alone[::3])
        np.testing.assert_array_equal(own(column[:, 1]), own(alone))
        np.testing.assert_array_equal(column, np.stack([np.zeros(count), alone], 1))
        np.testing.assert_array_equal(own(x, out=x), alone)


def test_an_empty_array_is_nothing():
    assert OWN["tanh"](np.empty((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.skipif(not HAS_AVX_512, reason="needs a processor with vectors of two lengths")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WORST)
def test_vectors_of_all_lengths_give_the_same_bits(name, dtype):
    x = values(name, dtype)
    np.testing.assert_array_equal(with_vectors_of(256)[name](x), OWN[name](x))


def test_only_float32_and_float64_of_numpy_arrays_are_ours():
    assert elementary_function(np, "sin") is np.sin
    for x in (np.float16([0.3]), np.array([0.3 + 1j]), np.array([0.3], tg.bfloat16.numpy)):
        np.testing.assert_array_equal(elementary_function(np, "tanh")(x), np.tanh(x))


@pytest.mark.parametrize("settings", [tg.Settings(), tg.Settings().without("native")], ids=["C", "Python"])
@pytest.mark.parametrize("name", WORST)
async def test_operations_have_these_bits_whatever_runs_them(name, settings):
    x = values(name, np.float32).reshape(-1, 100)[:50]
    with tg.Graph().as_default() as graph:
        given = tg.placeholder("float32", [None, None])
        fetched = [getattr(tg, name)(given), getattr(tg, name)(tg.transpose(given))]
    async with tg.Session(graph, settings=settings) as session:
        for x_part in (x, x[:1, :1]):
            straight, turned = await session.run(fetched, {given: x_part})
            np.testing.assert_array_equal(straight, OWN[name](x_part))
            np.testing.assert_array_equal(turned, OWN[name](x_part).T)
