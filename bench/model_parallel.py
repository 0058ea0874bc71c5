"""Model parallelism (Yu et al., 2018, Figure 15): an LSTM of eight layers on one to eight devices, with its gradient.

One loop over time is cut between the layers. A layer's cell, and its gradient, take 5 ms each on a device that computes
nothing else; the first device has as many layers as the last.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed
from .lstm_train import cell
from .parallel_iterations import LIMITER, OVER_IDEAL, SECONDS, devices, observed

LAYERS = 8
BATCH, UNITS = 4, 16


def program(tg: Any, case: Case) -> tuple[Any, list[Any]]:
    """Build the model on the case's devices; return its input and what is fetched."""
    random = np.random.default_rng(0)
    x = tg.placeholder("float32", [case["length"], BATCH, UNITS])
    places = [f"/cpu:{layer * case['devices'] // LAYERS}" for layer in range(LAYERS)]
    weights = [random.standard_normal((2 * UNITS, 4 * UNITS), np.float32) / np.float32(6) for _ in range(LAYERS)]
    given = [tg.placeholder_with_default(each, each.shape) for each in weights]

    def layer(number: int, below: Any, h: Any, c: Any) -> tuple[Any, Any]:
        with tg.device(places[number]):
            gates = tg.split(tg.matmul(tg.concat([below, h], 1), given[number]), 4, axis=1)
            return cell(tg, gates, c)

    inputs = tg.TensorArray("float32", case["length"]).unstack(x)

    def body(t: Any, states: Any, total: Any) -> tuple[Any, ...]:
        below, after = inputs.read(t), []
        for number, (h, c) in enumerate(states):
            below, c = layer(number, below, h, c)
            after.append((below, c))
        with tg.device(places[-1]):
            return t + 1, after, total + tg.reduce_sum(below)

    zeros = np.zeros((BATCH, UNITS), np.float32)
    start = [0, [(zeros, zeros)] * LAYERS, 0.0]
    *_, total = tg.while_loop(lambda t, *_: t < case["length"], body, start)
    return x, [total, *tg.gradients(total, given)]


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Train on devices of one session."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        x, fetches = program(tg, case)
    made, clock = await devices(stack, case["devices"], {"Fused": SECONDS})
    session = await stack.enter_async_context(tg.Session(graph, devices=made, settings=tg.Settings(fuse=True)))
    values = np.random.default_rng(1).standard_normal((case["length"], BATCH, UNITS), np.float32)
    step = session.make_step(fetches, [x])
    return observed(lambda: step(values), session, clock, ideal(case))


def ideal(case: Case) -> float:
    """Return how long a step takes where nothing but the cells and their gradients takes time, in seconds."""
    each = LAYERS // case["devices"]
    return 2 * SECONDS * each * (case["length"] + case["devices"] - 1)


EXPERIMENT = Experiment(
    name="model_parallel",
    cases=tuple({"devices": count, "length": 50} for count in (1, 2, 4, 8)),
    engines={"tagloom": tagloom},
    metric="milliseconds",
    time_unit=1e3,
    figures=(OVER_IDEAL,),
    notes=(LIMITER,),
    baseline="one_device",
)
