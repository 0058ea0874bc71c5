"""State of a partial run, shared by the kernels of its step and by its handle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from ....base.errors import GraphError, SessionClosed
from ...memory.claims import MemoryClaim
from ..compiled_step import CompiledStep
from ..dead_fetch import explain_dead_fetch
from ..queue_uses import instances_of_feeds
from ..stalls import Activity

if TYPE_CHECKING:
    from ..machine import Execution

AGAIN = "begin another one with partial_run_setup"


class PartialRunState:
    """State shared by the kernels of a step in parts and its handle: fed values, computed values, waiting parts.

    Parameters
    ----------
    step : CompiledStep
        A step in parts. Results are numbered, the tensors first and then the targets.

    Attributes
    ----------
    error : BaseException or None
        Error that ended the step, until a part has raised the error.
    ended : str or None
        Description of the step's end; None while the step runs.
    number : int
        Number of the step; -1 before the step begins.
    """

    def __init__(self, step: CompiledStep) -> None:
        self.error: BaseException | None = None
        self.ended: str | None = None
        self.step: CompiledStep = step
        self._execution: Execution | None = None
        self._task: asyncio.Task[Any] | None = None
        self._fed: dict[int, np.ndarray[Any, Any]] = {}  # fed values that no kernel has asked for yet
        self._expected: dict[int, asyncio.Future[Any]] = {}  # futures of kernels whose feed is still to come
        self._values: dict[int, np.ndarray[Any, Any] | None] = {}  # results that no part has taken yet
        self._done: set[int] = set()  # results computed so far
        self._give_back: Callable[[], object] = lambda: None  # undoes queue takes whose results no part has taken
        self._loop: asyncio.AbstractEventLoop | None = None
        self.number: int = -1
        self.claim: MemoryClaim | None = None  # under a memory limit, if the executor counts the bytes of a step
        self.refuse: Callable[[MemoryClaim, BaseException], None] | None = None
        self.in_line: set[MemoryClaim] = set()  # claims of parts that wait for memory
        self._waiters: set[_Waiter] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the step."""
        return self._running.loop

    @property
    def _running(self) -> Execution:
        """The execution of the step, which has begun and has not ended."""
        assert self._execution is not None
        return self._execution

    def start(self, execution: Execution, give_back: Callable[[], object]) -> asyncio.Task[Any]:
        """Run the step in a new task; `give_back` undoes queue takes whose values no caller has."""
        self._execution, self._give_back = execution, give_back
        self._loop = execution.loop
        self.number = execution.context.number
        self._task = asyncio.get_running_loop().create_task(execution.run(), name="partial run")
        return self._task

    # ---- called by the kernels

    def come(self, index: int) -> Any:
        """Return the value of a feed, or a future of the value."""
        if index in self._fed:
            return self._fed.pop(index)
        self._expected[index] = asyncio.get_running_loop().create_future()
        return self._expected[index]

    def put(self, key: int, value: np.ndarray[Any, Any]) -> None:
        """Keep a fetched value, a copy, until a part takes the value."""
        self._values[key] = value
        self._note_result(key)

    def finish(self, key: int) -> None:
        """Note that a result was computed; a tensor without a value is dead, which ends the step."""
        if key >= len(self.step.tensors):
            self._values[key] = None
            self._note_result(key)
        elif key not in self._done:
            outcomes = self._running.switch_outcomes()
            self._running.abort(explain_dead_fetch(self.step, key, outcomes))

    def _note_result(self, key: int) -> None:
        self._done.add(key)
        self._notify_parts(None)

    # ---- called by the handle

    def feed(self, index: int, value: np.ndarray[Any, Any]) -> None:
        """Pass a value to the step, which owns the value from now on."""
        future = self._expected.pop(index, None)
        if future is None:
            self._fed[index] = value
        elif not future.done():
            future.set_result(value)

    def has(self, keys: Collection[int]) -> bool:
        """Return True if all these results can be taken."""
        return all(key in self._values for key in keys)

    def take(self, keys: Collection[int]) -> list[Any]:
        """Return results and drop them here."""
        return [self._values.pop(key) for key in keys]

    async def wait(self, keys: Collection[int], until_end: bool) -> None:
        """Wait until results can be taken, and optionally until the step's end; raise an error that ended the step."""
        waiter = _Waiter()
        self._waiters.add(waiter)
        try:
            while not self.has(keys) or (until_end and self.ended is None):
                await waiter.wait_for_progress()
        finally:
            self._waiters.discard(waiter)

    def abort(self, error: BaseException) -> None:
        """End the step with an error, unless the step has ended."""
        if self._task is not None and not self._task.done():
            self._running.abort(error)

    def owns_task(self, task: object) -> bool:
        """Return True if `task` runs an instance of the step."""
        return self._execution is not None and self._execution.owns_task(task)

    def activity(self) -> Activity:
        """Return the activity of the step, without the feeds still to come."""
        if self._task is None or self._task.done():
            return Activity([], [])
        names, lines = self._running.activity()
        feeds = instances_of_feeds(self.step)
        return Activity([name for name in names if name not in feeds], lines)

    def over(self) -> None:
        """Note the end of the step's task; pass an error to waiting parts, or keep the error for the next part."""
        assert self._task is not None
        error = error_of(self._task)
        if not self._running.has_ended:  # the task was cancelled before its first turn, so `run` never began
            self._running.release()
        self._execution = self._task = None
        self._fed.clear()
        self._expected.clear()
        if isinstance(error, asyncio.CancelledError):  # no waiting part asked for it, so none may be cancelled by it
            error = _cancelled_error(error)
        self.ended = "all of it was computed" if error is None else f"{type(error).__name__}: {error}".split("\n")[0]
        if error is not None:
            self._values.clear()
            self._give_back()
        self.error = None if self._waiters or self.in_line else error
        self._notify_parts(error)

    def _notify_parts(self, error: BaseException | None) -> None:
        if self.ended is not None and self.refuse is not None:
            for claim in list(self.in_line):
                self.refuse(claim, error or GraphError("this partial run has ended", got=self.ended, hint=AGAIN))
        for waiter in self._waiters:
            waiter.tell(error)

    async def close(self, what: str) -> None:
        """End the step with SessionClosed and wait for its end; a cancellation ends the waiting only."""
        task = self._task
        self.end(what)
        if task is not None:
            await asyncio.wait([task])
        self._values.clear()
        self._give_back()
        self.error = None

    def end(self, what: str) -> None:
        """End the step with SessionClosed, unless the step has ended."""
        self.abort(SessionClosed(what, hint=AGAIN))

    def release(self) -> None:
        """Release the resources of a step that will not go on."""
        self._running.release()

    def abandon(self) -> None:
        """End the step soon, and undo queue takes whose values no caller has; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_abandoned)

    def _end_abandoned(self) -> None:
        self.end("nobody holds this partial run any longer")
        if self._task is None:
            self._give_back()


def _cancelled_error(cause: asyncio.CancelledError) -> GraphError:
    error = GraphError(
        "this partial run was cancelled, and not by a part that waits for it",
        got=str(cause) or "a cancellation of its task",
        hint="see its cause: a function of the step that has raised it, or what cancels all tasks; " + AGAIN,
    )
    error.__cause__ = cause
    return error


class _Waiter:
    """A waiting part: notified of each result, and of an error even before the part has handled the previous news."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, error: BaseException | None) -> None:
        self._error = error
        if not self._news.done():
            self._news.set_result(None)

    async def wait_for_progress(self) -> None:
        await self._news
        self._news = asyncio.get_running_loop().create_future()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame


def error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Return the error of an ended task, a CancelledError included; None without error."""
    if not task.cancelled():
        return task.exception()
    try:
        return task.result()  # type: ignore[no-any-return]  # raises the CancelledError of the task, with its message
    except asyncio.CancelledError as error:
        return error
    finally:
        del task  # the error's traceback refers to this frame
