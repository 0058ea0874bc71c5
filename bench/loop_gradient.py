"""Forward and gradient of a loop of small matrix products."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .on_cuda import loop_on_cuda
from .tensorflow_session import graph_session

# Dense and orthogonal, with entries of one half: values neither grow nor round.
MATRIX = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], np.float32) / 2
START = np.arange(16, dtype=np.float32).reshape(4, 4)
WEIGHTS = np.arange(16, 0, -1, dtype=np.float32).reshape(4, 4)


def program(ops: Any, case: Case) -> tuple[list[Any], list[Any]]:
    """Build loss and gradients with the interface that TensorFlow 1 and tagloom share; return feeds and fetches."""
    feeds = [start, w] = [ops.placeholder("float32", [4, 4]) for _ in range(2)]
    result = ops.while_loop(lambda i, a: i < case["iterations"], lambda i, a: (i + 1, ops.matmul(a, w)), [0, start])[1]
    loss = ops.reduce_sum(result * WEIGHTS)
    return feeds, [loss, *ops.gradients(loss, feeds)]


async def tagloom(case: Case, stack: AsyncExitStack, **options: Any) -> Step:
    """Differentiate a tagloom loop."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        feeds, fetches = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph, **options))
    step = session.make_step(fetches, feeds)
    return lambda: step(START, MATRIX)


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Differentiate a TensorFlow 1 loop, on one inter-op thread: its fastest way to run a chain."""
    tf1, session = graph_session(stack, inter_op_threads=1)
    with session.graph.as_default():
        feeds, fetches = program(tf1, case)
    step = session.make_callable(fetches, feed_list=feeds)
    return lambda: step(START, MATRIX)


def torch(case: Case, stack: AsyncExitStack, device: str = "cpu") -> Step:
    """Differentiate a Python loop over eager PyTorch."""
    import torch

    weights = torch.from_numpy(WEIGHTS).to(device)
    leaves = [torch.from_numpy(v).to(device).requires_grad_() for v in (START, MATRIX)]

    def step() -> list[np.ndarray]:
        a, w = leaves
        for _ in range(case["iterations"]):
            a = a @ w
        loss = (a * weights).sum()
        return [v.detach().cpu().numpy() for v in (loss, *torch.autograd.grad(loss, leaves))]

    return step


def jax(case: Case, stack: AsyncExitStack) -> Step:
    """Differentiate a compiled JAX scan."""
    import jax

    def loss(start: Any, w: Any) -> Any:
        result, _ = jax.lax.scan(lambda a, _: (a @ w, None), start, length=case["iterations"])
        return (result * WEIGHTS).sum()

    compiled = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))

    def step() -> list[np.ndarray]:
        value, gradients = compiled(START, MATRIX)
        return [np.asarray(v) for v in (value, *gradients)]

    return step


EXPERIMENT = Experiment(
    name="loop_gradient",
    cases=({"iterations": 2_000},),
    engines={"tagloom": tagloom, "tf": tf, "jax": jax, "torch": torch},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"]),
    devices={"cuda": loop_on_cuda},
)
