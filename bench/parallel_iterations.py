"""Iterations that overlap (Yu et al., 2018, Figure 12): eight devices, a layer on each, more and more at once.

A layer takes 5 ms on a device that computes nothing else. It needs its own result of the iteration before and that of
the layer before it in the same iteration (Figure 10(c)). The loop counts and decides where the last layer is: with
one iteration at a time the layers run one after another, as out of a graph.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed, Step

LAYERS = 8
SECONDS = 0.005
OVER_IDEAL = "time_over_ideal"
LIMITER = "limited by"
MATRIX = (np.eye(16) + 0.01).astype(np.float32)


def program(tg: Any, case: Case, layers: int = LAYERS) -> Any:
    """Build the loop; return its number of iterations, fed, and its results."""
    n = tg.placeholder("int32", [])
    last = f"/cpu:{layers - 1}"

    def layer(d: int, state: Any, below: Any) -> Any:
        with tg.device(f"/cpu:{d}"):
            return tg.tanh(tg.matmul(state, below))

    def body(i: Any, *states: Any) -> tuple[Any, ...]:
        new = [layer(0, states[0], states[0])]
        for d in range(1, layers):
            new.append(layer(d, states[d], new[-1]))
        with tg.device(last):
            return i + 1, *new

    def more(i: Any, *_: Any) -> Any:
        with tg.device(last):
            return i < n

    results = tg.while_loop(more, body, [0, *[MATRIX] * layers], parallel_iterations=case["parallel_iterations"])
    return n, list(results)


def ideal(case: Case, layers: int = LAYERS, seconds: float = SECONDS) -> float:
    """Return how long the loop takes where nothing but its layers takes time, in seconds."""
    window, ends = case["parallel_iterations"], [0.0] * layers
    over: list[float] = []
    for k in range(case["iterations"]):
        ready = over[k - window] if k >= window else 0.0
        for d in range(layers):
            ready = ends[d] = max(ready, ends[d]) + seconds
        over.append(ready)
    return over[-1]


def observed(step: Step, session: Any, clock: Any, wanted: float) -> Observed:
    """Note how often the `wanted` seconds each step took, and what limited it."""
    figures: dict[str, list[float]] = {OVER_IDEAL: []}

    async def run() -> Any:
        begin = clock.now()
        values = await step()
        figures[OVER_IDEAL].append((clock.now() - begin) / wanted)
        return values

    return Observed(run, figures, lambda: {LIMITER: session.report().loops[0].limiter})


async def devices(stack: AsyncExitStack, count: int, seconds: dict[str, float]) -> tuple[list[Any], Any]:
    """Open devices whose kernels take a stated time; return them and their clock."""
    from tagloom.streams import LatencyDevice, LoopClock

    clock = LoopClock()
    made = [LatencyDevice(f"/cpu:{d}", seconds=seconds, clock=clock) for d in range(count)]
    for device in made:
        await stack.enter_async_context(device)
    return made, clock


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Run the loop on devices of one session."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        n, results = program(tg, case)
    made, clock = await devices(stack, LAYERS, {"MatMul": SECONDS})
    session = await stack.enter_async_context(tg.Session(graph, devices=made))
    step = session.make_step(results, [n])
    return observed(lambda: step(case["iterations"]), session, clock, ideal(case))


EXPERIMENT = Experiment(
    name="parallel_iterations",
    cases=tuple({"parallel_iterations": window, "iterations": 100} for window in (1, 2, 4, 8, 16, 32)),
    engines={"tagloom": tagloom},
    metric="milliseconds",
    time_unit=1e3,
    amount=lambda case: float(case["iterations"]),
    figures=(OVER_IDEAL,),
    notes=(LIMITER,),
    baseline="sequential",
    best_only=True,
)
