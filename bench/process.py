"""An engine in a process of its own, driven over a pipe."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from .experiment import PEER_MODULES, BenchError, Case, Experiment, Observed
from .memory import PeakMemory
from .peers import other_packages

PATIENCE = 900.0  # seconds to wait for an answer before an engine counts as stuck


class EngineProcess:
    """The parent's end of the pipe; `ask` and `answer` are apart so that engines can prepare side by side."""

    def __init__(self, experiment: Experiment, engine: str) -> None:
        self.engine = engine
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        peer = engine.partition("-")[0] in PEER_MODULES
        arguments = (theirs, experiment.engines[engine], other_packages() if peer else ())
        # No daemon, as an engine may have processes of its own; it ends when the pipe is closed.
        self._process = context.Process(target=serve, args=arguments, name=f"bench-{engine}")
        self._process.start()
        theirs.close()

    def ask(self, command: str, *arguments: Any) -> None:
        """Send a command; its answer must be taken before the next."""
        self._pipe.send((command, arguments))

    def answer(self) -> Any:
        """Wait for the answer; BenchError with the engine's own traceback when it failed."""
        try:
            if not self._pipe.poll(PATIENCE):
                raise BenchError(f"engine '{self.engine}' did not answer within {PATIENCE:.0f} s")
            good, result = self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            self._process.join(5)
            raise BenchError(f"engine '{self.engine}' ended with code {self._process.exitcode}") from error
        if not good:
            raise BenchError(f"engine '{self.engine}' failed:\n{result}")
        return result

    def call(self, command: str, *arguments: Any) -> Any:
        """Send a command and wait for its answer."""
        self.ask(command, *arguments)
        return self.answer()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def serve(pipe: Connection, factory: Any, packages: Sequence[str] = ()) -> None:
    """Answer commands until the pipe closes; runs in the engine's process, which also imports from `packages`."""
    import uvloop

    sys.path.extend(packages)  # behind this Python's own, so that all engines have one NumPy
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(pipe, Worker(factory)))


async def _serve(pipe: Connection, worker: Worker) -> None:
    while True:
        try:
            command, arguments = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            pipe.send((True, await getattr(worker, command)(*arguments)))
        except Exception:
            pipe.send((False, traceback.format_exc()))
    await worker.stack.aclose()


class Worker:
    """The engine's end of the pipe: one command, one method."""

    def __init__(self, factory: Any) -> None:
        self.factory = factory
        self.stack = AsyncExitStack()
        self.steps: list[Any]
        self.memory: PeakMemory

    async def prepare(self, *cases: Mapping[str, Any]) -> None:
        """Drop the last cases and build the work of these, of which most experiments give one; its number is 0."""
        await self.stack.aclose()
        self.steps = [await _settle(self.factory(case, self.stack)) for case in cases]
        self.memory = PeakMemory()

    async def values(self, number: int = 0) -> list[np.ndarray]:
        """Do a step of a case and return the values to compare."""
        step = self.steps[number]
        values = await _settle(step())
        return [np.asarray(value) for value in (step.compared(values) if isinstance(step, Observed) else values)]

    async def seconds(self, steps: int, number: int = 0) -> float:
        """Return the time that `steps` steps of a case take together."""
        step = self.steps[number]
        start = time.perf_counter()
        for _ in range(steps):
            result = step()
            if inspect.isawaitable(result):
                await result
        return time.perf_counter() - start

    async def figures(self) -> dict[str, list[float]]:
        """Return what the step has noted, if it is an Observed one: nothing in cases that have no such figures."""
        figures = getattr(self.steps[0], "figures", {})
        return {metric: list(samples) for metric, samples in figures.items()}

    async def notes(self, number: int = 0) -> dict[str, str]:
        """Return what the step of a case has noted in words, if it is one that does."""
        step = self.steps[number]
        return dict(step.notes()) if isinstance(step, Observed) else {}

    async def peak(self) -> int:
        """Return the peak resident bytes since before the first step."""
        return self.memory.bytes()


async def _settle(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def start(experiment: Experiment, engines: list[str]) -> list[EngineProcess]:
    """Start a process for each engine, in order."""
    return [EngineProcess(experiment, engine) for engine in engines]


def prepare(processes: list[EngineProcess], case: Case, *, in_turn: bool = False) -> None:
    """Let all engines build a case, side by side or one after another."""
    if in_turn:
        for process in processes:
            process.call("prepare", dict(case))
        return
    for process in processes:
        process.ask("prepare", dict(case))
    for process in processes:
        process.answer()
