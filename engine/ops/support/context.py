"""What kernels that have state are told: of their step, and which instance of an operation they run for.

This is the only description of both. It stands with those who read it; what the runtime and swapping put into a step's
context is described by protocols, so that operations import neither. See docs/design/0019-resources.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ...base.resources import Resource
from ...kernels.memory.contexts import KernelContexts

Array = np.ndarray[Any, Any]
R = TypeVar("R", bound=Resource)


class Resources(Protocol):
    """The resources of a session, as kernels reach them; `ResourceManager` is what there is."""

    def get_or_create(self, container: str, name: str, factory: Callable[[str], R]) -> R:
        """Return what the session keeps under a name of a kind; ``factory(name)`` makes it if there is nothing yet."""

    def add_to_step(self, number: int, resource: Resource) -> None:
        """Close a resource, if it still lives, when the step of this number ends."""

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


class PartialFeeds(Protocol):
    """What lies between the kernels of a partial run and its handle."""

    def come(self, index: int) -> Array | Awaitable[Array]:
        """Return the value of a feed, or what it is awaited by."""

    def put(self, key: int, value: Array) -> None:
        """Keep a fetched value until it is taken."""

    def finish(self, key: int) -> None:
        """Note that a result has been computed."""


class Watcher(Protocol):
    """Who watches a tensor."""

    def show(self, value: Array) -> Awaitable[None] | None:
        """Take a value; return what must be awaited before there is room for another, if anything."""


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
    contexts : KernelContexts
        Of the device; with them its memory.
    watches : mapping of str to Watcher
        Who watches tensors, by their names.
    parts : PartialFeeds or None
        Of a partial run.
    swap : Swapper or None
        Where saved values may leave the device.
    """

    number: int
    seed: int
    resources: Resources
    threads: Callable[..., Awaitable[Any]] | None = None
    contexts: KernelContexts = _PLAIN
    watches: Mapping[str, Watcher] = _UNWATCHED
    parts: PartialFeeds | None = None
    swap: Swapper | None = None

    def show(self, key: str, value: Array) -> Awaitable[None] | None:
        """Show a value to who watches the tensor of that name; return what must be awaited, if anything."""
        watch = self.watches.get(key)
        return None if watch is None else watch.show(value)


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
