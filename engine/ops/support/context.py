"""Interfaces between stateful kernels and their step: the step's context, and the running instance of an operation.

This is the only description of both. It stands with its readers, the operations: protocols describe the objects put
into a step's context by the runtime and by swapping, so that operations import neither. See
docs/design/0019-resources.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ...base.resources import Resource
from ...kernels.memory.allowances import AllowedCall
from ...kernels.memory.contexts import KernelContexts
from ...kernels.memory.pool import Pool

Array = np.ndarray[Any, Any]
Wait = Callable[[], Awaitable[None]]  # called only where awaited: a coroutine that is never awaited would warn
R = TypeVar("R", bound=Resource)


class Resources(Protocol):
    """The resources of a session, as kernels reach them; implemented by `ResourceManager`.

    Attributes
    ----------
    close_seconds : float
        Longest time that closing the session waits for user code.
    """

    close_seconds: float

    def get_or_create(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        """Return the session's resource of a kind and name, made by ``factory(name)`` on first use."""
        ...

    def add_to_step(self, number: int, resource: Resource) -> None:
        """Close a resource, if still open, when the step of this number ends."""

    def note_taken(self, number: int, give_back: Callable[[], object], operation: str = "") -> None:
        """Call `give_back` if the step ends before its caller has received the value taken by `operation`."""

    def drop_taken(self, number: int, give_back: Callable[[], object]) -> None:
        """Remove a `give_back` registered with `note_taken`."""

    def __iter__(self) -> Iterator[Resource]:
        """Yield the resources outliving steps."""
        ...

    # ---- for the executors of steps

    @property
    def of_steps(self) -> Mapping[int, object]:
        """Steps with resources of their own, by number."""
        ...

    def cancel_step(self, number: int, error: BaseException) -> None:
        """Wake the waiters in the resources of a step ending early."""

    async def aclose_step(self, number: int) -> None:
        """Close the resources made by a step and still held."""


class LongCall(asyncio.Future[Any]):
    """The future result of a call in a thread, made by `BlockingCalls`."""

    def withdraw(self) -> bool:
        """Take the call out of the queue and cancel this future; return False, with no effect, once begun."""
        raise NotImplementedError


class Watcher(Protocol):
    """A watcher of a tensor."""

    def show(self, value: Array, copy: Callable[[Array], Array | LongCall]) -> Awaitable[None] | None:
        """Take a copy of a value; return an awaitable of room for another, or None."""
        ...


class PartialFeeds(Protocol):
    """The exchange between the kernels of a partial run and its handle."""

    def come(self, index: int) -> Array | Awaitable[Array]:
        """Return the value of a feed, or an awaitable of the value."""
        ...

    def put(self, key: int, value: Array) -> None:
        """Keep a copy of a fetched value until the handle takes it."""

    def finish(self, key: int) -> None:
        """Note that a result has been computed."""


class Swapper(Protocol):
    """The owner of the saved values of a step on a device, and of the elements of its TensorArrays."""

    def entry_for(self, value: Any) -> Any:
        """Return the content of an element: an entry if the value may move, or the value itself."""
        ...

    def keeps_on_host(self, rows: Array) -> bool:
        """Return True if rows stay in host memory until they are read."""
        ...

    def wrap_host_row(self, row: Array) -> Any:
        """Return the entry of a row staying in host memory, or the row itself."""
        ...

    def read(self, series: Any, index: int, last: bool) -> tuple[Array | None, Awaitable[Array] | None]:
        """Return the array in a slot, or an awaitable of the array."""
        ...


async def until_ended(call: LongCall) -> None:
    """Wait until a call has ended; on cancellation withdraw the call, or wait for a call that has begun."""
    cancellation = None
    # A call that has begun reads memory of the step: a cancelled step must not free it before the call ends.
    # So the first cancellation is kept, and raised after the end of the call.
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as error:
            cancellation = cancellation or error
            call.withdraw()
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            del cancellation  # the traceback refers to this frame


def has_succeeded(call: LongCall) -> bool:
    """Return True if a call has ended with a result; its error, if any, is marked as retrieved."""
    return call.done() and not call.cancelled() and call.exception() is None


def result_after(wait: Wait | None, result: Any) -> Any:
    """Return a kernel's result, or an awaitable of the result if ``await wait()`` has to end before."""
    return result if wait is None else _result_after_wait(wait, result)


async def _result_after_wait(wait: Wait, result: Any) -> Any:
    await wait()
    return result


def allowed_in(pool: Pool | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function to call `function` in a thread, charged to the current account and bound by its limit."""
    return function if pool is None or pool.limit is None else AllowedCall(pool, function)


_UNWATCHED: Mapping[str, Watcher] = {}
_PLAIN = KernelContexts()


class StepContext(NamedTuple):
    """The services of a step for stateful kernels.

    Attributes
    ----------
    number : int
        Of the step in its session.
    seed : int
        Of the graph.
    resources : Resources
        Of the session.
    threads : callable or None
        ``threads(function, *arguments)`` calls a blocking function in a thread and returns a future.
    long_calls : callable or None
        The same for a long function without blocking; None to call it on the event loop.
    contexts : KernelContexts
        Of the device, with its memory.
    watches : mapping of str to Watcher
        Watchers by names of tensors.
    parts : PartialFeeds or None
        Of a partial run.
    swap : Swapper or None
        Where saved values may leave the device.
    drawn : int
        Steps that drew random numbers in the session of a restored checkpoint; they count in addition to `number`.
    """

    number: int
    seed: int
    resources: Resources
    threads: Callable[..., Awaitable[Any]] | None = None
    long_calls: Callable[..., LongCall] | None = None
    contexts: KernelContexts = _PLAIN
    watches: Mapping[str, Watcher] = _UNWATCHED
    parts: PartialFeeds | None = None
    swap: Swapper | None = None
    drawn: int = 0

    def call_long(self, function: Callable[..., Any], *arguments: Any) -> LongCall:
        """Call a long function in a thread, charged to the running instance; return its future."""
        assert self.long_calls is not None
        return self.long_calls(self.allowed(function), *arguments)

    def later(self, function: Callable[..., Any]) -> Callable[..., LongCall]:
        """Return a function to call `function` in a kernel thread, charged to the running instance."""
        assert self.long_calls is not None
        return partial(self.long_calls, self.allowed(partial(self.contexts.run, function)))

    def allowed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, charged in its thread to the running instance."""
        return allowed_in(self.contexts.pool, function)


class KernelContext(Protocol):
    """The instance of an operation for which a stateful kernel runs.

    Attributes
    ----------
    step : StepContext
    operation : str
        Name of the operation.
    frame_id : int
        Pure function of the path of the loop frame; 0 in the root frame.
    iteration : int
        Iteration within the frame.
    """

    @property
    def step(self) -> StepContext: ...
    @property
    def operation(self) -> str: ...
    @property
    def frame_id(self) -> int: ...
    @property
    def iteration(self) -> int: ...
