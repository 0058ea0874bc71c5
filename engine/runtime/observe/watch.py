"""Watching a value: what a tensor is while steps run, one value for each iteration, as an async iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from ...base.errors import GraphError
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from ...ops.support.context import Watcher

Array = np.ndarray[Any, Any]
_POLICIES = ("block", "latest")


class Watch:
    """The values of one tensor, as steps compute them: of one run that it is given to, or made by `Session.watch`.

    Iterate over it with ``async for``. It ends when the run, or the steps that compute the tensor, have ended, when it
    is closed, and with its session.

    Parameters
    ----------
    tensor : Tensor
        Of any dtype with values, in the body of a loop or branch, or outside.
    limit : int, optional
        Most values kept for the reader.
    policy : {'block', 'latest'}, optional
        When there is no room the step waits for the reader, at most a window of iterations ahead; or the oldest
        value is dropped.

    Attributes
    ----------
    tensor, limit, policy
        As given.
    dropped : int
        Values that were dropped.

    Raises
    ------
    GraphError
        If it is no tensor with values, or an option is out of range.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> inside = []
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.while_loop(lambda i: i < 3, lambda i: inside.append(i * i) or i + 1, [0])
    >>> async def main():
    ...     watch = tg.Watch(inside[0])
    ...     async with tg.Session(graph) as session, asyncio.TaskGroup() as group:
    ...         group.create_task(session.run(y, watch=watch))
    ...         return [int(value) async for value in watch]
    >>> asyncio.run(main())
    [0, 1, 4]
    """

    def __init__(self, tensor: Any, *, limit: int = 16, policy: str = "block") -> None:
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_value:
            operation = getattr(tensor, "op", tensor)
            raise GraphError(
                "only tensors with values can be watched",
                got=tensor,
                operation=operation if hasattr(operation, "type") else None,
                wanted="a tensor with values",
                hint="watch one of its outputs, or what is read from it",
            )
        if policy not in _POLICIES:
            raise GraphError(
                "no such policy of a watch",
                wanted=" or ".join(_POLICIES),
                got=policy,
                hint="'latest' never holds the step up",
            )
        if limit < 1:
            raise GraphError(
                "a watch must keep at least one value",
                wanted="limit of 1 or more",
                got=limit,
                hint="limit=1 with policy='latest' keeps the newest value",
            )
        self.tensor: Tensor = tensor
        self.limit = limit
        self.policy = policy
        self.dropped: int = 0
        self._owner: SessionWatches | None = None
        self._taken = False
        self._values: deque[Array | asyncio.Future[Array]] = deque()
        self._steps = 0  # running now
        self._ended = False
        self._readers: list[asyncio.Future[None]] = []  # wait for a value, or the end
        self._blocked: deque[tuple[Callable[[], Any], asyncio.Future[None]]] = deque()  # wait for room, in order

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open"
        return f"<Watch of {self.tensor.name}, {state}: {len(self._values)} values kept, {self.dropped} dropped>"

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> np.ndarray[Any, Any]:
        while True:
            if self._values:
                first = self._values[0]
                if not isinstance(first, asyncio.Future) or first.done():
                    break
                await asyncio.wait([first])  # a thread copies it
            elif self._ended:
                raise StopAsyncIteration
            else:
                reader = asyncio.get_running_loop().create_future()
                self._readers.append(reader)
                await reader
        self._values.popleft()
        self._admit()
        return first.result() if isinstance(first, asyncio.Future) else first

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching: values not read are dropped, steps that wait for room go on; twice is fine."""
        while self._values:
            self._drop()
        self.end()

    def check_unused(self) -> None:
        """Raise GraphError if it was given to a run already."""
        if self._taken:
            raise GraphError(
                f"this watch of {self.tensor.name} was used already",
                operation=self.tensor.op,
                wanted="one watch for each run",
                hint="give each run a tagloom.Watch(tensor) of its own",
            )

    def take(self, owner: SessionWatches | None = None) -> None:
        """Note that it is the watch of a run, or of its owner's steps."""
        self._taken, self._owner = True, owner

    def show(self, value: Array, copy: Callable[[Array], Any]) -> asyncio.Future[None] | None:
        """Take ``copy(value)``, or the future of it; return what the step must await where there is no room."""
        if self._ended:
            return None
        if len(self._values) < self.limit:
            self._put(copy(value))
            return None
        if self.policy == "block":
            room = asyncio.get_running_loop().create_future()
            self._blocked.append((partial(copy, value), room))
            return room
        self._drop()
        self.dropped += 1
        self._put(copy(value))
        return None

    def step_begins(self) -> None:
        """Note that a step computes the tensor."""
        self._steps += 1

    def step_ends(self) -> None:
        """Note that such a step is over; the watch ends with the last one."""
        self._steps -= 1
        if not self._steps:
            self.end()

    def end(self) -> None:
        """Note that no more values come; those that are kept can be read. Twice is fine."""
        self._ended = True
        if self._owner is not None:
            self._owner.forget(self)
        self._admit()
        self._wake()

    def _admit(self) -> None:
        """Let values that wait for room in, the oldest first; when the watch has ended they just go on."""
        while self._blocked and (self._ended or len(self._values) < self.limit):
            copy, room = self._blocked.popleft()
            if not room.done():
                room.set_result(None)
                if not self._ended:
                    self._put(copy())

    def _drop(self) -> None:
        dropped = self._values.popleft()
        if isinstance(dropped, asyncio.Future):
            dropped.cancel()

    def _put(self, value: Array | asyncio.Future[Array]) -> None:
        self._values.append(value)
        self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)


class SessionWatches:
    """The watches of a session, at most one of a tensor: each for all steps that start while it is there.

    Attributes
    ----------
    tensors : tuple of Tensor
        What is watched; another object whenever that changes.
    """

    def __init__(self) -> None:
        self.tensors: tuple[Tensor, ...] = ()
        self._watches: dict[Tensor, Watch] = {}

    def add(self, watch: Watch) -> Watch:
        """Watch a tensor from now on; GraphError if it is watched."""
        if watch.tensor in self._watches:
            raise GraphError(
                f"{watch.tensor.name} is watched already", operation=watch.tensor.op, hint="close the other watch first"
            )
        watch.take(self)
        self._watches[watch.tensor] = watch
        self.tensors = tuple(self._watches)
        return watch

    def forget(self, watch: Watch) -> None:
        """Watch a tensor no longer."""
        if self._watches.get(watch.tensor) is watch:
            del self._watches[watch.tensor]
            self.tensors = tuple(self._watches)

    def of(self, tensors: Iterable[Tensor]) -> list[Watch]:
        """Return the watches that there are of some tensors."""
        return [self._watches[tensor] for tensor in tensors if tensor in self._watches]

    def close(self) -> None:
        """Close all of them."""
        for watch in list(self._watches.values()):
            watch.close()


def watches_of_run(watch: Watch | Iterable[Watch], graph: Graph) -> tuple[Watch, ...]:
    """Take the watches that a run is given, of tensors of its graph."""
    found = (watch,) if isinstance(watch, Watch) else tuple(dict.fromkeys(watch))
    for each in found:
        if not isinstance(each, Watch):
            raise GraphError(
                "this is no watch",
                wanted="a tagloom.Watch, or several",
                got=repr(each),
                hint="watch=tagloom.Watch(tensor)",
            )
        graph.as_graph_element(each.tensor)
        each.check_unused()
    for each in found:
        each.take()
    return found


def watchers(watches: Iterable[Watch]) -> Mapping[str, Watcher]:
    """Return who is shown the values of each tensor, by its name."""
    found: dict[str, Watcher] = {}
    for watch in watches:
        name = watch.tensor.name
        found[name] = _Both(found[name], watch) if name in found else watch
    return found


class _Both:
    """Two who watch one tensor in one step."""

    def __init__(self, one: Watcher, other: Watcher) -> None:
        self._pair = one, other

    def show(self, value: Array, copy: Callable[[Array], Any]) -> Awaitable[Any] | None:
        """Show a value to both; return what must be awaited before both have room for it."""
        full = [room for each in self._pair if (room := each.show(value, copy)) is not None]
        return _room(full) if full else None


async def _room(full: list[Awaitable[None]]) -> None:
    """Wait until there is room everywhere."""
    await asyncio.gather(*full)
