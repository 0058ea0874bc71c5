"""One run of a step as a stream: the values of a tensor as they are computed, then what was fetched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

import numpy as np

from ...base.errors import GraphError, TagloomError
from ...base.source_lines import user_source
from ..observe.watch import Watch
from ..scheduling.time_slices import wait_shielded


class StepStream:
    """The values of a tensor in one run of a step, as they are computed; made by :meth:`Step.stream`.

    Iterate over it with ``async for``. The run begins when the first value, or the result, is asked for, in a task of
    its own; the iteration ends with it, and raises its error. Whoever leaves early ends the run: by ``async with``, by
    :meth:`aclose`, when a wait for the stream is cancelled, or when nobody holds the stream any longer.

    Attributes
    ----------
    watch : Watch
        What keeps the values for the reader.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> inside = []
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.while_loop(lambda i: i < 3, lambda i: inside.append(i * i) or i + 1, [0])
    >>> async def main():
    ...     async with tg.Session(graph) as session, session.make_step(y).stream(inside[0]) as stream:
    ...         return [int(value) async for value in stream], int(await stream.result())
    >>> asyncio.run(main())
    ([0, 1, 4], 3)
    """

    def __init__(self, watch: Watch, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.watch = watch
        self._run: Callable[[], Coroutine[Any, Any, Any]] | None = run  # until it begins
        self._task: asyncio.Task[Any] | None = None  # until its error was raised, or it is closed
        self._source = user_source()

    def __repr__(self) -> str:
        state = "not begun" if self._run else "closed" if self._task is None else "ended"
        running = self._task is not None and not self._task.done()
        return f"<StepStream of {self.watch.tensor.name}: {'running' if running else state}>"

    def __aiter__(self) -> StepStream:
        return self

    async def __anext__(self) -> np.ndarray[Any, Any]:
        self._begin()
        try:
            return await anext(self.watch)
        except StopAsyncIteration:
            await self._outcome()
            raise
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def __aenter__(self) -> StepStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = self._task
        if task is not None and not task.done() and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)

    async def result(self) -> Any:
        """Return what was fetched, once the run has ended; values that were not read are dropped.

        Returns
        -------
        structure of numpy.ndarray
            As for :meth:`Session.run`.

        Raises
        ------
        TagloomError
            The error of the run, unless the iteration has raised it.
        GraphError
            If the stream was closed before its run had ended, or its error was raised already.
        """
        self._begin()
        self.watch.close()
        if self._task is None:
            raise GraphError(
                "this stream has no result",
                wanted="a run that came to its end",
                got="one that was ended early, or failed",
                hint="await result() in front of aclose(), and behind an iteration that raised nothing",
            )
        return await self._outcome()

    async def aclose(self) -> None:
        """End the run, unless it has ended, and wait for its end; twice is fine."""
        self._run, task = None, self._task
        self.watch.close()
        if task is not None and not task.done():
            self._task = None
            task.cancel()
            await wait_shielded(lambda: [] if task.done() else [task])
            if not task.cancelled():
                task.exception()  # of no use to who has left

    def _begin(self) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            self._task = asyncio.get_running_loop().create_task(run(), name=f"stream of {self.watch.tensor.name}")

    async def _outcome(self) -> Any:
        """Wait for the end of the run, and return its result; its error is raised once."""
        task = self._task
        if task is None:
            return None
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await self.aclose()
            raise
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._task = None  # the error's traceback refers to this stream
        if isinstance(error, TagloomError) and error.operation is None:
            error.source = self._source  # the caller's line is not on the stack of the task
        try:
            return task.result()
        finally:
            del task, error
