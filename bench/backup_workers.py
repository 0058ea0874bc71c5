"""Synchronous replicas in virtual time (Abadi et al., 2016): null steps (Figure 6), and backup workers (Figure 8).

The replicas are those of `tagloom.training.SyncReplicas`, on devices that take stated times: the parameters are on one,
each worker on another. What crosses the link of the parameters takes its time one after the other; a worker asks for
parts of the parameters one by one, so that all who ask at a time share the link. Times are fitted to what the
paper says of no backup workers; what comes out for others is computed by the replicas themselves, not by a formula.

- Null steps: 1.8 ms with one worker and 8.8 ms with 100 give what a small message takes on a worker's and on the
  parameters' link; 147 and 613 ms of 100 MB their rates. The numbers of workers between, and 1 GB, are computed.
- Backup workers: a model of 100 MB over that link. A worker's computation is such that the median step of 50 workers
  takes 2.24 s (1.93 s and the gain of 9.5 % with three, as in the paper: this is the unit of time alone), of which 10 %
  are for the slowest, as synchronous steps are that much longer than asynchronous ones in Figure 7. How many
  computations have a straggler (12 %), and how much the others vary (1 %), the paper does not say. As its own Figure 8
  gains more than these 10 %, there is a second curve: 16 %, of which 2.24 s and 1.93 s are apart.

The rate is that of the same replicas in real time, on devices that take none: what coordinating them costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed

VIRTUAL = "virtual_milliseconds"
COPIES = ("DeviceToHost", "HostToDevice")
WORK = "Erf"  # type of the kernel that stands for a worker's computation
UPDATES = 5  # of a step in real time
SCALE = 65_536 / 100e6  # bytes that stand for one of the paper's


@dataclass(frozen=True)
class Model:
    """What a step computes and moves.

    Attributes
    ----------
    megabytes : float
        Of the parameters.
    parts : int
        In which a worker asks for them, one after the other.
    body, straggling : float
        Seconds of a worker's computation, and what a straggler takes more in the mean.
    """

    megabytes: float
    parts: int = 4
    body: float = 0.0
    straggling: float = 0.0


MODELS = {
    "null, scalar": Model(4e-6, parts=1),
    "null, 100 MB": Model(100),
    "null, 1 GB": Model(1000),
    "slowest 10 % behind": Model(100, parts=8, body=1.648, straggling=0.172),
    "slowest 16 % behind": Model(100, parts=8, body=1.536, straggling=0.218),
}
STRAGGLERS, SPREAD = 0.12, 0.01
NULL, TRAINING = list(MODELS)[:3], list(MODELS)[3:]
WORKERS = (1, 5, 10, 25, 50, 100)
BACKUPS = (0, 1, 2, 3, 4, 5)
PAPER: dict[str, dict[int, float]] = {  # milliseconds, by workers
    "null, scalar": {1: 1.8, 100: 8.8},
    "null, 100 MB": {1: 147, 100: 613},
    "null, 1 GB": {1: 1010, 100: 7160},
}
PAPER_BEST, PAPER_GAIN = (4, 1.93), (3, 1.095)  # backups: seconds; normalized speedup

MESSAGE, SHARED_MESSAGE = 0.82e-3, 0.07e-3  # seconds, of a worker's link and of that of the parameters
RATE, SHARED_RATE = 1.45e9, 35.5e9  # bytes per second


def program(tg: Any, case: Case) -> Any:
    """Build the replicas of a case; return them and what initializes their variables."""
    from tagloom.training import GradientDescentOptimizer, SyncReplicas

    model, count = MODELS[case["step"]], case["workers"] + case["backup"]
    elements = max(1, round(model.megabytes * 1e6 * SCALE / 4 / model.parts))
    with tg.device("/cpu:0"):
        parts = [tg.Variable(np.zeros(elements, np.float32)) for _ in range(model.parts)]
    replicas = SyncReplicas(GradientDescentOptimizer(0.0), count, backup=case["backup"])
    for k in range(count):
        with tg.device(f"/cpu:{k + 1}"):
            values: list[Any] = []
            for part in parts:
                with tg.control_dependencies(values[-1:]):
                    values.append(tg.identity(part.read_value()))
            with tg.control_dependencies(values):
                done = tg.erf(1.0)
            replicas.apply_gradients([(value * done, part) for value, part in zip(values, parts, strict=True)])
    return replicas, tg.global_variables_initializer()


def links(case: Case, clock: Any, seed: int = 0) -> list[Any]:
    """Return the devices of a case: that of the parameters, then those of the workers."""
    from tagloom.streams import Exponential, LatencyDevice, Lognormal, Mixture, Sum

    model = MODELS[case["step"]]
    body = Lognormal(model.body, SPREAD)
    work = Mixture(body, Sum((body, Exponential(model.straggling))), STRAGGLERS) if model.body else 0.0
    shared = dict.fromkeys(COPIES, SHARED_MESSAGE)
    own = {WORK: work, **dict.fromkeys(COPIES, MESSAGE)}
    made = [LatencyDevice("/cpu:0", seconds=shared, bytes_per_second=SHARED_RATE * SCALE, clock=clock)]
    for k in range(case["workers"] + case["backup"]):
        made.append(LatencyDevice(f"/cpu:{k + 1}", seconds=own, bytes_per_second=RATE * SCALE, clock=clock, seed=seed))
    return made


async def virtual(case: Case, seed: int = 0) -> tuple[list[float], Any]:
    """Train in virtual time, on a loop of asyncio's own; return the seconds of each update, and the statistics."""
    import tagloom as tg
    from tagloom.streams import VirtualClock

    with tg.Graph().as_default() as graph:
        replicas, initialize = program(tg, case)
    async with VirtualClock() as clock, AsyncExitStack() as stack:
        devices = [await stack.enter_async_context(each) for each in links(case, clock, seed)]
        # Slices that nothing uses up: whose turn is over would else depend on the real time, and so who comes first.
        settings = tg.Settings(drain_seconds=60.0)
        session = await stack.enter_async_context(tg.Session(graph, devices=devices, settings=settings))
        await session.run(initialize)
        times: list[float] = []
        async with tg.runners(session, clock=clock) as group:
            training = replicas.start(
                group, steps=case["updates"] + 1, on_update=lambda step: times.append(clock.now())
            )
        return np.diff(times).tolist(), training.statistics()


def in_virtual_time(case: Case) -> list[float]:
    """Return the seconds of each update."""
    return asyncio.run(virtual(case))[0]


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Train in virtual time once, in a thread since this one's loop can not, and in real time as often as asked."""
    import tagloom as tg

    seconds = await asyncio.to_thread(in_virtual_time, case)
    with tg.Graph().as_default() as graph:
        replicas, initialize = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph, devices=case["workers"] + case["backup"] + 1))
    await session.run(initialize)

    async def step() -> list[Any]:
        async with tg.runners(session) as group:
            replicas.start(group, steps=UPDATES)
        return []

    return Observed(step, {VIRTUAL: [1e3 * each for each in seconds]})


def cases(training: int, null: int, workers: tuple[int, ...] = WORKERS, backups: tuple[int, ...] = BACKUPS) -> Any:
    """Return the cases, with so many updates each."""
    found = [{"step": step, "workers": 50, "backup": b, "updates": training} for step in TRAINING for b in backups]
    found += [{"step": step, "workers": n, "backup": 0, "updates": null} for step in NULL for n in workers]
    return tuple(found)


def picture(path: Path) -> None:
    """Draw both figures, with the paper's numbers beside them."""
    draw({_key(case): float(np.median(in_virtual_time(case))) for case in EXPERIMENT.cases}, path)


def _key(case: Case) -> tuple[str, int, int]:
    return case["step"], case["workers"], case["backup"]


def draw(medians: Mapping[tuple[str, int, int], float], path: Path) -> None:
    """Draw the median seconds of steps, by what they compute, workers and backup."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    for step in TRAINING:
        seconds = [medians[step, 50, b] for b in BACKUPS]
        left.plot(BACKUPS, seconds, marker="o", label=step)
        speedups = [seconds[0] / t * 50 / (50 + b) for b, t in zip(BACKUPS, seconds, strict=True)]
        middle.plot(BACKUPS, speedups, marker="o", label=step)
    left.plot(*PAPER_BEST, "k*", markersize=11, label="Figure 8: shortest step")
    middle.plot(*PAPER_GAIN, "k*", markersize=11, label="Figure 8: largest speedup")
    left.set(xlabel="backup workers, beside 50", ylabel="median step, s", title="backup workers")
    middle.set(xlabel="backup workers, beside 50", ylabel="normalized speedup", title="for the resources used")
    for step in NULL:
        (line,) = right.plot(WORKERS, [1e3 * medians[step, n, 0] for n in WORKERS], marker="o", label=step)
        right.plot(PAPER[step].keys(), PAPER[step].values(), "*", color=line.get_color(), markersize=11)
    right.plot([], [], "k*", label="Figure 6")
    right.set(xlabel="workers", ylabel="median step, ms", title="null steps", xscale="log", yscale="log", ylim=(1, 1e5))
    right.set_xticks(WORKERS, WORKERS)
    for axes in (left, middle, right):
        axes.legend(loc="upper left" if axes is right else "best", ncols=2 if axes is right else 1)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


EXPERIMENT = Experiment(
    name="backup_workers",
    cases=cases(150, 5),
    quick_cases=cases(20, 3, workers=(1, 10), backups=(0, 4)),
    engines={"tagloom": tagloom},
    metric="updates_per_second",
    amount=lambda case: float(UPDATES),
    figures=(VIRTUAL,),
    picture=picture,
)
