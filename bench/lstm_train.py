"""One training step of an LSTM written by hand: forward through a dynamic loop, then gradients of its weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .on_cuda import loop_on_cuda
from .tensorflow_session import graph_session


@dataclass(frozen=True)
class Problem:
    """The same numbers for every engine, all float32.

    Attributes
    ----------
    inputs, targets : arrays of shape (length, batch, units)
    kernel : array of shape (2 * units, 4 * units)
        Maps the joined input and state to the four gates: input, candidate, forget, output.
    bias : array of shape (4 * units,)
    state : array of shape (batch, units)
        Zeros, both for the hidden and the cell state.
    """

    inputs: np.ndarray
    targets: np.ndarray
    kernel: np.ndarray
    bias: np.ndarray
    state: np.ndarray


def problem(case: Case) -> Problem:
    """Draw the numbers of a case."""
    batch, units, length = case["batch"], case["units"], case["length"]
    random = np.random.default_rng(0)
    inputs, targets = random.standard_normal((2, length, batch, units), np.float32)
    kernel = random.standard_normal((2 * units, 4 * units), np.float32) / np.float32(np.sqrt(2 * units))
    bias = random.standard_normal(4 * units, np.float32) / np.float32(10)
    return Problem(inputs, targets, kernel, bias, np.zeros((batch, units), np.float32))


def cell(ops: Any, gates: list[Any], c: Any) -> tuple[Any, Any]:
    """Return the next hidden and cell state; `ops` has sigmoid and tanh."""
    i, j, f, o = gates
    c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(j)
    return ops.sigmoid(o) * ops.tanh(c), c


def dynamic_loop(ops: Any, concat: Callable[[list[Any]], Any], given: Problem, x: Any, w: Any, b: Any) -> Any:
    """Run the loop with the graph interface that TensorFlow 1 and tagloom share; return the stacked outputs."""
    length = len(given.inputs)
    source = ops.TensorArray("float32", length).unstack(x)
    result = ops.TensorArray("float32", length)

    def body(t: Any, h: Any, c: Any, result: Any) -> tuple[Any, ...]:
        z = ops.matmul(concat([source.read(t), h]), w) + b
        h, c = cell(ops, ops.split(z, 4, axis=1), c)
        return t + 1, h, c, result.write(t, h)

    start = [0, ops.constant(given.state), ops.constant(given.state), result]
    return ops.while_loop(lambda t, *_: t < length, body, start, parallel_iterations=32)[3].stack()


def training(tg: Any, given: Problem, loop: Callable[..., Any]) -> tuple[Any, Any, list[Any], list[Any]]:
    """Build a tagloom graph that trains the outputs of `loop`; return it, its initializer, feeds and fetches."""
    with tg.Graph().as_default() as graph:
        feeds = x, y = [tg.placeholder("float32", given.inputs.shape) for _ in range(2)]
        w, b = tg.Variable(given.kernel), tg.Variable(given.bias)
        outputs = loop(tg, lambda parts: tg.concat(parts, 1), given, x, w, b)
        loss = tg.reduce_mean(tg.square(outputs - y))
        fetches = [loss, *tg.gradients(loss, [w, b])]
        return graph, tg.global_variables_initializer(), feeds, fetches


async def tagloom(case: Case, stack: AsyncExitStack, **options: Any) -> Step:
    """Train with tagloom."""
    import tagloom as tg

    given = problem(case)
    graph, initialize, feeds, fetches = training(tg, given, dynamic_loop)
    session = await stack.enter_async_context(tg.Session(graph, **options))
    await session.run(initialize)
    step = session.make_step(fetches, feeds)
    return lambda: step(given.inputs, given.targets)


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Train with TensorFlow 1's loop and gradients, on all cores."""
    given = problem(case)
    tf1, session = graph_session(stack)
    with session.graph.as_default():
        x, y = (tf1.placeholder("float32", given.inputs.shape) for _ in range(2))
        w, b = tf1.Variable(given.kernel), tf1.Variable(given.bias)
        outputs = dynamic_loop(tf1, lambda parts: tf1.concat(parts, 1), given, x, w, b)
        loss = tf1.reduce_mean(tf1.square(outputs - y))
        fetches = [loss, *tf1.gradients(loss, [w, b])]
        session.run(tf1.global_variables_initializer())
    step = session.make_callable(fetches, feed_list=[x, y])
    return lambda: step(given.inputs, given.targets)


def torch(case: Case, stack: AsyncExitStack, device: str = "cpu") -> Step:
    """Train with PyTorch: a Python loop and autograd."""
    import torch

    given = problem(case)
    w, b = (torch.from_numpy(v).to(device).requires_grad_() for v in (given.kernel, given.bias))
    state = torch.from_numpy(given.state).to(device)

    def step() -> list[np.ndarray]:
        h, c, outputs = state, state, []
        for x in torch.from_numpy(given.inputs).to(device):
            z = torch.cat([x, h], 1) @ w + b
            h, c = cell(torch, z.chunk(4, 1), c)
            outputs.append(h)
        loss = (torch.stack(outputs) - torch.from_numpy(given.targets).to(device)).square().mean()
        return [v.detach().cpu().numpy() for v in (loss, *torch.autograd.grad(loss, [w, b]))]

    return step


def torch_fused(case: Case, stack: AsyncExitStack, device: str = "cpu") -> Step:
    """Train with PyTorch's own LSTM, whose time steps are one operation; its weights are those of the problem."""
    import torch

    given, units = problem(case), case["units"]
    torch.backends.cudnn.allow_tf32 = False  # cuDNN would, on a GPU
    lstm = torch.nn.LSTM(units, units)
    order = np.concatenate([np.arange(units) + units * gate for gate in (0, 2, 1, 3)])  # its gates: i, f, candidate, o
    kernel, bias = (torch.from_numpy(np.ascontiguousarray(v.T[order])) for v in (given.kernel, given.bias))
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(kernel[:, :units])
        lstm.weight_hh_l0.copy_(kernel[:, units:])
        lstm.bias_ih_l0.copy_(bias)
        lstm.bias_hh_l0.zero_()
    lstm.to(device)
    weights = [lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0]
    back = np.argsort(order)

    def step() -> list[np.ndarray]:
        inputs, targets = (torch.from_numpy(v).to(device) for v in (given.inputs, given.targets))
        loss = (lstm(inputs)[0] - targets).square().mean()
        dx, dh, db = torch.autograd.grad(loss, weights)
        dw = torch.cat([dx, dh], 1)[back].T.contiguous()
        return [v.detach().cpu().numpy() for v in (loss, dw, db[back])]

    return step


def jax(case: Case, stack: AsyncExitStack) -> Step:
    """Train with JAX: a compiled scan."""
    import jax
    import jax.numpy as jnp

    given = problem(case)
    ops = jax.nn

    def loss(weights: Any, inputs: Any, targets: Any) -> Any:
        w, b = weights

        def body(carry: Any, x: Any) -> Any:
            z = jnp.concatenate([x, carry[0]], 1) @ w + b
            h, c = cell(ops, jnp.split(z, 4, axis=1), carry[1])
            return (h, c), h

        _, outputs = jax.lax.scan(body, (given.state, given.state), inputs)
        return jnp.mean(jnp.square(outputs - targets))

    compiled = jax.jit(jax.value_and_grad(loss))
    weights = jax.device_put((given.kernel, given.bias))

    def step() -> list[np.ndarray]:
        value, gradients = compiled(weights, given.inputs, given.targets)
        return [np.asarray(v) for v in (value, *gradients)]

    return step


EXPERIMENT = Experiment(
    name="lstm_train",
    cases=(
        {"batch": 64, "units": 512, "length": 100},
        {"batch": 16, "units": 128, "length": 200},
        {"batch": 4, "units": 32, "length": 500},
    ),
    engines={"tagloom": tagloom, "tf": tf, "jax": jax, "torch": torch, "torch_fused": torch_fused},
    metric="steps_per_second",
    tolerance=2e-4,
    devices={"cuda": loop_on_cuda},
)
