"""What kernels that have state are told: of their step, and which instance of an operation they run for.

This is the only description of both. It stands with those who read it; what the runtime and swapping put into a step's
context is described by protocols, so that operations import neither. See docs/design/0019-resources.md.
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
Wait = Callable[[], Awaitable[None]]  # to be called where it is awaited, so that nothing is left if it never is
R = TypeVar("R", bound=Resource)


class Resources(Protocol):
    """The resources of a session, as kernels reach them; `ResourceManager` is what there is.

    Attributes
    ----------
    close_seconds : float
        Longest time that closing the session waits for code of the user.
    """

    close_seconds: float

    def get_or_create(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        """Return what the session keeps under a name of a kind; ``factory(name)`` makes it if there is nothing yet."""

    def add_to_step(self, number: int, resource: Resource) -> None:
        """Close a resource, if it still lives, when the step of this number ends."""

    def note_taken(self, number: int, give_back: Callable[[], object], operation: str = "") -> None:
        """Call `give_back` if the step of this number ends and its caller has not got what `operation` has taken."""

    def drop_taken(self, number: int, give_back: Callable[[], object]) -> None:
        """Forget what was noted."""

    def __iter__(self) -> Iterator[Resource]:
        """Yield what outlives steps."""

    # ---- what the executors of steps ask

    @property
    def of_steps(self) -> Mapping[int, object]:
        """Steps that have made resources, by number."""

    def cancel_step(self, number: int, error: BaseException) -> None:
        """Wake what waits in the resources of a step that ends early."""

    async def aclose_step(self, number: int) -> None:
        """Close what a step made and somebody still holds."""


class LongCall(asyncio.Future[Any]):
    """What a call in a thread will return; `BlockingCalls` gives them."""

    def withdraw(self) -> bool:
        """Take the call out of the queue, which cancels this; say no, with nothing done, if it has begun."""
        raise NotImplementedError


class Watcher(Protocol):
    """Who watches a tensor."""

    def show(self, value: Array, copy: Callable[[Array], Array | LongCall]) -> Awaitable[None] | None:
        """Take a copy of a value; return what must be awaited before there is room for another, if anything."""


class PartialFeeds(Protocol):
    """What lies between the kernels of a partial run and its handle."""

    def come(self, index: int) -> Array | Awaitable[Array]:
        """Return the value of a feed, or what it is awaited by."""

    def put(self, key: int, value: Array) -> None:
        """Keep a fetched value, a copy, until it is taken."""

    def finish(self, key: int) -> None:
        """Note that a result has been computed."""


class Swapper(Protocol):
    """What keeps the saved values of a step on a device, and the elements of its TensorArrays."""

    def entry_for(self, value: Any) -> Any:
        """Return what an element is to hold: an entry if the value may move, or the value itself."""

    def keeps_on_host(self, rows: Array) -> bool:
        """Say whether rows stay in host memory until they are read."""

    def wrap_host_row(self, row: Array) -> Any:
        """Return the entry of a row that stays in host memory, or the row itself."""

    def read(self, series: Any, index: int, last: bool) -> tuple[Array | None, Awaitable[Array] | None]:
        """Return the array in a slot, or what it is awaited by."""


async def until_ended(call: LongCall) -> None:
    """Wait until a call has ended; when that is cancelled the call is withdrawn, or waited for if it has begun."""
    cancellation = None
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


def succeeded(call: LongCall) -> bool:
    """Say whether a call has ended and has a result; an error that it ended with counts as seen."""
    return call.done() and not call.cancelled() and call.exception() is None


def then(wait: Wait | None, result: Any) -> Any:
    """Return a kernel's result, or what gives it when ``await wait()`` has ended."""
    return result if wait is None else _then(wait, result)


async def _then(wait: Wait, result: Any) -> Any:
    await wait()
    return result


def allowed_in(pool: Pool | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function in a thread, on the account and within the limit of who asks now."""
    return function if pool is None or pool.limit is None else AllowedCall(pool, function)


_UNWATCHED: Mapping[str, Watcher] = {}
_PLAIN = KernelContexts()


class StepContext(NamedTuple):
    """What a step offers to stateful kernels.

    Attributes
    ----------
    number : int
        Of the step in its session.
    seed : int
        Of the graph.
    resources : Resources
        Of the session.
    threads : callable or None
        Calls a function that blocks in a thread, ``threads(function, *arguments)``, and returns a future.
    long_calls : callable or None
        Does so with what takes long but does not block; None where it is to be called on the event loop.
    contexts : KernelContexts
        Of the device; with them its memory.
    watches : mapping of str to Watcher
        Who watches tensors, by their names.
    parts : PartialFeeds or None
        Of a partial run.
    swap : Swapper or None
        Where saved values may leave the device.
    drawn : int
        How many steps more than `number` have drawn random numbers before: in the session that a checkpoint is of.
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
        """Call what takes long in a thread, on the account of the instance that runs now; return its future."""
        assert self.long_calls is not None
        return self.long_calls(self.allowed(function), *arguments)

    def later(self, function: Callable[..., Any]) -> Callable[..., LongCall]:
        """Return what calls a function in a thread, where kernels run, on the account of the instance that runs now."""
        assert self.long_calls is not None
        return partial(self.long_calls, self.allowed(partial(self.contexts.run, function)))

    def allowed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what calls a function in a thread on the account of the instance that runs now."""
        return allowed_in(self.contexts.pool, function)


class KernelContext(Protocol):
    """Which instance a stateful kernel runs for.

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
