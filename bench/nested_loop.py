"""A loop in a loop, where fed data says how often the inner one runs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

MOST_INNER = 20


def counts(case: Case) -> np.ndarray:
    """Draw how often the inner loop runs for each iteration of the outer one; some are 0."""
    return np.random.default_rng(0).integers(0, MOST_INNER + 1, case["iterations"], np.int32)


def program(ops: Any, case: Case) -> tuple[Any, Any]:
    """Build both loops; return what is fed and the sum that they make."""
    numbers = ops.placeholder("int32", [case["iterations"]])

    def inner(count: Any, total: Any) -> Any:
        return ops.while_loop(lambda j, _: j < count, lambda j, t: (j + 1, t + j), [0, total], back_prop=False)[1]

    def body(i: Any, total: Any) -> tuple[Any, Any]:
        return i + 1, inner(ops.gather(numbers, i), total)

    return numbers, ops.while_loop(lambda i, _: i < case["iterations"], body, [0, 0], back_prop=False)[1]


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Nest tagloom loops."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        numbers, total = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph))
    step, value = session.make_step([total], feeds=[numbers]), counts(case)
    return lambda: step(value)


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Nest TensorFlow 1 loops, on one inter-op thread: its fastest way to run a chain."""
    tf1, session = graph_session(stack, inter_op_threads=1)
    with session.graph.as_default():
        numbers, total = program(tf1, case)
    step, value = session.make_callable([total], feed_list=[numbers]), counts(case)
    return lambda: step(value)


EXPERIMENT = Experiment(
    name="nested_loop",
    cases=({"iterations": 1_000},),
    engines={"tagloom": tagloom, "tf": tf},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"] + counts(case).sum()),
)
