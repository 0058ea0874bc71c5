"""One running step: the asyncio shell around an executor.

The executor decides, this carries: it lets the step machine drain in bounded slices, starts asynchronous
instances as tasks, brings their results back, and on cancellation leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..base.errors import DeadFetchError, OpError, TagflowError
from ..base.settings import Settings
from ..base.tags import DEAD
from ..kernels.scheduler.machine import StepMachine
from .dead import explain_dead_fetch
from .reference import ReferenceMachine
from .step import CompiledStep


class Execution:
    """A step on the step machine.

    Parameters
    ----------
    step : CompiledStep
    context : StepContext
    feeds : list of numpy.ndarray
    settings : Settings
    """

    def __init__(self, step: CompiledStep, context: Any, feeds: list[Any], settings: Settings) -> None:
        self.step = step
        self.settings = settings
        self.machine = StepMachine(step.machine, context, feeds, settings.shuffle_seed)
        self.tasks: dict[asyncio.Task[Any], int] = {}
        self.waiter: asyncio.Future[None] | None = None

    async def run(self) -> list[Any]:
        """Run to the end and return the fetched arrays; raises what failed first."""
        machine = self.machine
        try:
            while True:
                more = machine.drain(self.settings.drain_seconds)
                self._launch()
                if machine.done:
                    break
                if more:
                    await asyncio.sleep(0)
                elif machine.failure is not None:
                    await self._stop()
                else:
                    await self._wait()
            return outcome(self.step, machine)
        except BaseException as error:
            machine.abort(error)
            await self._stop()
            raise
        finally:
            machine.close()

    def abort(self, error: BaseException) -> None:
        """End the step with `error`, from outside."""
        self.machine.abort(error)
        self._wake()

    def _launch(self) -> None:
        for ticket, awaitable, _, name in self.machine.launches():
            task = asyncio.get_running_loop().create_task(_await(awaitable), name=name)
            self.tasks[task] = ticket
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        ticket = self.tasks.pop(task)
        if task.cancelled():
            self.machine.fail(ticket, asyncio.CancelledError(f"{task.get_name()} was cancelled"))
        elif (error := task.exception()) is not None:
            self.machine.fail(ticket, error)
        else:
            self.machine.finish(ticket, task.result())
        self._wake()

    async def _wait(self) -> None:
        self.waiter = asyncio.get_running_loop().create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def _stop(self) -> None:
        """Cancel what is in flight and wait until it has ended [46]."""
        self._launch()
        cancelled = False
        for task in self.tasks:
            task.cancel()
        while self.tasks:
            try:
                await asyncio.wait(list(self.tasks))
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError


class ReferenceExecution:
    """A step on the reference executor: every instance a task."""

    def __init__(self, step: CompiledStep, context: Any, feeds: list[Any], settings: Settings) -> None:
        self.step = step
        self.machine = ReferenceMachine(step.plan, context, feeds, settings.shuffle_seed)

    async def run(self) -> list[Any]:
        """Run to the end and return the fetched arrays; raises what failed first."""
        await self.machine.run()
        return outcome(self.step, self.machine)

    def abort(self, error: BaseException) -> None:
        """End the step with `error`, from outside."""
        self.machine.abort(error)


async def _await(awaitable: Any) -> Any:
    return await awaitable


def outcome(step: CompiledStep, machine: Any) -> list[Any]:
    """Return the fetched arrays of a finished machine, or raise its failure."""
    if machine.failure is not None:
        raise wrap(step, *machine.failure)
    for k, value in enumerate(machine.fetches):
        if value is DEAD:
            raise explain_dead_fetch(step.plan, k, machine.switch_outcomes())
    return list(machine.fetches)


def wrap(step: CompiledStep, index: int, tag: str, error: BaseException, shapes: Any) -> BaseException:
    """Return `error` with the instance it happened in: what tagflow raised is completed, the rest is wrapped."""
    if index < 0 or isinstance(error, asyncio.CancelledError) or not isinstance(error, Exception):
        return error
    node = step.plan.nodes[index]
    name = f"{node.name} ({node.type})"
    if isinstance(error, OpError):
        error.operation = error.operation or name
        error.tag = error.tag or tag
        error.source = node.source or error.source
        return error
    if isinstance(error, TagflowError) and not isinstance(error, DeadFetchError):
        error.operation = error.operation or name
        error.source = node.source or error.source
        return error
    failure = OpError(
        f"{node.name} failed: {type(error).__name__}: {error}", tag=tag, input_shapes=shapes, operation=name,
        source=node.source,
    )  # fmt: skip
    failure.__cause__ = error
    return failure
