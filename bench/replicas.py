"""Four replicas of the network of `examples/digits_convnet.py`: asynchronous, synchronous, and with a backup.

Each replica computes gradients of batches of 32 on a device of its own, in virtual time: a second in the median, and in
one of ten steps some seconds more. All see as many digits as one device that trains alone. Figures: the share of the
digits held out that are read wrong at the end, and how long training takes in virtual time. The rate is that of
updates in real time, on devices that take none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed

WRONG, VIRTUAL = "percent_wrong", "virtual_seconds"
WORK = "SparseSoftmaxCrossEntropyWithLogits"  # type of a kernel that each gradient has once: its time stands for all
REPLICAS, BATCH = 4, 32
UPDATES = 20  # of a step in real time
RATES = {"one device": 2e-3, "asynchronous": 2e-3, "synchronous": 6e-3, "one backup": 6e-3}  # of learning, at first
MODES = tuple(RATES)
SEEDS = 6


@dataclass
class Training:
    """What came of a training.

    Attributes
    ----------
    seconds : float
        Virtual.
    wrong : float
        Percent of the digits held out.
    losses : list of (float, float)
        Of each batch, with the virtual time.
    """

    seconds: float = 0.0
    wrong: float = 100.0
    losses: list[tuple[float, float]] = field(default_factory=list)


class Program:
    """The network, the replicas of a mode, and what measures them."""

    def __init__(self, case: Case, seed: int) -> None:
        import tagloom as tg
        from tagloom.training import AdamOptimizer, AsyncReplicas, SyncReplicas

        from examples.digits_convnet import Network, Size

        mode = case["mode"]
        count = 1 if mode == "one device" else REPLICAS
        synchronous = mode in ("synchronous", "one backup")
        with tg.Graph(seed=seed).as_default() as self.graph:
            with tg.device("/cpu:0"):
                network = Network(Size(filters=16, hidden=64))
            step = tg.training.get_or_create_global_step()
            aggregate = REPLICAS - (mode == "one backup") if synchronous else 1
            self.updates = case["epochs"] * (len(digits().labels) // BATCH) // aggregate
            rate = tg.training.cosine_decay(RATES[mode], step, self.updates)
            optimizer = AdamOptimizer(rate)
            if synchronous:
                self.replicas: Any = SyncReplicas(optimizer, count, aggregate)
            else:
                self.replicas = AsyncReplicas(optimizer, count)
            self.fed, self.losses = [], []
            for k in range(count):
                with tg.device(f"/cpu:{k + 1}"):
                    images, labels = tg.placeholder("float32", [None, 8, 8, 1]), tg.placeholder("int32", [None])
                    logits = network(images, training=True)
                    each = tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                    self.losses.append(tg.reduce_mean(each))
                    self.replicas.minimize(self.losses[k])
                    self.fed.append((images, labels))
            self.images = tg.placeholder("float32", [None, 8, 8, 1])
            self.read = tg.argmax(network(self.images), 1, output_type="int32")
            self.initialize = tg.global_variables_initializer()
        self.count = count

        self.seed = seed

    def feeds(self) -> list[Iterator[Any]]:
        """Return for each replica batches of all digits, in an order of its own, without end."""
        return [self._batches(k, np.random.default_rng([self.seed, k])) for k in range(self.count)]

    def _batches(self, k: int, random: np.random.Generator) -> Iterator[Any]:
        images, labels = self.fed[k]
        shown = digits()
        while True:
            order = random.permutation(len(shown.labels))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                chosen = order[start : start + BATCH]
                yield {images: shown.images[chosen], labels: shown.labels[chosen]}


@cache
def digits() -> Any:
    """Return scikit-learn's digits."""
    from examples.digits_convnet import load_digits

    return load_digits()


async def virtual(case: Case, seed: int) -> Training:
    """Train in virtual time, on a loop of asyncio's own."""
    import tagloom as tg
    from tagloom.streams import Exponential, LatencyDevice, Lognormal, Mixture, Sum, VirtualClock

    program, found = Program(case, seed), Training()
    usual = Lognormal(1.0, 0.1)
    work = {WORK: Mixture(usual, Sum((usual, Exponential(4.0))), 0.1)}
    async with VirtualClock() as clock, AsyncExitStack() as stack:
        devices = [LatencyDevice("/cpu:0", clock=clock)]
        for k in range(program.count):
            devices.append(LatencyDevice(f"/cpu:{k + 1}", seconds=work, clock=clock, seed=seed))
        for each in devices:
            await stack.enter_async_context(each)
        settings = tg.Settings(drain_seconds=60.0)  # the same order of steps, however slow the machine is
        session = await stack.enter_async_context(tg.Session(program.graph, devices=devices, settings=settings))
        await session.run(program.initialize)
        async with tg.runners(session, clock=clock) as group:
            program.replicas.start(
                group,
                steps=program.updates,
                feeds=program.feeds(),
                fetches=program.losses,
                on_step=lambda k, loss: found.losses.append((clock.now(), float(loss))),
            )
        found.seconds = clock.now()
        read = await session.run(program.read, {program.images: digits().held_out_images})
        found.wrong = 100 * float(np.mean(read != digits().held_out_labels))
    return found


def in_virtual_time(case: Case) -> list[Training]:
    """Train with several seeds."""
    return [asyncio.run(virtual(case, seed)) for seed in range(case["seeds"])]


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Train in virtual time, in a thread since this one's loop can not, and in real time as often as asked."""
    import tagloom as tg

    found = await asyncio.to_thread(in_virtual_time, case)
    program = Program(case, 0)
    session = await stack.enter_async_context(tg.Session(program.graph, devices=program.count + 1))
    await session.run(program.initialize)

    async def step() -> list[Any]:
        async with tg.runners(session) as group:
            program.replicas.start(group, steps=UPDATES, feeds=program.feeds())
        return []

    figures = {WRONG: [each.wrong for each in found], VIRTUAL: [each.seconds for each in found]}
    return Observed(step, figures)


def picture(path: Path) -> None:
    """Draw the losses over virtual time."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.2), layout="constrained")
    for case in EXPERIMENT.cases:
        found = in_virtual_time(case)
        times, losses = np.array(found[0].losses).T
        width = 40
        smooth = np.convolve(losses, np.ones(width) / width, mode="valid")
        wrong = np.mean([each.wrong for each in found])
        axes.plot(times[width - 1 :], smooth, label=f"{case['mode']}: {wrong:.1f} % wrong of those held out")
    axes.set(xlabel="virtual time, s", ylabel="loss, mean of 40 batches", yscale="log")
    axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


EXPERIMENT = Experiment(
    name="replicas",
    cases=tuple({"mode": mode, "epochs": 25, "seeds": SEEDS} for mode in MODES),
    quick_cases=tuple({"mode": mode, "epochs": 2, "seeds": 1} for mode in MODES),
    engines={"tagloom": tagloom},
    metric="updates_per_second",
    amount=lambda case: float(UPDATES),
    figures=(WRONG, VIRTUAL),
    picture=picture,
)
