"""The LSTM's dynamic loop against the same steps unrolled in the graph: time, time to build, memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from .experiment import Case, Experiment, Observed
from .lstm_train import Problem, cell, dynamic_loop, problem, training

BUILD = "build_milliseconds"


def unrolled_loop(ops: Any, concat: Callable[[list[Any]], Any], given: Problem, x: Any, w: Any, b: Any) -> Any:
    """Do what `dynamic_loop` does with operations for each step; return the stacked outputs."""
    h = c = ops.constant(given.state)
    outputs = []
    for inputs in ops.unstack(x):
        z = ops.matmul(concat([inputs, h]), w) + b
        h, c = cell(ops, ops.split(z, 4, axis=1), c)
        outputs.append(h)
    return ops.stack(outputs)


async def train(case: Case, stack: AsyncExitStack, loop: Callable[..., Any]) -> Observed:
    """Train with tagloom, timing how long graph, gradients and compiled step take to build."""
    import tagloom as tg

    given = problem(case)
    began = time.perf_counter()
    graph, initialize, feeds, fetches = training(tg, given, loop)
    session = await stack.enter_async_context(tg.Session(graph))
    step = session.make_step(fetches, feeds)
    built = time.perf_counter() - began
    await session.run(initialize)
    return Observed(lambda: step(given.inputs, given.targets), {BUILD: [1e3 * built]})


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Train the loop."""
    return await train(case, stack, dynamic_loop)


async def unrolled(case: Case, stack: AsyncExitStack) -> Observed:
    """Train the unrolled steps."""
    return await train(case, stack, unrolled_loop)


SIZES = ((16, 128), (64, 512), (256, 512))


def cases(*lengths: int) -> tuple[Case, ...]:
    """Return the cases with a length for each size."""
    return tuple(
        {"batch": batch, "units": units, "length": length}
        for (batch, units), length in zip(SIZES, lengths, strict=True)
    )


EXPERIMENT = Experiment(
    name="static_unroll",
    cases=cases(200, 200, 200),
    quick_cases=cases(200, 40, 10),
    engines={"tagloom": tagloom, "unrolled": unrolled},
    metric="step_milliseconds",
    time_unit=1e3,
    figures=(BUILD,),
    peak="peak_bytes",
    tolerance=2e-4,
)
