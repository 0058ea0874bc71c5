"""How late a sleeper in the same event loop wakes while a step runs: what an engine does to its host application."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from . import large_operations, lstm_train
from .experiment import BenchError, Case, Experiment, Observed, Step

NAP = 1e-3
KERNEL_SECONDS = 20e-3
P99, WORST, WORST_NAP, SLOWEST = "p99_milliseconds", "max_milliseconds", "worst nap", "worst operations"
RUNS, SHOWN = 3, 8  # of each operation; operations whose worst nap is shown
START = np.linspace(-1, 1, 50_000)


class Sleeper:
    """Naps of 1 ms beside a step, and how late each of them ended.

    Attributes
    ----------
    late : list of float
        Wake time minus the nap's own deadline, in seconds.
    worst : tuple of (float, float)
        The largest of them, and how long the loop's thread had a core in that nap, in seconds.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self.worst = (0.0, 0.0)

    async def beside(self, work: Awaitable[Any]) -> Any:
        """Nap until `work` is done; the nap it ends in still counts."""
        working = True

        async def nap() -> None:
            while working:
                deadline, ran = time.perf_counter() + NAP, time.thread_time()
                await asyncio.sleep(NAP)
                late = time.perf_counter() - deadline
                self.late.append(late)
                self.worst = max(self.worst, (late, time.thread_time() - ran))

        naps = asyncio.create_task(nap())
        await asyncio.sleep(0)  # the first nap begins before the work
        try:
            return await work
        finally:
            working = False
            await naps


def observed(work: Callable[[], Awaitable[Any]]) -> Observed:
    """Return a step that runs `work` beside a sleeper; its first run, which warms up, does not count."""
    sleeper = Sleeper()
    figures: dict[str, list[float]] = {P99: [], WORST: []}
    warm = False

    async def step() -> Any:
        nonlocal warm
        result = await (sleeper if warm else Sleeper()).beside(work())
        if warm:
            figures[P99][:] = [1e3 * float(np.percentile(sleeper.late, 99))]
            figures[WORST][:] = [1e3 * max(sleeper.late)]
        warm = True
        return result

    def notes() -> dict[str, str]:
        late, ran = (1e3 * seconds for seconds in sleeper.worst)
        whole = late + 1e3 * NAP
        return {WORST_NAP: f"{late:.1f} ms late; the loop's thread had a core for {ran:.1f} ms of {whole:.1f}"}

    return Observed(step, figures, notes)


def heavy(x: np.ndarray) -> np.ndarray:
    """Work in NumPy for 20 ms, whatever the machine; the value does not depend on how often that is."""
    end = time.perf_counter() + KERNEL_SECONDS
    while True:
        y: np.ndarray = np.tanh(x)
        if time.perf_counter() >= end:
            return y


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Await tagloom."""
    if "elements" in case:
        return await every_operation(case)
    made = await (python_loop if "mode" in case else lstm_train.tagloom)(case, stack)
    return observed(made)


async def every_operation(case: Case) -> Observed:
    """Return a step that runs each operation on many elements, compiled before; their first runs count too."""
    import tagloom as tg

    late: dict[str, list[float]] = {}
    figures: dict[str, list[float]] = {P99: [], WORST: []}

    async def run(build: large_operations.Build) -> list[float]:
        sleeper = Sleeper()
        with tg.Graph().as_default() as graph:
            program = build(case["elements"])
        async with tg.Session(graph, **program.options) as session:
            if program.prepare is not None:
                await session.run(program.prepare)
            shown = [program.fetches] if program.watched else []
            await session.compile(program.fetches, list(program.feeds), watch=shown)
            gc.collect()  # of what was built, and not while something is measured
            for _ in range(RUNS):
                watches = [tg.Watch(tensor, policy="latest") for tensor in shown]
                await sleeper.beside(session.run(program.fetches, program.feeds, watch=watches))
        return sleeper.late

    async def step() -> Any:
        programs = large_operations.programs()
        for name, build in programs.items():
            try:
                late[name] = [*late.get(name, []), *await run(build)]
            except Exception as error:
                raise BenchError(f"{name}: {error}") from error
        figures[P99][:] = [1e3 * float(np.percentile(np.concatenate([*late.values()]), 99))]
        figures[WORST][:] = [1e3 * max(map(max, late.values()))]
        return [np.array(len(programs))]

    def notes() -> dict[str, str]:
        worst = sorted(((max(naps), name) for name, naps in late.items()), reverse=True)[:SHOWN]
        return {SLOWEST: ", ".join(f"{name} {1e3 * seconds:.1f} ms" for seconds, name in worst)}

    return Observed(step, figures, notes)


async def python_loop(case: Case, stack: AsyncExitStack) -> Step:
    """Return a step of a tagloom loop around the Python kernel."""
    import tagloom as tg

    def body(i: Any, x: Any) -> tuple[Any, Any]:
        return i + 1, tg.py_function(heavy, [x], "float64", output_shapes=START.shape, blocking=True)

    with tg.Graph().as_default() as graph:
        result = tg.while_loop(lambda i, x: i < case["iterations"], body, [0, tg.constant(START)], back_prop=False)[1]
    session = await stack.enter_async_context(tg.Session(graph))
    step: Step = session.make_step([result], feeds=[])
    return step


def torch(case: Case, stack: AsyncExitStack) -> Observed:
    """Call PyTorch in the event loop."""
    call = (torch_python_loop if "mode" in case else lstm_train.torch)(case, stack)

    async def work() -> Any:
        return call()

    return observed(work)


def torch_python_loop(case: Case, stack: AsyncExitStack) -> Step:
    """Return a Python loop around the kernel, with PyTorch's tensors between its calls."""
    import torch

    def step() -> list[np.ndarray]:
        x = torch.from_numpy(START)
        for _ in range(case["iterations"]):
            x = torch.from_numpy(heavy(x.numpy()))
        return [x.numpy()]

    return step


EXPERIMENT = Experiment(
    name="loop_lag",
    cases=(
        {"batch": 64, "units": 512, "length": 100},
        {"batch": 4, "units": 32, "length": 500},
        {"mode": "python_kernel", "iterations": 20},
        {"operations": "all", "elements": 10_000_000},
    ),
    quick_cases=(
        {"batch": 64, "units": 512, "length": 100},
        {"batch": 4, "units": 32, "length": 500},
        {"mode": "python_kernel", "iterations": 20},
        {"operations": "all", "elements": 1_000_000},
    ),
    engines={"tagloom": tagloom, "torch": torch},
    metric="steps_per_second",
    figures=(P99, WORST),
    notes=(WORST_NAP, SLOWEST),
    unable=lambda case: {"torch": "has other operations"} if "elements" in case else {},
    tolerance=2e-4,
)
