"""OpTask: a waiting operation instance, as the tools of asyncio see one.

An instance that waits for a future needs no coroutine and no turn of the event loop to wait in. It should still be
found by whoever looks for tasks: a debugger that lists them, ``asyncio.run`` that cancels what is left, a scope that
cancels what it started. They take whatever has a Task's methods, and a few of its private fields besides.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.tasks import _register_task, _unregister_task
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TextIO

from ...ops.control.py_function import AsyncResult


class OpTask(asyncio.Future[Any]):
    """An operation instance that waits for a future.

    Await it, cancel it, give it to ``asyncio.wait`` or ``gather`` like a Task; ``asyncio.all_tasks()`` lists it until
    it is done. Only its owner and those who await it keep it alive.

    Parameters
    ----------
    source : asyncio.Future
        What the instance waits for, of the running loop. Cancelling the OpTask cancels it.
    name : str
        The instance: ``node@frame/iteration``.
    convert : callable, optional
        Makes the result from the source's; called in the context of whoever made the OpTask.
    give_up : callable, optional
        Called instead if the OpTask is cancelled, even if the source had its result by then.
    is_over : callable, optional
        Whether the step of the instance is about to cancel it; then what can be given up is, as if that had happened.
    finished : callable, optional
        Called with the OpTask as soon as that is done, not a turn of the event loop later as callbacks are.

    Examples
    --------
    >>> import asyncio
    >>> from tagflow.runtime.scheduling.optask import OpTask
    >>> async def main():
    ...     source = asyncio.get_running_loop().create_future()
    ...     task = OpTask(source, "recv@root/0", convert=lambda value: value + 1)
    ...     source.set_result(2)
    ...     return task in asyncio.all_tasks(), await task
    >>> asyncio.run(main())
    (True, 3)
    """

    def __init__(
        self,
        source: asyncio.Future[Any],
        name: str,
        convert: Callable[[Any], Any] | None = None,
        give_up: Callable[[], None] | None = None,
        is_over: Callable[[], bool] | None = None,
        finished: Callable[[OpTask], object] | None = None,
    ) -> None:
        super().__init__(loop=source.get_loop())
        self._name = name
        self._convert = convert
        self._give_up = give_up
        self._is_over = is_over
        self._finished = finished
        self._context = copy_context()
        self._num_cancels_requested = 0
        self._must_cancel = False  # asked for when the source was done already
        self._fut_waiter: asyncio.Future[Any] | None = source
        self._source = source
        source.add_done_callback(self._wake, context=self._context)
        _register_task(self)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled() else "finished" if self.done() else "waiting"
        return f"<OpTask {self._name} {state}>"

    def get_name(self) -> str:
        """Return ``node@frame/iteration``, unless it was renamed."""
        return self._name

    def set_name(self, value: object) -> None:
        """Set the name."""
        self._name = str(value)

    def get_coro(self) -> asyncio.Future[Any]:
        """Return what the instance waits for: an awaitable, though no coroutine."""
        return self._source

    def get_context(self) -> Context:
        """Return the context in which the result is made."""
        return self._context

    def get_stack(self, *, limit: int | None = None) -> list[Any]:
        """Return no frames, since no Python code is suspended."""
        return []

    def print_stack(self, *, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print that there is no stack, by default to stderr."""
        print(f"No stack for {self!r}", file=sys.stderr if file is None else file)

    def set_result(self, result: Any) -> None:
        """Refuse: the result comes from the source."""
        raise RuntimeError("OpTask does not support set_result operation")

    def set_exception(self, exception: Any) -> None:
        """Refuse: the exception comes from the source."""
        raise RuntimeError("OpTask does not support set_exception operation")

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the source to be cancelled; False if this is done already.

        As with a Task it is not cancelled at once, and never if the source is a task that suppresses cancellation.
        """
        if self.done():
            return False
        self._num_cancels_requested += 1
        if not self._source.cancel(msg):
            self._must_cancel, self._cancel_message = True, msg
        return True

    def cancelling(self) -> int:
        """Return how many requests to cancel there were, less those taken back."""
        return self._num_cancels_requested

    def uncancel(self) -> int:
        """Take one request to cancel back; return how many are left."""
        if self._num_cancels_requested > 0:
            self._num_cancels_requested -= 1
            if self._num_cancels_requested == 0:
                self._must_cancel = False
        return self._num_cancels_requested

    def _wake(self, source: asyncio.Future[Any]) -> None:
        """End as the source has ended."""
        self._fut_waiter = None
        try:
            failure = None if source.cancelled() else source.exception()
            if isinstance(failure, Exception):
                super().set_exception(failure)  # not raised, for the reason below
                return
            result = source.result()
            if self._must_cancel:
                raise asyncio.CancelledError(self._cancel_message)
            if self._give_up is not None and self._is_over is not None and self._is_over():
                raise asyncio.CancelledError
            super().set_result(result if self._convert is None else self._convert(result))
        except asyncio.CancelledError as error:
            if self._give_up is not None:
                self._give_up()
            super().cancel(*error.args[:1])
        except (KeyboardInterrupt, SystemExit) as error:
            super().set_exception(error)
            raise
        except BaseException as error:
            super().set_exception(_storable(error))
        finally:
            finished = self._finished
            self._convert = self._give_up = self._is_over = self._finished = None
            _unregister_task(self)  # type: ignore[arg-type]
            if finished is not None:
                finished(self)
            # An error raised here has this frame in its traceback, and these hold the error: it, and all that the
            # frames of a failed kernel hold, would live until the garbage is collected.
            del self, source


def _storable(error: BaseException) -> BaseException:
    """Return an error that a future can hold: any but StopIteration, which would end a generator instead."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("StopIteration was raised")
    wrapped.__cause__ = error
    return wrapped


def start_task(
    awaitable: Any,
    name: str,
    is_over: Callable[[], bool] | None = None,
    finished: Callable[[asyncio.Task[Any] | OpTask], object] | None = None,
) -> asyncio.Task[Any] | OpTask:
    """Let an awaitable go on as a task of the running loop: an OpTask if it only waits for a future of that loop.

    ``finished(task)`` is called when the task is done, never before this returns.
    """
    loop = asyncio.get_running_loop()
    source, convert, give_up = awaitable, None, None
    if isinstance(awaitable, AsyncResult):
        source, convert, give_up = awaitable.source, awaitable.convert, awaitable.give_up
    if isinstance(source, asyncio.Future) and source.get_loop() is loop:
        return OpTask(source, name, convert, give_up, is_over, finished)
    task = loop.create_task(_await(awaitable), name=name)
    if finished is not None:
        task.add_done_callback(finished)
    return task


async def _await(awaitable: Any) -> Any:
    return await awaitable
