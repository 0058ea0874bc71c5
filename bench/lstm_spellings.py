"""One training step of recurrent cells as newcomers write them: eight spellings of one LSTM should all be as fast.

Beside them a GRU and an LSTM with layer normalization, and each of all with a batch of unknown size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed
from .recurrent_cells import SPELLINGS, Operations, Spelling, feeds, problem, spelling

Source = Callable[[Any], list[Any]]


def compared(case: Case) -> Callable[[list[Any]], list[np.ndarray]]:
    """Return what lays the gradients of a step's values out as the cell does, whatever its spelling."""
    restore = spelling(case).layout.restore
    return lambda values: [values[0], *restore([np.asarray(v) for v in values[1:]])]


def tagloom_operations(tg: Any) -> Operations:
    """Return the operations of a cell in tagloom."""

    def normalized(x: Any, gain: Any, shift: Any) -> Any:
        mean, variance = tg.moments(x, [1], keepdims=True)
        return (x - mean) * tg.rsqrt(variance + 1e-5) * gain + shift

    return Operations(
        sigmoid=tg.sigmoid,
        tanh=tg.tanh,
        concat=lambda parts: tg.concat(parts, 1),
        split=lambda z, n: tg.split(z, n, axis=1),
        times_transposed=lambda a, w: tg.matmul(a, w, transpose_b=True),
        normalized=normalized,
    )


def tagloom_source(tg: Any, kind: str, inputs: list[Any], length: int, vectors: np.ndarray) -> Source:
    """Return what gives the input of a step, as the spelling has it."""
    x = inputs[0]
    if kind == "slice":
        return lambda t: [x[t]]
    if kind == "embedding":
        table = tg.Variable(vectors, trainable=False)
        return lambda t: [tg.gather(table, x[t])]
    rows = tg.TensorArray("float32", length).unstack(x)
    return lambda t: [rows.read(t), *inputs[1:]]


def tagloom_loop(tg: Any, spelled: Spelling, source: Source, weights: list[Any], start: list[Any], length: int) -> Any:
    """Run a cell in a dynamic loop; return the stacked outputs."""
    ops = tagloom_operations(tg)

    def body(t: Any, result: Any, *state: Any) -> tuple[Any, ...]:
        state = spelled.step(ops, weights, source(t), state)
        return t + 1, result.write(t, state[0]), *state

    variables = [0, tg.TensorArray("float32", length), *start]
    return tg.while_loop(lambda t, *_: t < length, body, variables, parallel_iterations=32)[1].stack()


def training(tg: Any, case: Case) -> tuple[Any, Any, list[Any], list[Any]]:
    """Build a tagloom graph that trains a cell; return it, its initializer, feeds and fetches."""
    given, spelled, length = problem(case), spelling(case), case["length"]
    with tg.Graph().as_default() as graph:
        fed = [placeholder(tg, case, *each) for each in feeds(case, given)]
        weights = [tg.Variable(v) for v in spelled.layout.arrange(given.weights)]
        source = tagloom_source(tg, spelled.source, fed[:-1], length, given.vectors)
        batch = case["batch"] if case["batch_kind"] == "static" else tg.shape(fed[-1])[1]
        start = [tg.zeros([batch, case["units"]])] * spelled.states
        outputs = tagloom_loop(tg, spelled, source, weights, start, length)
        loss = tg.reduce_mean(tg.square(outputs - fed[-1]))
        fetches = [loss, *tg.gradients(loss, weights)]
        return graph, tg.global_variables_initializer(), fed, fetches


def placeholder(tg: Any, case: Case, values: np.ndarray, batch_axis: int) -> Any:
    """Return a placeholder of an array, whose batch is unknown where the case says so."""
    shape: list[int | None] = list(values.shape)
    if case["batch_kind"] == "none":
        shape[batch_axis] = None
    return tg.placeholder(values.dtype.name, shape)


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Train with tagloom."""
    import tagloom as tg

    graph, initialize, fed, fetches = training(tg, case)
    session = await stack.enter_async_context(tg.Session(graph))
    await session.run(initialize)
    step = session.make_step(fetches, fed)
    values = [values for values, _ in feeds(case, problem(case))]
    if case["batch_kind"] == "none":
        await step(*values)  # when these shapes come for the second time, the step is compiled for them
    return Observed(lambda: step(*values), compared=compared(case))


def torch_operations(torch: Any) -> Operations:
    """Return the operations of a cell in PyTorch."""
    functional = torch.nn.functional
    return Operations(
        sigmoid=torch.sigmoid,
        tanh=torch.tanh,
        concat=lambda parts: torch.cat(parts, 1),
        split=lambda z, n: z.chunk(n, 1),
        times_transposed=functional.linear,
        normalized=lambda x, gain, shift: functional.layer_norm(x, gain.shape, gain, shift, 1e-5),
    )


def torch_source(torch: Any, kind: str, inputs: list[Any], vectors: Any) -> Source:
    """Return what gives the input of a step, as the spelling has it."""
    x = inputs[0]
    if kind == "slice":
        return lambda t: [x[t]]
    if kind == "embedding":
        return lambda t: [torch.nn.functional.embedding(x[t], vectors)]
    rows = x.unbind()
    return lambda t: [rows[t], *inputs[1:]]


def torch(case: Case, stack: AsyncExitStack) -> Observed:
    """Train with PyTorch: a Python loop and autograd."""
    import torch

    given, spelled, ops = problem(case), spelling(case), torch_operations(torch)
    weights = [torch.from_numpy(v).requires_grad_() for v in spelled.layout.arrange(given.weights)]
    vectors, fed = torch.from_numpy(given.vectors), [values for values, _ in feeds(case, given)]

    def step() -> list[np.ndarray]:
        *inputs, targets = (torch.from_numpy(v) for v in fed)
        source = torch_source(torch, spelled.source, inputs, vectors)
        state, outputs = [torch.zeros(case["batch"], case["units"])] * spelled.states, []
        for t in range(case["length"]):
            state = spelled.step(ops, weights, source(t), state)
            outputs.append(state[0])
        loss = (torch.stack(outputs) - targets).square().mean()
        return [v.detach().numpy() for v in (loss, *torch.autograd.grad(loss, weights))]

    return Observed(step, compared=compared(case))


def jax_operations(jax: Any) -> Operations:
    """Return the operations of a cell in JAX."""
    jnp = jax.numpy

    def normalized(x: Any, gain: Any, shift: Any) -> Any:
        mean, variance = jnp.mean(x, 1, keepdims=True), jnp.var(x, 1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + shift

    return Operations(
        sigmoid=jax.nn.sigmoid,
        tanh=jnp.tanh,
        concat=lambda parts: jnp.concatenate(parts, 1),
        split=lambda z, n: jnp.split(z, n, axis=1),
        times_transposed=lambda a, w: a @ w.T,
        normalized=normalized,
    )


def jax_source(jax: Any, kind: str, inputs: list[Any], length: int, vectors: Any) -> tuple[Any, Source]:
    """Return what a scan goes through, and what makes the input of a step of an element of that."""
    x = inputs[0]
    if kind == "slice":
        return jax.numpy.arange(length), lambda t: [x[t]]
    if kind == "embedding":
        return x, lambda words: [vectors[words]]
    return x, lambda row: [row, *inputs[1:]]


def jax(case: Case, stack: AsyncExitStack) -> Observed:
    """Train with JAX: a compiled scan."""
    import jax

    given, spelled, ops = problem(case), spelling(case), jax_operations(jax)
    fed = [values for values, _ in feeds(case, given)]

    def loss(weights: Any, vectors: Any, *fed: Any) -> Any:
        *inputs, targets = fed
        elements, source = jax_source(jax, spelled.source, inputs, case["length"], vectors)

        def body(state: Any, element: Any) -> Any:
            state = tuple(spelled.step(ops, weights, source(element), state))
            return state, state[0]

        start = (jax.numpy.zeros((case["batch"], case["units"])),) * spelled.states
        _, outputs = jax.lax.scan(body, start, elements)
        return jax.numpy.mean(jax.numpy.square(outputs - targets))

    compiled = jax.jit(jax.value_and_grad(loss))
    weights, vectors = jax.device_put((spelled.layout.arrange(given.weights), given.vectors))

    def step() -> list[np.ndarray]:
        value, gradients = compiled(weights, vectors, *fed)
        return [np.asarray(v) for v in (value, *gradients)]

    return Observed(step, compared=compared(case))


def sides(medians: Sequence[tuple[Case, float]]) -> Iterator[tuple[Case, str, float]]:
    """Yield each spelling of the LSTM beside the best of them, and each unknown batch beside the static one."""
    for case, rate in medians:
        if case["cell"] == "lstm":
            rivals = [other for twin, other in medians if {**twin, "spelling": case["spelling"]} == case]
            yield case, "best_spelling", rate / max(rivals)
        if case["batch_kind"] == "none":
            (static,) = [other for twin, other in medians if twin == {**case, "batch_kind": "static"}]
            yield case, "static", rate / static


def cases(*sizes: tuple[int, int, int]) -> tuple[Case, ...]:
    """Return all spellings, with a batch of either kind, for each batch, units and length."""
    return tuple(
        {"cell": cell, "spelling": name, "batch_kind": kind, "batch": batch, "units": units, "length": length}
        for batch, units, length in sizes
        for cell, name in SPELLINGS
        for kind in ("static", "none")  # one right after the other, as they are compared
    )


EXPERIMENT = Experiment(
    name="lstm_spellings",
    cases=cases((16, 128, 200), (64, 512, 50)),
    engines={"tagloom": tagloom, "jax": jax, "torch": torch},
    metric="steps_per_second",
    tolerance=2e-4,
    together=("cell", "spelling", "batch_kind"),
    same_values=("spelling", "batch_kind"),
    peer_case=lambda case: {**case, "batch_kind": "static"},  # no peer has programs for batches of unknown size
    sides=sides,
    quick_seconds=200.0,  # forty cases: with fewer rounds, the best of eight would be the luckiest
)
