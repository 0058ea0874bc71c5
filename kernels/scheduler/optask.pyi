"""OpTask: a waiting operation instance, as seen by the tools of asyncio."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, TextIO

class OpTask(asyncio.Future[Any]):
    """An operation instance waiting for a future.

    An OpTask can be awaited, cancelled and passed to ``asyncio.wait`` or ``gather`` like a Task;
    ``asyncio.all_tasks()`` lists each OpTask until its end. Only the owner and awaiting tasks keep an OpTask alive.

    Parameters
    ----------
    source : asyncio.Future
        Future of the running loop for which the instance waits. Cancelling the OpTask cancels this future.
    name : str
        The instance: ``node@frame/iteration``.
    convert : callable, optional
        Makes the result from the source's; called in the context of the OpTask's creator.
    give_up : callable, optional
        Called instead for a cancelled OpTask, even if the source had its result by then.
    is_over : callable, optional
        True if the step is about to cancel the instance; then `give_up` is called as after a cancellation.
    finished : callable, optional
        Called with the OpTask as soon as done, not a turn of the event loop later as callbacks are.

    Examples
    --------
    >>> import asyncio
    >>> from tagloom.kernels.scheduler.optask import OpTask
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
    ) -> None: ...
    def get_name(self) -> str:
        """Return the task's name, ``node@frame/iteration`` unless renamed."""

    def set_name(self, value: object) -> None:
        """Set the name."""

    def get_coro(self) -> asyncio.Future[Any]:
        """Return the source for which the instance waits: an awaitable, though no coroutine."""

    def get_context(self) -> Context:
        """Return the context in which the result is made."""

    def get_stack(self, *, limit: int | None = None) -> list[Any]:
        """Return no frames, since no Python code is suspended."""

    def print_stack(self, *, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print that there is no stack, by default to stderr."""

    def set_result(self, result: Any) -> None:
        """Refuse: the result comes from the source."""

    def set_exception(self, exception: Any) -> None:
        """Refuse: the exception comes from the source."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask the source to be cancelled; False if this is done already.

        As with a Task the cancellation does not happen at once, and never if the source is a task which suppresses
        cancellation.
        """

    def cancelling(self) -> int:
        """Return the number of requests to cancel, less the number taken back."""

    def uncancel(self) -> int:
        """Take a request to cancel back; return the number of requests left."""

def start_task(
    awaitable: Any,
    name: str,
    is_over: Callable[[], bool] | None = None,
    finished: Callable[[asyncio.Task[Any] | OpTask], object] | None = None,
) -> asyncio.Task[Any] | OpTask:
    """Start an awaitable as a task of the running loop: an OpTask if the awaitable only waits for a future of the loop.

    ``finished(task)`` is called when the task is done, never before this returns.
    """
