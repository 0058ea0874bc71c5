"""Moments between two steps that use variables, for consistent captures of variables and for new values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ...base.errors import CheckpointError


class UsesVariables(Protocol):
    """Interface of a compiled step with its uses of variables."""

    @property
    def updates(self) -> bool: ...

    @property
    def uses_variables(self) -> bool: ...


class StepWithTasks(Protocol):
    """Interface of a step under way."""

    @property
    def step(self) -> Any: ...
    def owns_task(self, task: object) -> bool: ...


class StepBoundary:
    """Barrier to steps that change variables, or also read them, until running steps of this kind have ended.

    Other steps come and go: a running step may wait for their elements in a queue. So do steps run by a function of a
    running step, which waits for them.

    Parameters
    ----------
    running : collection
        Steps and partial runs under way.

    Attributes
    ----------
    is_held : bool
        True if steps that change variables are held back; callers need not call `holds_back` otherwise.
    """

    def __init__(self, running: Collection[StepWithTasks]) -> None:
        self.is_held: bool = False
        self._running = running
        self._opened: asyncio.Event | None = None  # set when steps may go on; None while nobody holds them back
        self._holders = 0
        self._holders_of_readers = 0  # number of holders that also hold back steps which only read
        self._waiting: set[asyncio.Future[None]] = set()  # futures of holders, set at the end of any step

    def holds_back(self, step: UsesVariables) -> bool:
        """Return True if a step may not begin now."""
        return self.is_held and (step.updates or (step.uses_variables and self._holders_of_readers > 0))

    async def pass_by(self, step: UsesVariables) -> None:
        """Wait, before a step begins, as long as steps of its kind are held back."""
        while self._opened is not None and self.holds_back(step) and not self._is_asked_for_by_step():
            await self._opened.wait()

    def step_ends(self) -> None:
        """Note the end of a step."""
        if self._waiting:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)

    @asynccontextmanager
    async def hold(self, seconds: float, readers: bool = False) -> AsyncIterator[None]:
        """Wait until no step that changes variables is under way; until the end of the block none begins.

        With `readers`, the same holds for steps that only read variables.

        Raises
        ------
        CheckpointError
            If such steps have not ended after `seconds`.
        """
        self._holders += 1
        self._holders_of_readers += readers
        # Before the wait: else steps that keep coming could hold off the boundary for ever.
        self._opened, self.is_held = self._opened or asyncio.Event(), True
        try:
            await self._wait_for_end(seconds, readers)
            yield
        finally:
            self._holders -= 1
            self._holders_of_readers -= readers
            if not self._holders:
                self._opened.set()
                self._opened, self.is_held = None, False

    async def _wait_for_end(self, seconds: float, readers: bool) -> None:
        """Wait until no held-back kind of step is under way; CheckpointError after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self._under_way(readers):
                    await self._next_end()
        except TimeoutError:
            raise CheckpointError(
                f"steps that {'use' if readers else 'update'} variables did not end within {seconds} s",
                wanted="a moment between two steps, as consistent=True asks for",
                got="; ".join(self._under_way(readers)),
                hint="look at what they wait for, or leave consistent=True out",
            ) from None

    async def _next_end(self) -> None:
        """Wait until a step ends."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def _under_way(self, readers: bool) -> list[str]:
        """Return the fetches' names of each running step that changes variables, or with `readers` reads them."""
        steps = [each.step for each in self._running if each.step.updates or (readers and each.step.uses_variables)]
        return [", ".join(element.name for element in (*step.tensors, *step.targets)) for step in steps]

    def _is_asked_for_by_step(self) -> bool:
        """Return True if the current task is a task of a running step."""
        task = asyncio.current_task()
        return any(each.owns_task(task) for each in self._running)
