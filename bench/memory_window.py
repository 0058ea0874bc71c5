"""As many iterations as memory allows: windows of fixed size, and ``parallel_iterations="auto"`` under a budget.

Eight devices. Each iteration makes a value of 1 MiB on the first, which keeps it to the iteration's end, while it
passes through kernels of 5 ms on the seven others. The budget is six such values on each device. Windows of fixed size
run without a limit; those beyond the budget show it in their peak.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from .experiment import Case, Experiment, Observed
from .parallel_iterations import LIMITER, devices

DEVICES = 8
SECONDS = 0.005
ELEMENTS = 1 << 18  # of float32: 1 MiB
SCALARS = 1 << 12  # bytes for what else an iteration has
BUDGET = 6 * (4 * ELEMENTS + SCALARS)
OVER_BUDGET = "peak_over_budget"
IN_FLIGHT = "in flight"


def program(tg: Any, case: Case, elements: int = ELEMENTS) -> Any:
    """Build the loop; return its number of iterations, fed, and its results."""
    n = tg.placeholder("int32", [])

    def body(i: Any, total: Any) -> tuple[Any, ...]:
        with tg.device("/cpu:0"):
            kept = passed = tg.fill([elements], tg.cast(i, "float32"))
        for d in range(1, DEVICES):
            with tg.device(f"/cpu:{d}"):
                passed = tg.sign(passed)
        with tg.device(f"/cpu:{DEVICES - 1}"):
            passed = tg.reduce_max(passed)
        with tg.device("/cpu:0"), tg.control_dependencies([passed]):
            last = tg.reduce_max(kept)
        with tg.device("/cpu:0"):
            return i + 1, total + passed * last

    def more(i: Any, *_: Any) -> Any:
        with tg.device("/cpu:0"):
            return i < n

    return n, list(tg.while_loop(more, body, [0, 0.0], parallel_iterations=case["parallel_iterations"]))


def observed(session: Any, step: Any, case: Case) -> Observed:
    """Note the peak of all steps beside the budget, and what limited them."""
    figures: dict[str, list[float]] = {OVER_BUDGET: []}

    async def run() -> Any:
        values = await step(case["iterations"])
        peak = max(memory.peak_bytes for memory in session.statistics().devices.values())
        figures[OVER_BUDGET][:] = [peak / BUDGET]
        return values

    def notes() -> dict[str, str]:
        loop = session.report().loops[0]
        return {LIMITER: loop.limiter, IN_FLIGHT: f"at most {loop.max_in_flight}"}

    return Observed(run, figures, notes)


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Run the loop on devices of one session, which keeps to the budget where the window is left to it."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        n, results = program(tg, case)
    made, _ = await devices(stack, DEVICES, {"Sign": SECONDS})
    limit = BUDGET if case["parallel_iterations"] == "auto" else None
    settings = tg.Settings(pool=True, reuse=True, loops=True)  # which give memory back where a kernel ends
    session = tg.Session(graph, devices=made, memory_limit=limit, settings=settings)
    await stack.enter_async_context(session)
    return observed(session, session.make_step(results, [n]), case)


def cases(iterations: int) -> tuple[Case, ...]:
    """Return the cases, for loops of so many iterations."""
    windows = (1, 2, 4, 8, 16, 32, "auto")
    return tuple({"parallel_iterations": window, "iterations": iterations} for window in windows)


EXPERIMENT = Experiment(
    name="memory_window",
    cases=cases(100),
    quick_cases=cases(40),
    engines={"tagloom": tagloom},
    metric="milliseconds",
    time_unit=1e3,
    amount=lambda case: float(case["iterations"]),
    figures=(OVER_BUDGET,),
    notes=(LIMITER, IN_FLIGHT),
)
