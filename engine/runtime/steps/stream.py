"""Streams: a run of a step with the values of a tensor as they are computed, then the fetched values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any
from weakref import ref

import numpy as np

from ...base.errors import GraphError, TagloomError
from ...base.source_lines import user_source
from ...base.waiting import cancel_once, wait_shielded
from ..observe.watch import Watch

Run = Callable[[], Coroutine[Any, Any, Any]]
Opening = Callable[[], Coroutine[Any, Any, tuple[Watch, Run]]]


class StepStream:
    """The values of a tensor in a single run of a step, as they are computed; made by :meth:`Step.stream`.

    Iterate over a stream with ``async for``. The run begins in its own task when the first value, or the result, is
    asked for; the iteration ends with the run, and raises its error. Leaving early ends the run: by ``async with``, by
    :meth:`aclose`, when the last task waiting for the stream is cancelled, when the task reading the stream fails
    or is cancelled, or when nobody holds the stream any longer. After a ``break`` the run waits as long as the stream
    is held.

    Attributes
    ----------
    watch : Watch or None
        Buffer of the values for the reader; None while the function of the stream is still traced.

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

    def __init__(self, watch: Watch, run: Run) -> None:
        self._set_up(watch, run, watch.tensor.name)

    @classmethod
    def opened_by(cls, open: Opening, name: str) -> StepStream:
        """Return a stream of a tensor that is only looked up when the run begins, on the event loop.

        Parameters
        ----------
        open : callable
            ``await open()`` returns the watch and the function that runs the step; its error is an error of the run.
        name : str
            Name of the tensor in the stream's repr.
        """
        stream = cls.__new__(cls)
        stream._set_up(None, partial(_open_and_run, ref(stream), open), name)
        return stream

    def _set_up(self, watch: Watch | None, run: Run, name: str) -> None:
        """Set the fields of a stream whose run has not begun; `watch` is None if `run` sets it."""
        self.watch: Watch | None = watch
        self._name = name
        self._opened = asyncio.Event()  # set when there is a watch, or no longer will be
        if watch is not None:
            self._opened.set()
        self._run: Run | None = run  # until it begins
        self._task: asyncio.Task[Any] | None = None  # until its error was raised, or it is closed
        self._is_closed = False  # before the run had ended
        self._waiting = 0  # calls that wait for a value or the end
        self._reader: ref[asyncio.Task[Any]] | None = None  # the task that has read last
        self._reader_ends = partial(_end_with_reader, ref(self))
        self._source = user_source()

    def __repr__(self) -> str:
        state = "not begun" if self._run else "closed" if self._task is None else "ended"
        running = self._task is not None and not self._task.done()
        return f"<StepStream of {self._name}: {'running' if running else state}>"

    def __aiter__(self) -> StepStream:
        return self

    async def __anext__(self) -> np.ndarray[Any, Any]:
        self._begin_run()
        self._follow_reader()
        async with self._count_waiting():
            watch = await self._watch_there()
            try:
                if watch is None:
                    raise StopAsyncIteration
                return await watch.buffer.take()
            except StopAsyncIteration:
                task = await self._wait_for_end()
            if task is not None:
                self._result_of(task)
            raise StopAsyncIteration

    async def __aenter__(self) -> StepStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None and not task.done() and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)
        self._follow_nobody()

    async def result(self) -> Any:
        """Return the fetched values once the run has ended; unread values are dropped.

        Several tasks may wait for the result: if any of them is cancelled, the others get the result.

        Returns
        -------
        structure of numpy.ndarray
            As for :meth:`Session.run`.

        Raises
        ------
        TagloomError
            The error of the run, unless the iteration has raised it.
        GraphError
            If the stream was closed before its run had ended, also by another task during this call, or its error
            was raised already.
        """
        self._begin_run()
        async with self._count_waiting():
            if (watch := await self._watch_there()) is not None:
                watch.close()
            task = await self._wait_for_end()
        if task is None:
            raise self._no_result("one that was ended early, or failed")
        return self._result_of(task)

    async def aclose(self) -> None:
        """End the run, unless it has ended, and wait for its end; a second call does nothing."""
        self._run, task = None, self._task
        if self.watch is not None:
            self.watch.close()
        self._follow_nobody()
        if task is not None and not task.done():
            self._task, self._is_closed = None, True
            cancel_once(task)
            await wait_shielded(lambda: [] if task.done() else [task])
            if not task.cancelled():
                task.exception()  # retrieved, else asyncio logs an error that no caller is interested in

    def _begin_run(self) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            self._task = asyncio.get_running_loop().create_task(run(), name=f"stream of {self._name}")

    async def _watch_there(self) -> Watch | None:
        """Return the watch as soon as it is set; None if the run ends before."""
        if self.watch is None and self._task is not None:
            await self._opened.wait()
        return self.watch

    @asynccontextmanager
    async def _count_waiting(self) -> AsyncIterator[None]:
        """Count a waiting call; end the run if the call is cancelled and no other call waits."""
        self._waiting += 1
        try:
            yield
        except asyncio.CancelledError:
            if self._waiting == 1:
                await self.aclose()
            raise
        finally:
            self._waiting -= 1

    async def _wait_for_end(self) -> asyncio.Task[Any] | None:
        """Return the task of the run when the run has ended; None if the stream was closed, or the error was raised."""
        task = self._task
        if task is not None and not task.done():
            await asyncio.wait([task])
        return None if self._is_closed else task

    def _result_of(self, task: asyncio.Task[Any]) -> Any:
        """Return the fetched values of a run, or raise its error to the calls waiting now, and to no later call."""
        if not task.cancelled() and task.exception() is None:
            return task.result()
        self._task = None  # the error's traceback refers to this stream
        if task.cancelled():
            raise self._no_result("one that was cancelled by something in it")
        error = task.exception()
        if isinstance(error, TagloomError) and error.operation is None:
            error.source = self._source  # the caller's line is not on the stack of the task
        try:
            return task.result()
        finally:
            del task, error

    def _no_result(self, got: str) -> GraphError:
        """Return the error of a call for the result of a run without result."""
        return GraphError(
            "this stream has no result",
            wanted="a run that came to its end",
            got=got,
            source=self._source,
            hint="await result() before aclose(), and after an iteration that raised nothing",
        )

    def _follow_reader(self) -> None:
        """End the run together with the reading task, if that task fails or is cancelled between two values."""
        reader = asyncio.current_task()
        if reader is not None and (self._reader is None or self._reader() is not reader):
            self._follow_nobody()
            reader.add_done_callback(self._reader_ends)
            self._reader = ref(reader)

    def _follow_nobody(self) -> None:
        reader = None if self._reader is None else self._reader()
        self._reader = None
        if reader is not None:
            reader.remove_done_callback(self._reader_ends)


def _end_with_reader(stream: ref[StepStream], reader: asyncio.Task[Any]) -> None:
    """End the run of a stream whose reader has failed or was cancelled, unless another task waits for the run."""
    found = stream()
    task = None if found is None else found._task
    if found is None or task is None or task.done() or found._waiting:
        return
    if reader.cancelled() or reader.exception() is not None:
        found._is_closed = True
        if found.watch is not None:
            found.watch.close()
        task.cancel()


async def _open_and_run(stream: ref[StepStream], open: Opening) -> Any:
    """Look up the tensor of a stream and run the step; return None if nobody holds the stream any longer."""
    found = stream()
    opened = asyncio.Event() if found is None else found._opened
    del found  # a stream ends when its last holder drops it, and this task must be no holder
    try:
        watch, run = await open()
        if (found := stream()) is None:
            return None
        found.watch = watch
        del found, watch
    finally:
        opened.set()
    running = run()
    del run  # holds the watch, which must end with the stream
    return await running
