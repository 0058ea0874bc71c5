"""Copies that hide behind compute (Yu et al., 2018, Figure 13): a loop with its gradient whose saved values swap.

Each iteration computes for 5 ms and saves 256 KiB; its gradient reads them back and computes for 5 ms. Sixteen such
values fit into the device's memory. A copy out, and one in, takes a stated share of 5 ms. In mode "nested" there is a
loop of ten such iterations in each of another. The ideal has no limit, and so no copies. Both run in virtual time,
where the event loop takes none, and in real time.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed, Step
from .lanes import draw

SECONDS = 0.005
FORWARD, BACKWARD = "Tanh", "Fused"  # types of the kernels that take time
ELEMENTS = 1 << 16  # of float32: 256 KiB
RESIDENT = 16  # values that the limit has room for
VIRTUAL = "virtual_milliseconds"
IDLE = "compute idle for copies"
START = np.linspace(-1, 1, ELEMENTS, dtype=np.float32)
INNER = 10  # iterations of an inner loop
DRAWN: Case = {"mode": "loop", "copy_over_compute": 0.9, "iterations": 50}


def repeated(tg: Any, count: int, body: Any, x: Any) -> Any:
    """Return what a loop makes of `x`."""
    return tg.while_loop(lambda i, _: i < count, lambda i, x: (i + 1, body(x)), [0, x])[1]


def program(tg: Any, case: Case) -> tuple[Any, list[Any]]:
    """Build the loop; return its input, and its result with the gradient."""
    x = tg.placeholder("float32", [ELEMENTS])
    inner = partial(repeated, tg, INNER, tg.tanh)
    count = case["iterations"]
    y = repeated(tg, count // INNER, inner, x) if case["mode"] == "nested" else repeated(tg, count, tg.tanh, x)
    return x, [y, *tg.gradients(y, [x])]


async def opened(case: Case, stack: AsyncExitStack, clock: Any, swaps: bool) -> tuple[Any, Step]:
    """Open a session on a device of the clock's time, with a limit or without; return it and its step."""
    import tagloom as tg
    from tagloom.streams import LatencyDevice

    with tg.Graph().as_default() as graph:
        x, fetches = program(tg, case)
    rate = START.nbytes / (case["copy_over_compute"] * SECONDS)
    seconds = {FORWARD: SECONDS, BACKWARD: SECONDS}
    device = LatencyDevice("/cpu:0", seconds=seconds, bytes_per_second=rate, clock=clock)
    await stack.enter_async_context(device)
    limit = {"memory_limit": RESIDENT * START.nbytes, "swap": tg.SwapPolicy()} if swaps else {}
    session = tg.Session(graph, devices=[device], settings=tg.Settings(fuse=True), **limit)
    await stack.enter_async_context(session)
    return session, session.make_step(fetches, [x])


async def virtual(case: Case, swaps: bool, trace: Any = None) -> tuple[float, list[Any], Any]:
    """Do a step in virtual time, on a loop of asyncio's own; return the seconds, its values and the swap report."""
    from tagloom.streams import VirtualClock

    async with VirtualClock() as clock, AsyncExitStack() as stack:
        session, step = await opened(case, stack, clock, swaps)
        values = await step(START, trace=trace)
        return clock.now(), values, session.report().swap[0] if swaps else None


def in_virtual_time(case: Case, swaps: bool) -> float:
    """Return the seconds that a step takes in virtual time."""
    return asyncio.run(virtual(case, swaps))[0]


async def engine(case: Case, stack: AsyncExitStack, *, swaps: bool) -> Observed:
    """Run in virtual time once, in a thread since this one's loop can not, and in real time as often as asked."""
    from tagloom.streams import LoopClock

    seconds, ideal = [await asyncio.to_thread(in_virtual_time, case, each) for each in (swaps, False)]
    _, step = await opened(case, stack, LoopClock(), swaps)
    idle = f"{1e2 * (seconds - ideal) / seconds:.2f} % in virtual time"
    figures = {VIRTUAL: [1e3 * seconds / case["iterations"]]}
    return Observed(partial(step, START), figures, lambda: {IDLE: idle} if swaps else {})


def picture(path: Path) -> None:
    """Draw when the streams of the device work."""
    import tagloom as tg

    trace = tg.Trace()
    asyncio.run(virtual(DRAWN, True, trace))
    draw(trace, {"forward": FORWARD, "backward": BACKWARD}, path)


def cases(iterations: int) -> tuple[Case, ...]:
    """Return the cases, for loops of so many iterations."""
    chosen = [("loop", share) for share in (0.3, 0.6, 0.9, 1.2, 1.5)] + [("nested", 0.9)]
    return tuple({"mode": mode, "copy_over_compute": share, "iterations": iterations} for mode, share in chosen)


EXPERIMENT = Experiment(
    name="swap_overlap",
    cases=cases(100),
    quick_cases=cases(50),
    engines={"tagloom": partial(engine, swaps=True), "ideal": partial(engine, swaps=False)},
    metric="milliseconds",
    time_unit=1e3,
    amount=lambda case: float(case["iterations"]),
    figures=(VIRTUAL,),
    notes=(IDLE,),
    picture=picture,
)
