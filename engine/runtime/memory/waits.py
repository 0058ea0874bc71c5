"""Steps that wait for memory: their chances to proceed, and the descriptions of memory's holders in errors and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .claims import MemoryClaim

if TYPE_CHECKING:
    from .arbiter import MemoryArbiter

_NAMED = 3  # steps that a text names


class StepSwap(Protocol):
    """Interface of a step's swapper, which moves saved values out of a device's memory."""

    def free_some(self) -> bool: ...


class RunningStep(Protocol):
    """Interface of a step under way for the arbiter; implemented by `MachineExecution`.

    Attributes
    ----------
    is_parked : bool
        True if no part of the step proceeds before memory is released.
    can_progress : bool
        True if a parked instance fits into released memory, or any other instance is ready.
    swaps : sequence of StepSwap
        A swapper for each device whose saved values may move.
    waiter : asyncio.Future or None
        Future awaited by the step's task; done if the step was woken or cancelled and has not had its turn yet.
    """

    @property
    def can_progress(self) -> bool: ...
    @property
    def is_parked(self) -> bool: ...
    @property
    def swaps(self) -> Sequence[StepSwap]: ...
    @property
    def waiter(self) -> asyncio.Future[None] | None: ...
    @property
    def claim(self) -> MemoryClaim | None: ...
    @property
    def waits_for_functions(self) -> bool: ...
    def shares_a_queue(self, other: Any) -> bool: ...
    def wake(self) -> None: ...
    def fail_out_of_memory(self, why: str = "") -> None: ...


class Outliving(Protocol):
    """Threads whose kernels may outlive the step that called them: BlockingCalls, WorkerPool."""

    @property
    def orphaned(self) -> int: ...


def by_age(parts: set[MemoryArbiter]) -> list[RunningStep]:
    """Return the steps under way, the oldest first."""
    running = {each: number for part in parts for each, number in part._running.items()}
    return sorted(running, key=running.__getitem__)


def fail_newest(parts: set[MemoryArbiter]) -> None:
    """Fail the newest step that waits for memory, with the holders of the memory in the error.

    The newest step, and not the largest, fails: so the oldest step always ends.
    """
    failing = next(each for each in reversed(by_age(parts)) if each.is_parked)
    failing.fail_out_of_memory(describe_holders(parts, failing))


def describe_holders(parts: set[MemoryArbiter], but: object = None) -> str:
    """Return a text of the steps holding memory, except `but`, and of their awaited instances."""
    claims = sorted((each for part in parts for each in part._claims), key=lambda each: each.number)
    holding = [each for each in claims if (but is None or each.holder is not but) and any(each.held_bytes().values())]
    text = "; ".join(each.describe() for each in holding[:_NAMED])
    return f"{text}; and {len(holding) - _NAMED} others" if len(holding) > _NAMED else text


def list_waiters(claims: Sequence[MemoryClaim]) -> str:
    names = [each.what or "a step" for each in claims]
    listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{listed} wait" if len(names) > 1 else f"{listed} waits"


def any_goes_on(parts: set[MemoryArbiter]) -> bool:
    """Return True if a step will free memory, or block in its turn.

    A step woken or cancelled in this turn of the event loop still waits, but its future is done: the step will look
    again, or unregister. A step waiting for a queue or its user proceeds when others bring something. A step waiting
    for a function proceeds by itself, unless the function waits for others, which nobody can see.
    """
    waiting: set[Any] = {each for part in parts for each in part._waiting}
    held_up: set[Any] = {each.holder for part in parts for each in part._claims if each.is_paused}
    return any(
        not is_asleep(each) or (each not in waiting and (each not in held_up or each.waits_for_functions))
        for part in parts
        for each in part._running
    )


def is_asleep(execution: RunningStep) -> bool:
    """Return True if a step waits, and was neither woken nor cancelled."""
    return execution.waiter is not None and not execution.waiter.done()


def something_comes_back(parts: set[MemoryArbiter]) -> bool:
    """Return True if threads of ended steps, or a session being closed, will release memory."""
    return any(part._is_closing or any(each.orphaned for each in part._outliving) for part in parts)


def serve_each_other(parked: Sequence[RunningStep], others: Sequence[RunningStep]) -> bool:
    """Return True if a parked step would bring the elements, or the room in a queue, awaited by a holder of memory."""
    return any(one.shares_a_queue(other) for one in parked for other in others)


def steps_in_line(parts: set[MemoryArbiter]) -> list[tuple[MemoryClaim, MemoryArbiter]]:
    """Return the claims in line: parts of steps under way first, then others by priority and number."""
    pairs = [(claim, part) for part in parts for claim in part._line]
    return sorted(pairs, key=lambda pair: (pair[0].whole is None, -pair[0].priority, pair[0].number))
