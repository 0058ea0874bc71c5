"""An asyncio.Queue at the far end of a bridge, which the bridge does not keep alive."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SHUT_DOWN: tuple[type[Exception], ...] = (
    (asyncio.QueueShutDown,) if hasattr(asyncio, "QueueShutDown") else ()  # of Python 3.13
)


class QueueGone(Exception):
    """Nobody refers to the asyncio.Queue any longer."""


class OutsideQueue:
    """A weak reference to an asyncio.Queue, and the waits of `get` and `put` without a reference to it.

    The lines of tasks that wait in the queue are kept: the event loop refers to tasks weakly, so a reader which nobody
    else refers to would be collected with the queue that it waits in. While one waits, the queue is alive.

    Python has no public way to wait in a queue without a reference to it. The lines are `_getters` and `_putters`,
    which `_wakeup_next` wakes. A queue whose class has a `get` or a `put` of its own is kept alive, and waited for by
    those.

    Parameters
    ----------
    queue : asyncio.Queue
    """

    __slots__ = ("_kept", "_lines", "_reference", "_unopened")

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        inner: Any = queue
        has_own_waits = type(queue).get is not asyncio.Queue.get or type(queue).put is not asyncio.Queue.put
        self._kept: asyncio.Queue[Any] | None = queue if has_own_waits else None
        self._lines = (inner._getters, inner._putters, inner._finished)  # the last has who waits in join()
        self._unopened: asyncio.Queue[Any] | None = queue  # it may have items, and nobody else to keep it
        self._reference: weakref.ref[asyncio.Queue[Any]] = weakref.ref(queue)

    def open(self, call_when_gone: Callable[[], None]) -> asyncio.Queue[Any]:
        """Return the queue, which was kept until now; call back, in a turn of the event loop, when it is gone."""
        loop, queue = asyncio.get_running_loop(), self._unopened
        assert queue is not None  # it is opened once
        self._unopened = None

        def tell(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call_when_gone)  # the collector runs in any thread

        self._reference = weakref.ref(queue, tell)
        return queue

    async def get(self) -> tuple[asyncio.Queue[Any], Any]:
        """Return the queue, and its next item as soon as there is one.

        Raises
        ------
        QueueGone
        """
        if self._kept is not None:
            return self._kept, await self._kept.get()
        queue = self._queue()
        while queue.empty() and not _is_shut_down(queue):
            turn = _Turn(queue)
            waiting: Any = queue
            del queue
            line = waiting._getters
            del waiting
            queue = await self._turn(turn, line, _has_items)
        return queue, queue.get_nowait()

    async def put(self, item: Any) -> None:
        """Put an item in as soon as there is room.

        Raises
        ------
        QueueGone
        """
        if self._kept is not None:
            await self._kept.put(item)
            return
        queue = self._queue()
        while queue.full() and not _is_shut_down(queue):
            turn = _Turn(queue)
            waiting: Any = queue
            del queue
            line = waiting._putters
            del waiting
            queue = await self._turn(turn, line, _has_room)
        queue.put_nowait(item)

    def _queue(self) -> asyncio.Queue[Any]:
        queue = self._reference()
        if queue is None:
            raise QueueGone
        return queue

    async def _turn(
        self, turn: _Turn, line: deque[asyncio.Future[Any]], is_for_others: Callable[[asyncio.Queue[Any]], bool]
    ) -> asyncio.Queue[Any]:
        """Stand in a line of the queue; return the queue when it is this one's turn."""
        line.append(turn)
        try:
            return await turn
        except BaseException:
            turn.cancel()
            with suppress(ValueError):
                line.remove(turn)
            queue: Any = self._reference()
            if queue is not None and not turn.cancelled() and is_for_others(queue):
                queue._wakeup_next(line)  # who is woken and cancelled at once lets the next one act
            raise


class _Turn(asyncio.Future[asyncio.Queue[Any]]):
    """A place in a line of an asyncio.Queue; its result is the queue, which so outlives who wakes it."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        inner: Any = queue
        super().__init__(loop=inner._get_loop())  # refuses a queue of another event loop
        self._reference: weakref.ref[asyncio.Queue[Any]] = weakref.ref(queue)

    def set_result(self, _: Any) -> None:
        """Hold the queue, which is alive, since its own method calls this."""
        queue = self._reference()
        assert queue is not None
        super().set_result(queue)


def _has_items(queue: asyncio.Queue[Any]) -> bool:
    return not queue.empty()


def _has_room(queue: asyncio.Queue[Any]) -> bool:
    return not queue.full()


def _is_shut_down(queue: Any) -> bool:
    return bool(getattr(queue, "_is_shutdown", False))


def put_back(queue: asyncio.Queue[Any], item: Any) -> None:
    """Put an item back that was got and not used, as if it had not been got: where it was, beyond the bound if need be.

    There is no public way to do so. An asyncio.Queue keeps its items in `_queue`; those of other orders know by `_put`
    where an item belongs.
    """
    inner: Any = queue
    if type(queue) is asyncio.Queue:
        inner._queue.appendleft(item)
    else:
        inner._put(item)
    inner._wakeup_next(inner._getters)
