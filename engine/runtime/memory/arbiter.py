"""Arbitration of memory among steps that wait for each other to release some.

A step machine without memory for any ready instance asks here if anything else may free some. The order of the checks
in `MemoryArbiter.block` is the policy: copies to other memory first, then running steps, then threads that outlive
their steps, then constants that can be copied in again, and a failing step last. See docs/design/0011-memory-limits.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ...kernels.memory.pool import MemoryLimitError, Pool
from ..devices.device_values import forget_constants
from ..devices.session_devices import SessionDevice
from . import waits
from .claims import NUMBERS, MemoryClaim, StepPeaks, around, find_refusing_pool
from .sharing import MemorySharing
from .waits import Outliving, RunningStep

_SECONDS = 0.01  # between two looks at threads whose kernels outlive their step
_STALLED_SECONDS = 1.0  # without progress of any step, after which the steps count as waiting for each other
_LATE_SECONDS = 5.0  # without progress, after which functions of steps count as waiting for the steps in line
_log = logging.getLogger("tagloom")


class MemoryArbiter:
    """Arbiter of a session's memory: decides which steps begin, wait for memory, or fail.

    Sessions with the same device or the same MemoryBudget on the same event loop decide together, also if they share
    through a third session only: a step waiting on a device may hold the memory of another. When all steps of these
    sessions wait, the step begun last fails, and its memory goes to the others.

    Parameters
    ----------
    *outliving : BlockingCalls or WorkerPool
        Threads whose kernels hold memory after their step has ended, and release it when they return.
    devices : sequence of SessionDevice
        Devices of the session, with their limits.
    """

    __slots__ = (
        "__weakref__",
        "_claims",
        "_devices",
        "_has_told",
        "_is_closing",
        "_line",
        "_moved",
        "_outliving",
        "_resuming",
        "_running",
        "_stall",
        "_timer",
        "_waiting",
        "sharing",
    )

    def __init__(self, *outliving: Outliving, devices: Sequence[SessionDevice] = ()) -> None:
        self._outliving, self._devices = outliving, devices
        self._running: dict[RunningStep, int] = {}  # steps under way, with their numbers
        self._waiting: set[RunningStep] = set()
        self._claims: dict[MemoryClaim, None] = {}  # claims of begun steps, in the order of their beginnings
        self._line: dict[MemoryClaim, asyncio.Future[None]] = {}  # claims of steps that wait to begin
        self._resuming: set[MemoryClaim] = set()  # paused claims whose steps could proceed again
        self._timer: asyncio.TimerHandle | None = None  # to look at the line again
        self._stall: asyncio.TimerHandle | None = None  # to look again at steps that wait for memory and each other
        self._has_told = False  # the present standstill was logged
        self._moved = 0.0  # seconds of the loop's clock when a step was last seen to proceed while others waited
        self._is_closing = False
        self.sharing = MemorySharing(self, devices)

    @property
    def waiting(self) -> bool:
        """True if any step waits for memory and nothing else."""
        return bool(self._waiting) or (
            self.sharing.is_shared and any(each._waiting for each in self.connected_arbiters())
        )

    def register(self, execution: RunningStep) -> None:
        """Note the begin of a step.

        Raises
        ------
        TagloomError
            If a step of another event loop holds memory of a limited device: nobody here could wait for its end.
        """
        if self.sharing.is_shared:
            self.sharing.bind_loop()
        self._running[execution] = next(NUMBERS)
        if self.sharing.is_shared:
            self.sharing.check_loops()  # after the registration, so that of two loops at once either sees the other

    def unregister(self, execution: RunningStep) -> None:
        """Note the end of a step, and wake the steps waiting for its memory."""
        self._running.pop(execution, None)
        if self._waiting or self.sharing.is_shared:  # most steps have nobody to wake
            self._wake_all()

    def begin_closing(self) -> None:
        """Note that the session is being closed: its variables' memory will be released, so other steps wait."""
        self._is_closing = True

    def strand(self) -> None:
        """Hold nothing in a forked child process, where the session cannot be closed."""
        self.sharing.leave()
        for each in self._devices:
            if each.owned and each.pool is not None and each.pool.shared is not None:
                each.pool.close()

    def close(self) -> None:
        """Note that the session is closed and holds no memory any more; serve the other sessions."""
        others = self.connected_arbiters() - {self}
        self.sharing.leave()
        if self.sharing.loop is asyncio.get_running_loop():
            for each in others:
                each._wake_all()
                each._serve_waiting_steps()

    # ---- steps that are to begin, or to go on

    def claim(
        self,
        fed: dict[Pool, list[object]],
        peaks: StepPeaks | None,
        is_light: bool = False,
        what: str = "",
        whole: MemoryClaim | None = None,
        priority: int = 0,
    ) -> MemoryClaim:
        """Return the claim of a step, or of a part of a partial run, to be passed to `admit_now` and `admit`.

        Raises
        ------
        TagloomError
            If steps under way on another event loop share a budget or a limited device with this session.
        """
        if self.sharing.is_shared:
            self.sharing.bind_loop()
            self.sharing.check_loops()
        # A step run by a function of another step is free: the outer step could not end before it.
        return MemoryClaim(fed, peaks, is_light or bool(around.get()), what, whole, priority)

    def enter(self, claim: MemoryClaim) -> None:
        """Note the begin of a step for which no memory is reserved beyond the bytes held."""
        self._begin_step(claim)
        claim.is_paused = True

    def admit_now(self, claim: MemoryClaim) -> bool:
        """Begin a step and return True if there is memory and no line; else return False, to await `admit`."""
        is_first = claim.is_free or claim.whole is not None
        if not is_first and any(part._line or part._resuming for part in self.connected_arbiters()):
            return False
        if not self._can_admit(claim):
            return False
        self._begin_step(claim)
        return True

    async def admit(self, claim: MemoryClaim) -> None:
        """Wait until a step can begin: by priority, then in the order of claims, over all sessions sharing a device.

        Raises
        ------
        MemoryLimitError
            If the step's feeds do not fit even when all other steps have ended.
        """
        self._check_possible(claim)
        loop = asyncio.get_running_loop()
        waiter = self._line[claim] = loop.create_future()
        self._moved = loop.time()
        self._serve_waiting_steps()
        try:
            await waiter
        except BaseException:
            self.release(claim)  # the claim may have been admitted in this very turn
            raise
        finally:
            self._line.pop(claim, None)
            del waiter  # the traceback of its error refers to this frame

    def _begin_step(self, claim: MemoryClaim) -> None:
        others = [each for part in self.connected_arbiters() for each in part._claims]
        claim.charge()
        claim.is_begun, claim.is_alone = True, not others
        for each in others:
            each.is_alone = False
        self._claims[claim] = None
        self.note_move()

    def _begin_in_line(self, claim: MemoryClaim) -> None:
        self._begin_step(claim)
        self._line[claim].set_result(None)

    def release(self, claim: MemoryClaim) -> None:
        """Note the end, or the refusal, of a step; serve the line."""
        claim.is_begun = False
        claim.holder = None
        claim.discharge()
        self._claims.pop(claim, None)
        self._resuming.discard(claim)
        self._serve_waiting_steps()

    def pause(self, claim: MemoryClaim) -> None:
        """Reserve no memory for a step beyond the bytes held, while the step waits for other steps."""
        claim.is_paused = True
        self._serve_waiting_steps()

    def resume(self, claim: MemoryClaim) -> bool:
        """Return True if a paused step proceeds now; else the step is woken when its turn comes."""
        if claim.is_paused:
            self._resuming.add(claim)
            self._serve_waiting_steps()
        return not claim.is_paused

    def note_move(self) -> None:
        """Note that a step proceeds."""
        self._moved = asyncio.get_running_loop().time()
        self._has_told = False

    def refuse(self, claim: MemoryClaim, error: BaseException) -> None:
        """End the wait of a claim with an error, if the claim still waits."""
        waiter = self._line.get(claim)
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def send_away(self, make_error: Callable[[], BaseException]) -> None:
        """End the waits of this session's steps in line, each with an error of its own."""
        for waiter in self._line.values():
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_exception(make_error())

    def _active_claims(self, claim: MemoryClaim) -> list[MemoryClaim]:
        """Return the claims of other steps for which memory is reserved."""
        return [
            each
            for part in self.connected_arbiters()
            for each in part._claims
            if each is not claim and not each.is_paused and not each.is_free
        ]

    def _can_admit(self, claim: MemoryClaim) -> bool:
        """Return True if a step may begin or proceed: alone, or if all active steps can end beside this step."""
        if not claim.is_begun:
            if not claim.has_room(each for part in self.connected_arbiters() for each in part._claims):
                return False
            if claim.is_free or claim.whole is not None:
                return True
        active = self._active_claims(claim)
        return not active or claim.fits_beside(active)

    def _check_possible(self, claim: MemoryClaim) -> None:
        """Raise MemoryLimitError if the feeds of a claim will never fit; drop constants of devices before."""
        parts = self.connected_arbiters()
        found = find_refusing_pool(claim, (each for part in parts for each in part._claims))
        if found is None or waits.something_comes_back(parts):
            return
        for part in parts:
            forget_constants(each.device for each in part._devices)
        found = find_refusing_pool(claim, (each for part in parts for each in part._claims))
        if found is not None:
            pool, size = found
            raise MemoryLimitError(size, pool.used_bytes, pool.limit or 0, pool.name)

    def _serve_waiting_steps(self) -> None:
        """Resume paused steps and begin waiting steps as memory allows, in their order."""
        parts = self.connected_arbiters()
        if not any(part._line or part._resuming for part in parts):
            return
        resuming = sorted(((each, part) for part in parts for each in part._resuming), key=_by_number)
        for claim, part in resuming:
            if not self._can_admit(claim):
                break
            claim.is_paused = False
            part._resuming.discard(claim)
            if claim.holder is not None:
                claim.holder.wake()
        else:
            self._serve_line(parts)
        self._look_again()

    def _serve_line(self, parts: set[MemoryArbiter]) -> None:
        """Begin steps in line: all fitting parts of steps under way first; then other steps in order."""
        waiting: list[tuple[MemoryClaim, MemoryArbiter]] = []  # parts without room
        for claim, part in waits.steps_in_line(parts):
            waiter = part._line[claim]
            if waiter.done() or (waiting and claim.whole is None and not claim.is_free and not self._is_stalled()):
                continue  # released memory first goes to parts of steps under way, so that these steps end
            if self._can_admit(claim):
                part._begin_in_line(claim)
                continue
            try:
                self._check_possible(claim)
            except MemoryLimitError as error:
                waiter.set_exception(error)
                continue
            if claim.whole is None:
                break
            waiting.append((claim, part))
        if waiting:
            self._refuse_part(parts, waiting)

    def _refuse_part(self, parts: set[MemoryArbiter], waiting: Sequence[tuple[MemoryClaim, MemoryArbiter]]) -> None:
        """Refuse the newest waiting part if all memory is held by partial runs that wait for such parts themselves."""
        wholes = [claim.whole for claim, _ in waiting]
        holding = [each for part in parts for each in part._claims if any(each.held_bytes().values())]
        if not all(any(each is whole for whole in wholes) and each.is_idle for each in holding):
            return
        if waits.something_comes_back(parts):
            return
        claim, part = waiting[-1]
        pool, size = max(claim.bytes_to_charge(), key=lambda pair: pair[1])
        error = MemoryLimitError(size, pool.live_bytes, pool.limit or 0, pool.name)
        others = "; ".join(each.describe() for each in holding if each is not claim.whole)
        error.add_note(f"partial runs wait for each other's memory: {others}")
        part._line[claim].set_exception(error)

    def _look_again(self) -> None:
        """Look at the line again soon: users' handles and threads release memory without notice."""
        is_waiting = bool(self._resuming) or any(not waiter.done() for waiter in self._line.values())
        if is_waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._timer_rings)

    def _timer_rings(self) -> None:
        self._timer = None
        self._serve_waiting_steps()
        if self._is_stalled(_LATE_SECONDS):
            parts = self.connected_arbiters()
            if not self._admit_unknown(parts):
                self._log_standstill(parts)
        self._look_again()

    def _is_stalled(self, seconds: float | None = None) -> bool:
        """Return True if no step has proceeded for some seconds while others waited."""
        moved = max(part._moved for part in self.connected_arbiters())
        return asyncio.get_running_loop().time() - moved > (_STALLED_SECONDS if seconds is None else seconds)

    def _admit_unknown(self, parts: set[MemoryArbiter]) -> bool:
        """Begin the first step in line with unknown needs, as functions of other steps may wait for this step.

        No step begins while another is parked: a new step would only hold memory needed by the parked step.
        """
        begun = [each for part in parts for each in part._claims]
        if self._is_any_busy(parts, begun):
            return False
        for claim, part in waits.steps_in_line(parts):
            if part._line[claim].done() or claim.is_known() or not claim.has_room(begun):
                continue
            if claim.may_fit(begun):
                part._begin_in_line(claim)
                return True
        return False

    @staticmethod
    def _is_any_busy(parts: set[MemoryArbiter], begun: Sequence[MemoryClaim]) -> bool:
        """Return True if a step waits for memory, or proceeds by itself."""
        return any(part._waiting for part in parts) or any(each.holder and each.holder.is_computing for each in begun)

    def _log_standstill(self, parts: set[MemoryArbiter]) -> None:
        """Log, once for each standstill, the steps waiting for memory and its holders."""
        if self._has_told:
            return
        self._has_told = True
        in_line = [each for part in parts for each, waiter in part._line.items() if not waiter.done()]
        parked = [each.claim for part in parts for each in part._waiting if each.claim is not None]
        _log.warning(
            "no step has gone on for %g s while %s for memory; %s. If these wait for the steps in line, allow more "
            "by memory_limit=, or hold less while waiting",
            _STALLED_SECONDS if parked else _LATE_SECONDS,
            waits.list_waiters([*in_line, *parked]),
            waits.describe_holders(parts) or "functions and queues hold it",
        )

    def wake_fitting_steps(self) -> None:
        """Wake the waiting steps whose parked instances fit into released memory."""
        for execution in [each for part in self.connected_arbiters() for each in part._waiting]:
            if execution.can_progress:
                execution.wake()

    def connected_arbiters(self) -> set[MemoryArbiter]:
        """Return this arbiter and the arbiters of all sessions sharing a device, directly or through others."""
        return self.sharing.connected_arbiters() if self.sharing.is_shared else {self}

    @property
    def has_running(self) -> bool:
        """True if a step of the session is under way."""
        return bool(self._running)

    def may_release(self) -> bool:
        """Return True if a step under way, here or in a session that shares with this one, may release memory."""
        parts = self.sharing.sharing_arbiters()
        return any(part._running or part._claims for part in parts) or waits.something_comes_back(parts)

    def _wake_all(self) -> None:
        for execution in [each for part in self.connected_arbiters() for each in part._waiting]:
            execution.wake()

    def block(self, execution: RunningStep) -> None:
        """Note that a step waits for memory; if no step, copy or thread can free any, fail the newest step.

        A woken step without room blocks again, so every return below, unless a step fails, must leave a waker: else the
        loop of waiting and waking stands still.
        """
        self._waiting.add(execution)
        parts = self.connected_arbiters()
        running = waits.by_age(parts)
        # Saved values of the oldest step move out first: the oldest is the one that should end first. The copy's end
        # wakes the step whose swapper it belongs to, and that step polls the others.
        if any(swap.free_some() for each in running for swap in each.swaps):
            return
        # A step that holds memory while waiting for `resume` proceeds then, if only to release some of it.
        if waits.any_goes_on(parts):
            self._look_at_stall()
            return
        if self._resume_one(parts) or self._admit_one(parts):
            return
        # A kernel in a thread cannot be interrupted, and nothing tells the arbiter of its return: look again soon.
        if waits.something_comes_back(parts):
            asyncio.get_running_loop().call_later(_SECONDS, self._wake_all)
            return
        # Constants on a device are copies; dropping them costs another copy, so they go only before a step must fail.
        if any(forget_constants(each.device for each in part._devices) for part in parts):
            self._wake_all()
            return
        self._fail_or_look(parts)

    def _fail_or_look(self, parts: set[MemoryArbiter]) -> None:
        """Fail the newest step; if holders of memory wait for anything but memory, look again later instead."""
        if self._waits_for_those_that_wait(parts):
            self._look_at_stall()
        else:
            waits.fail_newest(parts)

    def _waits_for_those_that_wait(self, parts: set[MemoryArbiter]) -> bool:
        """Return True if a step under way waits for other steps or users, and not for memory."""
        waiting = {id(each) for part in parts for each in part._waiting}
        return any(id(each) not in waiting for part in parts for each in part._running)

    def _look_at_stall(self) -> None:
        """Start the timer of `_stall_rings`, unless started."""
        if self._stall is None:
            loop = asyncio.get_running_loop()
            self._moved = loop.time()
            self._stall = loop.call_later(_STALLED_SECONDS, self._stall_rings)

    def _stall_rings(self) -> None:
        """Fail the newest parked step if the holders of the memory wait for elements which that step would bring."""
        self._stall = None
        parts = self.connected_arbiters()
        parked = [each for each in waits.by_age(parts) if each.is_parked and waits.is_asleep(each)]
        if not parked:
            return
        others = [each for each in waits.by_age(parts) if each not in parked]
        if waits.any_goes_on(parts):
            if self._is_stalled(_LATE_SECONDS) and all(waits.is_asleep(each) for each in others):
                self._log_standstill(parts)
        elif self._is_stalled(0.9 * _STALLED_SECONDS):
            if not others or waits.serve_each_other(parked, others):
                waits.fail_newest(parts)
                return
            self._log_standstill(parts)
        self._stall = asyncio.get_running_loop().call_later(_STALLED_SECONDS, self._stall_rings)

    def wait_to_resume(self, execution: RunningStep) -> None:
        """Note that a step waits for `resume`: it proceeds when others end, or when no step can proceed."""
        self._waiting.add(execution)
        parts = self.connected_arbiters()
        if not waits.any_goes_on(parts):
            self._resume_one(parts)

    def _resume_one(self, parts: set[MemoryArbiter]) -> bool:
        """Resume the oldest step waiting for `resume`, even with too little memory; return False if there is none."""
        resuming = [(each, part) for part in parts for each in part._resuming]
        if not resuming:
            return False
        claim, part = min(resuming, key=_by_number)
        claim.is_paused = False
        part._resuming.discard(claim)
        if claim.holder is not None:
            claim.holder.wake()
        return True

    def _admit_one(self, parts: set[MemoryArbiter]) -> bool:
        """Begin the first step in line whose feeds have room, as no other step can proceed; return True if begun."""
        for claim, part in waits.steps_in_line(parts):
            if not part._line[claim].done() and claim.has_room(each for other in parts for each in other._claims):
                part._begin_in_line(claim)
                return True
        return False

    def unblock(self, execution: RunningStep) -> None:
        """Forget a step's wait for memory, if any."""
        self._waiting.discard(execution)


def _by_number(pair: tuple[MemoryClaim, MemoryArbiter]) -> int:
    return pair[0].number
