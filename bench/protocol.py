"""How engines are measured: same values first, then in turn, each alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .experiment import OURS, BenchError, Case, Experiment
from .process import EngineProcess, prepare, start

Progress = Callable[[str], None]
Samples = dict[str, dict[str, list[float]]]

_LEAST = 1e-9  # keeps a ratio finite where nothing at all was used


@dataclass(frozen=True)
class Effort:
    """How much time an experiment may take.

    Attributes
    ----------
    seconds : float
        The experiment stops adding rounds when this much time has passed since it began.
    most_rounds : int
        Timings of each engine at most; at least one is always made.
    timing : float
        A timing repeats its step until about this many seconds are filled.
    idle : float
        Pause before each timing, in which the other engines' thread pools fall asleep.
    building : float
        Seconds set aside for building each later case.
    """

    seconds: float = 600.0
    most_rounds: int = 20
    timing: float = 0.5
    idle: float = 0.3
    building: float = 3.0

    def share(self, remaining: float, later_cases: int, engines: int) -> float:
        """Return the seconds a case may take so that the later ones still get all their rounds."""
        rounds = self.most_rounds * engines * (self.idle + self.timing)
        return remaining - later_cases * (self.building + rounds)


FULL = Effort()
QUICK = Effort(seconds=42.0, most_rounds=5, timing=0.1)


def run(
    experiment: Experiment, engines: list[str], effort: Effort = FULL, progress: Progress = lambda text: None
) -> Iterator[dict[str, Any]]:
    """Measure `engines` on every case; yield one record per engine and metric, then the ratios.

    The first engine is the one that the others' values are compared with.
    """
    deadline = time.monotonic() + effort.seconds
    processes = start(experiment, engines)
    found: list[tuple[Case, list[float]]] = []
    try:
        for number, case in enumerate(experiment.cases, 1):
            if experiment.peak and number > 1:
                close(processes)
                processes = start(experiment, engines)
            unable = experiment.unable(case)
            able = [process for process in processes if process.engine not in unable]
            progress(f"{describe(case)}: building")
            prepare(able, case, in_turn=bool(experiment.figures))
            check_equal(able, experiment.tolerance, {**experiment.tolerances, **dict.fromkeys(experiment.exact, 0.0)})
            later = len(experiment.cases) - number
            stop = time.monotonic() + effort.share(deadline - time.monotonic(), later, len(able))
            samples = measure(experiment, case, able, effort, stop, progress)
            found.append((case, samples[experiment.metric].get(OURS, [])))
            yield from records(experiment, case, samples)
            yield from notes(experiment, case, able)
            for engine in (each for each in engines if each in unable):
                yield note(experiment, case, "can not", engine, unable[engine])
        yield from against_first(experiment, found)
    finally:
        close(processes)


def close(processes: list[EngineProcess]) -> None:
    """End all processes."""
    for process in processes:
        process.close()


def describe(case: Case) -> str:
    """Return a case in words."""
    return " ".join(f"{key}={value}" for key, value in case.items())


def check_equal(processes: list[EngineProcess], tolerance: float, others: Mapping[str, float] | None = None) -> None:
    """Run one step on every engine and hold the values against the first engine's; BenchError where they differ.

    Engines that `others` names have tolerances of their own; 0 asks for the same bits.
    """
    for process in processes:
        process.ask("values")
    answers = [process.answer() for process in processes]
    for process, values in zip(processes[1:], answers[1:], strict=True):
        difference = compare(answers[0], values, (others or {}).get(process.engine, tolerance))
        if difference:
            raise BenchError(f"'{process.engine}' and '{processes[0].engine}' disagree: {difference}")


def compare(wanted: list[np.ndarray], got: list[np.ndarray], tolerance: float) -> str | None:
    """Describe the first difference beyond `tolerance` times the largest wanted value, or return None."""
    if len(wanted) != len(got):
        return f"{len(wanted)} values against {len(got)}"
    for index, (a, b) in enumerate(zip(wanted, got, strict=True)):
        if a.shape != b.shape:
            return f"value {index} has shape {a.shape} against {b.shape}"
        if not a.size:
            continue
        gap, largest = float(np.max(np.abs(a - b))), float(np.max(np.abs(a)))
        if not gap <= tolerance * largest:
            return f"value {index} differs by {gap:g}, where the largest is {largest:g} and the tolerance {tolerance:g}"
    return None


def measure(
    experiment: Experiment, case: Case, processes: list[EngineProcess], effort: Effort, stop: float, progress: Progress
) -> Samples:
    """Time the engines in turn until the clock would pass `stop`; return metric -> engine -> samples.

    Who is faster than in the last round, as what compiles on the way is, does more steps in the next.
    """
    first = {p.engine: warm_up(p, effort) for p in processes}
    steps = {engine: steps_for(seconds / count, effort.timing) for engine, (count, seconds) in first.items()}
    samples = {e: [experiment.sample(case, *first[e])] if steps[e] == 1 else [] for e in steps}
    longest = sum(seconds for _, seconds in first.values()) + effort.idle * len(processes)
    for number in range(1, effort.most_rounds + 1):
        began = time.monotonic()
        if min(map(len, samples.values())) and began + longest > stop:
            break
        for process in processes:
            progress(f"{describe(case)}: round {number}, {process.engine}")
            count = steps[process.engine]
            seconds = alone(process, count, effort)
            samples[process.engine].append(experiment.sample(case, count, seconds))
            steps[process.engine] = max(count, steps_for(seconds / count, effort.timing))
        longest = max(longest, time.monotonic() - began)
    return {experiment.metric: samples, **figures(experiment, processes), **peaks(experiment, processes)}


def figures(experiment: Experiment, processes: list[EngineProcess]) -> Samples:
    """Return what the engines noted themselves, if the experiment asks for it."""
    noted = {p.engine: p.call("figures") for p in processes} if experiment.figures else {}
    return {m: {engine: found[m] for engine, found in noted.items() if m in found} for m in experiment.figures}


def peaks(experiment: Experiment, processes: list[EngineProcess]) -> Samples:
    """Return the peak memory of each engine, if the experiment asks for it."""
    if experiment.peak is None:
        return {}
    return {experiment.peak: {p.engine: [float(p.call("peak"))] for p in processes}}


def warm_up(process: EngineProcess, effort: Effort) -> tuple[int, float]:
    """Do steps, at first one, then more, until they fill half a timing; return the last ones, and their seconds."""
    count, seconds = 1, alone(process, 1, effort)
    while seconds < effort.timing / 2:
        count = max(2 * count, steps_for(seconds / count, effort.timing))
        seconds = alone(process, count, effort)
    return count, seconds


def alone(process: EngineProcess, steps: int, effort: Effort) -> float:
    """Let the others fall asleep, then return the seconds that `steps` steps take."""
    time.sleep(effort.idle)
    return float(process.call("seconds", steps))


def steps_for(seconds: float, timing: float) -> int:
    """Return how many steps of `seconds` fill a timing."""
    return max(1, math.ceil(timing / max(seconds, 1e-6)))


def records(experiment: Experiment, case: Case, samples: Samples) -> Iterator[dict[str, Any]]:
    """Yield a record for each metric and engine, and a ratio for each engine beside tagloom's."""
    head = {"bench": experiment.name, "case": dict(case)}
    for metric, by_engine in samples.items():
        for engine, values in by_engine.items():
            yield {**head, "engine": engine, "metric": metric, **summary(values)}
        for engine in by_engine:
            if OURS in by_engine and engine != OURS:
                smaller = experiment.smaller_is_better(metric)
                value = ratio(by_engine[OURS], by_engine[engine], smaller_is_better=smaller)
                yield {**head, "ratio_to": engine, "metric": metric, "value": value}


def against_first(experiment: Experiment, found: list[tuple[Case, list[float]]]) -> Iterator[dict[str, Any]]:
    """Yield the ratios of tagloom's cases to its first one, if the experiment compares them."""
    if experiment.baseline is None:
        return
    smaller = experiment.smaller_is_better(experiment.metric)
    ratios = [(ratio(samples, found[0][1], smaller_is_better=smaller), case) for case, samples in found[1:]]
    for value, case in [max(ratios, key=lambda each: each[0])] if experiment.best_only else ratios:
        head = {"bench": experiment.name, "case": dict(case), "ratio_to": experiment.baseline}
        yield {**head, "metric": experiment.metric, "value": value}


def notes(experiment: Experiment, case: Case, processes: list[EngineProcess]) -> Iterator[dict[str, Any]]:
    """Yield a record for each thing that the experiment's steps note in words."""
    for process in processes if experiment.notes else []:
        for name, text in process.call("notes").items():
            yield note(experiment, case, name, process.engine, text)


def note(experiment: Experiment, case: Case, name: str, engine: str, text: str) -> dict[str, Any]:
    """Return the record of something said in words."""
    return {"bench": experiment.name, "case": dict(case), "note": name, "by": engine, "text": text}


def summary(values: list[float]) -> dict[str, Any]:
    """Return median, 5th and 95th percentile and number of samples."""
    p5, median, p95 = (float(v) for v in np.percentile(values, [5, 50, 95]))
    return {"median": median, "p5": p5, "p95": p95, "runs": len(values)}


def ratio(ours: list[float], theirs: list[float], *, smaller_is_better: bool = False) -> float:
    """Return the ratio of medians, turned so that above 1 means tagloom is better."""
    a, b = float(np.median(ours)), float(np.median(theirs))
    return b / max(a, _LEAST) if smaller_is_better else a / b
