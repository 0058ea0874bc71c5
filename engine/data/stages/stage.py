"""What a stage of a running pipeline is, and what the stages of one have in common."""

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
from .elements import Failure, Item, Origin, failure

_logger = logging.getLogger("tagloom")

SLICE = 1e-3  # seconds for which a pipeline may hold the event loop, and after which a chunk is handed on as it is
QUICKLY = SLICE / 4  # seconds in which a chunk is gathered where that may mean to wait
HELD = 5e-3  # seconds in one call behind which the next ones go to threads


class Clock:
    """When a pipeline last let the event loop go on."""

    __slots__ = ("_rested",)

    def __init__(self) -> None:
        self._rested = perf_counter()

    async def breathe(self) -> None:
        """Let others have their turn if they have waited for long."""
        if perf_counter() - self._rested > SLICE:
            await asyncio.sleep(0)
            self._rested = perf_counter()


class Opens(Protocol):
    """What stages are made by: a Dataset."""

    def open_stage(self, context: Context) -> Stage:
        """Return its last stage, on those before."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the stages of a running pipeline share.

    Attributes
    ----------
    threads : callable
        Calls a function in a thread; returns a future.
    clock : Clock
    epochs : tuple of int
        How often each `repeat` around a stage has begun anew.
    iteration : int
        Number of the iteration over the Dataset that this pipeline runs for.
    """

    threads: Callable[..., LongCall]
    clock: Clock = field(default_factory=Clock)
    epochs: tuple[int, ...] = ()
    iteration: int = 0

    def at_epoch(self, number: int) -> Context:
        """Return what the stages that a `repeat` opens share."""
        return replace(self, epochs=(*self.epochs, number))

    def seeds(self, *entropy: int) -> np.random.SeedSequence:
        """Return the seeds of some numbers and of this iteration, as another iteration's never are.

        The first iteration has no key, so that it draws what it drew before iterations were counted.
        """
        return np.random.SeedSequence(entropy, spawn_key=(self.iteration,) if self.iteration else ())

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call what blocks in a thread; when cancelled, its end is waited for all the same."""
        call = self.threads(function, *arguments)
        await until_ended(call)
        return call.result()


class Stage:
    """One stage of a running pipeline; those before it are its inputs.

    Whatever it has taken from them and not handed on is in its fields wherever it awaits: `state` may be asked then.
    One task at a time pulls.

    Attributes
    ----------
    line : Source or None
        The user's, which has asked for it.

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
        """Return the next elements, at most so many and at least one, but none at the end.

        What can be had at once is handed on without waiting for more.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return what makes the elements to come what they are: tuples, lists and dicts of plain values and arrays."""
        return {
            "stage": type(self).__name__,
            "own": self.own_state(),
            "inputs": [each.state() for each in self.inputs],
        }

    def restore(self, state: Any) -> None:
        """Give a stage that was just made a state; GraphError if that is another stage's."""
        if state["stage"] != type(self).__name__ or len(state["inputs"]) != len(self.inputs):
            raise GraphError(
                "this is the state of another pipeline",
                wanted=f"{type(self).__name__} with {len(self.inputs)} inputs",
                got=f"{state['stage']} with {len(state['inputs'])} inputs",
                hint="restore the state into a pipeline of the same sources and transformations",
            )
        for each, its in zip(self.inputs, state["inputs"], strict=True):
            each.restore(its)
        self.load(state["own"])

    def failure(self, what: str, number: int, origin: Origin, error: BaseException | None, **fields: Any) -> Failure:
        """Return what stands in the place of an element, with an error that says which one it is."""
        return failure(what, number, origin, error, source=self.line, **fields)

    def failed_function(self, what: str, function: Any, item: Item, number: int, error: BaseException) -> Failure:
        """Return what stands in the place of an element for which a user's function has raised."""
        name = getattr(function, "__qualname__", repr(function))
        return self.failure(
            f"{name}, which {what} elements, has raised {type(error).__name__}: {error}",
            number,
            item[1],
            error,
            hint="see its cause; ignore_errors() leaves such elements out",
        )

    def own_state(self) -> Any:
        """Return the state without that of the inputs."""
        return None

    def load(self, own: Any) -> None:
        """Take what `own_state` gave."""

    async def aclose(self) -> None:
        """End tasks, close files; nobody pulls any longer. Twice is fine."""
        await close_all(self.inputs)


def count_of(saved: Any, least: int = 0) -> int:
    """Return a number of a state, which may have come from a file; ValueError if it counts nothing."""
    count = int(saved)
    if count < least:
        raise ValueError(f"{count} is less than {least}")
    return count


async def close_all(stages: Iterable[Stage]) -> None:
    """Close stages, each of them: what one raises is raised then, the first of several."""
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
    """Say whether the running task was asked to end, as against a function of the user that has cancelled itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end_task(task: asyncio.Future[Any] | None) -> None:
    """Cancel a task and wait for its end, whatever that is; a cancellation meanwhile is raised then.

    A function or generator of the user that has not ended after ``Settings.close_seconds`` goes on by itself.
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
