"""Copies of saved values that are under way: the work that follows each, the bytes moved, the errors."""

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

SwapOut = tuple[SwapEntry, Array, Extent | None]  # a value, its block of host memory, the extent it goes to from there
SwapIn = tuple[SwapEntry, Array]  # a value and the buffer it goes to
Moving = TypeVar("Moving", SwapOut, SwapIn)


class SwapCopies:
    """Copies of one step's saved values on one device, from their submission until their callbacks have run.

    Parameters
    ----------
    counts : SwapCounts
        Of the step and the device.

    Attributes
    ----------
    wake : callable
        Called when memory was given back, or a read that waited may go on.
    fail : callable
        Called with the error of a copy that no read waits for.
    show : callable
        Called with stream, tier, bytes and event of each copy that has ended well.
    closed : bool
        Whether the step is over: its copies are not reported any more.
    """

    def __init__(self, counts: SwapCounts) -> None:
        self.counts = counts
        self.wake: Callable[[], None] = nothing
        self.fail: Callable[[BaseException], None] = nothing
        self.show: Callable[[str, str, int, Event[Any]], None] = nothing
        self.closed: bool = False
        self._under_way: dict[Event[Any], Callable[[Event[Any]], None]] = {}  # each with the callback that follows

    def __len__(self) -> int:
        return len(self._under_way)

    def follow(self, event: Event[Any], call: Callable[[Event[Any]], None]) -> None:
        """Have `call` called with the event when its copy has ended.

        The callback is kept here and not by the event. It refers to saved values, and the thread that ends a copy
        holds the event for a moment longer: memory that the step lets go of must be free at once, not after that.
        """
        self._under_way[event] = call
        event.add_done_callback(self._ended)

    def _ended(self, event: Event[Any]) -> None:
        self._under_way.pop(event)(event)
        if not self._under_way:
            self.wake()

    def count(
        self, stream: str, total: dict[str, int], moved: Sequence[tuple[str, SwapEntry]], event: Event[Any]
    ) -> None:
        """Count the values, each with its tier, that one copy has moved; add their bytes to `total` by tier."""
        sizes: dict[str, int] = {}
        for tier, entry in moved:
            sizes[tier] = sizes.get(tier, 0) + entry.size
        for tier, size in sizes.items():
            total[tier] = total.get(tier, 0) + size
            self.show(stream, tier, size, event)
        self.counts.timed(event)

    def complain(self, error: BaseException, entry: SwapEntry, what: str) -> None:
        """Fail the step with an error of a copy, unless the copy was withdrawn."""
        if not self.closed and not isinstance(error, (Withdrawn, DeviceClosed)):
            self.fail(self.error(error, entry, what))

    def error(self, error: BaseException, entry: SwapEntry, what: str) -> BaseException:
        """Return the SwapError of a value whose copy failed."""
        found = SwapError(
            f"a saved value of {format_size(entry.size)} {what}: {error}",
            device=self.counts.device,
            wanted=f"a copy of {entry.dtype}{list(entry.shape)}",
            got=f"{type(error).__name__}: {error}",
            hint="nothing is lost but this step; make room where SwapPolicy(disk=...) points to, or allow more memory",
        )
        found.__cause__ = error
        return found

    def close(self) -> None:
        """Withdraw the copies that have not begun; tell nobody of the others."""
        self.closed = True
        self.wake = self.fail = self.show = nothing
        for event in list(self._under_way):
            event.withdraw()

    async def drain(self) -> None:
        """Wait until no copy is under way."""
        while self._under_way:
            await next(iter(self._under_way)).over()
            await asyncio.sleep(0)  # its callback comes first


def in_batches(moving: list[Moving], nbytes: int) -> Iterator[list[Moving]]:
    """Yield values in batches of at most so many bytes, or one value.

    A batch is one copy: large enough to be worth the calls, small enough for memory to come back soon.
    """
    batch: list[Moving] = []
    size = 0
    for each in moving:
        if batch and size + each[0].size > nbytes:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each[0].size
    if batch:
        yield batch


def nothing(*_: object) -> None:
    """Do nothing."""
