"""A loop that only counts: what one iteration costs when its body costs nothing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from .experiment import Case, Experiment, Step
from .on_cuda import loop_on_cuda
from .tensorflow_session import graph_session


async def tagloom(case: Case, stack: AsyncExitStack, **options: Any) -> Step:
    """Count in a tagloom loop."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        count = tg.while_loop(lambda i: i < case["iterations"], lambda i: i + 1, [0], back_prop=False)
    session = await stack.enter_async_context(tg.Session(graph, **options))
    step: Step = session.make_step([count], feeds=[])
    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Count in a TensorFlow 1 loop, on one inter-op thread: its fastest way to run a chain."""
    tf1, session = graph_session(stack, inter_op_threads=1)
    with session.graph.as_default():
        count = tf1.while_loop(lambda i: i < case["iterations"], lambda i: i + 1, [0], back_prop=False)
    step: Step = session.make_callable([count])
    return step


EXPERIMENT = Experiment(
    name="counter_loop",
    cases=({"iterations": 100_000},),
    engines={"tagloom": tagloom, "tf": tf},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"]),
    devices={"cuda": loop_on_cuda},
)
