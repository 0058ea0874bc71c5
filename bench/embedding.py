"""A training step on 32 rows of a small and of a large table: work that grows with the rows, not with the table.

Adam moves only the rows that were looked up, and their moments ("lazily"); it is written here with gathers and scatter
updates, in the same words for both engines, as TensorFlow 1's own goes through all moments in each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import cycle
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

WIDTH, BATCH, BATCHES = 32, 32, 64
BETA1, BETA2, RATE = 0.9, 0.999, 0.1
SMALL, MEDIUM, LARGE = 10**5, 10**6, 10**7


def batches(case: Case) -> np.ndarray:
    """Return row numbers, [BATCHES, BATCH], different within a batch."""
    random = np.random.default_rng(0)
    drawn = (np.unique(random.integers(0, case["rows"], 2 * BATCH)) for _ in range(BATCHES))
    return np.stack([random.permutation(each)[:BATCH] for each in drawn])


def program(ops: Any, optimizer: Any, case: Case) -> tuple[Any, list[Any]]:
    """Build the step with the interface that TensorFlow 1 and tagloom share; return its feed and its fetches."""
    target = np.random.default_rng(1).standard_normal((BATCH, WIDTH)).astype(np.float32)
    ids = ops.placeholder("int64", [BATCH])
    table = variable(ops, case)
    rows = ops.gather(table, ids)
    loss = ops.reduce_mean(ops.square(rows - target))
    if case["optimizer"] == "sgd":
        return ids, [loss, optimizer(RATE).minimize(loss)]
    (gradient,) = ops.gradients(loss, [table])
    return ids, [loss, adam(ops, case, table, rows, gradient)]


def variable(ops: Any, case: Case, value: float = 0.0) -> Any:
    """Return a table, all of one value."""
    return ops.Variable(ops.fill([case["rows"], WIDTH], np.float32(value)))


def adam(ops: Any, case: Case, table: Any, rows: Any, gradient: Any) -> Any:
    """Return what moves the rows of a gradient, and their moments."""
    ids, slope = gradient.indices, gradient.values
    first, second, count = variable(ops, case), variable(ops, case), ops.Variable(np.float32(0))
    time = count.assign_add(1.0)
    rate = RATE * ops.sqrt(1.0 - ops.pow(BETA2, time)) / (1.0 - ops.pow(BETA1, time))
    mean = BETA1 * ops.gather(first, ids) + (1.0 - BETA1) * slope
    square = BETA2 * ops.gather(second, ids) + (1.0 - BETA2) * ops.square(slope)
    moved = rows - rate * mean / (ops.sqrt(square) + 1e-8)
    updates = [(first, mean), (second, square), (table, moved)]
    return ops.group(*(var.scatter_update(ops.IndexedSlices(values, ids)) for var, values in updates))


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Train with tagloom; each batch has been seen once."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        ids, fetches = program(tg, tg.training.GradientDescentOptimizer, case)
        initialize = tg.global_variables_initializer()
    session = await stack.enter_async_context(tg.Session(graph))
    await session.run(initialize)
    step, drawn = session.make_step(fetches, [ids]), batches(case)
    for batch in drawn:
        await step(batch)
    again = cycle(drawn)

    async def run() -> list[Any]:
        return (await step(next(again)))[:1]  # type: ignore[no-any-return]

    return run


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Train with TensorFlow."""
    tf1, session = graph_session(stack)
    with session.graph.as_default():
        ids, fetches = program(tf1, tf1.train.GradientDescentOptimizer, case)
        session.run(tf1.global_variables_initializer())
    step, drawn = session.make_callable(fetches, feed_list=[ids]), batches(case)
    for batch in drawn:
        step(batch)
    again = cycle(drawn)
    return lambda: step(next(again))[:1]


def sizes(medians: Sequence[tuple[Case, float]]) -> Iterator[tuple[Case, str, float]]:
    """Yield how many times as fast as with the smallest table a step is with each other one: 1 where it is the same."""
    (small, least), *others = medians
    yield from ((case, f"rows_{small['rows']}", least / median) for case, median in others)


def cases(*rows: int) -> tuple[Case, ...]:
    """Return the cases of some sizes of tables."""
    return tuple({"optimizer": each, "rows": count} for each in ("sgd", "adam") for count in rows)


EXPERIMENT = Experiment(
    name="embedding",
    cases=cases(SMALL, LARGE),
    quick_cases=cases(SMALL, MEDIUM),
    engines={"tagloom": tagloom, "tf": tf},
    metric="microseconds",
    time_unit=1e6,
    tolerance=1e-5,
    together=("rows",),
    sides=sizes,
)
