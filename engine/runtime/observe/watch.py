"""Watching a value: what a tensor is while steps run, one value for each iteration, as an async iterator."""

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
    """The values of one tensor, as steps compute them: of one run that it is given to, or made by `Session.watch`.

    Iterate over it with ``async for``. It ends when the run, or the steps that compute the tensor, have ended, when it
    is closed, with its session, and when nobody holds it any longer.

    Steps wait only for a reader that is there. A loop over the watch that is left, by ``break``, ``return`` or an
    error, and a task that is cancelled while it reads, hold no step back: until somebody reads again the oldest values
    are dropped where there is no room.

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
        check_watch_options(limit, policy)
        self.tensor: Tensor = tensor
        self.limit = limit
        self.policy = policy
        self.buffer: WatchBuffer = WatchBuffer(tensor, limit, policy)

    def __repr__(self) -> str:
        state = "ended" if self.buffer.has_ended else "open"
        return f"<Watch of {self.tensor.name}, {state}: {len(self.buffer)} values kept, {self.dropped} dropped>"

    def __del__(self) -> None:
        buffer = getattr(self, "buffer", None)  # there is none if the arguments were refused
        if buffer is not None:
            buffer.abandon()

    @property
    def dropped(self) -> int:
        """Number of values that were dropped."""
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
        """Stop watching: values not read are dropped, steps that wait for room go on; twice is fine."""
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
    """One loop over a watch: left when nobody holds this, as ``async for`` does until it ends in whatever way."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch  # which ends when neither its user nor a loop holds it
        watch.buffer.enter(id(self))

    async def __anext__(self) -> np.ndarray[Any, Any]:
        buffer, key = self._watch.buffer, id(self)
        del self  # the traceback of a cancellation would hold it as long as the task of the reader is held
        buffer.enter(key, _reading_task())
        return await buffer.take()

    def __del__(self) -> None:
        self._watch.buffer.leave_soon(id(self))


_READS = {Watch.__anext__.__code__, _Reading.__anext__.__code__}


def _reading_task() -> asyncio.Task[Any] | None:
    """Return the running task, whose end says whether the reader has left; None if it is there for one value alone.

    ``asyncio.wait_for(anext(watch), 1.0)`` makes such tasks up to Python 3.11.
    """
    task = asyncio.current_task()
    assert task is not None  # an event loop runs this
    return None if getattr(task.get_coro(), "cr_code", None) in _READS else task


class WatchBuffer:
    """The values that a watch keeps for its reader, between this and the steps that compute them.

    Steps hold the buffer and not the watch, so that a watch which nobody holds ends.

    Parameters
    ----------
    tensor, limit, policy
        As of `Watch`.

    Attributes
    ----------
    tensor : Tensor
    dropped : int
        Number of values that were dropped because there was no room.
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
        self._steps = 0  # running now
        self._waiters: list[asyncio.Future[None]] = []  # readers that wait for a value, or the end
        self._blocked: deque[tuple[Callable[[], Any], asyncio.Future[None]]] = deque()  # wait for room, in order
        self._readers: dict[int, set[asyncio.Task[Any]]] = {}  # that are there, by identity; the tasks of each
        self._followed: dict[asyncio.Task[Any], Callable[[asyncio.Task[Any]], None]] = {}  # what their ends call
        self._was_left = False  # by a reader, since the last one came
        self._loop: asyncio.AbstractEventLoop | None = None  # of the steps that wait for room

    def __len__(self) -> int:
        return len(self._values)

    # ---- readers

    async def take(self) -> np.ndarray[Any, Any]:
        """Return the next value, as soon as it is there; StopAsyncIteration behind the last one."""
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
        self._admit()
        return first.result() if isinstance(first, asyncio.Future) else first

    def enter(self, reader: int, task: asyncio.Task[Any] | None = None) -> None:
        """Note that a reader is there, for which steps may wait: until it leaves, or its task fails or is cancelled."""
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
        """Note that a reader has left, from any thread and wherever the garbage is collected."""
        self._readers.pop(reader, None)
        self._was_left = True
        self._call_soon(self._admit)

    def abandon(self) -> None:
        """Note that nobody can read any longer; from any thread and wherever the garbage is collected."""
        if not self.has_ended:
            self.has_ended = True
            if self._owner is not None:
                self._owner.forget(self)
            self._follow_nobody()
            self._call_soon(self.close)

    def _call_soon(self, function: Callable[[], None]) -> None:
        """Call what lets steps go on in their loop, if any wait."""
        if self._blocked and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def task_ends(self, task: asyncio.Task[Any]) -> None:
        """Note that a task which has read is over: where it came to its end somebody else may go on reading."""
        self._followed.pop(task, None)
        has_failed = task.cancelled() or task.exception() is not None
        for reader, tasks in list(self._readers.items()):
            if task in tasks:
                tasks.discard(task)
                if has_failed and not tasks:
                    del self._readers[reader]
                    self._was_left = True
        self._admit()

    # ---- steps

    def check_unused(self) -> None:
        """Raise GraphError if it was given to a run already."""
        if self._is_taken:
            raise GraphError(
                f"this watch of {self.tensor.name} was used already",
                operation=self.tensor.op,
                wanted="one watch for each run",
                hint="give each run a tagloom.Watch(tensor) of its own",
            )

    def take_over(self, owner: SessionWatches | None = None) -> None:
        """Note that it is of a run, or of its owner's steps."""
        self._is_taken, self._owner = True, owner

    def show(self, value: Array, copy: Callable[[Array], Any]) -> asyncio.Future[None] | None:
        """Take ``copy(value)``, or the future of it; return what the step must await where there is no room."""
        if self.has_ended:
            return None
        if len(self._values) < self._limit:
            self._put(copy(value))
            return None
        if self._policy == "block" and not self._is_unread:
            self._loop = asyncio.get_running_loop()
            room = self._loop.create_future()
            self._blocked.append((partial(copy, value), room))
            return room
        self._drop_oldest()
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

    def close(self) -> None:
        """Drop what was not read, and end."""
        while self._values:
            self._drop()
        self.end()

    def end(self) -> None:
        """Note that no more values come; those that are kept can be read. Twice is fine."""
        self.has_ended = True
        if self._owner is not None:
            self._owner.forget(self)
        self._admit()
        self._wake()
        self._follow_nobody()

    def _follow_nobody(self) -> None:
        """Forget the tasks that have read."""
        self._readers.clear()
        while self._followed:
            task, callback = self._followed.popitem()
            task.remove_done_callback(callback)

    @property
    def _is_unread(self) -> bool:
        """True if a reader has left, and none is there."""
        return self._was_left and not self._readers

    def _admit(self) -> None:
        """Admit values that wait for room, the oldest first; when the watch has ended their steps just go on."""
        while self._blocked and (self.has_ended or self._is_unread or len(self._values) < self._limit):
            copy, room = self._blocked.popleft()
            if not room.done():
                room.set_result(None)
                if not self.has_ended:
                    if len(self._values) >= self._limit:
                        self._drop_oldest()
                    self._put(copy())

    def _drop_oldest(self) -> None:
        self._drop()
        self.dropped += 1

    def _drop(self) -> None:
        dropped = self._values.popleft()
        if isinstance(dropped, asyncio.Future):
            dropped.cancel()

    def _put(self, value: Array | asyncio.Future[Array]) -> None:
        self._values.append(value)
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _task_ends(buffer: ref[WatchBuffer], task: asyncio.Task[Any]) -> None:
    found = buffer()
    if found is not None:
        found.task_ends(task)


class SessionWatches:
    """The watches of a session, at most one of a tensor: each for all steps that start while it is there.

    Attributes
    ----------
    tensors : tuple of Tensor
        What is watched; another object whenever that changes.
    """

    def __init__(self) -> None:
        self.tensors: tuple[Tensor, ...] = ()
        self._buffers: dict[Tensor, WatchBuffer] = {}

    def add(self, watch: Watch) -> Watch:
        """Watch a tensor from now on; GraphError if it is watched."""
        if watch.tensor in self._buffers:
            raise GraphError(
                f"{watch.tensor.name} is watched already", operation=watch.tensor.op, hint="close the other watch first"
            )
        watch.buffer.take_over(self)
        self._buffers[watch.tensor] = watch.buffer
        self.tensors = tuple(self._buffers)
        return watch

    def forget(self, buffer: WatchBuffer) -> None:
        """Watch a tensor no longer."""
        if self._buffers.get(buffer.tensor) is buffer:
            del self._buffers[buffer.tensor]
            self.tensors = tuple(self._buffers)

    def of(self, tensors: Iterable[Tensor]) -> list[WatchBuffer]:
        """Return the buffers of the watches that there are of some tensors."""
        return [found for tensor in tensors if (found := self._buffers.get(tensor)) is not None]

    def close(self) -> None:
        """Close all of them."""
        for buffer in list(self._buffers.values()):
            buffer.close()


def buffers_of_run(watch: Watch | Iterable[Watch], graph: Graph) -> tuple[WatchBuffer, ...]:
    """Return the buffers of the watches that a run is given, of tensors of its graph; they are its from now on."""
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


def watchers(buffers: Iterable[WatchBuffer]) -> Mapping[str, Watcher]:
    """Return the watchers of each tensor, by its name."""
    found: dict[str, Watcher] = {}
    for buffer in buffers:
        name = buffer.tensor.name
        found[name] = _Both(found[name], buffer) if name in found else buffer
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


def refuse_watch(tensor: Tensor) -> NoReturn:
    """Raise the error about a tensor that a step does not compute."""
    raise GraphError(
        f"the step does not compute {tensor.name}",
        wanted="a tensor that the fetches need, or one in a loop or branch that they need",
        operation=tensor.op,
        hint="fetch what the loop or branch that it is in returns",
    )
