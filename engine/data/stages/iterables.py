"""Stages that take elements from iterables of the user: in the event loop, in threads, or asynchronously."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from time import perf_counter
from typing import Any

from ...base.errors import GraphError
from .elements import Failure, Item, first_of
from .stage import HELD, QUICKLY, SLICE, Context, Stage, count_of, end_task, is_cancelled


class IterableStage(Stage):
    """The elements of an iterable, or of a function's result.

    The state is the number of elements passed on; an iterator with ``state_dict`` and ``load_state_dict`` adds its own.
    """

    what = "iterable"

    def __init__(self, context: Context, source: object, threads: bool | None = False) -> None:
        super().__init__(context)
        self._source = source
        self._threads = threads
        self._iterator: Any = None
        self._count = 0  # elements passed on
        self._items: deque[Item] = deque()  # elements that are ready
        self._skip = 0  # elements still to be skipped after a state was loaded
        self._has_failed = False  # the last item passed on was an error, and so the end
        self._noted: tuple[Any, int] | None = None  # iterator's last state, and its number of elements then
        self._saved: tuple[Any, int] | None = None  # a loaded iterator state, and elements passed on since
        self._ended = False
        self._gathering = False

    async def pull(self, most: int) -> list[Item]:
        """Return elements as long as they come quickly."""
        await self.context.clock.pause_if_due()
        failed = await self._begin_or_fail()
        if failed is not None:
            return [failed]  # does not count in the state
        if not self._items and not self._ended:
            await self._note_and_gather(most)
        chunk = first_of(self._items, most)
        self._count += len(chunk)
        if chunk:
            self._has_failed = type(chunk[-1][0]) is Failure
        return chunk

    async def _begin_or_fail(self) -> Item | None:
        """Make the iterator and skip elements of a loaded state; return an error if this fails."""
        if self._iterator is None and not self._ended:
            try:
                self._open_iterator()
            except Exception as error:
                self._end_with_error(error)
                return self._items.pop()
        return await self._pass_over() if self._skip and not self._ended else None

    async def _pass_over(self) -> Item | None:
        """Skip the elements counted by a loaded state; return an error if the iterable ends earlier."""
        failed = None
        while self._skip and not self._ended:
            await self._note_and_gather(min(self._skip, 64))
            failed = self._items.pop() if self._items and type(self._items[-1][0]) is Failure else None
            self._skip -= len(self._items)
            self._items.clear()
            await self.context.clock.pause_if_due()
        left, self._skip = self._skip, 0
        if left == 0 or (left == 1 and failed is not None and self._has_failed):  # the state ended with this error
            return None
        what = f"the {self.what} of a pipeline has ended {left} elements before the place that it was at"
        hint = "let it give the same elements again"
        return failed or (self.make_failure(what, self._count - left, None, None, hint=hint), None)

    async def _note_and_gather(self, most: int) -> None:
        if not self._is_busy:
            self._noted = self._note_state()
        self._gathering = True
        await self._gather_elements(most)
        self._gathering = False

    def _note_state(self) -> tuple[Any, int] | None:
        """Return the iterator's state before a wait, during which it is busy, and its number of elements so far."""
        if not self._may_wait or not hasattr(self._iterator, "state_dict"):
            return None
        try:
            return self._iterator.state_dict(), self._count - self._skip
        except Exception:
            return None  # own_state raises the error, if the state is requested

    @property
    def _may_wait(self) -> bool:
        return bool(self._threads)

    @property
    def _is_busy(self) -> bool:
        """True if the iterator is making an element, so that its state cannot be read."""
        return self._gathering

    def _open_iterator(self) -> None:
        """Make the iterator, and load its state if there is one."""
        self._iterator = self._make_iterator(self._source)
        if self._iterator is self._source and any(self.context.epochs):
            raise GraphError(
                f"this {self.what} can be gone through only once",
                wanted="one epoch, or something that begins anew",
                got=repr(self._source),
                hint="give a function that returns a new iterator",
            )
        if self._saved is not None and hasattr(self._iterator, "load_state_dict"):
            self._iterator.load_state_dict(self._saved[0])
            self._skip = self._saved[1]
        self._saved = None

    def _make_iterator(self, source: Any) -> Any:
        return iter(source() if _makes_iterable(source, "__iter__") else source)

    async def _gather_elements(self, most: int) -> None:
        if self._threads:
            await self.context.threads(self._take_elements, most)
        elif self._take_elements(most) > HELD and self._threads is None:
            self._threads = True

    def _take_elements(self, most: int) -> float:
        """Take elements as long as they come quickly; return the duration in seconds."""
        begun = now = perf_counter()
        first = self._count + len(self._items)
        try:
            for number in range(first, first + most):
                self._items.append((next(self._iterator), ("", number)))
                now = perf_counter()
                if now - begun > SLICE:
                    break
        except StopIteration:
            self._ended = True
        except Exception as error:
            self._end_with_error(error)
        return now - begun

    def _end_with_error(self, error: BaseException) -> None:
        """End the iteration with an error raised by the iterator."""
        self._ended = True
        number = self._count - self._skip + len(self._items)
        what = f"the {self.what} of a pipeline has raised {type(error).__name__}: {error}"
        hint = "see its cause; it ends with this element"
        self._items.append((self.make_failure(what, number, ("", number), error, hint=hint), ("", number)))

    def own_state(self) -> Any:
        """Return the number of elements passed on, and the iterator's state now or when last known."""
        its, since = None, 0
        if self._saved is not None:
            its, since = self._saved  # loaded, and not yet used
        elif self._is_busy or self._items or self._skip:
            if self._noted is not None:
                its, since = self._noted[0], self._count - self._noted[1]  # the iterator is busy, or ahead
        elif hasattr(self._iterator, "state_dict"):
            its = self._iterator.state_dict()
        return {"count": self._count, "failed": self._has_failed, "iterator": its, "since": since}

    def load_own_state(self, own: Any) -> None:
        """Continue after the elements passed on."""
        self._count = self._skip = count_of(own["count"])
        self._saved = None if own["iterator"] is None else (own["iterator"], count_of(own["since"]))
        self._has_failed = bool(own["failed"])

    def _save_iterator_state(self) -> None:
        """Save the iterator's state, which cannot be read after closing."""
        if self._ended or not hasattr(self._iterator, "state_dict"):
            return
        with suppress(Exception):  # an iterator without a valid state must be closed all the same
            own = self.own_state()
            self._saved = None if own["iterator"] is None else (own["iterator"], own["since"])

    async def aclose(self) -> None:
        """Close a generator."""
        self._save_iterator_state()
        iterator, self._iterator, self._ended = self._iterator, None, True
        is_idle = not self._gathering  # a thread may still be running the generator
        if is_idle and iterator is not None and iterator is not self._source and hasattr(iterator, "close"):
            iterator.close()


def _makes_iterable(source: object, method: str) -> bool:
    """Return True if a source is a function to call for an iterable; classes count as functions."""
    return isinstance(source, type) or not hasattr(source, method)


class AsyncIterableStage(IterableStage):
    """The elements of an asynchronous iterable, taken on demand by a single task of the stage's own."""

    what = "asynchronous iterable"

    def __init__(self, context: Context, source: object) -> None:
        super().__init__(context, source)
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        self._wanted = 0
        self._reply: asyncio.Future[None] | None = None
        self._is_taking = False
        self._early: asyncio.Handle | None = None  # answers the request if the task waits

    @property
    def _may_wait(self) -> bool:
        return True

    @property
    def _is_busy(self) -> bool:
        return self._is_taking or self._gathering

    def _make_iterator(self, source: Any) -> Any:
        return aiter(source() if _makes_iterable(source, "__aiter__") else source)

    async def _gather_elements(self, most: int) -> None:
        self._wanted = most
        self._asked.set()
        self._reply = asyncio.get_running_loop().create_future()
        if self._task is None:
            # one task: timeouts and task groups, which belong to a task, may surround the user's ``yield``
            self._task = asyncio.create_task(self._go_through())
        await self._reply

    async def _go_through(self) -> None:
        """Answer requests for elements until the end; then close a generator in the same task."""
        iterator = self._iterator
        try:
            while not self._ended:
                await self._asked.wait()
                self._is_taking = True
                await self._take_some(iterator)
                self._is_taking = False
                self._answer_if_ready()
        finally:
            self._answer_request()
            if iterator is not self._source and hasattr(iterator, "aclose"):
                await iterator.aclose()

    async def _take_some(self, iterator: Any) -> None:
        """Append requested elements, at least one unless at the end, as long as they come quickly.

        Elements that are there do not wait for the next one: unless it comes at once, they answer the request.
        """
        until = perf_counter() + QUICKLY  # an element that took longer is passed on at once
        first = self._count + len(self._items)
        loop = asyncio.get_running_loop()
        try:
            for number in range(first, first + self._wanted):
                if self._items and self._early is None:
                    self._early = loop.call_soon(self._answer_early)
                self._items.append((await anext(iterator), ("", number)))
                if perf_counter() > until or self._ended:  # closed, and a generator has ignored its cancellation
                    return
        except StopAsyncIteration:
            self._ended = True
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            self._end_with_error(error)

    def _answer_early(self) -> None:
        self._early = None
        self._answer_if_ready()

    def _answer_if_ready(self) -> None:
        if self._items or self._ended:  # else a pull without a request has taken them, and a later request waits
            self._answer_request()

    def _answer_request(self) -> None:
        # A request made while an element was being made is answered by this element, so no more are to be taken.
        self._asked.clear()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(None)

    async def aclose(self) -> None:
        """End the task, which closes a generator."""
        self._save_iterator_state()
        self._ended = True
        await end_task(self._task)
