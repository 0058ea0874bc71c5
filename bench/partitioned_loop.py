"""One loop cut over many devices (Yu et al., 2018, Figure 11): what an iteration costs when no kernel costs anything.

Each device has a loop variable of its own, ``x = (x @ x) * 0.5``; with a barrier, none goes on before device 0 has
added up the values of all.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

WINDOW = 32


def program(ops: Any, case: Case) -> list[Any]:
    """Build the loop with the graph interface that TensorFlow 1 and tagloom share; return its results."""
    devices = [f"/cpu:{d}" for d in range(case["devices"])]

    def on(device: str, value: Any) -> Any:
        with ops.device(device):
            return ops.identity(value)

    def update(device: str, x: Any) -> Any:
        with ops.device(device):
            return ops.matmul(x, x) * 0.5

    def body(i: Any, *xs: Any) -> tuple[Any, ...]:
        new = [update(device, x) for device, x in zip(devices, xs, strict=True)]
        if case["barrier"]:
            with ops.device(devices[0]):
                done = ops.add_n(new)
            with ops.control_dependencies([done]):
                new = [on(device, x) for device, x in zip(devices, new, strict=True)]
        with ops.device(devices[0]):
            return i + 1, *new

    def more(i: Any, *_: Any) -> Any:
        with ops.device(devices[0]):
            return i < case["iterations"]

    start = [on(device, ops.constant(np.eye(2, dtype=np.float32))) for device in devices]
    return list(ops.while_loop(more, body, [on(devices[0], 0), *start], parallel_iterations=WINDOW, back_prop=False))


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Cut a tagloom loop over CPU devices of one session."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        results = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph, devices=case["devices"]))
    step: Step = session.make_step(results)
    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Cut a TensorFlow 1 loop over CPU devices of one process."""
    tf1, session = graph_session(stack, devices=case["devices"])
    with session.graph.as_default():
        results = program(tf1, case)
    step: Step = session.make_callable(results)
    return step


def cases(*counts: int) -> tuple[Case, ...]:
    """Return the cases of some numbers of devices, with iterations for a fraction of a second of TensorFlow."""
    return tuple(
        {"devices": n, "barrier": barrier, "iterations": max(50, 8000 // n**2 if n > 1 else 20_000)}
        for barrier in (False, True)
        for n in counts
    )


EXPERIMENT = Experiment(
    name="partitioned_loop",
    cases=cases(1, 2, 4, 8, 16, 32, 64),
    engines={"tagloom": tagloom, "tf": tf},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"]),
    tolerance=1e-5,
)
