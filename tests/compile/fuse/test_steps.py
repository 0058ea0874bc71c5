"""Every step of the table is what some operation becomes, by its definition."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile.fuse.rules import can_fuse, computes
from tagloom.ir.program import Program
from tagloom.kernels.steps import STEPS

from tests.support.compiling import optimized
from tests.support.running import result_pairs
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")


def _mask(compare):
    return lambda x, y: tg.where(compare(x, y), x, y)


def _along(reduce):
    return lambda x, y: reduce(x, -1, keepdims=True)


MADE_BY = {
    "add": tg.add,
    "subtract": tg.subtract,
    "multiply": tg.multiply,
    "divide": tg.divide,
    "power": tg.pow,
    "maximum": tg.maximum,
    "minimum": tg.minimum,
    "logaddexp": lambda x, y: tg.softplus(x),
    "negative": lambda x, y: tg.negative(x),
    "absolute": lambda x, y: tg.abs(x),
    "sign": lambda x, y: tg.sign(x),
    "square": lambda x, y: tg.square(x),
    "sqrt": lambda x, y: tg.rsqrt(x),
    "reciprocal": lambda x, y: tg.reciprocal(x),
    "exp": lambda x, y: tg.exp(x),
    "expm1": lambda x, y: tg.expm1(x),
    "log": lambda x, y: tg.log(x),
    "log1p": lambda x, y: tg.log1p(x),
    "tanh": lambda x, y: tg.tanh(x),
    "sin": lambda x, y: tg.sin(x),
    "cos": lambda x, y: tg.cos(x),
    "sigmoid": lambda x, y: tg.sigmoid(x),
    "where": lambda x, y: tg.cast(x > y, x.dtype),
    "equal": _mask(tg.equal),
    "not_equal": _mask(tg.not_equal),
    "greater": _mask(tg.greater),
    "greater_equal": _mask(tg.greater_equal),
    "less": _mask(tg.less),
    "less_equal": _mask(tg.less_equal),
    "sum": _along(tg.reduce_sum),
    "mean": _along(tg.reduce_mean),
    "max": _along(tg.reduce_max),
    "min": _along(tg.reduce_min),
    "slice": lambda x, y: tg.split(x, [1, 3], axis=1)[1],
    "concat": lambda x, y: tg.concat([x, y], 1),
    "broadcast": lambda x, y: tg.broadcast_to(y[:, :1], [3, 4]),
}


def test_every_step_is_made():
    assert set(MADE_BY) == set(STEPS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", STEPS)
def test_what_an_operation_becomes(name, dtype):
    x, y = feeds = [tg.placeholder(dtype, [3, 4]) for _ in range(2)]
    fetches = [tg.cos(tg.sin(MADE_BY[name](x, y)))]
    program = optimized(Program(x.graph, feeds, fetches), ON)
    steps = [step for op in program.graph.root.walk() if op.type == "Fused" for step, *_ in op.attrs["steps"]]
    assert name in steps
    arrays = [np.random.default_rng(seed).uniform(0.2, 2, (3, 4)).astype(dtype) for seed in range(2)]
    for fused, plain in result_pairs(fetches, feeds, arrays, ON.without("fuse")):
        np.testing.assert_allclose(fused, plain, rtol=1e-6)


def test_what_only_moves_is_not_worth_a_fused_operation():
    x = tg.placeholder("float32", [3, 4])
    left, right = tg.split(x, 2, axis=1)
    swapped = tg.concat([right, left], 1)
    assert all(can_fuse(op) and not computes(op) for op in (left.op, swapped.op))
    program = optimized(Program(x.graph, [x], [swapped]), ON)
    assert "Fused" not in {op.type for op in program.graph.root.walk()}


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_other_dtypes_have_no_steps(dtype):
    x = tg.placeholder(dtype, [3, 4])
    assert not can_fuse((x * x).op)
