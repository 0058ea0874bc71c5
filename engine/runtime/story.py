"""What the reference executor tells a trace."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic_ns
from typing import Any

from ..kernels.scheduler.series import Series
from ..kernels.scheduler.tracing import Recorder

_LOOKS = 16  # spans between two looks at what the step holds


class Story:
    """One step's part of a trace.

    Parameters
    ----------
    recorder : Recorder
    step : int
        Index of the step in the recorder.
    """

    def __init__(self, recorder: Recorder, step: int) -> None:
        self.recorder = recorder
        self.step = step
        self.spans = 0
        self.awaited: set[str] = set()

    def note_awaited(self, name: str) -> None:
        """Note that an instance has something to await."""
        self.awaited.add(name)

    def add(self, node: int, name: str, path: str, iteration: int, begin: int, dead: bool, root: Any) -> None:
        """Record an instance that has ended."""
        looks = self.spans % _LOOKS == 0
        self.spans += 1
        awaited = name in self.awaited
        self.awaited.discard(name)
        self.recorder.add(
            self.step, node, path, iteration, begin, monotonic_ns(), dead=dead, awaited=awaited,
            holdings=_holdings(root) if looks else (-1, -1),
        )  # fmt: skip


def _holdings(root: Any) -> tuple[int, int]:
    """Return the bytes of the arrays that a frame holds, each once, and its loops' iterations in flight."""
    frames = list(_frames(root))
    arrays = {id(array): array for frame in frames for array in _arrays(frame)}
    return sum(array.nbytes for array in arrays.values()), sum(len(frame.iterations) for frame in frames[1:])


def _frames(frame: Any) -> Iterator[Any]:
    yield frame
    for iteration in frame.iterations.values():
        for child in iteration.children.values():
            yield from _frames(child)


def _arrays(frame: Any) -> Iterator[Any]:
    values = [value for _, value in (*frame.invariants, *frame.deferred)]
    values += [v for it in frame.iterations.values() for arrived in it.arrived.values() for v in arrived.values()]
    for value in (*values, *frame.series):
        yield from _inside(value)


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Series):
        for index in value.indices():
            yield from _inside(value.get(index))
    elif hasattr(value, "nbytes"):
        yield value
