"""A grid of operations that compute next to nothing: what dispatching one operation costs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

SHAPES = {"scalar_add": (), "matrix_add": (4, 4), "identity": ()}


def fed(case: Case) -> np.ndarray:
    """Return the value that is fed: sums of it are exact in float32."""
    shape = SHAPES[case["work"]]
    return np.arange(1, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def grid(ops: Any, case: Case) -> tuple[Any, Any]:
    """Build `width` chains of `length` operations; return what is fed and a fetch that waits for every chain."""
    x = ops.placeholder("float32", SHAPES[case["work"]])
    ends = [x] * case["width"]
    for _ in range(case["length"]):
        ends = [ops.identity(end) if case["work"] == "identity" else end + x for end in ends]
    with ops.control_dependencies([end.op for end in ends]):
        return x, ops.identity(ends[-1])


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Run the grid in tagloom, as it was built."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        x, end = grid(tg, case)
    as_written = tg.Settings(fold=False, merge=False, fuse=False)
    session = await stack.enter_async_context(tg.Session(graph, settings=as_written))
    step, value = session.make_step([end], feeds=[x]), fed(case)
    return lambda: step(value)


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Run the grid in TensorFlow, as it was built, on one inter-op thread."""
    tf1, session = graph_session(stack, inter_op_threads=1, rewriting=False)
    with session.graph.as_default():
        x, end = grid(tf1, case)
    step, value = session.make_callable([end], feed_list=[x]), fed(case)
    return lambda: step(value)


EXPERIMENT = Experiment(
    name="null_ops",
    cases=tuple({"work": work, "width": 100, "length": 200} for work in SHAPES),
    engines={"tagloom": tagloom, "tf": tf},
    metric="operations_per_second",
    amount=lambda case: float(case["width"] * case["length"]),
)
