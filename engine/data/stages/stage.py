"""The interface of the stages of a running pipeline, and their shared helpers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ...base.errors import GraphError
from ...base.settings import DEFAULTS
from ...base.source_lines import Source
from ...base.waiting import cancel_once, wait_shielded
from ...ops.support.context import LongCall, until_ended
from .elements import Failure, Item, Origin, make_failure

_logger = logging.getLogger("tagloom")

SLICE = 1e-3  # seconds for which a pipeline may hold the event loop; afterwards a partial chunk is passed on
QUICKLY = SLICE / 4  # seconds for gathering a chunk whose elements may have to be awaited
HELD = 5e-3  # seconds of a call on the event loop, from which on later calls go to threads


class Clock:
    """The time at which a pipeline last yielded to the event loop."""

    __slots__ = ("_rested",)

    def __init__(self) -> None:
        self._rested = perf_counter()

    async def pause_if_due(self) -> None:
        """Yield to the event loop after `SLICE` without a pause."""
        if perf_counter() - self._rested > SLICE:
            await asyncio.sleep(0)
            self._rested = perf_counter()


class Opens(Protocol):
    """An object whose stages can be opened: a Dataset."""

    def open_stage(self, context: Context) -> Stage:
        """Open all stages of the pipeline and return the last."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """State shared by the stages of a running pipeline.

    Attributes
    ----------
    threads : callable
        Calls a function in a thread and returns a future.
    clock : Clock
    epochs : tuple of int
        For each `repeat` around a stage, the number of its epoch.
    iteration : int
        Number of this pipeline's iteration over the Dataset.
    """

    threads: Callable[..., LongCall]
    clock: Clock = field(default_factory=Clock)
    epochs: tuple[int, ...] = ()
    iteration: int = 0

    def at_epoch(self, number: int) -> Context:
        """Return the context for the stages of an epoch of a `repeat`."""
        return replace(self, epochs=(*self.epochs, number))

    def seed_sequence(self, *entropy: int) -> np.random.SeedSequence:
        """Return the seed sequence of some numbers and of this iteration; no two iterations share a sequence.

        The first iteration has no spawn key: its random numbers are the same as before iterations were counted.
        """
        return np.random.SeedSequence(entropy, spawn_key=(self.iteration,) if self.iteration else ())

    async def call_in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a blocking function in a thread; even when cancelled, wait for the end of the call."""
        call = self.threads(function, *arguments)
        # a thread may change the stage, so that nothing may follow while it runs
        await until_ended(call)
        return call.result()


class Stage:
    """A stage of a running pipeline, with earlier stages as inputs.

    At every ``await``, all elements taken from the inputs and not yet passed on are in the stage's fields, because
    `state` may be called then. A single task at a time pulls.

    Attributes
    ----------
    line : Source or None
        The user's line by which the stage was added.

    Parameters
    ----------
    context : Context
    *inputs : Dataset
    """

    line: Source | None = None

    def __init__(self, context: Context, *inputs: Opens) -> None:
        self.context = context
        self.inputs: list[Stage] = [each.open_stage(context) for each in inputs]

    async def pull(self, most: int) -> list[Item]:
        """Return at least one and at most `most` of the next elements; an empty list at the end.

        Available elements are returned at once, without waiting for more.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return the state from which a new pipeline continues: tuples, lists and dicts of plain values and arrays."""
        return {
            "stage": type(self).__name__,
            "own": self.own_state(),
            "inputs": [each.state() for each in self.inputs],
        }

    def restore(self, state: Any) -> None:
        """Load a state into a new stage; GraphError for the state of another kind of stage."""
        if state["stage"] != type(self).__name__ or len(state["inputs"]) != len(self.inputs):
            raise GraphError(
                "this is the state of another pipeline",
                wanted=f"{type(self).__name__} with {len(self.inputs)} inputs",
                got=f"{state['stage']} with {len(state['inputs'])} inputs",
                hint="restore the state into a pipeline of the same sources and transformations",
            )
        for each, its in zip(self.inputs, state["inputs"], strict=True):
            each.restore(its)
        self.load_own_state(state["own"])

    def make_failure(
        self, what: str, number: int, origin: Origin, error: BaseException | None, **fields: Any
    ) -> Failure:
        """Return the placeholder of a failed element, whose error names the element."""
        return make_failure(what, number, origin, error, source=self.line, **fields)

    def failed_function(self, what: str, function: object, item: Item, number: int, error: BaseException) -> Failure:
        """Return the placeholder of an element for which the user's function raised an exception."""
        name = getattr(function, "__qualname__", repr(function))
        return self.make_failure(
            f"{name}, which {what} elements, has raised {type(error).__name__}: {error}",
            number,
            item[1],
            error,
            hint="see its cause; ignore_errors() leaves such elements out",
        )

    def own_state(self) -> Any:
        """Return the state of this stage without its inputs."""
        return None

    def load_own_state(self, own: object) -> None:
        """Load the result of `own_state`."""

    async def aclose(self) -> None:
        """End tasks and close files after the last pull. A second call has no effect."""
        await close_all(self.inputs)


def count_of(saved: Any, least: int = 0) -> int:
    """Return a count from a state, which may come from a file; ValueError if smaller than `least`."""
    count = int(saved)
    if count < least:
        raise ValueError(f"{count} is less than {least}")
    return count


async def close_all(stages: Iterable[Stage]) -> None:
    """Close all stages, then raise the first exception of any of them."""
    failed: BaseException | None = None
    for each in stages:
        try:
            await each.aclose()
        except BaseException as error:
            failed = failed or error
    if failed is not None:
        try:
            raise failed
        finally:
            del failed  # the traceback refers to this frame


def is_cancelled() -> bool:
    """Return True if the running task was cancelled from outside, not by the user's function."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end_task(task: asyncio.Future[Any] | None) -> None:
    """Cancel a task and wait for its end, whatever the outcome; raise a cancellation of the caller afterwards.

    A user's function or generator still running after ``Settings.close_seconds`` is left alone.
    """
    if task is None:
        return
    cancel_once(task)
    try:
        await wait_shielded(lambda: [] if task.done() else [task], DEFAULTS.close_seconds)
    finally:
        if not task.done():
            _logger.warning("a part of a pipeline has not ended %s s after it was closed", DEFAULTS.close_seconds)
        elif not task.cancelled() and (failed := task.exception()) is not None:
            _logger.warning("a part of a pipeline has failed as it was ended", exc_info=failed)
