"""A loop that branches on the value it carries."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from .experiment import Case, Experiment, Step
from .on_cuda import loop_on_cuda
from .tensorflow_session import graph_session


def program(ops: Any, case: Case) -> list[Any]:
    """Build the loop with the graph interface that TensorFlow 1 and tagloom share."""

    def body(i: Any, x: Any) -> tuple[Any, Any]:
        return i + 1, ops.cond(x > 10, lambda: x - 7, lambda: x + 3)

    return list(ops.while_loop(lambda i, x: i < case["iterations"], body, [0, 1], back_prop=False))


async def tagloom(case: Case, stack: AsyncExitStack, **options: Any) -> Step:
    """Branch in a tagloom loop."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        results = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph, **options))
    step: Step = session.make_step(results, feeds=[])
    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Branch in a TensorFlow 1 loop, on one inter-op thread: its fastest way to run a chain."""
    tf1, session = graph_session(stack, inter_op_threads=1)
    with session.graph.as_default():
        results = program(tf1, case)
    step: Step = session.make_callable(results)
    return step


EXPERIMENT = Experiment(
    name="cond_loop",
    cases=({"iterations": 100_000},),
    engines={"tagloom": tagloom, "tf": tf},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"]),
    devices={"cuda": loop_on_cuda},
)
