"""Contract of devices: the guarantees on which the engine relies, in words and types.

**Streams.** A device has three: `compute`, `host_to_device`, `device_to_host`. Work on one stream begins and ends in
the order of submission. Streams run concurrently, except where work names events to wait for (``after=``), of this or
any other device; later work on the stream then waits as well.

**Events.** `Stream.submit` returns an event: the point on the stream at which the work is done, with the work's result.
An event submitted without work is a marker, done when all earlier work is. Any number of coroutines, on any loop, may
await an event; cancelling a coroutine disturbs no other. A callback is called by the loop on which it was added, after
the event is done, never from within the call that adds the callback.

**Buffers.** Objects used by work (the function itself and ``uses=``) stay alive until its event is done, and are
released before any waiter is told. So memory is freed only after the last event that uses it, and is free by the time
a waiter sees this event done.

**Never blocking.** `submit` and all other calls on a loop's thread return at once. Work is called in a thread of the
device's choice, perhaps its own thread with the device's context: the work may block, must not touch a loop, and only
enqueues on an asynchronous device. The host may be unable to read a buffer's bytes.

**Errors.** Work fails its event with the exception it raises. Work waiting for this event by ``after=`` does not begin
and fails with the same error. All other work on the stream proceeds: steps share streams, and a failing step must not
affect another. Work depends on an earlier result only by naming its event.

**Withdrawing.** Work can be withdrawn until it begins (`Event.withdraw`); its event fails with `Withdrawn` at once.
Work under way runs to its end. Cancelling a coroutine that awaits an event withdraws nothing.

**Closing.** `Device.aclose` waits for work under way, drops the rest (`DeviceClosed`), and leaves no thread, file or
handle; then `submit` raises. Host arrays made by the device stay valid as long as they are referenced; buffers in the
device's own memory end with the device, and their use raises `DeviceClosed`.

**Memory.** Any thread may allocate; without room a request fails at once.

**Loops.** A device may serve one loop after another. Work is submitted on the thread of a running loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np

from ..kernels.memory.contexts import KernelContexts
from .event import Event

if TYPE_CHECKING:
    from ..kernels.native.generator import CodeGenerator

T = TypeVar("T")


class Buffer(Protocol):
    """An array in a device's memory, which is freed with the last reference to the array."""

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        ...


class Memory(Protocol):
    """Counter of the bytes in a device's buffers."""

    @property
    def live_bytes(self) -> int:
        """Bytes of the buffers in use."""
        ...

    @property
    def used_bytes(self) -> int:
        """Bytes in use that count against the limit, also those of other devices that share the limit."""
        ...

    @property
    def peak_bytes(self) -> int:
        """The most bytes in use so far."""
        ...

    @property
    def limit(self) -> int | None:
        """Bytes for buffers, None for any number."""
        ...

    def counts(self, array: Any, /) -> bool:
        """Return True if this counter includes an array."""
        ...


class Timer:
    """A call at a future time, until made or cancelled."""

    __slots__ = ("call", "number", "when")

    def __init__(self, when: float, number: int, call: Callable[[], object]) -> None:
        self.when: float = when
        self.number: int = number
        self.call: Callable[[], object] | None = call

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """Prevent the call."""
        self.call = None


class Clock(ABC):
    """A clock, with the time and calls at given times."""

    @abstractmethod
    def now(self) -> float:
        """Return the time in seconds."""

    @abstractmethod
    def call_at(self, when: float, call: Callable[[], object]) -> Timer:
        """Schedule a call on the running loop's thread at a time in seconds; calls are made in the order of time.

        Calls of the same time are made in the order of scheduling.
        """

    @abstractmethod
    def hold(self) -> None:
        """Note real work under way, in any thread: a virtual clock must not jump until `release`."""

    @abstractmethod
    def release(self) -> None:
        """Take back a `hold`, after waiters for the work were told."""

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""
        event: Event[None] = Event()
        timer = self.call_at(self.now() + seconds, event.finish)
        try:
            await event
        finally:
            timer.cancel()


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Counts of a stream's work so far.

    Attributes
    ----------
    waiting, running, done, failed, withdrawn : int
        Pieces of work: not begun; begun; ended well; failed, or not begun because an event in `after` failed;
        withdrawn, or dropped when the device closed.
    nbytes : int
        Bytes moved by work done.
    busy_seconds : float
        Time from the beginning to the end of work, summed.
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
        Names of device and stream, for messages and traces.
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
            Called without arguments once all earlier work has ended and the events in `after` are done. None for a
            marker.
        after : iterable of Event
            Events of any stream of any device.
        uses : iterable
            Objects to keep alive until the event is done.
        kind : str
            Type of the operation, for traces and for devices with simulated time.
        nbytes : int or callable
            Bytes moved by a copy; a function if they are unknown until the work begins.

        Returns
        -------
        Event
            Done when the work is; its result is the return value of `work`, None for a marker.

        Raises
        ------
        DeviceClosed
            If the device was closed.
        """

    @abstractmethod
    def withdraw(self, event: Event[Any]) -> bool:
        """Take back work that has not begun; return True on success."""

    @abstractmethod
    def statistics(self) -> StreamStatistics:
        """Return the counts of the stream's work so far."""


class Device(ABC):
    """A memory and three streams, the common interface of devices; ``async with`` closes the device.

    Optional parts are in `capabilities`: `SwapSupport` and `SimulatedTime`.

    Attributes
    ----------
    name : str
    clock : Clock
        Clock of its events.
    compute, host_to_device, device_to_host : Stream
    pool : Memory or None
        Counter of its buffers; None if nothing counts them.
    contexts : KernelContexts
        Contexts in which kernels run, with the Pool that limits them: a ByteCounter if their arrays are not NumPy's.
    buffer : type
        Type of its buffers, which have a shape, a dtype, and flags for contiguity as NumPy's arrays have.
    arrays : module or None
        Array library that computes on this device, such as CuPy; None for NumPy. With a library, buffers are its
        arrays, and `call` calls kernels.
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

    @property
    def computes(self) -> bool:
        """True if sessions can compute on the device: with NumPy's arrays, or with an array library."""
        return self.arrays is not None or self.buffer is np.ndarray

    @property
    def generator(self) -> CodeGenerator | None:
        """Writer of kernels for whole programs; None if each operation has a kernel of its own.

        The C kernels for NumPy's arrays, and by default none for an array library.
        """
        if self.arrays is not None:
            return None
        from ..kernels.native.generator import C  # loads the C kernels, which copies do not need

        return C

    @abstractmethod
    async def aclose(self) -> None:
        """Wait for work under way, drop the rest, and release all resources; may be repeated."""

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
        """The most bytes in use so far."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Bytes that may be in use, None for any number; a request for more raises MemoryError."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new, uninitialised Buffer on the running iteration's account; MemoryError without room."""

    # ---- kernels, on a device with an array library

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return ``function(*args)``, computed on this device with `arrays`; in any thread.

        The function enqueues its kernels on `compute` and makes its arrays in the device's memory (MemoryError without
        room); it may return before the device is done. Afterwards the library has its previous settings in the calling
        thread.
        """
        return function(*args)

    def owns(self, array: Any) -> bool:
        """Return True if an array of `arrays` is in this device's memory."""
        return self.arrays is not None and isinstance(array, self.arrays.ndarray)

    def backpressure(self) -> Event[Any] | None:
        """Return an event to await before the next `call`; None if more can be enqueued at once.

        A driver may block its callers when too much is enqueued; its device returns an event before this happens.
        """
        return None

    def compute_barrier(self) -> Sequence[Event[None]]:
        """Return the events for a copy out to wait for, as the buffer may not be computed before they are done.

        With `arrays` a marker after all kernels enqueued so far, otherwise none.
        """
        return () if self.arrays is None else (self.compute.submit(),)

    # ---- copies

    @abstractmethod
    def copy_in(self, source: Any, *, into: Any = None, after: Iterable[Event[Any]] = ()) -> Event[Any]:
        """Copy a host array into this device's memory, by `host_to_device`.

        Parameters
        ----------
        source : numpy.ndarray or Event
            An event stands for its result; the copy waits for it.
        into : Buffer, optional
            Buffer of this device with the source's shape and dtype; by default a new Buffer.
        after : iterable of Event

        Returns
        -------
        Event
            Its result is the Buffer; fails with MemoryError without room for a new Buffer.
        """

    @abstractmethod
    def copy_out(self, source: Any, *, into: Any = None, after: Iterable[Event[Any]] = ()) -> Event[Any]:
        """Copy a buffer into host memory, by `device_to_host`.

        Parameters
        ----------
        source : Buffer or Event
            An event stands for its result; the copy waits for it.
        into : numpy.ndarray, optional
            Array of the source's shape and dtype; by default a new array.
        after : iterable of Event

        Returns
        -------
        Event
            Its result is a numpy.ndarray outside the device's limit.
        """

    def copy_all_in(self, pairs: Sequence[tuple[Any, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        """Copy several host arrays, each into a Buffer of this device, once all events in `after` are done.

        The returned event is done after all copies; it fails if a copy or an event in `after` fails.
        """
        copies = [self.copy_in(source, into=into, after=after) for source, into in pairs]
        return self.host_to_device.submit(after=copies)

    def copy_all_out(self, pairs: Sequence[tuple[Any, Any]], *, after: Sequence[Event[Any]] = ()) -> Event[None]:
        """Copy several buffers, each into a host array: `copy_all_in` in the other direction."""
        copies = [self.copy_out(source, into=into, after=after) for source, into in pairs]
        return self.device_to_host.submit(after=copies)
