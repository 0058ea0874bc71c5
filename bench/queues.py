"""One FIFO queue between two concurrent steps: one loop puts numbers in, the other takes them out and adds them up."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

CAPACITY = 256


def program(ops: Any, case: Case) -> tuple[Any, Any]:
    """Build both loops; return the last number of one and the sum of the other."""
    batch, times = case["batch"], case["elements"] // case["batch"]
    queue = ops.FIFOQueue(CAPACITY, "int32", shapes=[[]])
    numbers = np.arange(batch, dtype=np.int32)

    def put(i: Any) -> Any:
        done = queue.enqueue(i) if batch == 1 else queue.enqueue_many(ops.constant(numbers))
        with ops.control_dependencies([done]):
            return i + 1

    def take(i: Any, total: Any) -> Any:
        return i + 1, total + (queue.dequeue() if batch == 1 else ops.reduce_sum(queue.dequeue_many(batch)))

    putting = ops.while_loop(lambda i: i < times, put, [0], back_prop=False)
    taking = ops.while_loop(lambda i, total: i < times, take, [0, 0], back_prop=False)
    return putting, taking[1]


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Await both steps of one session at once."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        fetches = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph))
    steps = [session.make_step([fetch], feeds=[]) for fetch in fetches]

    async def step() -> list[np.ndarray]:
        return [value for (value,) in await asyncio.gather(*(each() for each in steps))]

    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Run both steps of one session from a thread each, as TensorFlow's queue runners do."""
    tf1, session = graph_session(stack)
    with session.graph.as_default():
        fetches = program(tf1, case)
    steps = [session.make_callable([fetch]) for fetch in fetches]
    threads = stack.enter_context(ThreadPoolExecutor(2))

    def step() -> list[np.ndarray]:
        return [future.result()[0] for future in [threads.submit(each) for each in steps]]

    return step


EXPERIMENT = Experiment(
    name="queues",
    cases=({"batch": 1, "elements": 10_000}, {"batch": 64, "elements": 64_000}),
    engines={"tagloom": tagloom, "tf": tf},
    metric="elements_per_second",
    amount=lambda case: float(case["elements"]),
)
