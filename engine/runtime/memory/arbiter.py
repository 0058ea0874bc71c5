"""Steps that wait for memory, since another step may give some back.

A step machine that can start no instance for want of memory asks here whether anybody else may free some. The order of
the answers in `MemoryArbiter.block` is the policy: copies to other memory first, then steps that still run, then
threads that outlive their steps, then constants that can be copied in again, and a failed step only when nothing is
left. See docs/design/0011-memory-limits.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import count

from ...kernels.memory.pool import MemoryLimitError, Pool
from ..devices.device_values import forget_constants
from ..devices.session_devices import SessionDevice
from . import waits
from .claims import MemoryClaim, StepPeaks, around, refusal
from .sharing import MemorySharing
from .waits import Outliving, RunningStep

_SECONDS = 0.01  # between two looks at kernels that run on in threads although their step is over
_STALLED_SECONDS = 1.0  # after which steps of which none went on are taken to wait for each other
_LATE_SECONDS = 5.0  # after which functions of steps of which none went on are taken to wait for those in line
_log = logging.getLogger("tagloom")
_number = count()  # of the steps of all sessions, in the order in which they began


class MemoryArbiter:
    """Arbiter of the steps of one session: which are under way, and which can do nothing but wait for memory.

    Sessions that were given the same device, or the same MemoryBudget, on the same event loop decide together, and so
    do sessions that share one only through a third one: a step that waits on one device may hold the memory of another.
    When all steps of these sessions wait, the step that began last fails, and its memory goes to the others.

    Parameters
    ----------
    *outliving : BlockingCalls or WorkerPool
        Threads whose kernels hold memory after their step has ended, and give it back when they return.
    devices : sequence of SessionDevice
        Of the session, with their limits.
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
        self._running: dict[RunningStep, int] = {}  # with their numbers
        self._waiting: set[RunningStep] = set()
        self._claims: dict[MemoryClaim, None] = {}  # of steps under way
        self._line: dict[MemoryClaim, asyncio.Future[None]] = {}  # of steps that wait to begin
        self._resuming: set[MemoryClaim] = set()  # of steps that waited for others, and would go on
        self._timer: asyncio.TimerHandle | None = None  # to look at the line again
        self._stall: asyncio.TimerHandle | None = None  # to look again at steps that wait for memory and each other
        self._has_told = False  # that nothing moves, since something did
        self._moved = 0.0  # by the loop's clock, when a step was last seen to go on while others wait in line
        self._is_closing = False
        self.sharing = MemorySharing(self, devices)

    @property
    def waiting(self) -> bool:
        """Whether any step can only wait for memory."""
        return bool(self._waiting) or (bool(self.sharing) and any(each._waiting for each in self.everywhere()))

    def register(self, execution: RunningStep) -> None:
        """Note that a step is under way.

        Raises
        ------
        TagloomError
            If a step of another event loop has some of a limited device's memory, of which nobody here could wait.
        """
        if self.sharing:
            self.sharing.bind_loop()
        self._running[execution] = next(_number)
        if self.sharing:
            self.sharing.check_loops()  # now that those of other loops see this one

    def unregister(self, execution: RunningStep) -> None:
        """Note that a step is over; its memory is there for others."""
        self._running.pop(execution, None)
        if self._waiting or self.sharing:  # most steps have nobody to wake
            self._wake_all()

    def begin_closing(self) -> None:
        """Note that the session is being closed, so that others wait for what its variables have."""
        self._is_closing = True

    def strand(self) -> None:
        """Hold nothing in a child process of the one that runs the session, since it cannot be closed there."""
        self.sharing.leave()
        for each in self._devices:
            if each.owned and each.pool is not None and each.pool.shared is not None:
                each.pool.close()

    def close(self) -> None:
        """Note that the session is closed, and holds nothing any more."""
        others = self.everywhere() - {self}
        self.sharing.leave()
        if self.sharing.loop is asyncio.get_running_loop():
            for each in others:
                each._wake_all()
                each._serve()

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
        """Return the claim of a step, or of a part of one, for which `admit_now` or `admit` wait.

        Raises
        ------
        TagloomError
            If steps of another event loop are under way that share a budget or a limited device with this session.
        """
        if self.sharing:
            self.sharing.bind_loop()
            self.sharing.check_loops()
        return MemoryClaim(next(_number), fed, peaks, is_light or bool(around.get()), what, whole, priority)

    def enter(self, claim: MemoryClaim) -> None:
        """Note that a step is under way for which nothing is kept but what it holds."""
        self._begin(claim)
        claim.is_paused = True

    def admit_now(self, claim: MemoryClaim) -> bool:
        """Return True if a step can begin at once; else it waits for `admit`."""
        is_first = claim.is_free or claim.whole is not None
        if not is_first and any(part._line or part._resuming for part in self.everywhere()):
            return False
        if not self._admits(claim):
            return False
        self._begin(claim)
        return True

    async def admit(self, claim: MemoryClaim) -> None:
        """Wait until a step can begin; by priority, then first come, first served, by all sessions that share a device.

        Raises
        ------
        MemoryLimitError
            If its feeds do not fit though all others end.
        """
        self._check_possible(claim)
        loop = asyncio.get_running_loop()
        waiter = self._line[claim] = loop.create_future()
        self._moved = loop.time()
        self._serve()
        try:
            await waiter
        except BaseException:
            self.release(claim)  # it may have been admitted in this turn
            raise
        finally:
            self._line.pop(claim, None)
            del waiter  # an error of it refers to this frame

    def _begin(self, claim: MemoryClaim) -> None:
        others = [each for part in self.everywhere() for each in part._claims]
        claim.is_begun, claim.is_alone = True, not others
        for each in others:
            each.is_alone = False
        self._claims[claim] = None
        self.note_move()

    def release(self, claim: MemoryClaim) -> None:
        """Note that a step is over, or does not begin."""
        claim.is_begun = False
        claim.holder = None
        self._claims.pop(claim, None)
        self._resuming.discard(claim)
        self._serve()

    def pause(self, claim: MemoryClaim) -> None:
        """Keep nothing for a step any longer but what it holds: it waits for what others bring."""
        claim.is_paused = True
        self._serve()

    def resume(self, claim: MemoryClaim) -> bool:
        """Return True if a step that was paused goes on now; else it is woken when it does."""
        if claim.is_paused:
            self._resuming.add(claim)
            self._serve()
        return not claim.is_paused

    def note_move(self) -> None:
        """Note that a step goes on."""
        self._moved = asyncio.get_running_loop().time()
        self._has_told = False

    def refuse(self, claim: MemoryClaim, error: BaseException) -> None:
        """End the wait of a step, or a part of one, with an error, if it still waits."""
        waiter = self._line.get(claim)
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def send_away(self, make_error: Callable[[], BaseException]) -> None:
        """End the waits of all steps of this session that have not begun, each with an error of its own."""
        for waiter in self._line.values():
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_exception(make_error())

    def _active(self, claim: MemoryClaim) -> list[MemoryClaim]:
        """Return the claims of other steps that something is kept for."""
        return [
            each
            for part in self.everywhere()
            for each in part._claims
            if each is not claim and not each.is_paused and not each.is_free
        ]

    def _admits(self, claim: MemoryClaim) -> bool:
        """Return True if a step may begin, or go on: alone, or since all under way can end beside it."""
        if not claim.is_begun:
            if not claim.has_room(each for part in self.everywhere() for each in part._claims):
                return False
            if claim.is_free or claim.whole is not None:
                return True
        active = self._active(claim)
        return not active or claim.fits_beside(active)

    def _check_possible(self, claim: MemoryClaim) -> None:
        parts = self.everywhere()
        found = refusal(claim, (each for part in parts for each in part._claims))
        if found is None or waits.something_comes_back(parts):
            return
        for part in parts:
            forget_constants(each.device for each in part._devices)
        found = refusal(claim, (each for part in parts for each in part._claims))
        if found is not None:
            pool, size = found
            raise MemoryLimitError(size, pool.used_bytes, pool.limit or 0, pool.name)

    def _serve(self) -> None:
        """Resume and begin the steps for which there is memory, in the order in which they came."""
        parts = self.everywhere()
        if not any(part._line or part._resuming for part in parts):
            return
        resuming = sorted(((each, part) for part in parts for each in part._resuming), key=_by_number)
        for claim, part in resuming:
            if not self._admits(claim):
                break
            claim.is_paused = False
            part._resuming.discard(claim)
            if claim.holder is not None:
                claim.holder.wake()
        else:
            self._serve_line(parts)
        self._look_again()

    def _serve_line(self, parts: set[MemoryArbiter]) -> None:
        """Begin steps in line: parts of steps under way first, each that there is room for; then others in order."""
        in_line = waits.steps_in_line(parts)
        waiting: list[tuple[MemoryClaim, MemoryArbiter]] = []  # parts for which there is no room
        for claim, part in in_line:
            waiter = part._line[claim]
            if waiter.done() or (waiting and claim.whole is None and not claim.is_free and not self._is_stalled()):
                continue  # what is given back is for those that are under way, so that they end
            if self._admits(claim):
                part._begin(claim)
                waiter.set_result(None)
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
        """Refuse the newest part that waits, if all that hold memory are partial runs which wait for such parts."""
        wholes = [claim.whole for claim, _ in waiting]
        holding = [each for part in parts for each in part._claims if any(each.held().values())]
        if not all(any(each is whole for whole in wholes) and each.is_idle for each in holding):
            return
        if waits.something_comes_back(parts):
            return
        claim, part = waiting[-1]
        pool, size = max(claim.missing(), key=lambda pair: pair[1])
        error = MemoryLimitError(size, pool.live_bytes, pool.limit or 0, pool.name)
        others = "; ".join(each.describe() for each in holding if each is not claim.whole)
        error.add_note(f"partial runs wait for each other's memory: {others}")
        part._line[claim].set_exception(error)

    def _look_again(self) -> None:
        """Look at the line again soon: users' handles and threads give memory back without a word."""
        is_waiting = bool(self._resuming) or any(not waiter.done() for waiter in self._line.values())
        if is_waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._timer_rings)

    def _timer_rings(self) -> None:
        self._timer = None
        self._serve()
        if self._is_stalled(_LATE_SECONDS):
            parts = self.everywhere()
            if not self._admit_unknown(parts):
                self._tell(parts)
        self._look_again()

    def _is_stalled(self, seconds: float | None = None) -> bool:
        """Return True if no step has gone on for some seconds while others waited."""
        moved = max(part._moved for part in self.everywhere())
        return asyncio.get_running_loop().time() - moved > (_STALLED_SECONDS if seconds is None else seconds)

    def _admit_unknown(self, parts: set[MemoryArbiter]) -> bool:
        """Begin the first step in line although nobody knows what it takes: functions may wait for it.

        None begins while another is parked. It would only hold memory that the parked one waits for.
        """
        begun = [each for part in parts for each in part._claims]
        if self._is_any_busy(parts, begun):
            return False
        in_line = waits.steps_in_line(parts)
        for claim, part in in_line:
            waiter = part._line[claim]
            if waiter.done() or claim.is_known() or not claim.has_room(begun):
                continue
            if claim.may_fit(begun):
                part._begin(claim)
                waiter.set_result(None)
                return True
        return False

    @staticmethod
    def _is_any_busy(parts: set[MemoryArbiter], begun: Sequence[MemoryClaim]) -> bool:
        """Return True if a step waits for memory, or goes on by itself."""
        return any(part._waiting for part in parts) or any(each.holder and each.holder.is_computing for each in begun)

    def _tell(self, parts: set[MemoryArbiter]) -> None:
        """Log once which steps wait for memory, and who has it."""
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

    def poll(self) -> None:
        """Wake the waiting steps whose parked instances fit into memory that was given back."""
        for execution in [each for part in self.everywhere() for each in part._waiting]:
            if execution.can_progress:
                execution.wake()

    def everywhere(self) -> set[MemoryArbiter]:
        """Return this arbiter and those of all sessions that share a device with it, directly or through others."""
        return self.sharing.everywhere() if self.sharing else {self}

    @property
    def has_running(self) -> bool:
        """True if a step of the session is under way."""
        return bool(self._running)

    def _wake_all(self) -> None:
        for execution in [each for part in self.everywhere() for each in part._waiting]:
            execution.wake()

    def block(self, execution: RunningStep) -> None:
        """Note that a step waits for memory; if no step, copy or thread can free any, fail the newest step.

        A step that is woken and still finds no room blocks again, so every return below that does not fail a step must
        leave somebody who will wake one: that is what keeps the loop of waiting and waking from standing still.
        """
        self._waiting.add(execution)
        parts = self.everywhere()
        running = waits.by_age(parts)
        # Saved values of the oldest step move out first: the oldest is the one that should end first. The copy's end
        # wakes the step whose swapper it belongs to, and that step polls the others.
        if any(swap.free_some() for each in running for swap in each.swaps):
            return
        # One that holds memory while it waits to go on goes on then, if only to give some back.
        if waits.any_goes_on(parts):
            self._look_at_stall()
            return
        if self._resume_one(parts) or self._admit_one(parts):
            return
        # A kernel in a thread can not be interrupted, and nothing tells the arbiter when it returns: look again soon.
        if waits.something_comes_back(parts):
            asyncio.get_running_loop().call_later(_SECONDS, self._wake_all)
            return
        # Constants on a device are copies; dropping them costs another copy, so they go only before a step must fail.
        if any(forget_constants(each.device for each in part._devices) for part in parts):
            self._wake_all()
            return
        self._fail_or_look(parts)

    def _fail_or_look(self, parts: set[MemoryArbiter]) -> None:
        """Fail the newest step, unless some that hold memory wait for what others may still bring: look later then."""
        if self._waits_for_those_that_wait(parts):
            self._look_at_stall()
        else:
            waits.fail_newest(parts)

    def _waits_for_those_that_wait(self, parts: set[MemoryArbiter]) -> bool:
        """Return True if steps hold memory that wait for what others, or users, may still bring."""
        waiting = {id(each) for part in parts for each in part._waiting}
        return any(id(each) not in waiting for part in parts for each in part._running)

    def _look_at_stall(self) -> None:
        if self._stall is None:
            loop = asyncio.get_running_loop()
            self._moved = loop.time()
            self._stall = loop.call_later(_STALLED_SECONDS, self._stall_rings)

    def _stall_rings(self) -> None:
        """Fail the newest step that waits for memory if those that have it wait for what it would bring."""
        self._stall = None
        parts = self.everywhere()
        parked = [each for each in waits.by_age(parts) if each.is_parked and waits.is_asleep(each)]
        if not parked:
            return
        others = [each for each in waits.by_age(parts) if each not in parked]
        if waits.any_goes_on(parts):
            if self._is_stalled(_LATE_SECONDS) and all(waits.is_asleep(each) for each in others):
                self._tell(parts)
        elif self._is_stalled(0.9 * _STALLED_SECONDS):
            if not others or waits.serve_each_other(parked, others):
                waits.fail_newest(parts)
                return
            self._tell(parts)
        self._stall = asyncio.get_running_loop().call_later(_STALLED_SECONDS, self._stall_rings)

    def wait_to_resume(self, execution: RunningStep) -> None:
        """Note that a step which waits for `resume` goes on only when others end, or no step can."""
        self._waiting.add(execution)
        parts = self.everywhere()
        if not waits.any_goes_on(parts):
            self._resume_one(parts)

    def _resume_one(self, parts: set[MemoryArbiter]) -> bool:
        """Resume the oldest step that waits for `resume`, if any, though there may be too little memory."""
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
        """Begin the first step in line if there is room for its feeds: no other can go on."""
        in_line = waits.steps_in_line(parts)
        for claim, part in in_line:
            waiter = part._line[claim]
            if not waiter.done() and claim.has_room(each for other in parts for each in other._claims):
                part._begin(claim)
                waiter.set_result(None)
                return True
        return False

    def unblock(self, execution: RunningStep) -> None:
        """Note that a step does not wait for memory, or no longer."""
        self._waiting.discard(execution)


def _by_number(pair: tuple[MemoryClaim, MemoryArbiter]) -> int:
    return pair[0].number
