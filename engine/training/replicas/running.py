"""Replicas as runners: who has left, who was late, and when training is over."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...base.errors import GraphError
from ...runtime.runners import Runners
from ...runtime.scheduling.runner import Feeds, Runner
from .replica import Replica, Replicas

_KEPT = 1000  # gradients that were late, and updates whose time is known


@dataclass(frozen=True, slots=True)
class Options:
    """How replicas are run.

    Attributes
    ----------
    steps : int, optional
        Number of updates after which training is over; without it ends with the feeds, or when the group is stopped.
    feeds : sequence, optional
        For each replica what `Runners.add` takes: a mapping, or an iterable or async iterable of them. A replica whose
        feeds have ended, or the queue that it takes from, leaves: updates then wait for the others only.
    fetches : sequence, optional
        For each replica what its steps fetch besides.
    on_step : callable, optional
        Called with the number of the replica and what its step has fetched; may be an async function.
    on_update : callable, optional
        Called with the number of updates after each; may be an async function. The next one waits for it.
    restarts, backoff, longest_backoff
        Of each replica, as of `Runners.add`.
    minimum : int, optional
        How many replicas must be left when one fails for good; with fewer its error ends the group. By default as many
        as an update needs, or 1 where each makes its own.
    """

    steps: int | None = None
    feeds: Sequence[Feeds] | None = None
    fetches: Sequence[Any] | None = None
    on_step: Callable[[int, Any], object] | None = None
    on_update: Callable[[int], object] | None = None
    restarts: float = 0
    backoff: float = 0.1
    longest_backoff: float = 30.0
    minimum: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 0:
            raise GraphError("steps is no number of updates", wanted="0 or more", got=self.steps, hint="leave it out")

    def of(self, name: str, number: int, count: int) -> Any:
        """Return what `feeds` or `fetches` say of a replica."""
        given = getattr(self, name)
        if given is None:
            return None
        if len(given) != count:
            raise GraphError(
                f"{name} of replicas are one for each", wanted=f"{count} of them", got=len(given), hint=f"{name}=[...]"
            )
        return given[number]


@dataclass(frozen=True, slots=True)
class LateGradient:
    """A gradient that an update did not wait for.

    Attributes
    ----------
    replica : int
        Whose it was.
    step : int
        Number of updates of the parameters that it was computed with.
    updates : int
        How many there were more when it came.
    seconds : float
        How long before it came the update that it was for had been made; 0 if that was under way.
    """

    replica: int
    step: int
    updates: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """What a replica has done.

    Attributes
    ----------
    replica : int
    state : {'running', 'restarting', 'ended', 'failed', 'cancelled'}
    steps : int
        Gradients computed.
    counted : int
        Of which updates were made.
    late : int
        Of which none were: an update did not wait for them.
    staleness : int
        How many updates others have made between what was read and what was changed, or was too late: over all steps.
    most_stale : int
        The most in one step.
    seconds_late : float
        What the late ones were late together.
    restarts : int
    last_error : str or None
    """

    replica: int
    state: str
    steps: int
    counted: int
    late: int
    staleness: int
    most_stale: int
    seconds_late: float
    restarts: int
    last_error: str | None


@dataclass(slots=True)
class _Record:
    """What is known of a replica, also while it is restarted or has left."""

    runner: Runner
    step: int = 0  # updates behind its last step
    counted: int = 0
    late: int = 0
    staleness: int = 0
    most_stale: int = 0
    seconds_late: float = 0.0
    restarts: int = 0  # of earlier runners


class ReplicaGroup(ABC):
    """Replicas that are running, as `start` of `AsyncReplicas` and `SyncReplicas` returns them.

    Attributes
    ----------
    step : int
        Number of updates made.
    late : deque of LateGradient
        The last thousand gradients that an update did not wait for.
    """

    def __init__(self, replicas: Replicas, group: Runners, options: Options) -> None:
        self.step: int = 0
        self.late: deque[LateGradient] = deque(maxlen=_KEPT)
        self._replicas = replicas
        self._group = group
        self._options = options
        self._active: set[int] = set()
        self._records: dict[int, _Record] = {}
        self._made: OrderedDict[int, float] = OrderedDict()  # when an update of parameters of this number was made
        self._ready = asyncio.Event()

    def __repr__(self) -> str:
        name, count = self._replicas.name, len(self._replicas.replicas)
        return f"<{type(self).__name__} {name}: {len(self._active)} of {count} replicas, {self.step} updates>"

    @property
    def active(self) -> frozenset[int]:
        """Numbers of the replicas that have not left."""
        return frozenset(self._active)

    def begin(self) -> ReplicaGroup:
        """Add the runners."""
        for replica in self._replicas.replicas:
            self.join(replica.number)
        return self

    def join(self, number: int) -> Runner:
        """Let a replica run; also one that has left, by its end, an error, or as it was cancelled.

        Parameters
        ----------
        number : int

        Returns
        -------
        Runner
            ``runner.cancel()`` lets it leave.

        Raises
        ------
        GraphError
            If it runs, or there is no such replica.
        """
        found = [each for each in self._replicas.replicas if each.number == number]
        if not found or number in self._active:
            raise GraphError(
                f"replica {number} can not join",
                wanted="one that has left" if found else f"0 to {len(self._replicas.replicas) - 1}",
                got=sorted(self._active),
                hint="see active",
            )
        options, count = self._options, len(self._replicas.replicas)
        feeds, fetches = options.of("feeds", number, count), options.of("fetches", number, count)
        self._active.add(number)
        runner = self._group.add(
            partial(self._step, found[0], [found[0].step, () if fetches is None else fetches]),
            name=f"{self._replicas.name} {number}",
            feeds={} if feeds is None else feeds,
            restarts=options.restarts,
            backoff=options.backoff,
            longest_backoff=options.longest_backoff,
            optional=lambda runner: len(self._active) > self._minimum(),
            drains=found[0].drains,
            until=self._is_enough,
            on_step=None if options.on_step is None else partial(options.on_step, number),
            on_end=partial(self._left, number),
        )
        record = self._records.setdefault(number, _Record(runner))
        record.restarts, record.runner = record.restarts + _restarts_but(record.runner, runner), runner
        return runner

    def statistics(self) -> tuple[ReplicaStatistics, ...]:
        """Return a snapshot of what each replica has done."""
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

    async def _step(self, replica: Replica, fetches: Any, feeds: Any) -> Any:
        await self._ready.wait()
        feeds = {**feeds, **self._labelled(replica)}
        (counted, step, staleness), values = await self._group.session.run(fetches, feeds)
        self._note(replica.number, bool(counted), int(step), int(staleness))
        return values

    def _note(self, number: int, counted: bool, step: int, staleness: int) -> None:
        """Note what came of a step."""
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
        return now - self._made.get(step, now)

    async def _left(self, number: int, runner: Runner) -> None:
        self._active.discard(number)
        await self._go_on_without(number)

    def _note_update(self, step: int) -> None:
        """Note that there is a new update; `step` counts it too."""
        self._made[self.step] = self._group.clock.now()
        if len(self._made) > _KEPT:
            self._made.popitem(last=False)
        self.step = step

    def _is_enough(self) -> bool:
        """Say whether no replica need begin another step."""
        return False

    @abstractmethod
    def _labelled(self, replica: Replica) -> dict[Any, Any]:
        """Return what a step is fed besides the user's feeds."""

    @abstractmethod
    def _minimum(self) -> int:
        """Return how many replicas must be left behind a failure."""

    @abstractmethod
    async def _go_on_without(self, number: int) -> None:
        """Let nobody wait for a replica that has left."""


def _restarts_but(before: Runner, now: Runner) -> int:
    return 0 if before is now else before.statistics().restarts
