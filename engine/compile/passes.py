"""Rows of the pipeline: the built-in passes, and passes of outside packages with their places between these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.registrations import REGISTERED_PASSES, Registry
from .target import Target


@dataclass(frozen=True, slots=True)
class Pass:
    """A row of the pipeline.

    Attributes
    ----------
    name : str
        Name for the setting `dump` and :func:`compile_until`.
    run : callable
        ``run(program, target)`` returns the next form of the program and may use up its argument.
    stage : {'structured', 'lowered', 'partitioned', 'planned'}
        Stage whose rules the result obeys.
    switch : str or None
        Name of the setting to turn the pass off.
    when : callable or None
        ``when(target)`` is True if the target has a use for the pass.
    about_loops : bool
        True if the pass assumes operations in a loop to be alive whenever their iteration is.
    is_registered : bool
        True for a pass of an outside package, which the setting `passes_off` turns off.
    """

    name: str
    run: Callable[[Any, Target], Any]
    stage: str
    switch: str | None = None
    when: Callable[[Target], bool] | None = None
    about_loops: bool = False
    is_registered: bool = False

    def describe(self) -> str:
        """Return the stage of the pass, and the way to leave it out, as text."""
        left_out = f"Settings(passes_off=({self.name!r},))" if self.is_registered else self.switch
        return self.stage if left_out is None else f"{self.stage:<11} off by {left_out}"

    def is_on(self, target: Target) -> bool:
        """Return True if the pass runs for a target."""
        if self.is_registered and not target.settings.runs_pass(self.name):
            return False
        is_useful = self.when is None or self.when(target)
        return is_useful and (self.switch is None or bool(getattr(target.settings.switches, self.switch)))


@dataclass(frozen=True, slots=True)
class PlacedPass:
    """A registered pass and its place.

    Attributes
    ----------
    row : Pass
    anchor : str
        Name of the row that the pass follows or precedes.
    is_after : bool
        True if the pass follows the row.
    """

    row: Pass
    anchor: str
    is_after: bool


REGISTERED: Registry[PlacedPass] = REGISTERED_PASSES


def with_registered(rows: Sequence[Pass]) -> list[Pass]:
    """Return rows with the registered passes at their places; of several at one place the earliest comes first."""
    result = list(rows)
    last_after: dict[str, str] = {}  # for a row the last pass so far that follows it
    for each in REGISTERED.entries.values():
        names = [row.name for row in result]
        if each.is_after:
            place = each.anchor
            while place in last_after:
                place = last_after[place]
            last_after[each.anchor] = each.row.name
            result.insert(names.index(place) + 1, each.row)
        else:
            result.insert(names.index(each.anchor), each.row)
    return result
