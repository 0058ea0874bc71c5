"""What the engine may rely on when it gives work to a device, in words and types.

**Streams.** A device has three: `compute`, `host_to_device`, `device_to_host`. Work on one stream begins and ends in
the order in which it was submitted. Streams run at the same time, except where work names events to wait for
(``after=``), of this or any other device; the work behind it on its stream waits with it.

**Events.** `Stream.submit` returns an event: the point on the stream at which the work is done. It has the work's
result. Submitted without work it is a marker: done when all before it is. Any number of coroutines, on any loop, await
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

from ..kernels.memory.contexts import KernelContexts
from .event import Event

T = TypeVar("T")


class Buffer(Protocol):
    """An array in a device's memory, which is given back with the last reference to the array."""

    @property
    def nbytes(self) -> int:
        """Bytes of data."""


class Memory(Protocol):
    """Counter of the bytes that the buffers of a device take."""

    @property
    def live_bytes(self) -> int:
        """Bytes of the buffers in use."""

    @property
    def used_bytes(self) -> int:
        """Bytes in use that count against the limit: `live_bytes`, and those of others that share it."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes that were in use."""

    @property
    def limit(self) -> int | None:
        """Bytes that buffers may take, None for any number."""

    def counts(self, array: Any, /) -> bool:
        """Say whether an array is counted here."""


class Timer:
    """A call at a time to come, until it was made or is cancelled."""

    __slots__ = ("call", "number", "when")

    def __init__(self, when: float, number: int, call: Callable[[], object]) -> None:
        self.when: float = when
        self.number: int = number
        self.call: Callable[[], object] | None = call

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """Do not make the call."""
        self.call = None


class Clock(ABC):
    """A clock: tells the time and makes calls at given times."""

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
        """Take one `hold` back, after the waiters for the work were told."""

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
    """Counts of the work of a stream so far.

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
    """A queue of work that begins and ends in order.

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
            Called without arguments once all before it has ended and what it waits for is done. None for a marker.
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
            Done when the work is; its result is what `work` returned, None for a marker.

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
    """A memory and three streams: what every device promises; ``async with`` closes it.

    What only some devices can do is in `capabilities`: `SwapSupport` and `SimulatedTime`.

    Attributes
    ----------
    name : str
    clock : Clock
        Tells the times of its events.
    compute, host_to_device, device_to_host : Stream
    pool : Memory or None
        Counts its buffers; None if nothing does.
    contexts : KernelContexts
        Where kernels run, with the Pool that limits them: a ByteCounter where their arrays are not NumPy's.
    buffer : type
        Of its buffers. They have a shape, a dtype, and flags that say whether they are contiguous, as NumPy's arrays.
    arrays : module or None
        The array library whose arrays it computes with, like CuPy; None for NumPy. Then its buffers are arrays of
        that library, and kernels are called by `call`.
    """

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

    @abstractmethod
    async def aclose(self) -> None:
        """Wait for what has begun, drop the rest, and leave nothing behind; again is fine."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    # ---- memory

    @property
    @abstractmethod
    def live_bytes(self) -> int | None:
        """Bytes in use in its memory; None if nothing counts them."""

    @property
    @abstractmethod
    def peak_bytes(self) -> int | None:
        """The most bytes that were in use."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Bytes that may be in use, None for any number; a request for more gets a MemoryError."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new Buffer, not initialised, on the account of the iteration that runs; MemoryError without room."""

    # ---- kernels, on a device with an array library

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, called so that it computes on this device with `arrays`; in any thread.

        Kernels that the function enqueues are on `compute`, arrays that it makes are in the device's memory
        (MemoryError where there is no room), and it may return before the device is done. Afterwards the library is for
        the calling thread as it was before.
        """
        return function(*args)

    def owns(self, array: Any) -> bool:
        """Say whether an array of `arrays` is in this device's memory."""
        return self.arrays is not None and isinstance(array, self.arrays.ndarray)

    def backpressure(self) -> Event[Any] | None:
        """Return an event to await before more is computed by `call`; None if more can be enqueued at once.

        A device whose driver holds up its callers, when too much is enqueued, returns an event before it comes to that.
        """
        return None

    def compute_barrier(self) -> Sequence[Event[None]]:
        """Return the events that a copy out of a buffer must wait for, before which the buffer may not be computed.

        Where `arrays` compute that is a marker behind all kernels enqueued so far, and elsewhere nothing.
        """
        return () if self.arrays is None else (self.compute.submit(),)

    # ---- copies

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
