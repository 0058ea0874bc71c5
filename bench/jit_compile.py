"""Compiling native loops: what LLVM takes for loops that were never seen, and what loading them from the disk takes."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np

from .experiment import BenchError, Case, Experiment, Observed
from .loop_gradient import MATRIX, START
from .loop_gradient import program as small_products
from .lstm_train import dynamic_loop, problem, training

Built = tuple[Any, list[Any], list[Any], dict[Any, Any]]  # graph, what comes first, fetches, feeds
LSTM = {"batch": 4, "units": 32, "length": 20}


def counter(tg: Any) -> Built:
    """Build a loop that counts."""
    with tg.Graph().as_default() as graph:
        return graph, [], [tg.while_loop(lambda i: i < 100, lambda i: i + 1, [0])], {}


def matmul(tg: Any) -> Built:
    """Build a loop of small products with its gradient."""
    with tg.Graph().as_default() as graph:
        feeds, fetches = small_products(tg, {"iterations": 20})
        return graph, [], fetches, dict(zip(feeds, (START, MATRIX), strict=True))


def lstm(tg: Any) -> Built:
    """Build a training step of an LSTM."""
    given = problem(LSTM)
    graph, initialize, feeds, fetches = training(tg, given, dynamic_loop)
    return graph, [initialize], fetches, dict(zip(feeds, (given.inputs, given.targets), strict=True))


LOOPS: dict[str, Callable[[Any], Built]] = {"counter": counter, "matmul": matmul, "lstm": lstm}


class Times(logging.Handler):
    """Collects how long the loops of a step took to be compiled, from what the log says of each.

    Attributes
    ----------
    first : dict of str to float
        Milliseconds until a loop had code, by name.
    last : dict of str to float
        The same of the code that it keeps.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.clear()

    def clear(self) -> None:
        """Forget all loops."""
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take the time of a record about compiled code."""
        if isinstance(record.args, tuple) and len(record.args) == 3 and "%.4f s" in str(record.msg):
            name, how, seconds = map(str, record.args)
            self.first.setdefault(name, 1e3 * float(seconds))
            if not how.endswith("quickly"):
                self.last[name] = 1e3 * float(seconds)


def build(case: Case, stack: AsyncExitStack, keeps: bool = False, goes_on: bool = False) -> Observed:
    """Run a loop in a new session each time, with an empty cache on disk or a filled one; idle meanwhile, or not."""
    import tagloom as tg

    graph, first, fetches, feeds = LOOPS[case["loop"]](tg)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    times, logger = Times(), logging.getLogger("tagloom")
    logger.addHandler(times)
    stack.callback(logger.removeHandler, times)
    figures: dict[str, list[float]] = {"milliseconds_to_first_code": [], "milliseconds_to_last_code": []}

    async def step() -> list[np.ndarray]:
        os.environ["TAGLOOM_CACHE"] = folder if keeps else ""
        level = logger.level
        logger.setLevel(logging.DEBUG)
        try:
            async with tg.Session(graph, settings=tg.Settings(llvm_seconds=1e-9)) as session:
                await session.run(first)
                times.clear()
                found: list[np.ndarray] = await session.run(fetches, feeds)
                await session.run(fetches, feeds)  # which asks for code, since the first run took some time
                loops = sum(loop.limited_by == "native" for loop in session.report().loops)
                meanwhile = partial(session.run, fetches, feeds) if goes_on else partial(asyncio.sleep, 0.001)
                await compiled(times, loops, meanwhile)
        finally:
            logger.setLevel(level)
        for name, by_loop in zip(figures, (times.first, times.last), strict=True):
            figures[name].append(sum(by_loop.values()))
        return found

    return Observed(step, figures)


async def compiled(times: Times, loops: int, meanwhile: Callable[[], Awaitable[Any]]) -> None:
    """Wait until some loops have their last code, and do something meanwhile."""
    try:
        async with asyncio.timeout(10):
            while len(times.last) < loops:
                await meanwhile()
    except TimeoutError:
        raise BenchError("no loop was compiled: is llvmlite installed? try: pip install llvmlite") from None


def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Compile each time."""
    return build(case, stack)


def beside_steps(case: Case, stack: AsyncExitStack) -> Observed:
    """Compile each time, while one step follows the other, so that what compiles waits for Python."""
    return build(case, stack, goes_on=True)


def from_disk(case: Case, stack: AsyncExitStack) -> Observed:
    """Load from the disk what the first step has compiled."""
    return build(case, stack, keeps=True)


EXPERIMENT = Experiment(
    name="jit_compile",
    cases=tuple({"loop": name} for name in LOOPS),
    engines={"tagloom": tagloom, "beside_steps": beside_steps, "from_disk": from_disk},
    metric="milliseconds",
    time_unit=1e3,
    figures=("milliseconds_to_first_code", "milliseconds_to_last_code"),
)
