"""The ends of a group's runners, as they spread along the queues between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from .scheduling.runner import Runner
from .session import Session
from .steps.queue_uses import Uses

_SOON, _LATE = 0.01, 0.2  # seconds between two looks at who waits, which double
_STALLED = 10.0  # seconds without a step behind which the log says who waits for what

_log = logging.getLogger("tagloom")


class Ends:
    """Ends the runners of a group that nothing but a runner which has ended could let go on.

    A runner that waits for room in a queue is ended when all runners of its group that took from the queue have ended,
    and the block of the group as well: nobody is left that could take. What it was fed goes back.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._uses: dict[Runner, Uses | None] = {}  # None of an async function, which may use anything

    def add(self, runner: Runner, uses: Uses | None) -> None:
        """Note what a runner uses."""
        self._uses[runner] = uses

    async def watch(self) -> None:
        """Look at the runners until all have ended, from when the block of their group is over."""
        loop = asyncio.get_running_loop()
        pause, steps, since, has_told = _SOON, -1, loop.time(), False
        while running := [each for each in self._uses if not each.has_ended]:
            for runner, queue in self._held_up(running):
                _log.info("runner '%s' ends: no runner takes from queue %s any longer", runner.name, queue)
                runner.cancel()
            now, done = loop.time(), sum(each.steps for each in self._uses)
            if done != steps:
                pause, steps, since, has_told = _SOON, done, now, False
            elif now - since > _STALLED and not has_told:
                has_told = self._tell(running)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LATE)

    def _held_up(self, running: Iterable[Runner]) -> list[tuple[Runner, str]]:
        """Return the runners that wait for room in a queue which only runners that have ended took from."""
        uses = [self._uses[each] for each in running]
        if any(each is None for each in uses):
            return []  # an async function may take from any queue
        taken = {name for each in uses if each is not None for name in each.takes}
        left = {name for each in self._uses.values() if each is not None for name in each.takes} - taken
        full = {name for name in left if self._has_waiting_putters(name)}
        return [
            (runner, name)
            for runner, its in zip(running, uses, strict=True)
            for name in sorted(full & (its.puts if its is not None else frozenset()))
        ]

    def _has_waiting_putters(self, name: str) -> bool:
        figures = [each.get(name) for each in self._session.resources.statistics().values()]
        return any(getattr(each, "waiting_putters", 0) for each in figures)

    def _tell(self, running: Iterable[Runner]) -> bool:
        """Log what runners wait for whose group does not end; say whether they all wait for queues."""
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
        for figures in self._session.resources.statistics().values():
            found = figures.get(name)
            if found is not None and hasattr(found, "size"):
                takers, putters = getattr(found, "waiting_takers", 0), getattr(found, "waiting_putters", 0)
                return f" ({found.size} in it, {takers} wait for elements and {putters} for room)"
        return ""
