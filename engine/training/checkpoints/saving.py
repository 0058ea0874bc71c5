"""A checkpoint that is being written: in a thread, while training goes on."""

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
    """A checkpoint that is being written; await it for its path, as often as you like, or not at all.

    Whoever waits may be cancelled, and the writing goes on; `cancel` ends it.

    Parameters
    ----------
    step : int
    write : callable
        ``write(check)`` writes it and returns its path, in a thread; what `check` raises ends it.
    source : Source or None
        The user's line that saves, for errors.
    nbytes : int
        Of its arrays, but for those that are only made in the thread: of the elements that a pipeline holds.

    Attributes
    ----------
    step : int
    nbytes : int
    seconds : float or None
        How long the writing took, when it has ended.

    Raises
    ------
    CheckpointError
        When it is awaited, if it could not be written, or was cancelled. Nothing is left of it then.

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
        self._told = False  # whether somebody has seen how it ended
        # The thread is no daemon: a program that ends, or the end of an event loop, waits for the file to be whole.
        self._thread = threading.Thread(target=self._run, args=[write], name=f"tagloom-checkpoint-{step}")
        self._thread.start()
        strand_in_children(self)

    def strand(self, parent: int) -> None:
        """Fail in a child process if the parent still writes: no thread here learns how that ends."""
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
        """Whether the writing has ended."""
        return self._ended.done()

    @property
    def error(self) -> BaseException | None:
        """Why it could not be written, when it has ended; that counts as told to nobody."""
        return self._ended.exception() if self.done else None

    @property
    def path(self) -> Path | None:
        """Where it is, when it was written."""
        return self._ended.result() if self.done and self._ended.exception() is None else None

    def add_done_callback(self, function: Callable[[Saving], object]) -> None:
        """Call ``function(saving)`` when the writing has ended, in the thread that writes; at once if it has.

        Parameters
        ----------
        function : callable
            What it raises is logged.
        """
        self._ended.add_done_callback(lambda _: _called(function, self))

    def cancel(self) -> bool:
        """End the writing soon, and leave nothing of it; say no if it has ended. Await it for the end."""
        self._stop.set()
        return not self.done

    def __await__(self) -> Generator[object, None, Path]:
        return self._wait().__await__()

    async def _wait(self) -> Path:
        await self.wait_until_ended()
        self._told = True
        return self._ended.result()

    def result(self, timeout: float | None = None) -> Path:
        """Wait for the path, in a script in which no event loop runs, or in a notebook.

        Parameters
        ----------
        timeout : float, optional
            Seconds after which a TimeoutError is raised; the writing goes on.

        Returns
        -------
        Path

        Raises
        ------
        CheckpointError
            As when it is awaited; also if an event loop runs here, which would stand still, except a notebook's.
        """
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
        """Wait until it is written, or has failed."""
        if not self.done:
            waiter = asyncio.wrap_future(_without_result(self._ended))
            try:
                await asyncio.wait([waiter])
            finally:
                waiter.cancel()  # or it is told in vain, when its loop is perhaps closed
        self._thread.join()  # which has nothing more to do

    def failure(self) -> BaseException | None:
        """Return why it has failed, if it has, and nobody was told: once."""
        if not self.done or self._told:
            return None
        self._told = True
        return self._ended.exception()

    def _run(self, write: Callable[[Check], Path]) -> None:
        began = perf_counter()
        try:
            path = write(self._check)
        except BaseException as error:
            if isinstance(error, CheckpointError):
                error.source = self._source  # the thread has no line of the user's
            _logger.debug("checkpoint of step %d failed: %s", self.step, error)
            self.seconds = perf_counter() - began
            self._ended.set_exception(error)
        else:
            self.seconds = perf_counter() - began
            self._ended.set_result(path)

    def _check(self) -> None:
        if self._stop.is_set():
            raise CheckpointError(
                f"the writing of the checkpoint of step {self.step} was cancelled",
                hint="await the checkpointer's aclose(), which waits for what is being written",
            )

    def __repr__(self) -> str:
        state = "being written" if not self.done else "failed" if self._ended.exception() else "written"
        return f"<Saving of step {self.step}, {state}>"


def _called(function: Callable[[Saving], object], saving: Saving) -> None:
    try:
        function(saving)
    except Exception:
        _logger.exception("a callback of a checkpoint raised an error")


def _without_result(future: Future[Path]) -> Future[None]:
    """Return a future that is done with another; who cancels it leaves the other as it is."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()

    def tell(_: Future[Path]) -> None:
        done.set_result(None)

    future.add_done_callback(tell)
    return done
