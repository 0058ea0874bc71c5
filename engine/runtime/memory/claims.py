"""Claims of steps on memory: a step begins when the steps under way can still end beside the new step.

A step claims the peak of its earlier runs, in proportion to its feeds. While the step runs, memory up to its claim is
reserved; while the step waits for a queue or its user, only the bytes held count. So no two steps under way each hold a
part of the other's needs. See docs/design/0038-memory-in-line.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple, Protocol
from weakref import ref

import numpy as np

from ...base.sizes import format_size
from ...base.wording import short_device
from ...kernels.memory.pool import Pool, SharedLimit

Bytes = dict[Pool, int]
Bound = Pool | SharedLimit  # owner of a limit: a device's pool, or the limit shared by several devices
_NAMED = 3  # operations that a text names

NUMBERS = count()  # of claims and steps of all sessions, in the order of their creation

# Claims of the calling steps, outermost first: a step run by a function of a step must not wait for the outer step.
around: ContextVar[tuple[MemoryClaim, ...]] = ContextVar("tagloom_memory_claims", default=())


class StepPeaks:
    """Peak bytes made on each device by runs of a compiled step, with the bytes fed to these runs."""

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most: dict[Pool, tuple[int, int]] = {}

    def learn(self, fed: Mapping[Pool, int], made: Mapping[Pool, int]) -> None:
        """Note the bytes made by a run from its beginning to its end."""
        for pool, size in made.items():
            if pool not in self._most or size > self._most[pool][0]:
                self._most[pool] = size, fed.get(pool, 0)

    def needs(self, fed: Mapping[Pool, int]) -> Bytes | None:
        """Return the expected bytes of a run with such feeds, feeds included; None if no run has ended yet."""
        if not self._most:
            return None
        found = {}
        for pool, (made, feeds) in self._most.items():
            # Larger feeds scale the claim up. Smaller feeds do not shrink it: too large a claim only delays a step,
            # too small a claim parks steps that are under way.
            now = fed.get(pool, 0)
            found[pool] = now + (made if now <= feeds else -(-made * now // max(feeds, 1)) if feeds else made)
        return found


def charge_all(arrays: Mapping[Pool, Iterable[object]]) -> list[Any]:
    """Charge arrays to their devices while the returned objects live; MemoryLimitError, and no charge, if refused."""
    return [charge for pool, own in arrays.items() for charge in pool.charge_external(own)]


class HeldBytes(NamedTuple):
    """Bytes of a step's arrays on a device with a limit.

    Attributes
    ----------
    pool : Pool
        Memory of the device.
    used : int
        Bytes in use now.
    peak : int
        Most bytes in use so far.
    """

    pool: Pool
    used: int
    peak: int


class Holder(Protocol):
    """Interface of a step under way for its claim; implemented by `MachineExecution`."""

    @property
    def waiter(self) -> asyncio.Future[None] | None: ...
    @property
    def is_computing(self) -> bool: ...
    @property
    def is_parked(self) -> bool: ...
    @property
    def waits_for_functions(self) -> bool: ...
    def active(self) -> list[str]: ...
    def bytes_held(self) -> Sequence[HeldBytes]: ...
    def wake(self) -> None: ...


class MemoryClaim:
    """Memory of devices with a limit that a step may take, from before its begin until its end.

    Parameters
    ----------
    fed : dict of Pool to list
        Arrays charged to each device as the step begins.
    peaks : StepPeaks or None
        Peaks of the compiled step; None for an executor without counts of bytes.
    is_free : bool
        True if the step begins as soon as there is room for its feeds: either its other arrays are tiny, or a function
        of a step under way runs the step and must not wait for its own step.
    what : str
        Name of the step for errors and logs.
    whole : MemoryClaim, optional
        Claim of the partial run, if these feeds are a further part: the run holds memory, so its parts precede steps
        not yet begun.
    priority : int
        Priority in line; higher numbers are next.

    Attributes
    ----------
    number : int
        Number of the claim, over all sessions, in the order of their creation.
    needs : dict of Pool to int, or None
        Expected peak of the step in bytes, feeds included; None if unknown.
    is_begun : bool
        True if the step may run.
    is_fed : bool
        True if the feeds are charged.
    is_paused : bool
        True if the step waits for other steps or its user, so that no memory is reserved.
    holder : Holder or None
        Execution of the step, from its begin on.
    constants : mapping of Pool to list
        Constants that are charged as the step begins, and outlive the step.
    is_copied : bool
        True for arrays of which copies are charged after admission, instead of the arrays.
    is_alone : bool
        True if no other step was under way since the step's begin.
    parts : list of (Pool, weakref.ref)
        Arrays fed in parts to a partial run, which count as held as long as they live.
    """

    __slots__ = (
        "_arrived",
        "_before",
        "_charges",
        "_fed",
        "_peaks",
        "constants",
        "fed",
        "holder",
        "is_alone",
        "is_begun",
        "is_copied",
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
        self.number: int = next(NUMBERS)
        self.priority: int = priority
        self._fed: dict[Pool, list[object]] = fed
        self.constants: Mapping[Pool, list[object]] = {}
        self._charges: list[Any] = []
        self._peaks: StepPeaks | None = peaks
        self.fed: Bytes = {pool: pool.external_bytes(arrays) for pool, arrays in fed.items()}
        self.needs: Bytes | None = self.fed if peaks is None else peaks.needs(self.fed)
        self.is_begun: bool = False
        self.is_free: bool = is_free
        self.is_paused: bool = False
        self.is_fed: bool = False
        self.is_copied: bool = False
        self.holder: Holder | None = None
        self.is_alone: bool = False
        self._before: dict[Pool, tuple[int, int]] = {}
        self._arrived: Bytes = {}

    def held_bytes(self) -> Bytes:
        """Return the bytes held by the step on each device."""
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
        """Return True if the step's needs are known, perhaps from a run ended since the claim was made."""
        if self.needs is None and self._peaks is not None:
            self.needs = self._peaks.needs(self.fed)
        return self.needs is not None

    def takes_at_least(self, others: Iterable[MemoryClaim]) -> Bytes:
        """Return the most bytes taken so far by running runs of the same step: this run needs as many."""
        found: Bytes = {}
        for claim in others:
            if claim._peaks is self._peaks and claim.holder is not None:
                for pool, _, most in claim.holder.bytes_held():
                    found[pool] = max(found.get(pool, 0), most + self.fed.get(pool, 0))
        return found

    def may_fit(self, others: Iterable[MemoryClaim]) -> bool:
        """Return True unless runs of the same step have already shown the room to be too small for this step."""
        sizes = self.takes_at_least(others)
        return all(size <= _free_bytes(bound) for bound, size in _by_bound(sizes.items()).items())

    @property
    def is_idle(self) -> bool:
        """True if the step does nothing until other steps, its functions or its user bring something."""
        return self.holder is not None and not self.holder.is_computing

    def describe(self) -> str:
        """Return the name of the step, the memory held and the instances awaited, for errors and logs."""
        sizes = [(pool, size) for pool, size in self.held_bytes().items() if size]
        held = ", ".join(f"{format_size(size)} of {short_device(pool.name)}" for pool, size in sizes)
        waits = ", ".join(self.holder.active()[:_NAMED]) if self.holder is not None else ""
        if self.holder is not None and self.holder.is_parked:
            waits = "memory"
        text = f"step {self.what or 'without a name'} holds {held or 'nothing'}"
        return f"{text} and waits for {waits}" if waits else text

    def remaining_needs(self) -> Bytes:
        """Return the bytes that the step may still take."""
        held = self.held_bytes()
        return {pool: max(0, size - held.get(pool, 0)) for pool, size in (self.needs or {}).items()}

    def bytes_to_charge(self) -> Iterable[tuple[Pool, int]]:
        """Yield pairs of a device's pool and the bytes to be charged there for feeds and constants."""
        for pool, arrays in self._fed.items():
            yield pool, pool.external_bytes([*arrays, *self.constants.get(pool, ())])

    def charge(self) -> None:
        """Charge feeds and constants at admission: before the step's task runs, other steps may take the room."""
        if self.is_copied:
            return
        self._charges = charge_all({pool: [*own, *self.constants.get(pool, ())] for pool, own in self._fed.items()})
        self.is_fed = True

    def discharge(self) -> None:
        """Leave the charges of feeds and constants to the step, or drop them for a step that does not begin."""
        self._charges = []
        self.constants = {}

    def has_room(self, others: Iterable[MemoryClaim]) -> bool:
        """Return True if the feeds fit, beside the feeds of all steps that begin in this turn of the event loop."""
        own = list(self.bytes_to_charge())
        bounds = {pool.bound for pool, _ in own}
        to_come = own + [
            pair for claim in others if claim.is_begun and not claim.is_fed for pair in claim.bytes_to_charge()
        ]
        return all(size <= _free_bytes(bound) for bound, size in _by_bound(to_come).items() if bound in bounds)

    def begin(self, holder: Holder | None) -> None:
        """Note that the step has its feeds; without a holder to count bytes, nothing more is reserved."""
        self.holder = holder
        self.is_fed = True
        self._before = {pool: (pool.live_bytes, pool.peak_bytes) for pool in self._fed}
        self._fed = {}
        self.discharge()
        if holder is None:
            self.needs = {}

    def note_arrivals(self) -> None:
        """Note the bytes added from outside, by functions and pipelines, while the step waited."""
        if self.holder is not None and self.is_alone:
            for pool, held, _ in self.holder.bytes_held():
                came = pool.live_bytes - self._before.get(pool, (pool.live_bytes, 0))[0] - held
                self._arrived[pool] = max(self._arrived.get(pool, 0), came)

    def note_end(self) -> None:
        """Record the peak of a step that ended well."""
        if self.holder is None or self._peaks is None:
            return
        taken = {}
        for pool, _, most in self.holder.bytes_held():
            # The pool's own peak also counts arrays from outside, but says something of this step only if alone, and
            # only if it rose during the run.
            live, peak = self._before[pool]
            alone = pool.peak_bytes - live if self.is_alone and pool.peak_bytes > peak else 0
            taken[pool] = max(most + self._arrived.get(pool, 0), alone)
        self._peaks.learn(self.fed, taken)

    def fits_beside(self, others: Sequence[MemoryClaim]) -> bool:
        """Return True if all of these steps can end, in whichever order they take their remaining needs."""
        if not all(each.is_known() for each in (self, *others)):
            return False
        lacking = _by_bound(pair for claim in (self, *others) for pair in claim.remaining_needs().items())
        return all(size <= _free_bytes(bound) for bound, size in lacking.items())


def find_refusing_pool(claim: MemoryClaim, begun: Iterable[MemoryClaim]) -> tuple[Pool, int] | None:
    """Return the device on which the feeds of a step never fit, and their bytes; None if the feeds may fit.

    A partial run waiting for a part releases nothing for this part.
    """
    ending = [each for each in begun if not (each is claim.whole and each.is_idle)]
    held = _by_bound(pair for each in ending for pair in each.held_bytes().items())
    missing: dict[Bound, int] = {}
    for pool, size in claim.bytes_to_charge():
        bound = pool.bound
        missing[bound] = missing.get(bound, 0) + size
        if missing[bound] > _limit_bytes(bound) - max(0, bound.used_bytes - held.get(bound, 0)):
            return pool, missing[bound]
    return None


def _by_bound(sizes: Iterable[tuple[Pool, int]]) -> dict[Bound, int]:
    """Return the sums of bytes counted against each limit."""
    found: dict[Bound, int] = {}
    for pool, size in sizes:
        found[pool.bound] = found.get(pool.bound, 0) + size
    return found


def _free_bytes(bound: Bound) -> int:
    return _limit_bytes(bound) - bound.used_bytes


def _limit_bytes(bound: Bound) -> int:
    return bound.limit if bound.limit is not None else 1 << 62
