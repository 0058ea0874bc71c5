"""Running replicas: membership, late gradients, and the end of training."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...base.errors import GraphError
from ...runtime.runners.feeds import Feeds, iterator_of
from ...runtime.runners.group import Runners
from ...runtime.runners.repeating_step import Runner
from .options import LateGradient, Options, ReplicaStatistics
from .replica import Replica

_KEPT = 1000  # most late gradients, and most times of updates, kept for statistics


@dataclass(slots=True)
class _Record:
    """Counts of a replica, kept while the replica is restarted or has left."""

    runner: Runner
    step: int = 0  # number of updates after its last step
    counted: int = 0
    late: int = 0
    staleness: int = 0
    most_stale: int = 0
    seconds_late: float = 0.0
    restarts: int = 0  # of earlier runners


class ReplicaGroup(ABC):
    """Running replicas, as `AsyncReplicas.start` and `SyncReplicas.start` return them.

    Attributes
    ----------
    step : int
        Number of updates made.
    late : deque of LateGradient
        The latest thousand late gradients.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(3.0)
    ...     replicas = tg.training.SyncReplicas(tg.training.GradientDescentOptimizer(0.1), replicas=3, backup=1)
    ...     _ = [replicas.minimize(w * w) for _ in range(3)]
    ...     init = tg.global_variables_initializer()
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         await session.run(init)
    ...         async with tg.runners(session) as group:
    ...             training = replicas.start(group, steps=5)
    ...             print(training)
    ...         return training.step
    >>> asyncio.run(main())
    <SyncGroup sync_replicas: 3 of 3 replicas, 0 updates>
    5
    """

    def __init__(self, name: str, replicas: Sequence[Replica], group: Runners, options: Options) -> None:
        self.step: int = 0
        self.late: deque[LateGradient] = deque(maxlen=_KEPT)
        self._name = name
        self._replicas = replicas
        self._group = group
        self._options = options
        self._feeds = [_share_iterator(each) for each in options.feeds or [None] * len(replicas)]
        self._active: set[int] = set()
        self._records: dict[int, _Record] = {}
        self._made: OrderedDict[int, float] = (
            OrderedDict()
        )  # time of the update of parameters with this number of updates
        self._ready = asyncio.Event()
        self._is_over = False  # no update will be made

    def __repr__(self) -> str:
        active = f"{len(self._active)} of {len(self._replicas)} replicas"
        return f"<{type(self).__name__} {self._name}: {active}, {self.step} updates>"

    @property
    def active(self) -> frozenset[int]:
        """Numbers of the replicas that have not left."""
        return frozenset(self._active)

    def begin(self) -> ReplicaGroup:
        """Start all replicas; return the group."""
        for replica in self._replicas:
            self.join(replica.number)
        return self

    def join(self, number: int) -> Runner:
        """Start a replica, such as a replica that ended, failed or was cancelled before.

        Parameters
        ----------
        number : int

        Returns
        -------
        Runner
            ``runner.cancel()`` makes the replica leave.

        Raises
        ------
        GraphError
            If the replica runs or is still ending (await its runner's ``wait()``); if the number is out of range, or
            the last update was made.
        """
        is_ending = number in self._records and not self._records[number].runner.has_ended
        if self._is_over or is_ending or not 0 <= number < len(self._replicas):
            raise GraphError(
                f"replica {number} cannot join",
                wanted=f"one of 0 to {len(self._replicas) - 1} that has left, while there are updates",
                got=f"{sorted(self._active)} have not left" if not self._is_over else "the last update was made",
                hint="see active, and await the wait() of its runner, which may still be ending",
            )
        # Functions, because the replicas that are left change: asked on a failure, and before each step.
        options, replica = self._options, self._replicas[number]
        fetches = () if options.fetches is None else options.fetches[number]
        runner = self._group.add(
            partial(self._run_step, replica, [replica.step, fetches]),
            name=f"{self._name} {number}",
            feeds=self._feeds[number],
            restarts=options.restarts,
            backoff=options.backoff,
            longest_backoff=options.longest_backoff,
            optional=lambda runner: len(self._active) > self._minimum_replicas(),
            drains=replica.drains,
            until=self._is_enough,
            on_step=None if options.on_step is None else partial(options.on_step, number),
            on_end=partial(self._continue_without, number),
        )
        self._active.add(number)  # not earlier: the group may have refused the runner
        record = self._records.setdefault(number, _Record(runner))
        record.restarts, record.runner = record.restarts + _restarts_but(record.runner, runner), runner
        return runner

    def statistics(self) -> tuple[ReplicaStatistics, ...]:
        """Return a snapshot of the statistics of each replica that has joined."""
        found = []
        for number, each in sorted(self._records.items()):
            runner = each.runner.statistics()
            found.append(
                ReplicaStatistics(
                    number,
                    runner.state,
                    each.counted + each.late,
                    each.counted,
                    each.late,
                    each.staleness,
                    each.most_stale,
                    each.seconds_late,
                    each.restarts + runner.restarts,
                    runner.last_error,
                )
            )
        return tuple(found)

    async def _run_step(self, replica: Replica, fetches: Any, feeds: Any) -> Any:
        await self._ready.wait()
        feeds = {**feeds, **self._extra_feeds(replica)}
        (counted, step, staleness), values = await self._group.session.run(fetches, feeds)
        self._record_step(replica.number, bool(counted), int(step), int(staleness))
        return values

    def _record_step(self, number: int, counted: bool, step: int, staleness: int) -> None:
        """Record the result of a step."""
        record = self._records[number]
        record.staleness += staleness
        record.most_stale = max(record.most_stale, staleness)
        if not counted:
            seconds = self._seconds_since(record.step)
            record.late += 1
            record.seconds_late += seconds
            self.late.append(LateGradient(number, record.step, staleness, seconds))
        record.step = step

    def _seconds_since(self, step: int) -> float:
        now = self._group.clock.now()
        # 0 seconds after an update that is not recorded, or no longer.
        return now - self._made.get(step, now)

    async def _continue_without(self, number: int, runner: Runner) -> None:
        self._active.discard(number)
        await self._go_on_without(number)

    def _note_update(self, step: int) -> None:
        """Record a new update, which `step` includes."""
        self._made[self.step] = self._group.clock.now()
        if len(self._made) > _KEPT:
            # Updates are recorded in their order, so the first is the oldest.
            self._made.popitem(last=False)
        self.step = step

    def _is_enough(self) -> bool:
        """Return True if no replica needs to begin another step."""
        return False

    @abstractmethod
    def _extra_feeds(self, replica: Replica) -> dict[Any, Any]:
        """Return the feeds of a step in addition to the user's."""

    @abstractmethod
    def _minimum_replicas(self) -> int:
        """Return the number of replicas that must remain after a failure."""

    @abstractmethod
    async def _go_on_without(self, number: int) -> None:
        """Release updates that wait for a replica that has left."""


def _share_iterator(feeds: Feeds) -> Feeds:
    """Return feeds that continue where they stopped when a replica joins again."""
    # One iterator for all runners of a replica, so that no element is fed twice.
    return feeds or {} if feeds is None or isinstance(feeds, Mapping) else iterator_of(feeds)


def _restarts_but(before: Runner, now: Runner) -> int:
    return 0 if before is now else before.statistics().restarts
