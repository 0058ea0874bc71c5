"""Moments between two steps that change variables, for who wants to see all that each of them does or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ...base.errors import CheckpointError


class HasUpdates(Protocol):
    """A compiled step, as far as it says whether it changes variables."""

    @property
    def updates(self) -> bool: ...


class StepBoundary:
    """Holds steps back that change variables, until those that are under way have ended and somebody has looked.

    Other steps come and go: one that is under way may wait for what they put into a queue. So does one that a function
    of a step under way asks for, as that step waits for it.

    Parameters
    ----------
    running : collection
        Executions under way, each with its `step`, and perhaps with the `tasks` of its instances.

    Attributes
    ----------
    is_held : bool
        Whether steps that change variables are held back; nothing need be asked of this where they are not.
    """

    def __init__(self, running: Collection[Any]) -> None:
        self.is_held: bool = False
        self._running = running
        self._opened: asyncio.Event | None = None  # set when steps may go on; None while nobody holds them back
        self._holders = 0
        self._waiting: set[asyncio.Future[None]] = set()  # of holders, until no such step is under way

    async def pass_by(self, step: HasUpdates) -> None:
        """Wait, as a step that is about to begin, as long as such steps are held back."""
        while step.updates and self._opened is not None and not self._is_asked_for_by_step():
            await self._opened.wait()

    def step_ends(self) -> None:
        """Note that a step has ended."""
        if self._waiting and not self._updating():
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)

    @asynccontextmanager
    async def hold(self, seconds: float) -> AsyncIterator[None]:
        """Wait until no step that changes variables is under way; until the end of the block none begins.

        Raises
        ------
        CheckpointError
            If they have not ended after so many seconds.
        """
        self._holders += 1
        self._opened, self.is_held = self._opened or asyncio.Event(), True
        try:
            await self._wait_for_end(seconds)
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._opened.set()
                self._opened, self.is_held = None, False

    async def _wait_for_end(self, seconds: float) -> None:
        while self._updating():
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                async with asyncio.timeout(seconds):
                    await waiter
            except TimeoutError:
                raise CheckpointError(
                    f"steps that update variables did not end within {seconds} s",
                    wanted="a moment between two steps, for a consistent checkpoint",
                    got="; ".join(self._updating()),
                    hint="look at what they wait for, or save with consistent=False",
                ) from None
            finally:
                self._waiting.discard(waiter)

    def _updating(self) -> list[str]:
        """Return what the steps under way that change variables are to compute."""
        steps = [each.step for each in self._running if each.step.updates]
        return [", ".join(element.name for element in (*step.tensors, *step.targets)) for step in steps]

    def _is_asked_for_by_step(self) -> bool:
        task = asyncio.current_task()
        return any(task in getattr(each, "tasks", ()) for each in self._running)
