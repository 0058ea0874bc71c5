"""Iterators over Datasets: running pipelines, and the states from which these can resume."""

from __future__ import annotations

import asyncio
import warnings
from bisect import bisect
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any

from ..base.deferred import build_deferred
from ..base.errors import GraphError, QueueClosed, SessionClosed
from ..base.settings import DEFAULTS
from ..ir.misuse import refuses_misuse
from ..kernels.core.async_result import AsyncResult
from ..kernels.queues.queue_lines import Attempt, Line
from ..ops.queues.figures import IteratorStatistics
from ..runtime.scheduling.blocking_calls import BlockingCalls
from .stages.elements import ChunkSize, Failure, Item, make_failure
from .stages.saved_items import restored_items, saved_items
from .stages.stage import QUICKLY, Context, Opens, Stage, count_of, end_task

_THREADS = 64  # at most; started as needed
_VERSION = 1
_dropped: set[asyncio.Task[None]] = set()  # closing tasks of dropped iterators, as loops hold tasks weakly


@dataclass(frozen=True, slots=True)
class DeliveredElement:
    """A delivered element, which may be returned.

    Attributes
    ----------
    number : int
        Position among all elements.
    item : Item
    stage : Stage
        Last stage of the element's pipeline.
    """

    number: int
    item: Item
    stage: Stage

    @property
    def element(self) -> Any:
        """The element without its origin."""
        return self.item[0]


class DatasetIterator:
    """An iterator over a Dataset, in one event loop: made by :meth:`Dataset.iterator`, closed by ``async with``.

    Nothing is read before the first request. Then a few elements may be made ahead, if they are small and come quickly.
    Waiting requests are served first come, first served; a cancelled request takes no element, and its work in progress
    serves the next request.

    Parameters
    ----------
    dataset : Dataset
    name : str
        Label in error messages.
    iteration : int
        Number among the iterations over the Dataset, on which random orders and numbers depend.
    on_iteration : callable, optional
        Called with the iteration number of a restored state.

    Attributes
    ----------
    name : str
    iteration : int

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> async def main():
    ...     dataset = tg.data.from_iterable(range(6)).shuffle(4, seed=1).batch(2)
    ...     async with dataset.iterator() as iterator:
    ...         await iterator.next()
    ...         state = iterator.state()
    ...         rest = [batch.tolist() async for batch in iterator]
    ...     async with dataset.iterator() as iterator:
    ...         iterator.restore(state)
    ...         return rest == [batch.tolist() async for batch in iterator]
    >>> asyncio.run(main())
    True
    """

    @refuses_misuse
    def __init__(
        self,
        dataset: Opens,
        name: str = "pipeline",
        iteration: int = 0,
        on_iteration: Callable[[int], object] | None = None,
    ) -> None:
        self.name: str = name
        self.iteration: int = iteration
        self._on_iteration = on_iteration
        self._dataset = dataset
        self._threads = BlockingCalls(_THREADS, "tagloom-data")
        self._context = copy_context()  # the creator's, for the user's functions
        self._stage = self._open_stage(dataset, iteration)
        self._chunk = ChunkSize()
        self._ready: deque[Item] = deque()
        self._back: deque[int] = deque()  # ascending numbers of returned elements, which come first in _ready
        self._left: list[Item] = []  # elements that were ready at the time of closing
        self._line: Line[Attempt] = Line(lambda _: None)
        self._pulling: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()  # tasks that close stages replaced by a restored state
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self._closed: BaseException | None = None  # reason
        self._delivered = 0

    def __repr__(self) -> str:
        return f"<DatasetIterator {self.name}, {self._delivered} elements given>"

    def __del__(self) -> None:
        if getattr(self, "_loop", None) is not None and self._closed is None and not self._ended:
            if self._loop is not None and not self._loop.is_closed():  # a closed loop has ended the tasks already
                # the garbage collector may run in any thread
                self._loop.call_soon_threadsafe(_close_dropped, self._stage, self._threads)
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=1)

    async def __aenter__(self) -> DatasetIterator:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> DatasetIterator:
        return self

    async def __anext__(self) -> Any:
        try:
            if self._ready and not self._line and self._closed is None:
                return self._pop_element()
            taken = self.take(self.name)
            return await taken if isinstance(taken, AsyncResult) else taken
        except QueueClosed:
            raise StopAsyncIteration from None

    async def next(self) -> Any:
        """Return the next element.

        Returns
        -------
        object
            A structure of arrays, or the result of the last map.

        Raises
        ------
        QueueClosed
            At the end.
        PipelineError
            If this element cannot be made; the next call returns its successor.
        """
        taken = self.take(self.name)
        return await taken if isinstance(taken, AsyncResult) else taken

    def take(self, operation: str) -> Any:
        """Return the next element if available, else an AsyncResult of the element.

        Parameters
        ----------
        operation : str
            Name of the requesting operation, for errors.

        Returns
        -------
        object or AsyncResult
        """
        return self._take_or_wait(operation, self._pop_element)

    def take_loan(self, operation: str) -> Any:
        """Return the next element as a `DeliveredElement` if available, else an AsyncResult of the `DeliveredElement`.

        Parameters
        ----------
        operation : str
            Name of the requesting operation, for errors.

        Returns
        -------
        DeliveredElement or AsyncResult
        """
        return self._take_or_wait(operation, self._pop_delivered)

    def put_back(self, loan: DeliveredElement) -> None:
        """Return an element to its place before all later elements.

        Parameters
        ----------
        loan : DeliveredElement
            Result of `take_loan`; ignored if a state was restored since, or the iterator is closed.
        """
        if loan.stage is not self._stage or self._closed is not None:
            return
        place = bisect(self._back, loan.number)
        self._back.insert(place, loan.number)
        self._ready.insert(place, loan.item)
        self._delivered -= 1
        self._serve_requests()

    def _take_or_wait(self, operation: str, pop: Callable[[], Any]) -> Any:
        """Return the next element by `pop` if available and no request waits, else join the line."""
        self._bind_loop()
        if not self._line:
            if self._ready:
                return pop()
            if self._ended:
                raise self._end_error(operation)
        waiting = self._line.join(Attempt(operation), lambda attempt: self._go_on(attempt, pop), self._give_up)
        self._serve_requests()
        return waiting

    def _bind_loop(self) -> None:
        """Bind the iterator to the running event loop; raise if closed or bound to another loop."""
        loop = asyncio.get_running_loop()
        if self._closed is not None:
            raise self._closed
        if self._loop is not loop:
            if self._loop is not None:
                raise GraphError(
                    f"{self.name} belongs to another event loop",
                    wanted="the loop in which it gave its first element",
                    got=loop,
                    hint="make an iterator for each loop, and carry its state() over",
                )
            self._loop = loop

    def _pop_delivered(self) -> DeliveredElement:
        # a returned element keeps its old number, so that a second return finds its old place
        loan = DeliveredElement(self._back[0] if self._back else self._delivered, self._ready[0], self._stage)
        self._pop_element()  # raises a failure, which is delivered for good
        return loan

    def _pop_element(self) -> Any:
        value = self._ready.popleft()[0]
        if self._back:
            self._back.popleft()
        self._delivered += 1
        if type(value) is Failure:
            raise value.error
        return value

    def _end_error(self, operation: str) -> QueueClosed:
        return QueueClosed(
            f"{self.name} has no element left",
            got=f"the end, after {self._delivered} elements",
            operation=operation,
            hint="catch QueueClosed as the end of the data, or let the pipeline repeat()",
        )

    def _go_on(self, attempt: Attempt, pop: Callable[[], Any]) -> Any:
        """Return the element of a woken request; raise its error, or an error if a restore took the elements."""
        self._line.leave(attempt)
        try:
            if attempt.error is not None:
                raise attempt.error
            if not self._ready:
                raise GraphError(
                    f"{self.name} was restored or reset while an element was waited for",
                    hint="restore or reset it between two steps",
                )
            return pop()
        finally:
            self._serve_requests()

    def _give_up(self, attempt: Attempt) -> None:
        self._line.leave(attempt)
        self._serve_requests()

    def _serve_requests(self) -> None:
        """Wake requests for which there are elements; for the first of the others, start to make elements."""
        line = self._line
        while (first := line.first_waiting) is not None:
            # woken requests run later and have not taken their elements: these are promised
            if line.promised < len(self._ready):
                line.wake(first)
            elif self._ended:
                line.end(first, self._end_error(first.operation))
            else:
                if self._pulling is None and self._loop is not None:
                    self._pulling = self._loop.create_task(self._pull_elements(), context=self._context.copy())
                return

    async def _pull_elements(self) -> None:
        """Make elements until a chunk is full, as long as they come quickly, and serve requests as elements arrive.

        The task also goes on when all requests have been cancelled; its elements serve later requests.
        """
        stage, most, until = self._stage, self._chunk.most, perf_counter() + QUICKLY
        while not self._ended and len(self._ready) < most:
            try:
                chunk: list[Item] = await stage.pull(most - len(self._ready))
            except (Exception, asyncio.CancelledError) as error:
                if self._pulling is not asyncio.current_task():
                    # `_pulling` is this task unless the iterator has ended or replaced it
                    raise  # this task was ended, or a state was restored
                ended = True
                what = f"{self.name} has failed: {type(error).__name__}: {error}"
                chunk = [(make_failure(what, self._delivered, None, error, hint="see its cause"), None)]
            else:
                ended = not chunk
            if stage is not self._stage:
                return  # a state was restored meanwhile
            self._ended = ended
            self._chunk.adapt_to(chunk)
            self._ready.extend(chunk)
            if perf_counter() > until:
                break
            self._serve_requests()
        self._pulling = None
        self._serve_requests()

    def statistics(self) -> IteratorStatistics:
        """Return the iterator's figures, from any thread; ``session.include_statistics`` takes the iterator."""
        closed = self._closed is not None or (self._ended and not self._ready)
        return IteratorStatistics(len(self._ready), self._delivered, len(self._line), closed)

    # ---- state

    def state(self) -> dict[str, Any]:
        """Return the state of the pipeline, from which another iterator can continue; available after closing, too.

        The state has the positions in files, the numbers of the iteration and of epochs, the states of random numbers,
        and the elements held by stages, as in a shuffle buffer. Elements already taken are in no later state.

        Returns
        -------
        dict
            Tuples, lists and dicts of numbers, strings, bytes and elements; a `Checkpointer` can save the dict if its
            elements are made of arrays, numbers, strings and bytes.
        """
        state: dict[str, Any] = build_deferred(self.deferred_state())
        return state

    def deferred_state(self) -> dict[str, Any]:
        """Return the `state` with slow parts `Deferred`, to be written in a thread."""
        return {
            "version": _VERSION,
            "iteration": self.iteration,
            "delivered": self._delivered,
            "ready": saved_items([*self._left, *self._ready]),
            "stage": self._stage.state(),
        }

    def restore(self, state: Any) -> None:
        """Continue at the position of an iterator over an equal Dataset.

        Parameters
        ----------
        state : dict
            Result of `state`, perhaps in another process.

        Raises
        ------
        GraphError
            If the state is of another pipeline; then nothing has changed.
        """
        self.prepare(state)()

    def state_dict(self) -> dict[str, Any]:
        """Return `state()`, for ``Checkpointer.add``."""
        return self.state()

    def load_state_dict(self, state: Any) -> None:
        """Restore a `state`, for ``Checkpointer.add``."""
        self.restore(state)

    def prepare(self, state: Any, dataset: Opens | None = None) -> Callable[[], None]:
        """Open the stages of a `state`, perhaps of another `dataset`; return a function to switch to them."""
        dataset = dataset or self._dataset
        try:
            version, iteration = state["version"], count_of(state.get("iteration", 0))
            stage = self._open_stage(dataset, iteration)
            # a state may come from a damaged or foreign file: wrong types and keys are its fault
            ready, delivered = restored_items(state["ready"]), count_of(state["delivered"])
            stage.restore(state["stage"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise GraphError(
                f"this is no state of a pipeline that {self.name} can go on from",
                wanted="what DatasetIterator.state() returned",
                got=str(state)[:100],
                hint="give that of an iterator of the same Dataset; Checkpointer(variables=) restores variables alone",
            ) from error
        if version != _VERSION:
            raise GraphError(
                "the state of a pipeline has another version", wanted=_VERSION, got=version, hint="make it anew"
            )

        # in two phases: several iterators can be restored together, or none of them
        def switch_to_state() -> None:
            self._dataset = dataset
            self._replace_stage(stage, iteration, ready, delivered)
            if self._on_iteration is not None:
                self._on_iteration(iteration)

        return switch_to_state

    def begin_again(self, dataset: Opens, iteration: int) -> None:
        """Restart at the first element of a Dataset.

        Parameters
        ----------
        dataset : Dataset
            The iterator's own, or another of equal `element_spec`.
        iteration : int
            Number of the new iteration.
        """
        if self._closed is not None:
            raise self._closed
        self._dataset = dataset
        self._replace_stage(self._open_stage(dataset, iteration), iteration, [], 0)

    def _replace_stage(self, stage: Stage, iteration: int, ready: list[Item], delivered: int) -> None:
        """Switch to another stage; a task closes the old one."""
        old, self._stage, self.iteration = self._stage, stage, iteration
        pulling, self._pulling = self._pulling, None
        self._ready, self._delivered, self._ended = deque(ready), delivered, False
        self._back.clear()
        self._left.clear()
        self._chunk = ChunkSize()
        if self._loop is not None and not self._loop.is_closed():
            closing = self._loop.create_task(_close_stage(pulling, old))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        self._serve_requests()

    def _open_stage(self, dataset: Opens, iteration: int) -> Stage:
        return dataset.open_stage(Context(self._threads, iteration=iteration))

    # ---- the end

    def cancel(self, error: BaseException) -> None:
        """Make all waiting and later requests raise `error`."""
        self._closed = self._closed or error
        # kept for a state saved after closing
        self._left += self._ready
        self._ready.clear()
        self._back.clear()
        self._line.fail(lambda _: error)

    async def aclose(self) -> None:
        """End all tasks, wait for threads, and close files. A second call has no effect.

        A function still in its thread after ``Settings.close_seconds`` ends in the background; a warning is logged.
        """
        self.cancel(SessionClosed(f"{self.name} was closed", hint="make another iterator of its Dataset"))
        pulling, self._pulling = self._pulling, None
        try:
            await _close_stage(pulling, self._stage)
            for each in list(self._closing):
                # unlike await, wait does not raise the task's exception
                await asyncio.wait([each])
        finally:
            await self._threads.aclose(DEFAULTS.close_seconds)


def _close_dropped(stage: Stage, threads: BlockingCalls) -> None:
    """Close the stages of an iterator dropped without closing."""
    closing = asyncio.get_running_loop().create_task(_close_stage(None, stage))
    _dropped.add(closing)
    closing.add_done_callback(_dropped.discard)
    threads.shutdown()


async def _close_stage(pulling: asyncio.Task[None] | None, stage: Stage) -> None:
    try:
        await end_task(pulling)
    finally:
        await stage.aclose()
