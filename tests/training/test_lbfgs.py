"""L-BFGS ends where SciPy's does, by the same rules."""

import numpy as np
import pytest
import tagloom as tg
from scipy.optimize import minimize, rosen, rosen_der
from tagloom.training import LBFGS, minimize_lbfgs


def rosenbrock(x):
    return tg.reduce_sum(100 * tg.square(x[1:] - tg.square(x[:-1])) + tg.square(1 - x[:-1]))


def found(function, start, **options):
    return tg.function(lambda x: minimize_lbfgs(function, x, **options)).sync(start)


@pytest.mark.parametrize(("n", "pairs"), [(2, 1), (2, 10), (5, 3), (20, 5)])
def test_minimum_of_the_rosenbrock_function(n, pairs):
    start = np.resize([-1.2, 1.0], n)
    result = found(rosenbrock, start, num_correction_pairs=pairs)
    wanted = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9, "maxcor": 10})
    np.testing.assert_allclose(result.position, wanted.x, atol=1e-6)
    assert result.converged
    assert not result.failed
    assert np.abs(result.objective_gradient).max() <= 1e-8
    np.testing.assert_allclose(result.objective_gradient, rosen_der(result.position), atol=1e-10)
    assert result.objective_value == pytest.approx(rosen(result.position), abs=1e-14)
    assert result.num_iterations < result.num_objective_evaluations < 3 * result.num_iterations


RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((80, 6))
Y = (X @ RANDOM.standard_normal(6) + RANDOM.standard_normal(80) > 0.3).astype(np.float64)


def wanted_regression():
    def loss(p):
        z = X @ p[:6] + p[6]
        r = 1 / (1 + np.exp(-z)) - Y
        value = np.mean(np.logaddexp(0, z) - Y * z) + 0.01 * p[:6] @ p[:6]
        return value, np.append(X.T @ r / 80 + 0.02 * p[:6], r.mean())

    return minimize(loss, np.zeros(7), jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-10}).x


def regression_loss(w, b):
    logits = tg.reshape(tg.matmul(X, tg.reshape(w, [6, 1])), [80]) + b
    cross = tg.sigmoid_cross_entropy_with_logits(labels=Y, logits=logits)
    return tg.reduce_mean(cross) + 0.01 * tg.reduce_sum(tg.square(w))


def test_logistic_regression_on_a_structure_of_tensors():
    start = {"w": np.zeros((2, 3)), "b": np.zeros(())}
    result = found(lambda p: regression_loss(p["w"], p["b"]), start)
    wanted = wanted_regression()
    np.testing.assert_allclose(result.position["w"].ravel(), wanted[:6], atol=1e-6)
    assert result.position["b"] == pytest.approx(wanted[6], abs=1e-6)
    assert result.position["w"].shape == result.objective_gradient["w"].shape == (2, 3)


def test_logistic_regression_on_variables():
    with tg.Graph().as_default() as graph:
        w, b = tg.Variable(np.zeros((2, 3)), name="w"), tg.Variable(np.float64(0), name="b")
        idle = tg.Variable(np.float64(3), name="idle")
        result = LBFGS().minimize(lambda: regression_loss(w, b))
        initialize = tg.global_variables_initializer()
    wanted = wanted_regression()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        assert session.run(result.converged)
        np.testing.assert_allclose(session.run(w).ravel(), wanted[:6], atol=1e-6)
        assert session.run(b) == pytest.approx(wanted[6], abs=1e-6)
        assert session.run(idle) == 3
        again = session.run(result)
        assert (again.num_iterations, again.num_objective_evaluations) == (0, 1), "it is at the minimum already"
        np.testing.assert_array_equal(again.position[0], session.run(w))


def test_variables_that_are_read_by_rows_and_in_a_loop():
    with tg.Graph().as_default() as graph:
        table = tg.Variable(np.ones((4, 2)), name="table")

        def loss():
            def body(i, total):
                return i + 1, total + tg.reduce_sum(tg.square(tg.gather(table, i) - [1.0, 2.0]))

            return tg.while_loop(lambda i, total: i < 3, body, [0, np.float64(0)])[1]

        result = LBFGS(num_correction_pairs=3).minimize(loss, [table])
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        assert session.run(result.converged)
        np.testing.assert_allclose(session.run(table), [[1, 2]] * 3 + [[1, 1]], atol=1e-7)


def test_in_float32_it_ends_where_rounding_lets_it():
    result = found(rosenbrock, np.float32([-1.2, 1, -1.2]), tolerance=1e-3)
    np.testing.assert_allclose(result.position, 1, atol=1e-2)
    assert result.converged


def test_in_bfloat16():
    result = found(lambda x: tg.reduce_sum((x - 2.0) ** 2), np.array([1.0, 5.0], tg.bfloat16.numpy), tolerance=1e-2)
    assert np.float32(result.position).tolist() == [2, 2]


def test_variables_in_shards():
    with tg.Graph().as_default() as graph:
        table = tg.PartitionedVariable(np.arange(4.0), tg.fixed_size_partitioner(2))
        result = LBFGS().minimize(lambda: tg.reduce_sum((table - 2.0) ** 2), table)
        initialize = tg.global_variables_initializer()
    with tg.SyncSession(graph) as session:
        session.run(initialize)
        assert session.run(result.converged)
        np.testing.assert_allclose(session.run(table), 2, atol=1e-7)


def test_tolerances_and_limits():
    start = np.array([-1.2, 1.0])
    limited = found(rosenbrock, start, max_iterations=3)
    assert (limited.num_iterations, limited.converged, limited.failed) == (3, False, False)
    assert limited.objective_value < rosen(start)
    by_value = found(rosenbrock, start, f_relative_tolerance=1e-2)
    by_place = found(rosenbrock, start, x_tolerance=1e-2)
    full = found(rosenbrock, start)
    assert by_value.converged
    assert by_place.converged
    assert by_value.num_iterations < full.num_iterations
    assert by_place.num_iterations < full.num_iterations


def test_minimum_where_it_starts():
    result = found(lambda x: tg.reduce_sum(x * x), np.zeros(3))
    assert (result.converged, result.num_iterations) == (True, 0)


def test_steps_into_what_is_not_finite_are_shortened():
    """The first trial is where the logarithm has no value."""
    result = found(lambda x: tg.reduce_sum(x - tg.log(x)), np.array([1e-4, 5.0]))
    np.testing.assert_allclose(result.position, 1, atol=1e-6)


@pytest.mark.parametrize("start", [np.nan, 1.0])
def test_what_has_no_way_down_has_failed(start):
    """Nothing is known of a NaN; and this gradient points the wrong way."""
    wrong = tg.custom_gradient(lambda x: (x * x, lambda g: -2 * g * x))
    result = found(lambda x: tg.reduce_sum(wrong(x)), np.array([start]))
    assert (result.converged, result.failed) == (False, True)
    np.testing.assert_array_equal(result.position, [start])


def test_many_minimizations_in_a_loop():
    """Minima over x of a family of functions, each begun where the one before it ended."""

    def centres(x):
        def body(i, x):
            centre = tg.cast(i, "float64")
            return i + 1, minimize_lbfgs(lambda y: tg.reduce_sum((y - centre) ** 4), x).position

        return tg.while_loop(lambda i, x: i < 4, body, [0, x])[1]

    np.testing.assert_allclose(tg.function(centres).sync(np.array([0.5, 9.0])), 3, atol=5e-3)


def test_what_can_not_be_minimized_is_refused():
    with tg.Graph().as_default():
        x = tg.constant(np.ones(2))
        with pytest.raises(tg.ShapeError, match="known shapes"):
            minimize_lbfgs(rosenbrock, tg.placeholder("float64", [None]))
        with pytest.raises(tg.DtypeError, match="one dtype"):
            minimize_lbfgs(lambda p: rosenbrock(p[0]), [x, tg.constant(1.0)])
        with pytest.raises(tg.DtypeError, match="floating"):
            minimize_lbfgs(rosenbrock, tg.constant([1, 2]))
        with pytest.raises(tg.ShapeError, match="nothing to minimize"):
            minimize_lbfgs(rosenbrock, tg.constant(np.zeros(0)))
        with pytest.raises(tg.ShapeError, match="gives a scalar"):
            minimize_lbfgs(lambda y: y, x)
        with pytest.raises(tg.GraphError, match="from 1 up"):
            minimize_lbfgs(rosenbrock, x, num_correction_pairs=0)
        with pytest.raises(tg.GraphError, match="no variable"):
            LBFGS().minimize(lambda: tg.reduce_sum(x))
        w = tg.Variable(np.ones(2))
        with pytest.raises(tg.GraphError, match="at many places"):
            LBFGS().minimize(rosenbrock(w), [w])
