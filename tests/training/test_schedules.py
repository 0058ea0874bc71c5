"""Learning rates as functions of the number of updates, and the variable that counts these."""

import math

import numpy as np
import pytest
import tagloom as tg
from tagloom import training


def rates(make, steps, dtype="int64"):
    """Return what ``make(step)`` is at each step, in float64."""
    with tg.Graph().as_default() as graph:
        step = tg.placeholder(dtype, [])
        rate = make(step)
    assert rate.dtype == "float64"
    assert rate.shape == []
    with tg.SyncSession(graph) as session:
        return [float(session.run(rate, {step: k})) for k in steps]


HALF, STEPS = np.float64(0.5), range(0, 50, 3)
FORMULAS = {
    "exponential": (lambda s: training.exponential_decay(HALF, s, 10, 0.9), lambda s: 0.5 * 0.9 ** (s / 10)),
    "stairs": (
        lambda s: training.exponential_decay(HALF, s, 10, 0.9, staircase=True),
        lambda s: 0.5 * 0.9 ** (s // 10),
    ),
    "natural": (lambda s: training.natural_exp_decay(HALF, s, 10, 0.9), lambda s: 0.5 * math.exp(-0.9 * s / 10)),
    "natural stairs": (
        lambda s: training.natural_exp_decay(HALF, s, 10, 0.9, True),
        lambda s: 0.5 * math.exp(-0.9 * (s // 10)),
    ),
    "inverse": (lambda s: training.inverse_time_decay(HALF, s, 10, 0.9), lambda s: 0.5 / (1 + 0.09 * s)),
    "inverse stairs": (
        lambda s: training.inverse_time_decay(HALF, s, 10, 0.9, True),
        lambda s: 0.5 / (1 + 0.9 * (s // 10)),
    ),
    "polynomial": (
        lambda s: training.polynomial_decay(HALF, s, 20, 0.1, 2.0),
        lambda s: 0.4 * (1 - min(s, 20) / 20) ** 2 + 0.1,
    ),
    "cycles": (
        lambda s: training.polynomial_decay(HALF, s, 20, 0.1, 1.0, cycle=True),
        lambda s: 0.4 * (1 - s / (20 * max(1, math.ceil(s / 20)))) + 0.1,
    ),
    "cosine": (
        lambda s: training.cosine_decay(HALF, s, 20, 0.2),
        lambda s: 0.5 * (0.8 * (1 + math.cos(math.pi * min(s, 20) / 20)) / 2 + 0.2),
    ),
    "line and cosine": (
        lambda s: training.linear_cosine_decay(HALF, s, 20, 1.5, 0.1, 0.2),
        lambda s: 0.5 * ((1.1 - min(s, 20) / 20) * (1 + math.cos(3 * math.pi * min(s, 20) / 20)) / 2 + 0.2),
    ),
    "noise of variance 0": (
        lambda s: training.noisy_linear_cosine_decay(HALF, s, 20, 0.0, 0.55, 1.5, 0.1, 0.2),
        lambda s: 0.5 * ((1.1 - min(s, 20) / 20) * (1 + math.cos(3 * math.pi * min(s, 20) / 20)) / 2 + 0.2),
    ),
    "warmup": (
        lambda s: training.linear_warmup(HALF, s, 12, 0.1),
        lambda s: 0.1 + 0.4 * min(s / 12, 1),
    ),
    "no warmup": (lambda s: training.linear_warmup(HALF, s, 0), lambda s: 0.5),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_rates_follow_the_formula(name):
    make, wanted = FORMULAS[name]
    np.testing.assert_allclose(rates(make, STEPS), [wanted(s) for s in STEPS], rtol=1e-12)


SMALL = {
    "exponential": lambda rate, s: training.exponential_decay(rate, s, 100_000, 0.5),
    "natural": lambda rate, s: training.natural_exp_decay(rate, s, 100_000, 0.5),
    "inverse": lambda rate, s: training.inverse_time_decay(rate, s, 100_000, 0.5),
    "polynomial": lambda rate, s: training.polynomial_decay(rate, s, 200_000),
    "cosine": lambda rate, s: training.cosine_decay(rate, s, 200_000),
    "restarts": lambda rate, s: training.cosine_decay_restarts(rate, s, 70_000),
    "line and cosine": lambda rate, s: training.linear_cosine_decay(rate, s, 200_000),
    "noise of variance 0": lambda rate, s: training.noisy_linear_cosine_decay(rate, s, 200_000, 0.0),
    "warmup": lambda rate, s: training.linear_warmup(rate, s, 200_000),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SMALL)
def test_small_dtypes_take_more_steps_than_they_can_count(name, dtype):
    with tg.Graph().as_default() as graph:
        step = tg.constant(100_001, "int64")
        small, wanted = (SMALL[name](tg.constant(0.5, kind), step) for kind in (dtype, "float64"))
        assert small.dtype == dtype
    with tg.SyncSession(graph) as session:
        found, right = session.run([small, wanted])
    assert float(found) == pytest.approx(float(right), rel=1e-2)


@pytest.mark.parametrize("t_mul", [1.0, 1.5, 2.0, 3.0])
def test_restarts_begin_where_the_wave_before_ends(t_mul):
    """Exactly there, where the quotient of two logarithms is often a little less than a whole number."""
    found = rates(lambda s: training.cosine_decay_restarts(HALF, s, 8, t_mul, 0.75, 0.1), range(200))
    wanted, start, length, height = [], 0.0, 8.0, 1.0
    for s in range(200):
        while s >= start + length:
            start, length, height = start + length, length * t_mul, height * 0.75
        wanted.append(0.5 * (0.9 * height * (1 + math.cos(math.pi * (s - start) / length)) / 2 + 0.1))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_noise_is_drawn_anew_in_each_step_and_falls_with_their_number():

    def make(s):
        return training.noisy_linear_cosine_decay(HALF, s, 10**6, 0.04, 1.0)

    early, late = (np.array(rates(make, [s] * 400)) for s in (0, 24))
    assert np.std(early) == pytest.approx(0.5 * 0.2, rel=0.15)
    assert np.std(late) == pytest.approx(0.5 * 0.2 / 5, rel=0.15)


def test_pieces_end_where_their_boundaries_are():
    values = [np.float64(v) for v in (1.0, 0.5, 0.25)]
    found = rates(lambda s: training.piecewise_constant(s, [10, 20], values), [0, 10, 11, 20, 21])
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25]
    found = rates(lambda s: training.piecewise_constant(s, [0.5], values[:2]), [0.5, 0.75], "float64")
    assert found == [1.0, 0.5]
    found = rates(lambda s: training.piecewise_constant(s, [0.7], values[:2]), [0.7, 0.8], "float64")
    assert found == [1.0, 0.5], "a literal does not go through float32"
    found = rates(lambda s: training.piecewise_constant(s, [10, 5 * 10**9], values), [11, 6 * 10**9])
    assert found == [0.5, 0.25]
    assert rates(lambda s: training.piecewise_constant(s, [], values[:1]), [3]) == [1.0]


def test_what_is_no_schedule_is_refused():
    with tg.Graph().as_default():
        step = tg.placeholder("int64", [])
        for boundaries, values in (([1, 2], [1.0, 2.0]), ([2, 1], [1.0, 2.0, 3.0]), ([1, 1], [1.0, 2.0, 3.0])):
            with pytest.raises(tg.GraphError, match="for each interval"):
                training.piecewise_constant(step, boundaries, values)
        with pytest.raises(tg.DtypeError, match="boundary between integers"):
            training.piecewise_constant(step, [0.5], [1.0, 2.0])
        with pytest.raises(tg.DtypeError, match="several dtypes"):
            training.piecewise_constant(step, [5], [tg.constant(0.5), tg.constant(1)])
        with pytest.raises(tg.DtypeError, match="does not fit"):
            training.piecewise_constant(step, [5], [0.5, tg.constant(1)])
        assert training.piecewise_constant(step, [5], [0.5, 1]).dtype == "float32"
        with pytest.raises(tg.GraphError, match="t_mul is out of range"):
            training.cosine_decay_restarts(1.0, step, 10, t_mul=0.5)
        with pytest.raises(tg.GraphError, match="needs the number of updates"):
            training.cosine_decay(1.0, None, 10)
        with pytest.raises(tg.DtypeError, match="floating number"):
            training.exponential_decay(1, step, 10, 0.5)


def test_a_rate_falls_while_it_trains_in_a_loop():
    with tg.Graph().as_default() as graph:
        w, step = tg.Variable(0.0, name="w"), training.get_or_create_global_step()

        def body(i):
            rate = training.exponential_decay(1.0, step, 1, 0.5)
            with tg.control_dependencies([training.GradientDescentOptimizer(rate).minimize(-w, global_step=step)]):
                return i + 1

        loop = tg.while_loop(lambda i: i < 4, body, [0])
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        session.run(loop)
        assert session.run([w, step]) == [1 + 0.5 + 0.25 + 0.125, 4]


def test_there_is_one_global_step():
    with tg.Graph().as_default() as graph, tg.name_scope("model"):
        assert training.get_global_step() is None
        step = training.get_or_create_global_step()
        assert (step.name, step.dtype, step.trainable) == ("global_step", "int64", False)
        assert training.get_or_create_global_step() is training.get_global_step(graph) is step
        training.assert_global_step(step)
        with pytest.raises(tg.GraphError, match="has a global step"):
            training.create_global_step()
        with pytest.raises(tg.DtypeError, match="counts"):
            training.assert_global_step(tg.Variable(1.0))
        with pytest.raises(tg.ShapeError, match="one number"):
            training.assert_global_step(tg.Variable([1, 2]))
    other = tg.Graph()
    assert training.get_global_step(other) is None
    assert training.get_or_create_global_step(other).graph is other
