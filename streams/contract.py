"""What the engine may rely on when it gives work to a device, in words and types.

**Streams.** A device has three: `compute`, `host_to_device`, `device_to_host`. Work on one stream begins and ends in
the order in which it was submitted. Streams run at the same time, except where work names events to wait for
(``after=``), of this or any other device; the work behind it on its stream waits with it.

**Events.** `Stream.submit` returns an event: the point on the stream at which the work is done. It has the work's
result. Submitted without work it is a mark: done when all before it is. Any number of coroutines, on any loop, await
it, and a cancelled one disturbs no other. Callbacks are called by the loop that ran when they were added, after the
event is done, never from within the call that adds them.

**Buffers.** What work uses, the function itself and ``uses=``, is kept alive until its event is done and let go before
anybody is told. So memory is given back only after the last event that uses it, and has been by the time that one is
seen to be done.

**Never blocking.** `submit` and all that is called on a loop's thread return at once. Work is called wherever the
device likes, perhaps in a thread of its own with the device's context: it may block, must not touch a loop, and on a
device that works asynchronously it only enqueues. Nothing may assume that a buffer's bytes can be read by the host.

**Errors.** Work that raises fails its event with what it raised. What waits for that event by ``after=`` does not
begin and fails with the same error. Everything else on the stream goes on: streams are shared by steps, and one that
fails is no concern of another's; who needs an earlier result says so.

**Withdrawing.** Work that has not begun can be withdrawn (`Event.withdraw`); its event fails with `Withdrawn` at once.
What has begun runs to its end. Cancelling whoever awaits an event withdraws nothing.

**Closing.** `Device.aclose` waits for what has begun, drops the rest (`DeviceClosed`), and leaves no thread, file or
handle; then `submit` raises. Arrays of the host's memory that the device has made stay valid as long as somebody has
them; buffers in a memory of the device's own end with it, and say so.

**Memory.** It is asked for in any thread, and refused at once.

**Loops.** A device may serve one loop after another. Work is submitted on the thread of a running loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..kernels.memory.contexts import KernelContexts
from ..kernels.memory.swappable import SwappableArray
from .event import Event

T = TypeVar("T")


class Buffer(Protocol):
    """An array in a device's memory, which is given back when nobody has it any more."""

    @property
    def nbytes(self) -> int:
        """Bytes of data."""


class Memory(Protocol):
    """Counts what the buffers of a device take."""

    @property
    def live_bytes(self) -> int:
        """Bytes of those in use."""

    @property
    def peak_bytes(self) -> int:
        """The most they were."""

    @property
    def limit(self) -> int | None:
        """Bytes that they may take, None for any number."""

    def counts(self, array: Any, /) -> bool:
        """Say whether an array is counted here."""


class HostMemory(Protocol):
    """Arrays of the host's memory, outside the limits of devices.

    Attributes
    ----------
    limit : int or None
        Bytes that they may take, None for any number.
    """

    limit: int | None

    @property
    def live_bytes(self) -> int:
        """Bytes of those in use."""

    @property
    def peak_bytes(self) -> int:
        """The most they were."""

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new array with anything in it; MemoryError if there is no room."""

    def close(self) -> None:
        """Keep nothing for new arrays."""


class Timer:
    """A call that is to be made at a time, until it was or is cancelled."""

    __slots__ = ("call", "number", "when")

    def __init__(self, when: float, number: int, call: Callable[[], object]) -> None:
        self.when, self.number = when, number
        self.call: Callable[[], object] | None = call

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """Do not make the call."""
        self.call = None


class Clock(ABC):
    """Time, and calls when it comes."""

    @abstractmethod
    def now(self) -> float:
        """Return the time in seconds."""

    @abstractmethod
    def call_at(self, when: float, call: Callable[[], object]) -> Timer:
        """Have something called on the running loop's thread at a time in seconds, in the order of those times.

        Calls of the same time come in the order in which they were asked for.
        """

    @abstractmethod
    def hold(self) -> None:
        """Note that real work is under way, in any thread: a clock that is free to jump must not, until `release`."""

    @abstractmethod
    def release(self) -> None:
        """Take one `hold` back, after those who wait for the work were told."""

    async def sleep(self, seconds: float) -> None:
        """Wait until so much of this clock's time is over."""
        event: Event[None] = Event()
        timer = self.call_at(self.now() + seconds, event.finish)
        try:
            await event
        finally:
            timer.cancel()


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """What a stream has done so far.

    Attributes
    ----------
    waiting, running, done, failed, withdrawn : int
        Pieces of work: not begun; begun; ended well; failed, or not begun because what they waited for failed; taken
        back, or dropped when the device closed.
    nbytes : int
        Bytes that those done have moved.
    busy_seconds : float
        Time in which work had begun and not ended.
    """

    waiting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    withdrawn: int = 0
    nbytes: int = 0
    busy_seconds: float = 0.0


class Stream(ABC):
    """A queue of work in order.

    Attributes
    ----------
    name : str
        The device's and its own, for messages and traces.
    """

    name: str

    @abstractmethod
    def submit(
        self,
        work: Callable[[], T] | None = None,
        *,
        after: Iterable[Event[Any]] = (),
        uses: Iterable[object] = (),
        kind: str = "",
        nbytes: int | Callable[[], int] = 0,
    ) -> Event[T]:
        """Add work to the end of the queue.

        Parameters
        ----------
        work : callable, optional
            Called without arguments once all before it has ended and what it waits for is done. None for a mark.
        after : iterable of Event
            Of any stream of any device.
        uses : iterable
            What must stay alive until the event is done.
        kind : str
            Type of the operation, for traces and for devices that take their time by it.
        nbytes : int or callable
            Bytes moved, if it is a copy; what is not known before the work begins, a function says then.

        Returns
        -------
        Event
            Done when the work is; its result is what `work` returned, None for a mark.

        Raises
        ------
        DeviceClosed
            If the device was closed.
        """

    @abstractmethod
    def withdraw(self, event: Event[Any]) -> bool:
        """Take back work that has not begun; say whether it was."""

    @abstractmethod
    def statistics(self) -> StreamStatistics:
        """Return what the stream has done so far."""


class Device(ABC):
    """A memory and three streams; ``async with`` closes it.

    Attributes
    ----------
    name : str
    clock : Clock
        What the times of its events are told by.
    compute, host_to_device, device_to_host : Stream
    pool : Memory or None
        Counts its buffers; None if nobody does.
    contexts : KernelContexts
        Where kernels run, with the Pool that limits them: a ByteCounter where their arrays are not NumPy's.
    buffer : type
        Of its buffers. They have a shape, a dtype, and flags that say whether they are contiguous, as NumPy's arrays.
    has_time : bool
        Whether it has a time of its own, in which work may count as done later than it was computed.
    arrays : module or None
        The array library whose arrays it computes with, like CuPy; None for NumPy. Then its buffers are arrays of
        that library, and what computes with them is called by `call`.
    """

    has_time = False
    arrays: Any = None
    buffer: type[Any]
    pool: Memory | None
    contexts: KernelContexts
    name: str
    clock: Clock
    compute: Stream
    host_to_device: Stream
    device_to_host: Stream

    @property
    def streams(self) -> tuple[Stream, Stream, Stream]:
        """The three streams."""
        return self.compute, self.host_to_device, self.device_to_host

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, called so that it computes here with `arrays`; in any thread.

        What it enqueues is on `compute`, what it makes is in the device's memory (MemoryError where there is no room),
        and it may be done when the device is not. Afterwards that library is for the calling thread what it was before.
        """
        return function(*args)

    def crowded(self) -> Event[Any] | None:
        """Return what should be awaited before more is computed by `call`; None if it can be enqueued at once.

        A device that holds up who calls it, when too much is enqueued, says so before.
        """
        return None

    def has(self, array: Any) -> bool:
        """Say whether an array of `arrays` is in the device's memory."""
        return self.arrays is not None and isinstance(array, self.arrays.ndarray)

    def enqueued(self) -> Sequence[Event[None]]:
        """Return what a copy out of a buffer must wait for: where `arrays` compute, a mark behind what makes it."""
        return () if self.arrays is None else (self.compute.submit(),)

    def delays(self, kind: str, nbytes: int = 0) -> bool:
        """Say whether work of a kind, which moves so many bytes, takes time of the device's own."""
        return False

    @property
    @abstractmethod
    def live_bytes(self) -> int | None:
        """Bytes in use in its memory; None if nobody counts them."""

    @property
    @abstractmethod
    def peak_bytes(self) -> int | None:
        """The most bytes that were in use."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Bytes that may be in use, None for any number; what asks for more gets a MemoryError."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new Buffer with anything in it, on the account of who runs; MemoryError if there is no room."""

    @abstractmethod
    def allocate_unreserved(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new Buffer on nobody's account; None if there is no room that is not reserved."""

    @abstractmethod
    def charge(self, buffer: Any) -> None:
        """Count a buffer on the account of who runs, whoever it counted on before."""

    @abstractmethod
    def frees(self, holder: SwappableArray) -> bool:
        """Say whether all bytes of a buffer are free once its holder lets go of it: it is whole and nobody else's."""

    @abstractmethod
    def protect(self, buffer: Any) -> bool:
        """See to it that no kernel writes its result into a buffer; False where that can not be.

        Where `arrays` compute kernels never do.
        """

    @abstractmethod
    def host_memory(self, limit: int | None = None) -> HostMemory:
        """Return memory of the host that copies to and from this device need no detour through."""

    @abstractmethod
    def copy_in(self, source: Any, *, into: Any = None, after: Iterable[Event[Any]] = ()) -> Event[Any]:
        """Copy an array of the host's memory into this device's, by `host_to_device`.

        Parameters
        ----------
        source : numpy.ndarray or Event
            An event stands for its result and is waited for.
        into : Buffer, optional
            Of this device, the source's shape and dtype; a new one unless given.
        after : iterable of Event

        Returns
        -------
        Event
            Its result is the Buffer; it fails with MemoryError where there is no room for a new one.
        """

    @abstractmethod
    def copy_out(self, source: Any, *, into: Any = None, after: Iterable[Event[Any]] = ()) -> Event[Any]:
        """Copy a buffer into the host's memory, by `device_to_host`.

        Parameters
        ----------
        source : Buffer or Event
            An event stands for its result and is waited for.
        into : numpy.ndarray, optional
            Of the source's shape and dtype; a new one unless given.
        after : iterable of Event

        Returns
        -------
        Event
            Its result is a numpy.ndarray outside the device's limit.
        """

    def copy_all_in(self, pairs: Sequence[tuple[Any, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        """Copy several arrays of the host's memory, each into a Buffer of this device.

        One event for all, `after` others; it fails if one of them or of the copies does.
        """
        copies = [self.copy_in(source, into=into, after=after) for source, into in pairs]
        return self.host_to_device.submit(after=copies)

    def copy_all_out(self, pairs: Sequence[tuple[Any, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        """Copy several buffers, each into an array of the host's memory: the same in the other direction."""
        copies = [self.copy_out(source, into=into, after=after) for source, into in pairs]
        return self.device_to_host.submit(after=copies)

    @abstractmethod
    async def aclose(self) -> None:
        """Wait for what has begun, drop the rest, and leave nothing behind; again is fine."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
