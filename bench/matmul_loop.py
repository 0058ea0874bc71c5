"""A loop whose body is one small matrix product and a scaling."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .on_cuda import loop_on_cuda
from .tensorflow_session import graph_session

# Half of this is a shear, so that values stay small, are exact and count the iterations.
MATRIX = np.array([[2, 2], [0, 2]], np.float32)
START = np.array([[1, 0], [0.5, 0.25]], np.float32)


def program(ops: Any, case: Case) -> Any:
    """Build the loop with the graph interface that TensorFlow 1 and tagloom share."""
    w = ops.constant(MATRIX)
    return ops.while_loop(
        lambda i, a: i < case["iterations"],
        lambda i, a: (i + 1, ops.matmul(a, w) * 0.5),
        [0, ops.constant(START)],
        back_prop=False,
    )[1]


async def tagloom(case: Case, stack: AsyncExitStack, **options: Any) -> Step:
    """Multiply in a tagloom loop."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        result = program(tg, case)
    session = await stack.enter_async_context(tg.Session(graph, **options))
    step: Step = session.make_step([result], feeds=[])
    return step


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Multiply in a TensorFlow 1 loop, on one inter-op thread: its fastest way to run a chain."""
    tf1, session = graph_session(stack, inter_op_threads=1)
    with session.graph.as_default():
        result = program(tf1, case)
    step: Step = session.make_callable([result])
    return step


def torch(case: Case, stack: AsyncExitStack, device: str = "cpu") -> Step:
    """Multiply in a Python loop over eager PyTorch, without its bookkeeping for gradients."""
    import torch

    w, start = (torch.from_numpy(v).to(device) for v in (MATRIX, START))

    @torch.inference_mode()
    def step() -> list[np.ndarray]:
        a = start
        for _ in range(case["iterations"]):
            a = a @ w * 0.5
        return [a.cpu().numpy()]

    return step


def jax(case: Case, stack: AsyncExitStack) -> Step:
    """Multiply in a compiled JAX loop, to which the matrices are given: XLA would compute with constants beforehand."""
    import jax

    def run(start: Any, w: Any) -> Any:
        below = lambda s: s[0] < case["iterations"]  # noqa: E731
        return jax.lax.while_loop(below, lambda s: (s[0] + 1, s[1] @ w * 0.5), (0, start))[1]

    compiled = jax.jit(run)
    return lambda: [np.asarray(compiled(START, MATRIX))]


EXPERIMENT = Experiment(
    name="matmul_loop",
    cases=({"iterations": 20_000},),
    engines={"tagloom": tagloom, "tf": tf, "jax": jax, "torch": torch},
    metric="iterations_per_second",
    amount=lambda case: float(case["iterations"]),
    devices={"cuda": loop_on_cuda},
)
