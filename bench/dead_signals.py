"""A branch that is never taken, cut at 200 edges, in a loop (Yu et al., 2018, section 4.4: one dead signal per device).

The cut branch against the same one on one device, and against a cut where each dead value has a message of its own.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed

MESSAGES = "dead_messages_per_destination_and_iteration"


def program(case: Case) -> tuple[Any, list[Any]]:
    """Build the loop, half of its branch asked onto a second device; return its graph and its results."""
    import tagloom as tg

    def branch(x: Any) -> Any:
        powers = [x]
        for _ in range(case["edges"]):
            powers.append(powers[-1] @ x)
        with tg.device("/cpu:1"):
            return tg.add_n([power @ power for power in powers[1:]])

    def body(i: Any, x: Any) -> tuple[Any, Any]:
        return i + 1, tg.cond(i < 0, lambda: branch(x), lambda: x) * 0.5

    with tg.Graph().as_default() as graph, tg.device("/cpu:0"):
        start = tg.constant(np.eye(2, dtype=np.float32))
        results = tg.while_loop(lambda i, _: i < case["iterations"], body, [0, start], back_prop=False)
    return graph, list(results)


async def run(case: Case, stack: AsyncExitStack, *, devices: int, coalesce: bool = True) -> Observed:
    """Run the loop, and note how many dead messages a device got in an iteration of the first step, at most."""
    import tagloom as tg

    graph, results = program(case)
    settings = tg.Settings(coalesce_dead_signals=coalesce)
    session = tg.Session(graph, devices=devices, soft_placement=devices == 1, settings=settings)
    await stack.enter_async_context(session)
    compiled = session.make_step(results)
    figures: dict[str, list[float]] = {MESSAGES: []}

    async def step() -> Any:
        values = await compiled()
        if not figures[MESSAGES]:
            trips = case["iterations"] + 1  # the last one evaluates the predicate only
            figures[MESSAGES] = [max((pair.dead / trips for pair in session.report().traffic), default=0.0)]
        return values

    return Observed(step, figures)


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Cut the branch."""
    return await run(case, stack, devices=2)


async def uncut(case: Case, stack: AsyncExitStack) -> Observed:
    """Leave the branch on one device."""
    return await run(case, stack, devices=1)


async def one_by_one(case: Case, stack: AsyncExitStack) -> Observed:
    """Cut the branch, and send each dead value for itself."""
    return await run(case, stack, devices=2, coalesce=False)


EXPERIMENT = Experiment(
    name="dead_signals",
    cases=({"edges": 200, "iterations": 5000},),
    engines={"tagloom": tagloom, "uncut": uncut, "one_by_one": one_by_one},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"]),
    figures=(MESSAGES,),
)
