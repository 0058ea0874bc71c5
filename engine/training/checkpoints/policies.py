"""When checkpoints are saved, and which are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import numpy as np

from ...base.errors import CheckpointError, GraphError
from .directory import Entry, entries, remove
from .manifest import read_manifest


class Schedule:
    """Says when it is time to save.

    Parameters
    ----------
    every_steps : int or None
        Steps from one checkpoint to the next.
    every_seconds : float or None
        Or seconds, whichever pass first.

    Attributes
    ----------
    last : tuple of (int, float)
        Step and time from which it counts.

    Raises
    ------
    GraphError
        If one of them is not positive.
    """

    def __init__(self, every_steps: int | None, every_seconds: float | None) -> None:
        check_numbers(every_steps=every_steps, every_seconds=every_seconds)
        self._steps = math.inf if every_steps is None else every_steps
        self._seconds = math.inf if every_seconds is None else every_seconds
        self.last: tuple[int, float] = (0, monotonic())

    def is_due(self, step: int) -> bool:
        """Say whether it is time, at a step."""
        last_step, last_time = self.last
        return step >= last_step + self._steps or monotonic() >= last_time + self._seconds

    def begin(self, step: int) -> None:
        """Count from here: this step is saved, or was restored."""
        self.last = step, monotonic()


class Retention:
    """Says which checkpoints are kept.

    Parameters
    ----------
    keep : int or None
        How many of the newest steps; None for all.
    keep_best : tuple of (str, int, {'min', 'max'}) or None
        A metric, for how many more it counts, and which are the best.

    Raises
    ------
    GraphError
        If they are not that.
    """

    def __init__(self, keep: int | None, keep_best: tuple[str, int, str] | None) -> None:
        check_numbers(keep=keep)
        if keep is not None and not isinstance(keep, int):
            raise GraphError("keep is no number of checkpoints", wanted="an integer", got=keep, hint="None keeps all")
        match keep_best:
            case None:
                pass
            case (str(), int() as count, "min" | "max") if count > 0:
                pass
            case _:
                raise GraphError(
                    "keep_best is no policy",
                    wanted='(metric, how many, "min" or "max")',
                    got=repr(keep_best),
                    hint='keep_best=("loss", 1, "min")',
                )
        self._keep = keep
        self._best = keep_best
        self._known: dict[Entry, float | None] = {}  # the metric of what is there, which does not change

    def apply(self, directory: Path) -> None:
        """Remove the checkpoints that are not kept; those of a step that was saved again always go."""
        there = entries(directory)
        newest = list({each.step: each for each in there}.values())
        kept = newest if self._keep is None else [*newest[-self._keep :], *self._best_of(newest)]
        for each in there:
            if each not in kept:
                remove(each)

    def _best_of(self, there: Iterable[Entry]) -> list[Entry]:
        if self._best is None:
            return []
        metric, count, mode = self._best
        self._known = {each: self._known[each] if each in self._known else _metric(each, metric) for each in there}
        values = {each: value for each, value in self._known.items() if value is not None}
        return sorted(values, key=values.__getitem__, reverse=mode == "max")[:count]


def _metric(entry: Entry, name: str) -> float | None:
    """Return a metric of a checkpoint; None if it is damaged, or has no such number."""
    try:
        value = float(read_manifest(str(entry.path))["metrics"][name])
    except (CheckpointError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(value) else value


def check_numbers(least: float | None = None, **values: float | None) -> None:
    """Raise GraphError for what is no number of at least `least`, or, by default, none above 0; None is fine."""
    for name, value in values.items():
        if value is None:
            continue
        is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not is_number or not (value > 0 if least is None else value >= least):
            wanted = "a number above 0" if least is None else f"a number of at least {least}"
            what = f"{name} must be positive" if least is None else f"{name} is out of range"
            raise GraphError(what, wanted=wanted, got=repr(value), hint="leave it out")
