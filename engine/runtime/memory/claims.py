"""Claims of steps on memory: a step begins when those under way can still end beside it.

Each step claims what it took at most before, in proportion to its feeds. While it runs, memory up to its claim is kept
for it; while it waits for a queue or for its user, only what it holds. So no two steps are under way that each hold a
part of what the other needs. See docs/design/0038-memory-in-line.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ...base.sizes import format_size
from ...base.wording import short_device
from ...kernels.memory.pool import Pool, SharedLimit

Bytes = dict[Pool, int]
Bound = Pool | SharedLimit  # of what a limit is: devices that share one have one in common
_NAMED = 3  # operations that a text names

# Claims of the steps that have called this, in turn: a step that a function of a step runs does not wait for that one.
around: ContextVar[tuple[MemoryClaim, ...]] = ContextVar("tagloom_memory_claims", default=())


class StepPeaks:
    """Most bytes that runs of one compiled step have made on each device, and were fed."""

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most: dict[Pool, tuple[int, int]] = {}

    def learn(self, fed: Mapping[Pool, int], made: Mapping[Pool, int]) -> None:
        """Note what a run has taken from its beginning to its end."""
        for pool, size in made.items():
            if pool not in self._most or size > self._most[pool][0]:
                self._most[pool] = size, fed.get(pool, 0)

    def needs(self, fed: Mapping[Pool, int]) -> Bytes | None:
        """Return what a run with such feeds should take, feeds included; None if no run has ended yet."""
        if not self._most:
            return None
        found = {}
        for pool, (made, feeds) in self._most.items():
            now = fed.get(pool, 0)
            found[pool] = now + (made if now <= feeds else -(-made * now // max(feeds, 1)) if feeds else made)
        return found


class Holder(Protocol):
    """A step under way, as its claim knows it: an `Execution`."""

    @property
    def waiter(self) -> asyncio.Future[None] | None: ...
    @property
    def is_computing(self) -> bool: ...
    @property
    def is_parked(self) -> bool: ...
    @property
    def waits_for_functions(self) -> bool: ...
    def active(self) -> list[str]: ...
    def bytes_held(self) -> Sequence[tuple[Pool, int, int]]: ...
    def wake(self) -> None: ...


class MemoryClaim:
    """Memory that a step may take of devices with a limit, from before it begins until it is over.

    Parameters
    ----------
    number : int
        Counts the claims of all sessions in the order in which they came.
    fed : dict of Pool to list
        Arrays that are charged to each device as the step begins.
    peaks : StepPeaks or None
        Of the compiled step; None for an executor that does not count what a step makes.
    is_free : bool
        Whether the step begins as soon as there is room for its feeds: it takes next to nothing besides, or a function
        of a step under way asks for it and may not wait for that.
    what : str
        Name of the step for errors and logs.
    whole : MemoryClaim, optional
        Claim of the partial run that these feeds are a further part of: it holds memory, so that the part goes before
        steps that have not begun.
    priority : int
        Steps of higher ones are next in line.

    Attributes
    ----------
    needs : dict of Pool to int, or None
        Most bytes that the step should take, feeds included; None if nobody knows.
    is_begun : bool
        Whether the step may run.
    is_fed : bool
        Whether its feeds are charged.
    is_paused : bool
        Whether it waits for something that other steps or its user bring, so that nothing is kept for it.
    holder : Execution or None
        Set as the step begins.
    is_alone : bool
        Whether no other step was under way since it began.
    parts : list of weakref.ref
        Arrays that a partial run was fed in parts, which count as held as long as they live.
    """

    __slots__ = (
        "_arrived",
        "_before",
        "_fed",
        "_peaks",
        "fed",
        "holder",
        "is_alone",
        "is_begun",
        "is_fed",
        "is_free",
        "is_paused",
        "needs",
        "number",
        "parts",
        "priority",
        "what",
        "whole",
    )

    def __init__(
        self,
        number: int,
        fed: dict[Pool, list[object]],
        peaks: StepPeaks | None,
        is_free: bool = False,
        what: str = "",
        whole: MemoryClaim | None = None,
        priority: int = 0,
    ) -> None:
        self.what: str = what
        self.whole: MemoryClaim | None = whole
        self.parts: list[tuple[Pool, ref[np.ndarray[Any, Any]]]] = []
        self.number: int = number
        self.priority: int = priority
        self._fed: dict[Pool, list[object]] = fed
        self._peaks: StepPeaks | None = peaks
        self.fed: Bytes = {pool: pool.external_bytes(arrays) for pool, arrays in fed.items()}
        self.needs: Bytes | None = self.fed if peaks is None else peaks.needs(self.fed)
        self.is_begun: bool = False
        self.is_free: bool = is_free
        self.is_paused: bool = False
        self.is_fed: bool = False
        self.holder: Holder | None = None
        self.is_alone: bool = False
        self._before: dict[Pool, tuple[int, int]] = {}
        self._arrived: Bytes = {}

    def held(self) -> Bytes:
        """Return the bytes that the step holds."""
        if not self.is_begun or not self.is_fed:
            return {}
        found = dict(self.fed)
        self.parts = [each for each in self.parts if each[1]() is not None]
        for pool, part in self.parts:
            array = part()
            found[pool] = found.get(pool, 0) + (0 if array is None else array.nbytes)
        if self.holder is None:
            return found
        for pool, size, _ in self.holder.bytes_held():
            found[pool] = found.get(pool, 0) + size
        return found

    def is_known(self) -> bool:
        """Return True if it is known what the step should take; a run that has ended meanwhile has shown it."""
        if self.needs is None and self._peaks is not None:
            self.needs = self._peaks.needs(self.fed)
        return self.needs is not None

    def takes_at_least(self, others: Iterable[MemoryClaim]) -> Bytes:
        """Return what runs of the same step that are under way have taken so far: this one will take as much."""
        found: Bytes = {}
        for claim in others:
            if claim._peaks is self._peaks and claim.holder is not None:
                for pool, _, most in claim.holder.bytes_held():
                    found[pool] = max(found.get(pool, 0), most + self.fed.get(pool, 0))
        return found

    def may_fit(self, others: Iterable[MemoryClaim]) -> bool:
        """Return True unless runs of the same step have shown already that there is too little room for this one."""
        sizes = self.takes_at_least(others)
        return all(size <= _room(bound) for bound, size in _by_bound(sizes.items()).items())

    @property
    def is_idle(self) -> bool:
        """True if the step does nothing until others, its functions or its user bring something."""
        return self.holder is not None and not self.holder.is_computing

    def describe(self) -> str:
        """Return the name of the step, what it holds, and what it waits for, for errors and logs."""
        sizes = [(pool, size) for pool, size in self.held().items() if size]
        held = ", ".join(f"{format_size(size)} of {short_device(pool.name)}" for pool, size in sizes)
        waits = ", ".join(self.holder.active()[:_NAMED]) if self.holder is not None else ""
        if self.holder is not None and self.holder.is_parked:
            waits = "memory"
        text = f"step {self.what or 'without a name'} holds {held or 'nothing'}"
        return f"{text} and waits for {waits}" if waits else text

    def lacking(self) -> Bytes:
        """Return the bytes that the step may still take."""
        held = self.held()
        return {pool: max(0, size - held.get(pool, 0)) for pool, size in (self.needs or {}).items()}

    def missing(self) -> Iterable[tuple[Pool, int]]:
        """Yield what the feeds would take of each device now."""
        for pool, arrays in self._fed.items():
            yield pool, pool.external_bytes(arrays)

    def has_room(self, others: Iterable[MemoryClaim]) -> bool:
        """Return True if the feeds fit beside those of other steps that begin in this turn of the event loop."""
        own = list(self.missing())
        bounds = {pool.bound for pool, _ in own}
        to_come = own + [pair for claim in others if claim.is_begun and not claim.is_fed for pair in claim.missing()]
        return all(size <= _room(bound) for bound, size in _by_bound(to_come).items() if bound in bounds)

    def begin(self, holder: Holder | None) -> None:
        """Note that the step has its feeds; without a holder, which says what it makes, nothing more is kept for it."""
        self.holder = holder
        self.is_fed = True
        self._before = {pool: (pool.live_bytes, pool.peak_bytes) for pool in self._fed}
        self._fed = {}
        if holder is None:
            self.needs = {}

    def note_arrivals(self) -> None:
        """Note the bytes that came from outside while the step waited: functions and pipelines make them."""
        if self.holder is not None and self.is_alone:
            for pool, held, _ in self.holder.bytes_held():
                came = pool.live_bytes - self._before.get(pool, (pool.live_bytes, 0))[0] - held
                self._arrived[pool] = max(self._arrived.get(pool, 0), came)

    def note_end(self) -> None:
        """Note what the step, which has ended well, has made and got."""
        if self.holder is None or self._peaks is None:
            return
        taken = {}
        for pool, _, most in self.holder.bytes_held():
            live, peak = self._before[pool]
            alone = pool.peak_bytes - live if self.is_alone and pool.peak_bytes > peak else 0
            taken[pool] = max(most + self._arrived.get(pool, 0), alone)
        self._peaks.learn(self.fed, taken)

    def fits_beside(self, others: Sequence[MemoryClaim]) -> bool:
        """Return True if all of these steps can end, whoever takes what it may take first."""
        if not all(each.is_known() for each in (self, *others)):
            return False
        lacking = _by_bound(pair for claim in (self, *others) for pair in claim.lacking().items())
        return all(size <= _room(bound) for bound, size in lacking.items())


def refusal(claim: MemoryClaim, begun: Iterable[MemoryClaim]) -> tuple[Pool, int] | None:
    """Return the device on which the feeds of a step do not fit, whoever else ends, and their bytes.

    A partial run that waits for a part gives nothing back for that part.
    """
    ending = [each for each in begun if not (each is claim.whole and each.is_idle)]
    held = _by_bound(pair for each in ending for pair in each.held().items())
    missing: dict[Bound, int] = {}
    for pool, size in claim.missing():
        bound = pool.bound
        missing[bound] = missing.get(bound, 0) + size
        if missing[bound] > _limit(bound) - max(0, bound.used_bytes - held.get(bound, 0)):
            return pool, missing[bound]
    return None


def _by_bound(sizes: Iterable[tuple[Pool, int]]) -> dict[Bound, int]:
    """Return the sums of bytes that count against each limit."""
    found: dict[Bound, int] = {}
    for pool, size in sizes:
        found[pool.bound] = found.get(pool.bound, 0) + size
    return found


def _room(bound: Bound) -> int:
    return _limit(bound) - bound.used_bytes


def _limit(bound: Bound) -> int:
    return bound.limit if bound.limit is not None else 1 << 62
