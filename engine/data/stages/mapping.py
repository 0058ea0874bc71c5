"""Stages with calls of a user's function for each element: map and filter."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from time import perf_counter
from types import CoroutineType
from typing import Any

import numpy as np

from .elements import Failure, Item, first_of
from .saved_items import restored_items, saved_items
from .stage import HELD, QUICKLY, SLICE, Context, Opens, Stage, count_of, end_task, is_cancelled

_JOB_SECONDS = 2e-3  # target duration of a job in a thread; submitting one costs 0.1 ms
_LARGEST_JOB = 64


class _Job:
    """Elements whose function calls run elsewhere: a single element in a task, or several in a thread."""

    __slots__ = ("future", "items")

    def __init__(self, items: list[Item], future: asyncio.Future[Any]) -> None:
        self.items = items
        self.future = future


class ApplyStage(Stage):
    """Calls of a function for elements, in sequence or `parallel` at the same time; results keep the order.

    A plain function is called on the event loop, or in threads if so requested or after a call took too long.

    Elements are first in `_waiting`, then perhaps in a job, and their results in `_done`. They are numbered in the
    order of arrival; `_number` is the number of the first element without a result.
    """

    what = "maps"

    def __init__(
        self,
        context: Context,
        source: Opens,
        function: Callable[..., Any],
        parallel: int = 1,
        threads: bool | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(context, source)
        self._function = function
        self._is_async = is_async(function)
        self._parallel = parallel
        self._threads = threads
        self._seed = seed
        self._waiting: deque[Item] = deque()
        self._jobs: deque[_Job] = deque()
        self._done: deque[Item] = deque()
        self._number = 0
        self._feeding: asyncio.Task[None] | None = None
        self._ended = False  # end of the input
        self._job_size = 1
        self._running = 0  # unfinished jobs
        self._waiter: asyncio.Future[None] | None = None  # woken when the pulling task can continue
        self._closed = False

    @abstractmethod
    def make_output(self, item: Item, result: object) -> Item | None:
        """Return the output of an element and the function's result, or None for no output."""

    async def pull(self, most: int) -> list[Item]:
        """Return available results; wait for the first if there are none."""
        while not self._done:
            if self._jobs or self._feeding is not None or self._runs_in_jobs:
                if not await self._by_jobs():
                    return []
            elif self._waiting or not self._ended:
                await self._apply_in_pull(most)
            else:
                return []
        return first_of(self._done, most)

    @property
    def _runs_in_jobs(self) -> bool:
        return bool(self._threads) or (self._is_async and self._parallel > 1)

    # ---- in the task that pulls

    async def _apply_in_pull(self, most: int) -> None:
        """Call the function in the pulling task, as long as results come quickly."""
        await self.context.clock.pause_if_due()
        if not self._waiting:
            await self._take_in(most)
        until = perf_counter() + (QUICKLY if self._is_async else SLICE)
        while self._waiting and len(self._done) < most:
            item = self._waiting[0]
            begun = perf_counter()
            if type(item[0]) is Failure:
                result = item[0]
            elif self._is_async:
                result = await self._await_function(item, self._number)
            else:
                result = self._call_function(item, self._number)
            # only now: a cancelled or saved pull must find the element in _waiting
            self._waiting.popleft()
            self._finish_element(item, result)
            now = perf_counter()
            if now - begun > HELD and self._threads is None and not self._is_async:
                self._threads = True
                return
            if now > until:
                return

    def _call_function(self, item: Item, number: int) -> Any:
        try:
            result = self._function(item[0], *self._random_arguments(number))
        except Exception as error:
            return self.failed_function(self.what, self._function, item, number, error)
        return self._refuse_coroutine(result, item, number) if type(result) is CoroutineType else result

    def _refuse_coroutine(self, result: CoroutineType[Any, Any, Any], item: Item, number: int) -> Failure:
        """Return the failure of a plain function whose result is a coroutine, such as a lambda around an async call."""
        name = getattr(self._function, "__qualname__", repr(self._function))
        # else Python warns of a coroutine that was never awaited
        result.close()
        return self.make_failure(
            f"{name}, which {self.what} elements, has returned a coroutine",
            number,
            item[1],
            None,
            wanted="a result, or an async function",
            got=result.__qualname__,
            hint=f"give the async function itself, as in map({result.__name__}), or write one",
        )

    async def _await_function(self, item: Item, number: int) -> Any:
        try:
            return await self._function(item[0], *self._random_arguments(number))
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            return self.failed_function(self.what, self._function, item, number, error)

    def _random_arguments(self, number: int) -> tuple[np.random.Generator, ...]:
        """Return the generator of an element, which depends on iteration, epochs and element number alone."""
        if self._seed is None:
            return ()
        return (np.random.default_rng(self.context.seed_sequence(self._seed, *self.context.epochs, number)),)

    def _finish_element(self, item: Item, result: object) -> None:
        self._number += 1
        # a failure passes through filter and map alike
        made = (result, item[1]) if type(result) is Failure else self.make_output(item, result)
        if made is not None:
            self._done.append(made)

    async def _take_in(self, most: int) -> None:
        items = await self.inputs[0].pull(most)
        self._waiting.extend(items)
        self._ended = not items

    # ---- in tasks and threads

    async def _by_jobs(self) -> bool:
        """Wait for the first job and finish all leading jobs with results; return False if there is none."""
        self._start_work()
        while not self._jobs or not self._jobs[0].future.done():
            if self._feeding is not None and self._feeding.done():
                feeding, self._feeding = self._feeding, None
                feeding.result()
                self._start_work()
            elif not self._jobs and not self._waiting and self._feeding is None:
                return False
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        while self._jobs and self._jobs[0].future.done():
            self._end_job()
        self._start_work()
        return True

    def _start_work(self) -> None:
        """Start jobs and request elements, as far as there is room.

        Besides `parallel` running jobs, as many may have ended and wait for the first: a single slow call does not
        leave the workers idle.
        """
        if self._closed:
            return
        while self._waiting and self._running < self._parallel and len(self._jobs) < 2 * self._parallel:
            self._begin_job()
        room = self._parallel * self._job_size
        if self._feeding is None and not self._ended and 2 * len(self._waiting) <= room:
            self._feeding = asyncio.create_task(self._take_in(room - len(self._waiting)))
            self._feeding.add_done_callback(self._on_feeding_end)

    def _on_feeding_end(self, feeding: asyncio.Task[None]) -> None:
        if not feeding.cancelled() and feeding.exception() is None and feeding is self._feeding:
            self._feeding = None
            self._start_work()
        self._wake_pull()

    def _on_job_end(self, future: asyncio.Future[Any]) -> None:
        self._running -= 1
        self._start_work()
        # results keep the order: only the first job can wake the pulling task
        if self._jobs and self._jobs[0].future.done():
            self._wake_pull()

    def _wake_pull(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _begin_job(self) -> None:
        """Start the next job: a task for a single element, or a call in a thread for several."""
        first = self._number + sum(len(job.items) for job in self._jobs)
        count = 1 if self._is_async else min(self._job_size, len(self._waiting))
        items = [self._waiting.popleft() for _ in range(count)]
        future: asyncio.Future[Any]
        if self._is_async:
            future = asyncio.create_task(self._apply_in_task(items[0], first))
        else:
            future = self.context.threads(self._in_thread, items, first)
        self._jobs.append(_Job(items, future))
        self._running += 1
        future.add_done_callback(self._on_job_end)

    async def _apply_in_task(self, item: Item, number: int) -> list[Any]:
        return [item[0] if type(item[0]) is Failure else await self._await_function(item, number)]

    def _in_thread(self, items: list[Item], first: int) -> list[Any]:
        """Return the results of a job, and adapt the size of the next ones to its duration."""
        begun = perf_counter()
        results = [
            item[0] if type(item[0]) is Failure else self._call_function(item, number)
            for number, item in enumerate(items, first)
        ]
        each = (perf_counter() - begun) / len(items)
        # several threads may write at the same time; any of their estimates will do
        self._job_size = max(1, min(2 * self._job_size, _LARGEST_JOB, int(_JOB_SECONDS / max(each, 1e-7))))
        return results

    def _end_job(self) -> None:
        """Finish the first job, which has ended."""
        job = self._jobs.popleft()
        if job.future.cancelled():  # by the function itself, because a closed stage requests no result
            error = asyncio.CancelledError()
            results = [self.failed_function(self.what, self._function, job.items[0], self._number, error)]
        else:
            results = job.future.result()
        for item, result in zip(job.items, results, strict=True):
            self._finish_element(item, result)

    # ---- state

    def own_state(self) -> Any:
        """Return results, elements without a result, and the number of the first of these."""
        waiting = [item for job in self._jobs for item in job.items] + list(self._waiting)
        return {"number": self._number, "done": saved_items(self._done), "waiting": saved_items(waiting)}

    def load_own_state(self, own: Any) -> None:
        """Continue with the elements in progress."""
        self._number = count_of(own["number"])
        self._done.extend(restored_items(own["done"]))
        self._waiting.extend(restored_items(own["waiting"]))

    async def aclose(self) -> None:
        """End all running calls; threads end with their current call."""
        # first: callbacks of ending jobs must not start new ones
        self._closed = True
        await end_task(self._feeding)
        for job in self._jobs:
            await end_task(job.future)
        await super().aclose()


class MapStage(ApplyStage):
    """The results of a function for each element."""

    def make_output(self, item: Item, result: object) -> Item:
        """Return the result, with the origin of the element."""
        return result, item[1]


class FilterStage(ApplyStage):
    """The elements for which a function returns True."""

    what = "filters"

    def make_output(self, item: Item, result: object) -> Item | None:
        """Return the element, None, or the failure of a result without a truth value."""
        try:
            return item if result else None
        except Exception as error:
            name = getattr(self._function, "__qualname__", repr(self._function))
            hint = "return a bool, as of (x > 2).all(); ignore_errors() leaves such elements out"
            what = f"{name}, which filters elements, has returned what is neither true nor false: {error}"
            return self.make_failure(what, self._number - 1, item[1], error, got=repr(result)[:200], hint=hint), item[1]


def is_async(function: Callable[..., Any]) -> bool:
    """Return True for an ``async def`` function, or an object with an ``async def`` call operator."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
