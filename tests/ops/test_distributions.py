import numpy as np
import pytest
import scipy.special
import scipy.stats
import tagloom as tg
from tagloom.base.errors import DtypeError, OpError, ShapeError
from tagloom.ir.definition import definition_of

from tests.ops.instances import Instance, make_step


def value(build, *arguments):
    return tg.function(build).sync(*arguments)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_gamma_draws_have_their_moments(dtype):
    alpha = np.array([0.3, 2.0, 9.0])
    draws = value(lambda: tg.random_gamma([40000], tg.cast(alpha, dtype), dtype=dtype, seed=1))
    assert (draws.shape, draws.dtype) == ((40000, 3), tg.as_dtype(dtype).numpy)
    draws = draws.astype(np.float64)
    np.testing.assert_allclose(draws.mean(0), alpha, rtol=0.04)
    np.testing.assert_allclose(draws.var(0), alpha, rtol=0.06)


def test_gamma_draws_are_of_the_distribution():
    draws = value(lambda: tg.random_gamma([5000], np.float64(1.7), np.float64(0.5), "float64", seed=3))
    assert scipy.stats.kstest(draws, scipy.stats.gamma(1.7, scale=2).cdf).pvalue > 1e-3


def test_parameters_of_gamma_draws_broadcast():
    alpha, beta = np.float32([[1], [50]]), np.float32([1, 10, 100])
    draws = value(lambda: tg.random_gamma([2000], alpha, beta, seed=2))
    assert draws.shape == (2000, 2, 3)
    np.testing.assert_allclose(draws.mean(0), alpha / beta, rtol=0.1)
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 0, 1])[0, 1]) < 0.1


def test_gamma_draws_of_an_infinite_rate_are_as_small_as_can_be():
    draws = value(lambda: tg.random_gamma([3], [2.0, 3.0], np.float32(np.inf)))
    np.testing.assert_array_equal(draws, np.full((3, 2), np.finfo(np.float32).tiny))


def test_gamma_draws_of_small_parameters_are_positive():
    draws = value(lambda: tg.random_gamma([500], [1e-3], seed=2))
    assert draws.min() == np.finfo(np.float32).tiny


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.5, 40.0, 2000.0])
def test_gamma_draws_move_with_their_parameters(alpha):
    """By the definition: a draw keeps its place in the distribution."""

    def build(a, b):
        draws = tg.random_gamma([6], a, b, "float64", seed=5)
        cotangent = np.eye(6)
        moved = [tg.gradients(draws, [a, b], [cotangent[i]]) for i in range(6)]
        return [draws, tg.stack([m[0] for m in moved]), tg.stack([m[1] for m in moved])]

    draws, by_alpha, by_beta = value(build, np.float64(alpha), np.float64(2))
    place, h = scipy.special.gammainc(alpha, 2 * draws), 1e-3 * alpha
    at = [scipy.special.gammaincinv(alpha + k * h, place) / 2 for k in (-2, -1, 1, 2)]
    np.testing.assert_allclose(by_alpha, (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h), rtol=1e-5)
    np.testing.assert_allclose(by_beta, -draws / 2, rtol=1e-12)


def test_draws_depend_on_their_instance_alone():
    for type, attrs in (("RandomGamma", {}), ("RandomPoisson", {"dtype": tg.int64})):
        kernel = definition_of(type).kernel

        def draw(context, *instance, kernel=kernel, attrs=attrs):
            return kernel(np, context, np.int32([9]), np.float64(4), *instance, **attrs, seed=3).tolist()

        there = Instance(frame_id=5, iteration=2)
        assert draw(there) == draw(Instance(), np.int64(5), np.int64(2))
        different = [there, Instance(), Instance(make_step(2)), Instance(make_step(seed=1))]
        assert len({tuple(draw(context)) for context in different}) == 4


def test_draws_in_a_recomputed_loop_are_those_of_the_loop():
    def build(checkpoint):
        def body(i, x):
            return i + 1, x * tg.random_gamma([], x + 1.0, seed=4)

        with tg.Graph(seed=3).as_default() as graph:
            x = tg.constant(0.5)
            kept = {"checkpoint_every": checkpoint} if checkpoint else {}
            _, y = tg.while_loop(lambda i, x: i < 7, body, (0, x), **kept)
            fetches = [y, tg.gradients(y, [x])[0]]
        with tg.SyncSession(graph) as session:
            return session.run(fetches)

    plain, again = build(0), build(3)
    np.testing.assert_allclose(again, plain, rtol=1e-6)
    assert plain[1] != 0


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_poisson_draws_are_of_the_distribution(dtype):
    draws = value(lambda: tg.random_poisson([0.0, 2.5, 300.0], [20000], dtype, seed=1))
    assert (draws.shape, draws.dtype) == ((20000, 3), tg.as_dtype(dtype).numpy)
    draws = draws.astype(np.float64)
    assert not draws[:, 0].any()
    np.testing.assert_allclose(draws.mean(0)[1:], [2.5, 300], rtol=0.02)
    np.testing.assert_allclose(draws.var(0)[1:], [2.5, 300], rtol=0.05)
    counts = np.bincount(draws[:, 1].astype(int), minlength=8)[:8]
    np.testing.assert_allclose(counts / 20000, scipy.stats.poisson(2.5).pmf(range(8)), atol=0.012)


def test_shapes_of_draws_may_be_open():
    signature = [tg.TensorSpec([None], "int32"), tg.TensorSpec([None], "float32")]

    @tg.function(input_signature=signature)
    def build(shape, alpha):
        return [tg.random_gamma(shape, alpha, alpha), tg.random_poisson(alpha, shape)]

    assert [r.shape for r in build.sync(np.int32([2, 0]), np.float32([1, 2, 3]))] == [(2, 0, 3)] * 2


def test_poisson_draws_fit_their_dtype():
    assert value(lambda: tg.random_poisson(2e9, [3], "int64")).min() > 1e9
    with pytest.raises(tg.OpError, match="int32 ends at 2147483647"):
        value(lambda: tg.random_poisson(1e12, [3], "int32"))


@pytest.mark.parametrize("build", [lambda: tg.random_gamma([3], -1.0), lambda: tg.random_poisson(-1.0, [3])])
def test_negative_parameters_fail_the_step(build):
    with pytest.raises(OpError):
        value(build)


def test_wrong_dtypes_are_refused():
    with tg.Graph().as_default():
        with pytest.raises(DtypeError):
            tg.random_gamma([3], 1, dtype="int32")
        with pytest.raises(DtypeError):
            tg.random_poisson(1.0, [3], dtype="string")


def test_crops_are_blocks_from_everywhere():
    x = np.arange(20.0).reshape(4, 5)
    crop = tg.function(lambda t: [c := tg.random_crop(t, [2, 3]), tg.gradients(c, [t])[0]])
    seen = set()
    for _ in range(60):
        block, gradient = crop.sync(x)
        row, column = divmod(int(block[0, 0]), 5)
        np.testing.assert_array_equal(block, x[row : row + 2, column : column + 3])
        wanted = np.zeros((4, 5))
        wanted[row : row + 2, column : column + 3] = 1
        np.testing.assert_array_equal(gradient, wanted)
        seen.add((row, column))
    assert seen == {(i, j) for i in range(3) for j in range(3)}


def test_a_crop_has_to_fit():
    with tg.Graph().as_default():
        for size in ([5, 1], [1]):
            with pytest.raises(ShapeError, match="crop"):
                tg.random_crop(np.zeros((4, 5)), size)
