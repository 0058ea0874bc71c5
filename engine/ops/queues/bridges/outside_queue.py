"""An asyncio.Queue at the far end of a bridge; the bridge does not keep the queue alive."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_QueueShutDown = getattr(asyncio, "QueueShutDown", None)  # of Python 3.13
SHUT_DOWN: tuple[type[Exception], ...] = () if _QueueShutDown is None else (_QueueShutDown,)


class QueueGone(Exception):
    """Nobody refers to the asyncio.Queue any longer."""


class OutsideQueue:
    """A weak reference to an asyncio.Queue, with a `get` and a `put` which wait without a strong reference.

    The lines of waiting tasks have strong references: the event loop refers to tasks weakly, so a reader without other
    references would be collected with its queue. A waiting task keeps its queue alive.

    Python has no public way to wait in a queue without a reference to the queue. The lines are `_getters` and
    `_putters`, which `_wakeup_next` wakes. A queue whose class overrides `get` or `put` is kept alive, and used by its
    own methods.

    Parameters
    ----------
    queue : asyncio.Queue
    """

    __slots__ = ("_kept", "_lines", "_reference", "_unopened")

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        inner: Any = queue
        # A subclass with waits of its own is kept alive: only its own methods know how to wait.
        has_own_waits = type(queue).get is not asyncio.Queue.get or type(queue).put is not asyncio.Queue.put
        self._kept: asyncio.Queue[Any] | None = queue if has_own_waits else None
        self._lines = (inner._getters, inner._putters, inner._finished)  # _finished holds the waits of join()
        # Until `open`: the queue may have items, and no other reference.
        self._unopened: asyncio.Queue[Any] | None = queue
        self._reference: weakref.ref[asyncio.Queue[Any]] = weakref.ref(queue)

    def open(self, call_when_gone: Callable[[], None]) -> asyncio.Queue[Any]:
        """Return the queue, alive until now; `call_when_gone` runs in the event loop after the queue's end."""
        loop, queue = asyncio.get_running_loop(), self._unopened
        assert queue is not None  # `open` is called once
        self._unopened = None

        def call_in_loop(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call_when_gone)  # the collector runs in any thread

        self._reference = weakref.ref(queue, call_in_loop)
        return queue

    async def get(self) -> tuple[asyncio.Queue[Any], Any]:
        """Return the queue and its next item, as soon as an item is available.

        Raises
        ------
        QueueGone
        """
        if self._kept is not None:
            return self._kept, await self._kept.get()
        queue = self._living_queue()
        while queue.empty() and not _is_shut_down(queue):
            turn = _Turn(queue)
            # No strong reference may last until the wait.
            waiting: Any = queue
            del queue
            line = waiting._getters
            del waiting
            queue = await self._wait_for_turn(turn, line, _has_items)
        return queue, queue.get_nowait()

    async def put(self, item: Any) -> None:
        """Put an item in as soon as the queue has room.

        Raises
        ------
        QueueGone
        """
        if self._kept is not None:
            await self._kept.put(item)
            return
        queue = self._living_queue()
        while queue.full() and not _is_shut_down(queue):
            turn = _Turn(queue)
            # No strong reference may last until the wait.
            waiting: Any = queue
            del queue
            line = waiting._putters
            del waiting
            queue = await self._wait_for_turn(turn, line, _has_room)
        queue.put_nowait(item)

    def _living_queue(self) -> asyncio.Queue[Any]:
        queue = self._reference()
        if queue is None:
            raise QueueGone
        return queue

    async def _wait_for_turn(
        self, turn: _Turn, line: deque[asyncio.Future[Any]], is_for_others: Callable[[asyncio.Queue[Any]], bool]
    ) -> asyncio.Queue[Any]:
        """Wait in a line of the queue; return the queue at this task's turn."""
        line.append(turn)
        try:
            return await turn
        except BaseException:
            # Without effect on a turn that was woken, which `cancelled` tells below.
            turn.cancel()
            with suppress(ValueError):
                line.remove(turn)
            queue: Any = self._reference()
            if queue is not None and not turn.cancelled() and is_for_others(queue):
                queue._wakeup_next(line)  # a task both woken and cancelled passes its turn on
            raise


class _Turn(asyncio.Future[asyncio.Queue[Any]]):
    """A place in a line of an asyncio.Queue; the result is the queue, which thereby outlives the waking task."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        inner: Any = queue
        super().__init__(loop=inner._get_loop())  # raises an error for a queue of another event loop
        self._reference: weakref.ref[asyncio.Queue[Any]] = weakref.ref(queue)

    def set_result(self, _: Any) -> None:
        """Store the queue as the result; the queue is alive, because its own method calls this."""
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
    """Return an unused item to its place in the queue, beyond the bound if necessary.

    Python has no public way. An asyncio.Queue keeps its items in `_queue`; subclasses of other orders place an item
    by `_put`.
    """
    inner: Any = queue
    if type(queue) is asyncio.Queue:
        inner._queue.appendleft(item)
    else:
        inner._put(item)
    inner._wakeup_next(inner._getters)
