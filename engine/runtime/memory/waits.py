"""Steps that wait for memory: which of them can go on, and how errors and logs name those that hold it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .claims import MemoryClaim

if TYPE_CHECKING:
    from .arbiter import MemoryArbiter

_NAMED = 3  # steps that a text names


class StepSwap(Protocol):
    """What moves the saved values of a step out of a device's memory."""

    def free_some(self) -> bool: ...


class RunningStep(Protocol):
    """A step under way, as the arbiter knows it: an `Execution`.

    Attributes
    ----------
    is_parked : bool
        Whether nothing of it goes on before memory is given back.
    can_progress : bool
        Whether a parked instance fits into memory that was given back, or anything else is ready.
    swaps : sequence of StepSwap
        One for each device whose saved values may move.
    waiter : asyncio.Future or None
        What the step's task awaits; done when the step was woken or cancelled and has not had its turn yet.
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
    """Fail the newest step that waits for memory, and name those that have it.

    It is not the one that asks for most: so the oldest step always ends, whatever comes after it.
    """
    failing = next(each for each in reversed(by_age(parts)) if each.is_parked)
    failing.fail_out_of_memory(describe_holders(parts, failing))


def describe_holders(parts: set[MemoryArbiter], but: Any = None) -> str:
    """Return which steps hold memory, and what each waits for."""
    claims = sorted((each for part in parts for each in part._claims), key=lambda each: each.number)
    holding = [each for each in claims if (but is None or each.holder is not but) and any(each.held().values())]
    text = "; ".join(each.describe() for each in holding[:_NAMED])
    return f"{text}; and {len(holding) - _NAMED} others" if len(holding) > _NAMED else text


def list_waiters(claims: Sequence[MemoryClaim]) -> str:
    names = [each.what or "a step" for each in claims]
    listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{listed} wait" if len(names) > 1 else f"{listed} waits"


def any_goes_on(parts: set[MemoryArbiter]) -> bool:
    """Return True if a step will free memory, or block in its turn.

    One that was woken or cancelled in this turn of the event loop still waits, but its future is done: it will look
    again, or unregister. One that waits for a queue, or for its user, goes on when others bring something. One that
    waits for a function goes on by itself, unless that function waits for others, which nobody sees.
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
    """Return True if threads whose steps are over, or a session that is being closed, will give memory back."""
    return any(part._is_closing or any(each.orphaned for each in part._outliving) for part in parts)


def serve_each_other(parked: Sequence[RunningStep], others: Sequence[RunningStep]) -> bool:
    """Return True if a step that lacks memory would bring what a step that holds some waits for."""
    return any(one.shares_a_queue(other) for one in parked for other in others)


def steps_in_line(parts: set[MemoryArbiter]) -> list[tuple[MemoryClaim, MemoryArbiter]]:
    """Return the claims that wait to begin: parts of steps under way first, then others by priority and number."""
    pairs = [(claim, part) for part in parts for claim in part._line]
    return sorted(pairs, key=lambda pair: (pair[0].whole is None, -pair[0].priority, pair[0].number))
