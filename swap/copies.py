"""Copies of saved values under way: their callbacks, the bytes moved, the errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ..base.errors import SwapError
from ..base.sizes import format_size
from ..streams.event import DeviceClosed, Event, Withdrawn
from .counts import SwapCounts
from .disk import Extent
from .entry import Array, SwapEntry

SwapOut = tuple[SwapEntry, Array, Extent | None]  # a value, its block of host memory, its extent in the file if any
SwapIn = tuple[SwapEntry, Array]  # a value and its buffer on the device
Moving = TypeVar("Moving", SwapOut, SwapIn)


class SwapCopies:
    """Copies of one step's saved values on one device, from their submission until their callbacks have run.

    Parameters
    ----------
    counts : SwapCounts
        Counts of the step and the device.

    Attributes
    ----------
    wake : callable
        Called when memory was freed, or a waiting read may proceed.
    fail : callable
        Called with the error of a copy without waiting reads.
    show : callable
        Called with stream, tier, bytes and event of each successful copy.
    closed : bool
        Whether the step is over, which ends all reports of its copies.
    """

    def __init__(self, counts: SwapCounts) -> None:
        self.counts = counts
        self.wake: Callable[[], None] = do_nothing
        self.fail: Callable[[BaseException], None] = do_nothing
        self.show: Callable[[str, str, int, Event[Any]], None] = do_nothing
        self.closed: bool = False
        self._under_way: dict[Event[Any], Callable[[Event[Any]], None]] = {}  # callbacks by event

    def __len__(self) -> int:
        return len(self._under_way)

    def call_when_ended(self, event: Event[Any], call: Callable[[Event[Any]], None]) -> None:
        """Call `call` with the event when its copy has ended.

        The callback is kept here, not by the event. It refers to saved values, and the thread ending a copy holds the
        event a moment longer, while memory dropped by the step must be free at once.
        """
        self._under_way[event] = call
        event.add_done_callback(self._run_callback)

    def _run_callback(self, event: Event[Any]) -> None:
        self._under_way.pop(event)(event)
        if not self._under_way:
            self.wake()

    def count_moved(
        self, stream: str, total: dict[str, int], moved: Sequence[tuple[str, SwapEntry]], event: Event[Any]
    ) -> None:
        """Count the values moved by a copy, each with its tier; add their bytes to `total` by tier."""
        sizes: dict[str, int] = {}
        for tier, entry in moved:
            sizes[tier] = sizes.get(tier, 0) + entry.size
        for tier, size in sizes.items():
            total[tier] = total.get(tier, 0) + size
            self.show(stream, tier, size, event)
        self.counts.add_duration(event)

    def report_error(self, error: BaseException, entry: SwapEntry, what: str) -> None:
        """Fail the step with an error of a copy, unless the copy was withdrawn or the device closed."""
        if not self.closed and not isinstance(error, (Withdrawn, DeviceClosed)):
            self.fail(self.make_error(error, entry, what))

    def make_error(self, error: BaseException, entry: SwapEntry, what: str) -> BaseException:
        """Return the SwapError for a value and the error of its copy."""
        swap_error = SwapError(
            f"a saved value of {format_size(entry.size)} {what}: {error}",
            device=self.counts.device,
            wanted=f"a copy of {entry.dtype}{list(entry.shape)}",
            got=f"{type(error).__name__}: {error}",
            hint="nothing is lost but this step; make room where SwapPolicy(disk=...) points to, or allow more memory",
        )
        swap_error.__cause__ = error
        return swap_error

    def close(self) -> None:
        """Withdraw the copies that have not begun, and stop reporting the others."""
        self.closed = True
        self.wake = self.fail = self.show = do_nothing
        for event in list(self._under_way):
            event.withdraw()

    async def drain(self) -> None:
        """Wait until no copy is under way."""
        while self._under_way:
            await next(iter(self._under_way)).over()
            await asyncio.sleep(0)  # for the event's callback, which the loop calls next


def in_batches(moving: list[Moving], nbytes: int) -> Iterator[list[Moving]]:
    """Yield values in batches of at most `nbytes` bytes, or a single larger value.

    A batch is copied as a unit: large enough to be worth the calls, small enough to free memory soon.
    """
    batch: list[Moving] = []
    size = 0
    for item in moving:
        if batch and size + item[0].size > nbytes:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item[0].size
    if batch:
        yield batch


def do_nothing(*_: object) -> None:
    """Do nothing."""
