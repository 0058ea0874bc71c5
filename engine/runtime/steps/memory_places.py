"""Waiting lines of a session's steps for the memory of devices with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ...base.errors import DeviceMemoryError, StepTimeout, TagloomError
from ...kernels.memory.pool import MemoryLimitError
from ..memory.arbiter import MemoryArbiter
from ..memory.claims import MemoryClaim, around
from ..memory.limits import explain_refusal
from ..memory.waits import describe_holders
from ..scheduling.priorities import current_priority
from .compiled_step import CompiledStep
from .environment import StepEnvironment
from .launch import fed_arrays
from .outcomes import StepCounts, names_of

if TYPE_CHECKING:
    from .machine import Execution


class MemoryPlace(NamedTuple):
    """Place of a step in the memory of devices with a limit: its claim, and the rest of its timeout."""

    claim: MemoryClaim
    timeout: float | None


class MemoryPlaces:
    """Admission of a session's steps to the memory of its devices.

    Parameters
    ----------
    environment : StepEnvironment
    counts : StepCounts
    check_admits : callable
        Raises SessionClosed if no step may begin any longer.
    counts_peaks : bool
        True if the executor counts the bytes of steps' arrays.

    Attributes
    ----------
    is_limited : bool
        True if any device has a limit.
    """

    def __init__(
        self, environment: StepEnvironment, counts: StepCounts, check_admits: Callable[[], None], counts_peaks: bool
    ) -> None:
        pools = [each.pool for each in environment.devices if each.pool is not None]
        self.is_limited: bool = any(pool.limit is not None for pool in pools)
        self._pools = {pool.name: pool for pool in pools}
        self._environment = environment
        self._counts = counts
        self._check_admits = check_admits
        self._counts_peaks = counts_peaks

    async def place(self, step: CompiledStep, feeds: list[Any], timeout: float | None) -> MemoryPlace:
        """Wait until a step can begin beside the running steps; return its place.

        Raises
        ------
        DeviceMemoryError
            If the step's feeds do not fit even when all other steps have ended.
        StepTimeout
            If the step still stands in line after `timeout` seconds.
        """
        arbiter, environment = self._environment.arbiter, self._environment
        peaks = step.peaks if self._counts_peaks else None
        label, priority = _step_label(step), current_priority()
        claim = arbiter.claim(fed_arrays(step, feeds, environment), peaks, step.is_light, label, priority=priority)
        if not step.is_charged:
            claim.constants = step.constants_by_pool(environment.devices)
        if not arbiter.admit_now(claim):
            came = perf_counter()
            try:
                await self._in_line(claim, timeout)
            except MemoryLimitError as error:
                raise self._explain_refusal(error, step) from None
            if timeout is not None:
                timeout = max(timeout - (perf_counter() - came), 1e-6)
        try:
            step.charge_constants(environment.devices)  # without effect on the count, which the claim has raised
            self._check_admits()
        except BaseException:
            arbiter.release(claim)
            raise
        # Steps run by functions of this step find the claim here; see `MemoryArbiter.claim`.
        around.set((*around.get(), claim))
        return MemoryPlace(claim, timeout)

    async def _in_line(self, claim: MemoryClaim, timeout: float | None) -> None:
        """Wait in the arbiter's line; count the step as started and ended if the wait fails or times out."""
        try:
            async with asyncio.timeout(None if timeout == inf else timeout) as deadline:
                await self._environment.arbiter.admit(claim)
        except MemoryLimitError:  # no room ever: `place` explains the error, and the step was never under way
            raise
        except BaseException as error:
            failure = error
            if isinstance(error, TimeoutError) and deadline.expired():
                failure = _still_in_line(timeout, claim, self._environment.arbiter)
            self._counts.started += 1
            self._counts.note(failure)
            raise failure from None

    def fill(self, claim: MemoryClaim, execution: Execution) -> None:
        """Note that a step has begun and holds its feeds."""
        claim.begin(execution.holder)
        execution.claim = claim

    def enter(self, execution: Execution) -> MemoryClaim | None:
        """Return the claim of a partial run, which reserves nothing: a partial run waits for its user."""
        if not self.is_limited or not self._counts_peaks:
            return None
        claim = self._environment.arbiter.claim({}, None, is_light=True, what=_step_label(execution.step))
        self._environment.arbiter.enter(claim)
        claim.begin(execution.holder)
        return claim

    async def place_part(
        self, step: CompiledStep, whole: MemoryClaim, arrays: list[Any], in_line: set[MemoryClaim]
    ) -> MemoryClaim:
        """Wait until there is room for the feeds of a part of a partial run; return the part's claim, to be released.

        Parameters
        ----------
        step : CompiledStep
        whole : MemoryClaim
            Claim of the partial run. Its first part stands in line as a step does; further parts are served before
            all steps in line.
        arrays : list of numpy.ndarray
            Arrays to be copied.
        in_line : set of MemoryClaim
            Contains the claim while the part waits.

        Raises
        ------
        DeviceMemoryError
            If there is no room even when all others have ended, or if all others are partial runs waiting likewise.
        """
        arbiter, pool = self._environment.arbiter, self._environment.devices[0].pool
        fed: dict[Any, list[object]] = {} if pool is None or pool.limit is None else {pool: list(arrays)}
        is_further = any(whole.held_bytes().values())
        claim = arbiter.claim(fed, None, False, _step_label(step), whole if is_further else None)
        claim.is_copied = True
        if not arbiter.admit_now(claim):
            in_line.add(claim)
            try:
                await arbiter.admit(claim)
            except MemoryLimitError as error:
                raise self._explain_refusal(error, step) from None
            finally:
                in_line.discard(claim)
        return claim

    def leave_part(self, claim: MemoryClaim | None) -> None:
        """Release the claim of a part whose feeds have been copied, or will not be."""
        if claim is not None:
            self._environment.arbiter.release(claim)

    def _explain_refusal(self, error: MemoryLimitError, step: CompiledStep) -> DeviceMemoryError:
        """Return the DeviceMemoryError of feeds that will never fit, with the notes of the arbiter's error."""
        pool = self._pools[error.device]
        what = "the values fed" if step.is_charged else "the values fed and the constants of a step"
        found = explain_refusal(error, what, [step], pool, self._environment.resources)
        for note in getattr(error, "__notes__", ()):
            found.got = f"{found.got}; {note}"
        return found

    def leave(self, claim: MemoryClaim) -> None:
        """Release the claim of an ended step, or of a step refused before its begin."""
        around.set(tuple(each for each in around.get() if each is not claim))
        self._environment.arbiter.release(claim)

    def send_away(self, make_error: Callable[[], TagloomError]) -> None:
        """End the waits of all steps that have not begun, each with an error of `make_error`."""
        self._environment.arbiter.send_away(make_error)


def _step_label(step: CompiledStep) -> str:
    return ", ".join(names_of(step))


def _still_in_line(seconds: float | None, claim: MemoryClaim, arbiter: MemoryArbiter) -> StepTimeout:
    """Return the StepTimeout of a step waiting in line for memory, with notes on the memory's holders."""
    error = StepTimeout(
        f"the step did not end within {seconds} s",
        wanted=f"at most {seconds} s",
        got="still waiting in line for memory, which steps that came before have or may still take",
        hint="give it a longer timeout=, allow more by memory_limit=, or run fewer steps at once",
    )
    if claim.needs is None:
        error.add_note("the step waits to be alone, as it has not run before: nobody knows what it takes")
    if holders := describe_holders(arbiter.connected_arbiters()):
        error.add_note(holders)
    for pool, size in (claim.needs or {}).items():
        error.add_note(f"the step waits for {size} bytes of memory of {pool.name}")
    return error
