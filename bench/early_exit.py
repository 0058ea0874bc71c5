"""A recurrent loop that may read 500 rows and stops after 3, beside the same loop over an array of 3 rows.

What does not depend on earlier iterations is done for many at once, but only for iterations that may come.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment

BATCH, UNITS, STEPS = 64, 512, 3


async def tagloom(case: Case, stack: AsyncExitStack) -> Any:
    """Build the loop, whose end depends on what it computes, with gradients for its weights if the case says so."""
    import tagloom as tg

    random = np.random.default_rng(0)
    kernel = random.standard_normal((2 * UNITS, 4 * UNITS), np.float32) / np.float32(np.sqrt(2 * UNITS))
    inputs = random.standard_normal((case["rows"], BATCH, UNITS), np.float32)
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", inputs.shape)
        w = tg.Variable(kernel)
        rows = tg.TensorArray("float32", case["rows"]).unstack(x)

        def going_on(t: Any, h: Any, budget: Any) -> Any:
            return tg.logical_and(t < case["rows"], budget > 0.0)

        def body(t: Any, h: Any, budget: Any) -> tuple[Any, ...]:
            i, j, f, o = tg.split(tg.concat([rows.read(t), h], 1) @ w, 4, axis=1)
            h = tg.sigmoid(f) * h + tg.sigmoid(i) * tg.tanh(j) * tg.sigmoid(o)
            return t + 1, h, budget - tg.maximum(1.0, 0.0 * tg.reduce_max(h))

        start = [0, tg.zeros([BATCH, UNITS]), float(STEPS)]
        count, h, _ = tg.while_loop(going_on, body, start)
        loss = tg.reduce_mean(tg.square(h))
        fetches = [count, loss, *(tg.gradients(loss, [w]) if case["gradient"] else [])]
        initialize = tg.global_variables_initializer()
    session = await stack.enter_async_context(tg.Session(graph))
    await session.run(initialize)
    step = session.make_step(fetches, [x])
    return lambda: step(inputs)


EXPERIMENT = Experiment(
    name="early_exit",
    cases=tuple({"gradient": gradient, "rows": rows} for gradient in (False, True) for rows in (STEPS, 500)),
    engines={"tagloom": tagloom},
    metric="steps_per_second",
    together=("rows",),
    same_values=("rows",),
    sides=lambda medians: [(case, "three_rows", rate / medians[0][1]) for case, rate in medians[1:]],
)
