"""A step of five small operations, run again and again: what starting and ending a step costs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

VALUE = np.linspace(-1, 1, 4, dtype=np.float32)


def program(ops: Any) -> tuple[Any, Any]:
    """Build five operations on a fed vector; return it and the result."""
    x = ops.placeholder("float32", [4])
    return x, ops.tanh(x * 3.0 + 0.5) * 2.0 - 1.0


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Await steps of tagloom, one after another."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        x, y = program(tg)
    session = await stack.enter_async_context(tg.Session(graph))
    once = session.make_step([y], feeds=[x])

    async def step() -> list[np.ndarray]:
        for _ in range(case["iterations"]):
            result: list[np.ndarray] = await once(VALUE)
        return result

    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Call steps of TensorFlow, one after another, on one inter-op thread: its fastest way to run few operations."""
    tf1, session = graph_session(stack, inter_op_threads=1)
    with session.graph.as_default():
        x, y = program(tf1)
    once = session.make_callable([y], feed_list=[x])

    def step() -> list[np.ndarray]:
        for _ in range(case["iterations"]):
            result: list[np.ndarray] = once(VALUE)
        return result

    return step


EXPERIMENT = Experiment(
    name="step_overhead",
    cases=({"operations": 5, "iterations": 10_000},),
    engines={"tagloom": tagloom, "tf": tf},
    metric="microseconds",
    amount=lambda case: float(case["iterations"]),
    tolerance=1e-6,
    time_unit=1e6,
)
