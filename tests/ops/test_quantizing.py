import numpy as np
import pytest
import tagloom as tg
from tagloom.base.errors import DtypeError, GraphError, ShapeError


def value(build, *arguments):
    return tg.function(build).sync(*arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_rounding_go_straight_through(dtype):
    x = np.array([[-3, 0.2], [0.9, 7], [-9, 0]], dtype)
    low, high = np.array([-1, -2], dtype), np.array([1, 3], dtype)
    g = np.array([[1, 2], [4, 8], [16, 32]], dtype)

    def build(*t):
        return tg.gradients(tg.fake_quant_with_min_max_vars_per_channel(*t), list(t), [g])

    dx, dlow, dhigh = value(build, x, low, high)
    np.testing.assert_array_equal(dx, [[0, 2], [4, 0], [0, 32]])
    np.testing.assert_array_equal(dlow, [17, 0])
    np.testing.assert_array_equal(dhigh, [0, 8])
    assert dx.dtype == dlow.dtype == dhigh.dtype == dtype


def test_an_empty_range_passes_all_gradients():
    def build(x):
        y = tg.fake_quant_with_min_max_vars(x, 0.0, 0.0)
        return [y, tg.gradients(y, [x])[0]]

    y, g = value(build, np.float32([-1, 2]))
    assert y.tolist() == [0, 0]
    assert g.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
def test_what_is_quantized_comes_back(mode, dtype):
    x = np.linspace(-2 if mode != "SCALED" or dtype[0] != "u" else 0, 3, 11, dtype=np.float32)

    def build(t):
        there = tg.quantize(t, -2.0, 3.0, dtype, mode=mode)
        return tg.dequantize(*there, mode=mode)

    steps = 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
    np.testing.assert_allclose(value(build, x), x, atol=6 / min(steps, 2**23))


def test_slices_have_ranges_of_their_own():
    x = np.float32([[1, 2], [-3, 4]])
    ends = np.float32([-1, -3]), np.float32([2, 4])

    def build(t, low, high):
        return tg.quantize(t, low, high, "uint8", axis=0)

    found = value(build, x, *ends)
    for row in range(2):
        alone = value(build_row, x[row], ends[0][row], ends[1][row])
        for ours, theirs in zip(found, alone, strict=True):
            np.testing.assert_array_equal(ours[row], theirs)


def build_row(t, low, high):
    return tg.quantize(t, low, high, "uint8")


def test_ends_of_32_bits_are_kept():
    found = value(lambda: tg.quantize([-9.0, 9.0], -1.0, 1.0, "int32").output)
    assert found.tolist() == [-(2**31), 2**31 - 1]


def test_gradients_reach_the_range():
    q = np.array([0, 100, 255], np.uint8)
    dlow, dhigh = value(lambda a, b: tg.gradients(tg.dequantize(q, a, b), [a, b]), np.float32(0), np.float32(1))
    np.testing.assert_allclose([dlow, dhigh], [1 + 155 / 255, 100 / 255 + 1], rtol=1e-5)


@pytest.mark.parametrize(("left", "right"), [("uint8", "uint8"), ("int8", "uint8"), ("int8", "int8")])
def test_products_are_exact(left, right):
    random = np.random.default_rng(2)
    a, b = (random.integers(*_bounds(k), (9, 9)).astype(k) for k in (left, right))
    ends = {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0)}

    def build(x, y):
        return tg.quantized_matmul(x, y, *ends[left], *ends[right], transpose_b=True)

    output, low, high = value(build, a, b)
    assert output.dtype == np.int32
    np.testing.assert_array_equal(output, a.astype(np.int32) @ b.astype(np.int32).T)
    np.testing.assert_allclose([low, high], [-(2.0**31), 2.0**31])


def _bounds(kind):
    limits = np.iinfo(kind)
    return limits.min, limits.max + 1


def test_products_are_of_the_numbers_that_integers_stand_for():
    a, b = np.array([[10, 20]], np.uint8), np.array([[200], [100]], np.uint8)
    output, low, high = value(lambda: tg.quantized_matmul(a, b, -1.0, 1.0, 0.0, 2.0))
    level = (float(high) - float(low)) / (2.0**32 - 1)
    wanted = ((a / 255 * 2 - 1) @ (b / 255 * 2)).item()
    np.testing.assert_allclose(output.item() * level, wanted, atol=0.02)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tg.quantize([1.0], 0.0, 1.0, "float32"), DtypeError),
        (lambda: tg.quantize([1.0], 0.0, 1.0, "int8", mode="MAX"), GraphError),
        (lambda: tg.quantize([1.0], 0.0, 1.0, "int8", round_mode="HALF_TO_EVEN"), GraphError),
        (lambda: tg.quantize([1.0], [0.0], [1.0], "int8", axis=1), ShapeError),
        (lambda: tg.dequantize(np.zeros(3), 0.0, 1.0), DtypeError),
        (lambda: tg.fake_quant_with_min_max_args([1.0], 2.0, 1.0), GraphError),
        (lambda: tg.fake_quant_with_min_max_args([1.0], num_bits=1), GraphError),
        (lambda: tg.fake_quant_with_min_max_vars([1.0], [0.0], [1.0]), ShapeError),
        (lambda: tg.fake_quant_with_min_max_vars_per_channel([1.0], [0.0] * 3, [1.0] * 3), ShapeError),
        (lambda: tg.quantized_matmul(np.eye(2), np.eye(2), 0.0, 1.0, 0.0, 1.0), DtypeError),
    ],
)
def test_what_can_not_be_is_refused(build, error):
    with pytest.raises(error), tg.Graph().as_default():
        build()
