"""Four replicas of the network of `examples/digits_convnet.py`, in virtual time: asynchronous, synchronous, with backup.

Each replica computes gradients of batches of 32 on a device of its own; what that takes is drawn: a second in the median, and
in one of ten steps some seconds more. All see as many digits as one device that trains alone. Figures: the share of the
digits held out that are read wrong at the end (means over seeds), and how long training takes, in virtual time. The rate is
that of gradients in real time, on devices that take none.
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
REPLICAS, BATCH, GRADIENTS = 4, 32, 20  # the last: of a step in real time
MODES = ("one device", "asynchronous", "synchronous", "one backup")


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

    def __init__(self, case: Case) -> None:
        import tagflow as tg
        from examples.digits_convnet import Network, Size
        from tagflow.training import AdamOptimizer, AsyncReplicas, SyncReplicas

        mode = case["mode"]
        count = 1 if mode == "one device" else REPLICAS
        synchronous = mode in ("synchronous", "one backup")
        with tg.Graph(seed=case["seed"]).as_default() as self.graph:
            with tg.device("/cpu:0"):
                network = Network(Size(filters=16, hidden=64))
            step = tg.training.get_or_create_global_step()
            gradients = case["epochs"] * 42
            self.aggregate = REPLICAS - (mode == "one backup") if synchronous else 1
            self.updates = gradients // self.aggregate
            rate = tg.training.cosine_decay(RATE * RATES[mode], step, self.updates)
            optimizer = AdamOptimizer(rate)
            if synchronous:
                self.replicas: Any = SyncReplicas(optimizer, count, aggregate=self.aggregate)
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

    def feeds(self, seed: int) -> list[Iterator[Any]]:
        """Return for each replica batches of all digits, in an order of its own, without end."""
        return [self._batches(k, np.random.default_rng([seed, k])) for k in range(self.count)]

    def _batches(self, k: int, random: np.random.Generator) -> Iterator[Any]:
        images, labels = self.fed[k]
        shown = digits()
        while True:
            order = random.permutation(len(shown.labels))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                chosen = order[start : start + BATCH]
                yield {images: shown.images[chosen], labels: shown.labels[chosen]}


RATE = 2e-3
RATES = {"one device": 1.0, "asynchronous": 1.0, "synchronous": 2.0, "one backup": 2.0}


@cache
def digits() -> Any:
    """Return scikit-learn's digits."""
    from examples.digits_convnet import load_digits

    return load_digits()


async def virtual(case: Case) -> Training:
    """Train in virtual time, on a loop of asyncio's own."""
    import tagflow as tg
    from tagflow.streams import Exponential, LatencyDevice, Lognormal, Mixture, Sum, VirtualClock

    program, found = Program(case), Training()
    usual = Lognormal(1.0, 0.1)
    work = {WORK: Mixture(usual, Sum((usual, Exponential(4.0))), 0.1)}
    async with VirtualClock() as clock, AsyncExitStack() as stack:
        devices = [LatencyDevice("/cpu:0", clock=clock)]
        for k in range(program.count):
            devices.append(LatencyDevice(f"/cpu:{k + 1}", seconds=work, clock=clock, seed=case["seed"]))
        for each in devices:
            await stack.enter_async_context(each)
        session = await stack.enter_async_context(tg.Session(program.graph, devices=devices))
        await session.run(program.initialize)
        async with tg.runners(session, clock=clock) as group:
            program.replicas.start(
                group,
                steps=program.updates,
                feeds=program.feeds(case["seed"]),
                fetches=program.losses,
                on_step=lambda k, loss: found.losses.append((clock.now(), float(loss))),
            )
        found.seconds = clock.now()
        read = await session.run(program.read, {program.images: digits().held_out_images})
        found.wrong = 100 * float(np.mean(read != digits().held_out_labels))
    return found
