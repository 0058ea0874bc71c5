"""Watches: the values of a tensor while steps run, a value for each iteration, as an async iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from ...base.errors import GraphError
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from ...ops.support.context import Watcher

Array = np.ndarray[Any, Any]
_POLICIES = ("block", "latest")


class Watch:
    """The values of a tensor as steps compute them: in a single run, or in all steps for a watch of `Session.watch`.

    Iterate over a watch with ``async for``. The watch ends when the run, or the steps that compute the tensor, have
    ended, when closed, with its session, and when nobody holds the watch any longer.

    Steps only wait for a present reader. A loop over the watch left by ``break``, ``return`` or an error, and a task
    cancelled while reading, delay no step: until the next read the oldest values are dropped where there is no room.

    Parameters
    ----------
    tensor : Tensor
        Tensor of any dtype with values, in the body of a loop or branch, or outside.
    limit : int, optional
        Most values kept for the reader.
    policy : {'block', 'latest'}, optional
        Rule for a full buffer: the step waits for the reader, at most a window of iterations ahead; or the oldest
        value is dropped.

    Attributes
    ----------
    tensor, limit, policy
        The arguments.

    Raises
    ------
    GraphError
        If `tensor` has no values, or an option is out of range.

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
        check_watch_options(limit, policy)
        self.tensor: Tensor = tensor
        self.limit = limit
        self.policy = policy
        self.buffer: WatchBuffer = WatchBuffer(tensor, limit, policy)

    def __repr__(self) -> str:
        state = "ended" if self.buffer.has_ended else "open"
        return f"<Watch of {self.tensor.name}, {state}: {len(self.buffer)} values kept, {self.dropped} dropped>"

    def __del__(self) -> None:
        buffer = getattr(self, "buffer", None)  # missing if the constructor refused the arguments
        if buffer is not None:
            buffer.abandon()

    @property
    def dropped(self) -> int:
        """Number of dropped values."""
        return self.buffer.dropped

    def __aiter__(self) -> AsyncIterator[np.ndarray[Any, Any]]:
        return _Reading(self)

    async def __anext__(self) -> np.ndarray[Any, Any]:
        self.buffer.enter(id(self), _reading_task())
        return await self.buffer.take()

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching: unread values are dropped, and waiting steps go on; a second call does nothing."""
        self.buffer.close()


def check_watch_options(limit: int, policy: str) -> None:
    """Raise GraphError if an option of a watch is out of range."""
    if policy not in _POLICIES:
        raise GraphError(
            "no such policy of a watch",
            wanted=" or ".join(_POLICIES),
            got=policy,
            hint="'latest' never holds the step up",
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise GraphError(
            "a watch must keep at least one value",
            wanted="limit of 1 or more",
            got=limit,
            hint="limit=1 with policy='latest' keeps the newest value",
        )


class _Reading(AsyncIterator[np.ndarray[Any, Any]]):
    """A loop over a watch, left when nobody holds this iterator: ``async for`` drops it at any end of the loop."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch  # a watch ends when neither its user nor a loop holds it
        watch.buffer.enter(id(self))

    async def __anext__(self) -> np.ndarray[Any, Any]:
        buffer, key = self._watch.buffer, id(self)
        del self  # else the traceback of a cancellation holds this iterator as long as the reader's task exists
        buffer.enter(key, _reading_task())
        return await buffer.take()

    def __del__(self) -> None:
        self._watch.buffer.leave_soon(id(self))


_READS = {Watch.__anext__.__code__, _Reading.__anext__.__code__}


def _reading_task() -> asyncio.Task[Any] | None:
    """Return the running task, whose failure ends the reader; None for a task created for a single value.

    ``asyncio.wait_for(anext(watch), 1.0)`` creates such tasks up to Python 3.11.
    """
    task = asyncio.current_task()
    assert task is not None  # an event loop runs this
    return None if getattr(task.get_coro(), "cr_code", None) in _READS else task


class WatchBuffer:
    """Buffer of a watch, between the steps and the reader.

    Steps hold the buffer and not the watch, so that a watch which nobody holds ends.

    Parameters
    ----------
    tensor, limit, policy
        Arguments of `Watch`.

    Attributes
    ----------
    tensor : Tensor
    dropped : int
        Number of values dropped for lack of room.
    has_ended : bool
    """

    def __init__(self, tensor: Tensor, limit: int, policy: str) -> None:
        self.tensor = tensor
        self.dropped: int = 0
        self.has_ended: bool = False
        self._limit = limit
        self._policy = policy
        self._owner: SessionWatches | None = None
        self._is_taken = False
        self._values: deque[Array | asyncio.Future[Array]] = deque()
        self._steps = 0  # running steps that compute the tensor
        self._waiters: list[asyncio.Future[None]] = []  # readers that wait for a value, or the end
        self._blocked: deque[tuple[Callable[[], Any], asyncio.Future[None]]] = deque()  # wait for room, in order
        self._readers: dict[int, set[asyncio.Task[Any]]] = {}  # tasks of each present reader, by id of the reader
        self._followed: dict[asyncio.Task[Any], Callable[[asyncio.Task[Any]], None]] = {}  # their done callbacks
        self._was_left = False  # a reader has left, and none has come since
        self._loop: asyncio.AbstractEventLoop | None = None  # of the steps that wait for room

    def __len__(self) -> int:
        return len(self._values)

    # ---- readers

    async def take(self) -> np.ndarray[Any, Any]:
        """Return the next value as soon as there is one; StopAsyncIteration after the last value."""
        while True:
            if self._values:
                first = self._values[0]
                if not isinstance(first, asyncio.Future) or first.done():
                    break
                await asyncio.wait([first])  # a thread copies it
            elif self.has_ended:
                raise StopAsyncIteration
            else:
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter
        self._values.popleft()
        self._admit_waiting()
        return first.result() if isinstance(first, asyncio.Future) else first

    def enter(self, reader: int, task: asyncio.Task[Any] | None = None) -> None:
        """Note a present reader; steps may wait for it until it leaves, or its task fails or is cancelled."""
        if self.has_ended:
            return
        tasks = self._readers.setdefault(reader, set())
        self._was_left = False
        if task is not None and task not in tasks:
            tasks.add(task)
            if task not in self._followed:
                self._followed[task] = partial(_task_ends, ref(self))
                task.add_done_callback(self._followed[task])

    def leave_soon(self, reader: int) -> None:
        """Note that a reader has left; from any thread, also during garbage collection."""
        self._readers.pop(reader, None)
        self._was_left = True
        self._call_soon(
            self._admit_waiting
        )  # `__del__` of the reader calls this: futures may only be set on their own loop

    def abandon(self) -> None:
        """End the watch, which nobody can read any longer; from any thread, also during garbage collection."""
        if not self.has_ended:
            self.has_ended = True
            if self._owner is not None:
                self._owner.forget(self)
            self._follow_nobody()
            self._call_soon(self.close)

    def _call_soon(self, function: Callable[[], None]) -> None:
        """Call a function that lets steps go on in their own event loop, if any wait."""
        if self._blocked and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def task_ends(self, task: asyncio.Task[Any]) -> None:
        """Note the end of a reading task; after a failure the reader has left, else another task may read on."""
        self._followed.pop(task, None)
        has_failed = task.cancelled() or task.exception() is not None
        for reader, tasks in list(self._readers.items()):
            if task in tasks:
                tasks.discard(task)
                if has_failed and not tasks:
                    del self._readers[reader]
                    self._was_left = True
        self._admit_waiting()

    # ---- steps

    def check_unused(self) -> None:
        """Raise GraphError if a run has used this watch already."""
        if self._is_taken:
            raise GraphError(
                f"this watch of {self.tensor.name} was used already",
                operation=self.tensor.op,
                wanted="one watch for each run",
                hint="give each run a tagloom.Watch(tensor) of its own",
            )

    def take_over(self, owner: SessionWatches | None = None) -> None:
        """Mark the watch as used by a run, or by its owner's steps."""
        self._is_taken, self._owner = True, owner

    def show(self, value: Array, copy: Callable[[Array], Any]) -> asyncio.Future[None] | None:
        """Take ``copy(value)``, or its future; return a future to be awaited by the step if there is no room."""
        if self.has_ended:
            return None
        if len(self._values) < self._limit:
            self._add_value(copy(value))
            return None
        # Steps wait for a reader still to come, but not for a reader that has left.
        if self._policy == "block" and not self._is_unread:
            self._loop = asyncio.get_running_loop()
            room = self._loop.create_future()
            self._blocked.append((partial(copy, value), room))
            return room
        self._drop_oldest()
        self._add_value(copy(value))
        return None

    def step_begins(self) -> None:
        """Note the begin of a step that computes the tensor."""
        self._steps += 1

    def step_ends(self) -> None:
        """Note the end of such a step; the watch ends with the last of them."""
        self._steps -= 1
        if not self._steps:
            self.end()

    def close(self) -> None:
        """Drop all unread values, and end."""
        while self._values:
            self._discard_first()
        self.end()

    def end(self) -> None:
        """Note that no more values come; the kept values can still be read. A second call does nothing."""
        self.has_ended = True
        if self._owner is not None:
            self._owner.forget(self)
        self._admit_waiting()
        self._wake_readers()
        self._follow_nobody()

    def _follow_nobody(self) -> None:
        """Forget all readers and their tasks."""
        self._readers.clear()
        while self._followed:
            task, callback = self._followed.popitem()
            task.remove_done_callback(callback)

    @property
    def _is_unread(self) -> bool:
        """True if a reader has left, and no reader is present."""
        return self._was_left and not self._readers

    def _admit_waiting(self) -> None:
        """Admit values that wait for room, the oldest first; after the end of the watch only release their steps."""
        while self._blocked and (self.has_ended or self._is_unread or len(self._values) < self._limit):
            copy, room = self._blocked.popleft()
            if not room.done():
                room.set_result(None)
                if not self.has_ended:
                    if len(self._values) >= self._limit:
                        self._drop_oldest()
                    self._add_value(copy())

    def _drop_oldest(self) -> None:
        self._discard_first()
        self.dropped += 1

    def _discard_first(self) -> None:
        dropped = self._values.popleft()
        if isinstance(dropped, asyncio.Future):
            dropped.cancel()

    def _add_value(self, value: Array | asyncio.Future[Array]) -> None:
        self._values.append(value)
        self._wake_readers()

    def _wake_readers(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _task_ends(buffer: ref[WatchBuffer], task: asyncio.Task[Any]) -> None:
    found = buffer()
    if found is not None:
        found.task_ends(task)


class SessionWatches:
    """The watches of a session, at most one for each tensor; a watch receives the values of all steps begun meanwhile.

    Attributes
    ----------
    tensors : tuple of Tensor
        Watched tensors; a new tuple after each change, so that steps detect a change by identity.
    """

    def __init__(self) -> None:
        self.tensors: tuple[Tensor, ...] = ()
        self._buffers: dict[Tensor, WatchBuffer] = {}

    def add(self, watch: Watch) -> Watch:
        """Add a watch; GraphError if its tensor is already watched."""
        if watch.tensor in self._buffers:
            raise GraphError(
                f"{watch.tensor.name} is watched already", operation=watch.tensor.op, hint="close the other watch first"
            )
        watch.buffer.take_over(self)
        self._buffers[watch.tensor] = watch.buffer
        self.tensors = tuple(self._buffers)
        return watch

    def forget(self, buffer: WatchBuffer) -> None:
        """Remove a watch by its buffer."""
        if self._buffers.get(buffer.tensor) is buffer:
            del self._buffers[buffer.tensor]
            self.tensors = tuple(self._buffers)

    def buffers_of(self, tensors: Iterable[Tensor]) -> list[WatchBuffer]:
        """Return the buffers of the watches of some tensors."""
        return [found for tensor in tensors if (found := self._buffers.get(tensor)) is not None]

    def close(self) -> None:
        """Close all watches."""
        for buffer in list(self._buffers.values()):
            buffer.close()


def buffers_of_run(watch: Watch | Iterable[Watch], graph: Graph) -> tuple[WatchBuffer, ...]:
    """Return the buffers of a run's watches, marked as used; GraphError if used before, or of another graph."""
    found: tuple[Any, ...] = (watch,) if isinstance(watch, (Watch, Tensor)) else tuple(dict.fromkeys(watch))
    for each in found:
        if not isinstance(each, Watch):
            raise GraphError(
                "this is no watch",
                wanted="a tagloom.Watch, or several",
                got=repr(each),
                hint="watch=tagloom.Watch(tensor)",
            )
        graph.as_graph_element(each.tensor)
        each.buffer.check_unused()
    for each in found:
        each.buffer.take_over()
    return tuple(each.buffer for each in found)


def watchers_by_tensor(buffers: Iterable[WatchBuffer]) -> Mapping[str, Watcher]:
    """Return the watchers by the names of their tensors."""
    found: dict[str, Watcher] = {}
    for buffer in buffers:
        name = buffer.tensor.name
        found[name] = _Both(found[name], buffer) if name in found else buffer
    return found


class _Both:
    """Two watchers of the same tensor in a step."""

    def __init__(self, one: Watcher, other: Watcher) -> None:
        self._pair = one, other

    def show(self, value: Array, copy: Callable[[Array], Any]) -> Awaitable[Any] | None:
        """Show a value to both; return an awaitable if any of them has no room."""
        full = [room for each in self._pair if (room := each.show(value, copy)) is not None]
        return _wait_for_room(full) if full else None


async def _wait_for_room(full: list[Awaitable[None]]) -> None:
    """Wait until all have room."""
    await asyncio.gather(*full)


def refuse_watch(tensor: Tensor) -> NoReturn:
    """Raise the GraphError of a watched tensor that a step does not compute."""
    raise GraphError(
        f"the step does not compute {tensor.name}",
        wanted="a tensor that the fetches need, or one in a loop or branch that they need",
        operation=tensor.op,
        hint="fetch what the loop or branch that it is in returns",
    )
