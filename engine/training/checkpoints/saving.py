"""A checkpoint being written by a thread while training continues."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from ...base.errors import CheckpointError
from ...base.forks import strand_in_children
from ...base.source_lines import Source
from ...runtime.scheduling.running_loops import is_of_notebook

_logger = logging.getLogger("tagloom")
Check = Callable[[], None]


class Saving:
    """A checkpoint being written; await the Saving for the checkpoint's path, any number of times.

    A cancelled await does not stop the writing; `cancel` does.

    Parameters
    ----------
    step : int
    write : callable
        ``write(check)`` writes the checkpoint in a thread and returns its path; an error of `check` ends the writing.
    source : Source or None
        The user's line that saves, for error messages.
    nbytes : int
        Size of the arrays, except arrays made in the thread, such as the elements in a pipeline.

    Attributes
    ----------
    step : int
    nbytes : int
    seconds : float or None
        Duration of the writing, None until its end.

    Raises
    ------
    CheckpointError
        On await, if the writing failed or was cancelled. The unfinished checkpoint is removed then.

    Examples
    --------
    >>> import asyncio, tempfile, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([1.0, 2.0], name="w")
    ...     update = w.assign_add([1.0, 1.0])
    >>> async def main(directory):
    ...     async with tg.Session(graph) as session, tg.training.Checkpointer(directory) as checkpointer:
    ...         await session.run(w.initializer)
    ...         saving = await checkpointer.save(session, 1)
    ...         await session.run(update)  # perhaps while it is written
    ...         path = await saving
    ...         await checkpointer.restore(session, path)
    ...         return path.name, await session.run(w)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    ('checkpoint-0000000001', array([1., 2.], dtype=float32))
    """

    def __init__(self, step: int, write: Callable[[Check], Path], source: Source | None, nbytes: int) -> None:
        self.step: int = step
        self.nbytes: int = nbytes
        self.seconds: float | None = None
        self._source = source
        self._stop = threading.Event()
        self._ended: Future[Path] = Future()
        self._told = False  # True once a caller has received the path or the error
        # Not a daemon: the interpreter waits at exit for the thread, so that the checkpoint is completed.
        self._thread = threading.Thread(target=self._run_writing, args=[write], name=f"tagloom-checkpoint-{step}")
        self._thread.start()
        strand_in_children(self)

    def strand(self, parent: int) -> None:
        """Fail in a forked child if the parent still writes: the child has no thread to complete the future."""
        if not self._ended.done():
            self._ended = Future()
            self._ended.set_exception(
                CheckpointError(
                    f"the checkpoint of step {self.step} is written by process {parent}, this is a child of it",
                    hint="await it in the process that saves, before or after the fork",
                )
            )
            self._told = True

    @property
    def done(self) -> bool:
        """True once the writing has ended."""
        return self._ended.done()

    @property
    def error(self) -> BaseException | None:
        """The error of an ended writing, or None; reading it does not count as raising it to a caller."""
        return self._ended.exception() if self.done else None

    @property
    def path(self) -> Path | None:
        """The path of a written checkpoint; None before the end or after a failure."""
        return self._ended.result() if self.done and self._ended.exception() is None else None

    def add_done_callback(self, function: Callable[[Saving], object]) -> None:
        """Call ``function(saving)`` in the writing thread at the end of the writing; at once if ended.

        Parameters
        ----------
        function : callable
            Errors raised by the function are logged.
        """
        self._ended.add_done_callback(lambda _: _call_and_log_errors(function, self))

    def cancel(self) -> bool:
        """Stop the writing and remove the unfinished checkpoint; return False if ended. Await the Saving to be sure."""
        self._stop.set()
        return not self.done

    def __await__(self) -> Generator[object, None, Path]:
        return self._await_path().__await__()

    async def _await_path(self) -> Path:
        await self.wait_until_ended()
        self._told = True
        return self._ended.result()

    def result(self, timeout: float | None = None) -> Path:
        """Wait for the path, blocking: for scripts without a running event loop, and for notebooks.

        Parameters
        ----------
        timeout : float, optional
            Seconds until a TimeoutError is raised; the writing continues.

        Returns
        -------
        Path

        Raises
        ------
        CheckpointError
            As on await; also if an event loop runs in this thread, which would be blocked, except a notebook's.
        """
        # The RuntimeError says that no event loop runs in this thread.
        with suppress(RuntimeError):
            if not is_of_notebook(asyncio.get_running_loop()):
                raise CheckpointError(
                    "a checkpoint is awaited where an event loop runs",
                    wanted="await saving",
                    hint="result() is for scripts and notebooks",
                )
        path = self._ended.result(timeout)
        self._told = True
        return path

    async def wait_until_ended(self) -> None:
        """Wait for the end of the writing, successful or not."""
        if not self.done:
            waiter = asyncio.wrap_future(_without_result(self._ended))
            try:
                await asyncio.wait([waiter])
            finally:
                waiter.cancel()  # or the thread would notify a loop that may be closed by then
        self._thread.join()  # short: the result is set at the thread's end

    def failure(self) -> BaseException | None:
        """Return the error of a failed writing once; None if raised or returned before."""
        if not self.done or self._told:
            return None
        self._told = True
        return self._ended.exception()

    def _run_writing(self, write: Callable[[Check], Path]) -> None:
        """Run the writing in the thread; set the result or the error."""
        began = perf_counter()
        try:
            path = write(self._raise_if_cancelled)
        except BaseException as error:
            if isinstance(error, CheckpointError):
                error.source = self._source  # the thread has no line of the user
            _logger.debug("checkpoint of step %d failed: %s", self.step, error)
            self.seconds = perf_counter() - began
            self._ended.set_exception(error)
        else:
            # Set before the future, whose waiters may read `seconds` at once.
            self.seconds = perf_counter() - began
            self._ended.set_result(path)

    def _raise_if_cancelled(self) -> None:
        if self._stop.is_set():
            raise CheckpointError(
                f"the writing of the checkpoint of step {self.step} was cancelled",
                hint="await the checkpointer's aclose(), which waits for what is being written",
            )

    def __repr__(self) -> str:
        state = "being written" if not self.done else "failed" if self._ended.exception() else "written"
        return f"<Saving of step {self.step}, {state}>"


def _call_and_log_errors(function: Callable[[Saving], object], saving: Saving) -> None:
    try:
        function(saving)
    except Exception:
        _logger.exception("a callback of a checkpoint raised an error")


def _without_result(future: Future[Path]) -> Future[None]:
    """Return a future that ends with another; a cancelled wait leaves both as they are."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # a running future cannot be cancelled by `wrap_future`

    def set_done(_: Future[Path]) -> None:
        done.set_result(None)

    future.add_done_callback(set_done)
    return done
