"""Ends of a group's runners, spread along the queues between the runners."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ..session.session import Session
from ..steps.queue_uses import Uses
from .repeating_step import Runner

_SOON, _LATE = 0.01, 0.2  # shortest and longest seconds between two looks at waiting runners; each pause doubles
_STALLED = 10.0  # seconds without a step after which the log lists the queues that runners use

_log = logging.getLogger("tagloom")


class Ends:
    """Watcher of a group's runners: ends every runner blocked on a queue without takers.

    A runner waiting for room in a queue is cancelled when the group's block is over and all runners of the group
    taking from the queue have ended: no taker is left to make room. Its unused feeds go back.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._uses: dict[Runner, Uses | None] = {}  # None for an async function, which may use any queue

    def add(self, runner: Runner, uses: Uses | None) -> None:
        """Register a runner with the queues of its step."""
        self._uses[runner] = uses

    async def watch(self) -> None:
        """Cancel blocked runners until all have ended; started when the body of the group's block is over."""
        loop = asyncio.get_running_loop()
        # Looked at again and again: a queue has no event for a runner that begins to wait for room.
        pause, steps, since, has_told = _SOON, -1, loop.time(), False
        while running := [each for each in self._uses if not each.has_ended]:
            for runner, queue in self._held_up(running):
                _log.info("runner '%s' ends: no runner takes from queue %s any longer", runner.name, queue)
                runner.cancel()
            now, done = loop.time(), sum(each.steps for each in self._uses)
            if done != steps:
                pause, steps, since, has_told = _SOON, done, now, False
            elif now - since > _STALLED and not has_told:
                has_told = self._log_stall(running)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)

    def _held_up(self, running: Iterable[Runner]) -> list[tuple[Runner, str]]:
        """Return each runner waiting for room in a queue, with the queue, if all takers of the queue have ended.

        Only queues with takers in the group count: any other queue is emptied outside of the group.
        """
        uses = [self._uses[each] for each in running]
        if any(each is None for each in uses):
            return []  # an async function may take from any queue
        taken = {name for each in uses if each is not None for name in each.takes}
        abandoned = {name for each in self._uses.values() if each is not None for name in each.takes} - taken
        full = {name for name in abandoned if self._has_waiting_putters(name)}
        return [
            (runner, name)
            for runner, its in zip(running, uses, strict=True)
            for name in sorted(full & (its.puts if its is not None else frozenset()))
        ]

    def _has_waiting_putters(self, name: str) -> bool:
        """Return True if a step waits for room in the queue `name`."""
        figures = [each.get(name) for each in self._session.resources.statistics().values()]
        return any(getattr(each, "waiting_putters", 0) for each in figures)

    def _log_stall(self, running: Iterable[Runner]) -> bool:
        """Log the queues of a stalled group's runners; return False, unlogged, if a runner may wait for more."""
        lines = []
        for runner in running:
            uses = self._uses[runner]
            if uses is None or not (uses.takes or uses.puts) or runner.state != "running":
                return False
            for verb, names in ("elements of", uses.takes), ("room in", uses.puts):
                lines += [f"'{runner.name}' uses {verb} queue {name}{self._state_of(name)}" for name in sorted(names)]
        _log.warning(
            "a group of runners has done no step for %d s, and its block is over: %s. Nothing goes on unless steps "
            "outside of the group use these queues; let the runner that feeds a queue close it (closes=), or call "
            "group.stop()",
            _STALLED,
            "; ".join(lines),
        )
        return True

    def _state_of(self, name: str) -> str:
        """Return the size and the waiting steps of the queue `name` as text for the log; empty for other names."""
        for figures in self._session.resources.statistics().values():
            queue = figures.get(name)
            if queue is not None and hasattr(queue, "size"):
                takers, putters = getattr(queue, "waiting_takers", 0), getattr(queue, "waiting_putters", 0)
                return f" ({queue.size} in it, {takers} wait for elements and {putters} for room)"
        return ""
