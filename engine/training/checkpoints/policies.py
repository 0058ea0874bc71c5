"""Policies of checkpoints: when to save, and which to keep."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import numpy as np

from ...base.errors import CheckpointError, GraphError
from .directory import Entry, list_entries, remove_checkpoint
from .manifest import read_manifest


class Schedule:
    """Schedule of saves, by steps and by seconds.

    Parameters
    ----------
    every_steps : int or None
        Steps from one checkpoint to the next.
    every_seconds : float or None
        Seconds from one checkpoint to the next, if they pass first.

    Attributes
    ----------
    last : tuple of (int, float)
        Step and time of the last save or restore.

    Raises
    ------
    GraphError
        If an interval is not positive.
    """

    def __init__(self, every_steps: int | None, every_seconds: float | None) -> None:
        check_numbers(every_steps=every_steps, every_seconds=every_seconds)
        self._steps = math.inf if every_steps is None else every_steps
        self._seconds = math.inf if every_seconds is None else every_seconds
        self.last: tuple[int, float] = (0, monotonic())

    def is_due(self, step: int) -> bool:
        """Return True if a save is due at a step."""
        last_step, last_time = self.last
        return step >= last_step + self._steps or monotonic() >= last_time + self._seconds

    def begin(self, step: int) -> None:
        """Begin the next interval at a step that is being saved or was restored."""
        self.last = step, monotonic()


class Retention:
    """Retention policy: the newest checkpoints, and the best by a metric.

    Parameters
    ----------
    keep : int or None
        Number of newest steps to keep; None for all.
    keep_best : tuple of (str, int, {'min', 'max'}) or None
        A metric, the number of best checkpoints to keep in addition, and the better direction.

    Raises
    ------
    GraphError
        If an argument is not of this form.
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
        self._known: dict[Entry, float | None] = {}  # metrics of existing checkpoints, read once

    def apply(self, directory: Path) -> None:
        """Remove all checkpoints of a directory except those to keep.

        Of a step that was saved several times only the last checkpoint is kept.
        """
        entries = list_entries(directory)
        # Sorted by step and attempt, so the latest attempt of each step remains.
        latest_attempts = list({entry.step: entry for entry in entries}.values())
        kept = latest_attempts
        if self._keep is not None:
            # The newest checkpoints are kept whatever their metrics.
            kept = [*latest_attempts[-self._keep :], *self._best_of(latest_attempts)]
        for entry in entries:
            if entry not in kept:
                remove_checkpoint(entry)

    def _best_of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return the best checkpoints by the metric, without checkpoints lacking the metric."""
        if self._best is None:
            return []
        metric, count, mode = self._best
        known = self._known
        self._known = {entry: known[entry] if entry in known else _read_metric(entry, metric) for entry in entries}
        values = {entry: value for entry, value in self._known.items() if value is not None}
        return sorted(values, key=values.__getitem__, reverse=mode == "max")[:count]


def _read_metric(entry: Entry, name: str) -> float | None:
    """Return a metric of a checkpoint; None if the checkpoint is damaged or the metric missing or NaN."""
    try:
        value = float(read_manifest(str(entry.path))["metrics"][name])
    except (CheckpointError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(value) else value


def check_numbers(least: float | None = None, **values: float | None) -> None:
    """Raise GraphError unless each value is None or a number of at least `least` (by default above 0)."""
    for name, value in values.items():
        if value is None:
            continue
        is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not is_number or not (value > 0 if least is None else value >= least):
            wanted = "a number above 0" if least is None else f"a number of at least {least}"
            what = f"{name} must be positive" if least is None else f"{name} is out of range"
            raise GraphError(what, wanted=wanted, got=repr(value), hint="leave it out")
