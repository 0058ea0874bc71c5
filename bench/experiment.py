"""What an experiment is: cases, an engine's way to do the work, and what is measured."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from .errors import BenchError
from .peers import other_packages

__all__ = ["OURS", "PEER_MODULES", "Bar", "BenchError", "Case", "Experiment", "Factory", "Observed", "Step"]

Case = Mapping[str, Any]
Step = Callable[[], Any]
Factory = Callable[[Case, AsyncExitStack], Step | Awaitable[Step]]

OURS = "tagloom"
PEER_MODULES = {"tf": "tensorflow", "jax": "jax", "torch": "torch", "torch_fused": "torch"}


@dataclass(frozen=True)
class Bar:
    """A limit for the ratios to one other side.

    Attributes
    ----------
    ratio_to : str
    statistic : {'least', 'median'}
        Of all ratios to that side.
    wanted : float
        Smallest accepted value of the statistic.
    """

    ratio_to: str
    statistic: str
    wanted: float

    def record(self, name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Return the record that compares the ratios among `records` with the bar, or None if there are no ratios."""
        ratios = [float(r["value"]) for r in records if r.get("ratio_to") == self.ratio_to]
        if not ratios:
            return None
        value = min(ratios) if self.statistic == "least" else statistics.median(ratios)
        head = {"bench": name, "bar": self.ratio_to, "statistic": self.statistic, "wanted": self.wanted}
        return {**head, "value": value, "met": value >= self.wanted}


@dataclass(frozen=True)
class Observed:
    """A step that notes figures of its own, while it is built or run.

    Attributes
    ----------
    step : callable
    figures : mapping of str to list of float
        Samples of each metric that the experiment names in `figures`; they may grow with each step.
    notes : callable
        Returns what the experiment names in `notes`, in words; called at the end, when nothing is measured.
    compared : callable
        Makes of the step's values those to compare with the other engines', where the step gives them in another form.
    """

    step: Step
    figures: Mapping[str, list[float]] = field(default_factory=dict)
    notes: Callable[[], Mapping[str, str]] = dict
    compared: Callable[[list[Any]], list[Any]] = list

    def __call__(self) -> Any:
        """Do the step."""
        return self.step()


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes
    ----------
    name : str
        Name of its module.
    cases : tuple of mapping
        What is varied, in plain words.
    engines : mapping of str to callable
        ``factory(case, stack)`` builds the work and gives a function of no arguments that does one step and
        returns the values to compare; both may be coroutine functions. What must be closed goes on the stack.
        The factory of "tagloom" comes first; names that are no peers are always run beside it.
    metric : str
        Name of the rate, units of work per second, or of the time that a unit takes.
    amount : callable
        Units of work in one step of a case.
    tolerance : float
        Largest accepted difference of two engines' values, relative to the largest value; 0 is exact.
    tolerances : mapping of str to float
        Others for some engines, by name.
    exact : tuple of str
        Engines whose values are tagloom's to the bit, whatever the tolerance.
    unable : callable
        Returns for a case the engines that can not do it, each with the reason, which is shown.
    peak : str or None
        Name of the peak-memory metric in bytes, if it is measured too; each case then gets fresh processes.
    time_unit : float or None
        Parts of a second that `metric` is a time in, 1e3 for milliseconds; None where it is a rate.
    figures : tuple of str
        Metrics, better when smaller, that a step notes itself (see :class:`Observed`). Engines then build in turn.
    notes : tuple of str
        What a step notes in words; shown with its case.
    baseline : str or None
        What `ratio_to` calls the first case, where the others are compared with it: by a ratio of medians of `metric`.
    best_only : bool
        Whether only the best of the others is.
    quick_cases : tuple of mapping
        Cases of a quick run, where `cases` take too long for one.
    quick_seconds : float or None
        Time after which a quick run adds no more rounds, where its usual time and rounds are too few.
    picture : callable or None
        Draws into a file what says more than the medians do.
    devices : mapping of str to callable
        Other devices than CPUs: each gets the experiment and the peers asked for, and returns the experiment there, or
        raises a BenchError that says what is missing. What a peer does in another way is an engine of its name and
        more, as "torch-eager".
    together : tuple of str
        Keys of the cases that are compared with each other: those that differ in nothing else are built side by side
        in the same processes and timed in turn.
    same_values : tuple of str
        Keys among `together` that do not change the values.
    peer_case : callable
        Returns the case whose work peers do for a case, where they can not tell one of those together from another.
    sides : callable
        Gets (case, median) of tagloom for the cases together, medians of what they are to each other in a round; yields
        (case, `ratio_to`, ratio) of those it compares.
    bars : tuple of Bar
        Compared with all ratios of a run, at its end.
    """

    name: str
    cases: tuple[Case, ...]
    engines: Mapping[str, Factory]
    metric: str
    amount: Callable[[Case], float] = lambda case: 1.0
    tolerance: float = 0.0
    tolerances: Mapping[str, float] = field(default_factory=dict)
    exact: tuple[str, ...] = ()
    unable: Callable[[Case], Mapping[str, str]] = lambda case: {}
    peak: str | None = None
    time_unit: float | None = None
    figures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    baseline: str | None = None
    best_only: bool = False
    quick_cases: tuple[Case, ...] = ()
    quick_seconds: float | None = None
    picture: Callable[[Path], None] | None = None
    devices: Mapping[str, Callable[[Experiment, Sequence[str]], Experiment]] = field(default_factory=dict)
    together: tuple[str, ...] = ()
    same_values: tuple[str, ...] = ()
    peer_case: Callable[[Case], Case] = lambda case: case
    sides: Callable[[Sequence[tuple[Case, float]]], Iterable[tuple[Case, str, float]]] = lambda medians: ()
    bars: tuple[Bar, ...] = ()

    def on(self, device: str, peers: Sequence[str]) -> Experiment:
        """Return the experiment on a device; BenchError if it has none of that name, or something is missing."""
        if device not in self.devices:
            known = ", ".join(self.devices) or "none but the CPU"
            raise BenchError(f"{self.name} can not be run on '{device}'; there is: {known}")
        return self.devices[device](self, peers)

    def quick(self) -> Experiment:
        """Return the experiment with the cases of a quick run."""
        return replace(self, cases=self.quick_cases or self.cases)

    def only(self, **wanted: str) -> Experiment:
        """Return the experiment with the cases that have these values; BenchError if no case has them."""
        chosen = tuple(c for c in self.cases if all(str(c.get(key)) == value for key, value in wanted.items()))
        if not chosen:
            raise BenchError(f"{self.name} has no case with {' '.join(f'{k}={v}' for k, v in wanted.items())}")
        return replace(self, cases=chosen)

    def sample(self, case: Case, steps: int, seconds: float) -> float:
        """Return the metric when `steps` steps took `seconds` together."""
        units = self.amount(case) * steps
        return units / seconds if self.time_unit is None else self.time_unit * seconds / units

    def smaller_is_better(self, metric: str) -> bool:
        """Whether less of a metric is more."""
        return metric == self.peak or metric in self.figures or (metric == self.metric and self.time_unit is not None)

    def chosen(self, peers: list[str]) -> list[str]:
        """Return the engines to run: tagloom, its own other sides, and the peers asked for, which must be there."""
        for peer in peers:
            self._require(peer)
        owners = {name: name.partition("-")[0] for name in self.engines}
        return [name for name, owner in owners.items() if owner not in PEER_MODULES or owner in peers]

    def _require(self, peer: str) -> None:
        if peer not in self.engines:
            known = ", ".join(name for name in self.engines if name in PEER_MODULES) or "none"
            raise BenchError(f"{self.name} has no peer '{peer}'; it has: {known}")
        module = PEER_MODULES[peer]
        if importlib.util.find_spec(module) is None and PathFinder.find_spec(module, other_packages()) is None:
            raise BenchError(
                f"peer '{peer}' needs the module {module}, which is not installed; "
                "try: pip install -r bench/requirements-peers.txt, here or where TAGLOOM_PEERS names a Python"
            )
