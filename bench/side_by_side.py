"""How cases are measured that are compared with each other: built in the same processes, then timed in turn.

One after another, each case would have minutes of its own, in which a machine can become slower or faster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from .experiment import OURS, BenchError, Case, Experiment
from .process import EngineProcess, start
from .protocol import FULL, Effort, Progress, close, compare, describe, ratio, steps_for, summary

_TURNS = 10  # of each lane in a round


@dataclass(frozen=True)
class Lane:
    """One case on one engine.

    Attributes
    ----------
    case : mapping
    process : EngineProcess
    number : int
        Of the case among those that the process has built.
    """

    case: Case
    process: EngineProcess
    number: int

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.process.engine


def run(
    experiment: Experiment, engines: list[str], effort: Effort = FULL, progress: Progress = lambda text: None
) -> Iterator[dict[str, Any]]:
    """Measure `engines` on every group of cases; yield one record per engine and case of a group, then its ratios."""
    deadline = time.monotonic() + effort.seconds
    groups = list(grouped(experiment))
    processes = start(experiment, engines)
    try:
        for number, (shared, cases) in enumerate(groups):
            progress(f"{describe(shared)}: building")
            began = time.monotonic()
            lanes = build(experiment, cases, processes)
            check_equal(experiment, lanes)
            stop = began + share(deadline - began, len(groups) - number)
            progress(f"{describe(shared)}: {len(lanes)} in turn")
            samples = measure(experiment, lanes, effort, stop)
            yield from records(experiment, lanes, samples)
    finally:
        close(processes)


def share(remaining: float, groups: int) -> float:
    """Return the seconds that the next of the remaining groups may take.

    Groups go from small cases to large ones, so the second gets twice as much as the first, and so on: large cases
    would otherwise have no time for more than a round.
    """
    return 2 * remaining / (groups * (groups + 1))


def without(case: Case, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return what a case says beside `keys`."""
    return {key: value for key, value in case.items() if key not in keys}


def grouped(experiment: Experiment) -> Iterator[tuple[Case, list[Case]]]:
    """Yield what the cases of a group share, and the cases."""
    heads: list[Case] = []
    for case in experiment.cases:
        head = without(case, experiment.together)
        if head not in heads:
            heads.append(head)
    for head in heads:
        yield head, [case for case in experiment.cases if without(case, experiment.together) == head]


def build(experiment: Experiment, cases: list[Case], processes: list[EngineProcess]) -> list[Lane]:
    """Let all engines build their cases, side by side; return the lanes, tagloom's first."""
    lanes = []
    for process in processes:
        own = cases if process.engine == OURS else distinct(experiment, cases)
        process.ask("prepare", *map(dict, own))
        lanes += [Lane(case, process, number) for number, case in enumerate(own)]
    for process in processes:
        process.answer()
    return lanes


def distinct(experiment: Experiment, cases: list[Case]) -> list[Case]:
    """Return the cases that peers can tell apart."""
    theirs = [experiment.peer_case(case) for case in cases]
    return [case for number, case in enumerate(theirs) if case not in theirs[:number]]


def check_equal(experiment: Experiment, lanes: list[Lane]) -> None:
    """Run one step of every lane; BenchError where two that should have the same values differ."""
    firsts: dict[str, tuple[Lane, Any]] = {}
    for lane, values in first_steps(lanes):
        alike = describe(without(lane.case, experiment.same_values))
        first, wanted = firsts.setdefault(alike, (lane, values))
        difference = compare(wanted, values, experiment.tolerance)
        if difference:
            names = (f"'{each.engine}' at {describe(each.case)}" for each in (lane, first))
            raise BenchError(f"{' and '.join(names)} disagree: {difference}")


def first_steps(lanes: list[Lane]) -> Iterator[tuple[Lane, Any]]:
    """Yield the values of each lane; the engines, some of which compile now, go side by side."""
    for number in range(1 + max(lane.number for lane in lanes)):
        row = [lane for lane in lanes if lane.number == number]
        for lane in row:
            lane.process.ask("values", number)
        yield from [(lane, lane.process.answer()) for lane in row]


def measure(experiment: Experiment, lanes: list[Lane], effort: Effort, stop: float) -> list[list[float]]:
    """Time the lanes in turn until the clock would pass `stop`; return the samples of each.

    Every other round goes backwards, so that a drift within the rounds hits all alike.
    """
    began = time.monotonic()
    singles = timed(lanes, [1] * len(lanes), effort)
    longest = time.monotonic() - began
    counts = [steps_for(seconds, effort.timing) for seconds in singles]
    samples = [
        [experiment.sample(lane.case, 1, seconds)] if count == 1 else []
        for lane, seconds, count in zip(lanes, singles, counts, strict=True)
    ]
    for number in range(1, effort.most_rounds + 1):
        began = time.monotonic()
        if all(samples) and began + longest / 2 > stop:  # as often a little late as early
            break
        seconds = timed(lanes, counts, effort, backwards=number % 2 == 1)
        for lane, each, count, found in zip(lanes, seconds, counts, samples, strict=True):
            found.append(experiment.sample(lane.case, count, each))
        counts = [
            max(count, steps_for(each / count, effort.timing)) for count, each in zip(counts, seconds, strict=True)
        ]
        longest = max(longest, time.monotonic() - began)
    return samples


def timed(lanes: list[Lane], counts: list[int], effort: Effort, *, backwards: bool = False) -> list[float]:
    """Return the seconds that so many steps of each lane take; an engine starts when the others fell asleep.

    The lanes of an engine take turns many times, so that what the machine does meanwhile hits all alike.
    """
    seconds = [0.0] * len(lanes)
    order = range(len(lanes))
    for _, group in groupby(reversed(order) if backwards else order, lambda index: lanes[index].engine):
        turns = list(group)
        time.sleep(effort.idle)
        for turn in range(_TURNS):
            for index in turns:
                if steps := counts[index] * (turn + 1) // _TURNS - counts[index] * turn // _TURNS:
                    seconds[index] += float(lanes[index].process.call("seconds", steps, lanes[index].number))
    return seconds


def medians(samples: list[list[float]]) -> list[float]:
    """Return the median of each lane's samples relative to their rounds, times that of all: to compare lanes by.

    The times in which a machine is slower or faster have no part in what one lane is to another then.
    """
    rounds = min(map(len, samples))
    table = np.array([each[-rounds:] for each in samples])
    of_rounds = np.median(table, axis=0)
    return [float(each) for each in np.median(table / of_rounds, axis=1) * np.median(of_rounds)]


def records(experiment: Experiment, lanes: list[Lane], samples: list[list[float]]) -> Iterator[dict[str, Any]]:
    """Yield a record for each lane, then each of tagloom's cases beside the peers, then beside its other side."""
    metric = experiment.metric
    found = list(zip(lanes, samples, strict=True))
    for lane, values in found:
        row = {**_head(experiment, lane.case), "engine": lane.engine, "metric": metric, **summary(values)}
        yield {**row, **(lane.process.call("notes", lane.number) if experiment.notes else {})}
    ours = [(lane.case, values) for lane, values in found if lane.engine == OURS]
    for case, values in ours:
        for lane, theirs in found:
            if lane.engine != OURS and lane.case == experiment.peer_case(case):
                value = ratio(values, theirs, smaller_is_better=experiment.smaller_is_better(metric))
                yield {**_head(experiment, case), "ratio_to": lane.engine, "metric": metric, "value": value}
    compared = zip((case for case, _ in ours), medians([values for _, values in ours]), strict=True)
    for case, other, value in experiment.sides(list(compared)):
        yield {**_head(experiment, case), "ratio_to": other, "metric": metric, "value": value}


def _head(experiment: Experiment, case: Case) -> dict[str, Any]:
    return {"bench": experiment.name, "case": dict(case)}
