"""The first run of a graph in a new session: what compiling costs, for chains of more and more operations."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

VALUE = np.linspace(0.1, 1, 4, dtype=np.float32)


def program(ops: Any, count: int) -> tuple[Any, Any]:
    """Build a chain of elementwise operations on a fed vector; return it and the result."""
    x = ops.placeholder("float32", [4])
    y = x
    for _ in range(count // 2):
        y = ops.sin(y) * x
    return x, y


def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Open a session of tagloom and run the chain once."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        x, y = program(tg, case["operations"])

    async def step() -> list[np.ndarray]:
        async with tg.Session(graph) as session:
            return [await session.run(y, {x: VALUE})]

    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Open a session of TensorFlow and run the chain once."""
    tf1, session = graph_session(stack)
    with session.graph.as_default():
        x, y = program(tf1, case["operations"])

    def step() -> list[np.ndarray]:
        with tf1.Session(graph=session.graph) as fresh:
            return [fresh.run(y, {x: VALUE})]

    return step


EXPERIMENT = Experiment(
    name="compile_time",
    cases=({"operations": 1_000}, {"operations": 10_000}, {"operations": 100_000}),
    engines={"tagloom": tagloom, "tf": tf},
    metric="seconds",
    tolerance=1e-5,
    time_unit=1.0,
    quick_seconds=240.0,
)
