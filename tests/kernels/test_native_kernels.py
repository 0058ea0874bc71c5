"""C kernels against the Python kernels they stand for, on arrays of every kind."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.program import Program
from tagloom.kernels.scheduler.machine import StepMachine
from tagloom.kernels.scheduler.plan import CompiledPlan
from tagloom.ops.array.broadcasting import sum_to_shape

from tests.kernels.odd_arrays import KINDS, odd
from tests.support.compiling import plan_of

DTYPES = ["float32", "float64", "int32", "float16"]
BINARY = {"add": tg.add, "multiply": tg.multiply, "subtract": tg.subtract, "less": tg.less, "maximum": tg.maximum}


SHAPES = [(2, 3), (1, 1), (0, 3), (3, 0), (5, 1), (17, 9)]


def draw(rng, shape, dtype):
    return (rng.standard_normal(shape) * 3).astype(dtype)


def evaluate(build, arrays, expected):
    """Feed arrays to a graph and compare with what is expected; the arrays must stay as they were."""
    before = [a.copy() for a in arrays]
    with tg.Graph().as_default() as graph:
        feeds = [tg.placeholder(a.dtype.newbyteorder("="), [None] * a.ndim) for a in arrays]
        fetches = build(*feeds)
    with tg.SyncSession(graph) as session:
        results = session.run(fetches, dict(zip(feeds, arrays, strict=True)))
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    many = isinstance(expected, (list, tuple))
    for result, wanted in zip(results if many else [results], expected if many else [expected], strict=True):
        assert result.shape == wanted.shape
        assert result.dtype == wanted.dtype
        rtol = 2e-3 if result.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=1e-5)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcasts(kind, dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = draw(rng, shape, dtype)
        for other in (shape, shape[-1:], (1, *shape), (shape[0], 1), ()):
            y = np.asarray(draw(rng, other, dtype))
            for name, operation in BINARY.items():
                evaluate(operation, [odd(x, kind), y], np.asarray(getattr(np, name)(x, y)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_operand(kind, dtype):
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        x = draw(rng, shape, dtype)
        evaluate(tg.sigmoid, [odd(x, kind)], (1 / (1 + np.exp(-x))).astype(dtype))
        evaluate(tg.tanh, [odd(x, kind)], np.tanh(x))
        evaluate(tg.transpose, [odd(x, kind)], x.T)
        evaluate(lambda t: tg.add_n([t, t, t]), [odd(x, kind)], x + x + x)
        evaluate(lambda t, n=shape[-1]: sum_to_shape(t, [n]), [odd(x, kind)], x.sum(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul(kind, dtype, flags):
    rng = np.random.default_rng(2)
    for rows, inner, columns in [(2, 2, 2), (1, 1, 1), (3, 0, 2), (0, 4, 2), (4, 3, 5), (33, 17, 65), (1, 64, 1)]:
        a, b = draw(rng, (rows, inner), dtype), draw(rng, (inner, columns), dtype)
        wanted = np.matmul(a, b)
        left, right = (a.T.copy() if flags[0] else a), (b.T.copy() if flags[1] else b)
        evaluate(
            lambda x, y: tg.matmul(x, y, transpose_a=flags[0], transpose_b=flags[1]),
            [odd(left, kind), odd(right, "plain" if kind == "fortran" else kind)],
            wanted,
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joining_and_splitting(kind, axis):
    rng = np.random.default_rng(3)
    for dtype in (*DTYPES, "bool", "complex64"):
        a, b = (rng.standard_normal((4, 6)) * 2).astype(dtype), (rng.standard_normal((4, 6)) * 2).astype(dtype)
        evaluate(lambda x, y: tg.concat([x, y, x], axis), [odd(a, kind), b], np.concatenate([a, b, a], axis))
        evaluate(lambda x: tg.split(x, 2, axis), [odd(a, kind)], np.split(a, 2, axis))
        size = a.shape[axis]
        parts = [*np.split(a, [1], axis), np.take(a, [], axis)]
        evaluate(lambda x, n=size: tg.split(x, [1, n - 1, 0], axis), [odd(a, kind)], parts)
        evaluate(lambda x, n=size: tg.split(x, [-1, 2], axis), [odd(a, kind)], np.split(a, [size - 2], axis))


def test_errors_stay_those_of_the_python_kernel():
    with tg.Graph().as_default() as graph:
        x, y = tg.placeholder("float32", [None, None]), tg.placeholder("float32", [None, None])
        product, total, joined = tg.matmul(x, y), x + y, tg.concat([x, y], 0)
    values = {x: np.ones((2, 3), np.float32), y: np.ones((4, 5), np.float32)}
    with tg.SyncSession(graph) as session:
        for fetch in (product, total, joined):
            with pytest.raises(tg.OpError) as caught:
                session.run(fetch, values)
            assert isinstance(caught.value.__cause__, ValueError)
        assert session.run(product, {**values, y: np.ones((3, 1), np.float32)}).tolist() == [[3], [3]]


@pytest.mark.parametrize("native", [True, False])
def test_c_kernels_can_be_switched_off(native):
    calls = []

    def note(kernel):
        return lambda *arrays: calls.append(len(arrays)) or kernel(*arrays)

    settings = tg.Settings(native=native)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float64", [2, 3])
        plan = plan_of(Program(graph, [x], [tg.matmul(x, x, transpose_b=True)]), settings)
    nodes = tuple(replace(n, kernel=note(n.kernel)) if n.type == "MatMul" else n for n in plan.nodes)
    array = np.arange(6.0).reshape(2, 3)
    machine = StepMachine(CompiledPlan(replace(plan, nodes=nodes), settings), None, [array])
    machine.drain(10.0)
    (product,) = machine.fetches
    assert product.tolist() == (array @ array.T).tolist()
    assert calls == ([] if native else [2])
    machine.close()
