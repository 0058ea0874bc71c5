"""One training step of an LSTM over sequences of unequal lengths: ``dynamic_rnn`` beside packed sequences."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Observed, Step


@dataclass(frozen=True)
class Problem:
    """The same numbers for every engine, all but the lengths float32.

    Attributes
    ----------
    inputs : array of shape (batch, length, depth)
    lengths : array of int32 of shape (batch,)
        Uniform in 1..length.
    targets : array of shape (batch, length, units)
        Zero behind the end of each sequence.
    kernel : array of shape (depth + units, 4 * units)
        Maps the joined input and state to the four gates: input, candidate, forget, output.
    bias : array of shape (4 * units,)
    """

    inputs: np.ndarray
    lengths: np.ndarray
    targets: np.ndarray
    kernel: np.ndarray
    bias: np.ndarray


def problem(case: Case) -> Problem:
    """Draw the numbers of a case."""
    batch, depth, units, length = (case[key] for key in ("batch", "depth", "units", "length"))
    random = np.random.default_rng(0)
    inputs = random.standard_normal((batch, length, depth), np.float32)
    targets = random.standard_normal((batch, length, units), np.float32)
    lengths = random.integers(1, length + 1, batch).astype(np.int32)
    targets *= (np.arange(length) < lengths[:, None])[..., None]
    kernel = random.standard_normal((depth + units, 4 * units), np.float32) / np.float32(np.sqrt(depth + units))
    return Problem(inputs, lengths, targets, kernel, random.standard_normal(4 * units, np.float32) / np.float32(10))


def training(tg: Any, case: Case) -> tuple[Any, Any, list[Any], list[Any]]:
    """Build a tagloom graph that trains an LSTM; return it, its initializer, feeds and fetches."""
    given = problem(case)
    with tg.Graph().as_default() as graph:
        feeds = [tg.placeholder(v.dtype.name, v.shape) for v in (given.inputs, given.lengths, given.targets)]
        cell = tg.nn.LSTMCell(case["units"], initializer=lambda sizes, dtype: given.kernel, forget_bias=0.0)
        outputs, _ = tg.nn.dynamic_rnn(cell, feeds[0], feeds[1])
        loss = tg.reduce_mean(tg.square(outputs - feeds[2]))
        fetches = [loss, *tg.gradients(loss, [cell.kernel, cell.bias])]
        return graph, [tg.global_variables_initializer(), cell.bias.assign(given.bias)], feeds, fetches


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Train with tagloom."""
    import tagloom as tg

    given = problem(case)
    graph, initialize, feeds, fetches = training(tg, case)
    session = await stack.enter_async_context(tg.Session(graph))
    for each in initialize:
        await session.run(each)
    step = session.make_step(fetches, feeds)
    return lambda: step(given.inputs, given.lengths, given.targets)


def torch(case: Case, stack: AsyncExitStack) -> Observed:
    """Train with PyTorch's own LSTM over packed sequences; its weights are those of the problem."""
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    given, depth, units = problem(case), case["depth"], case["units"]
    lstm = torch.nn.LSTM(depth, units, batch_first=True)
    order = np.concatenate([np.arange(units) + units * gate for gate in (0, 2, 1, 3)])  # its gates: i, f, candidate, o
    kernel, bias = (torch.from_numpy(np.ascontiguousarray(v.T[order])) for v in (given.kernel, given.bias))
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(kernel[:, :depth])
        lstm.weight_hh_l0.copy_(kernel[:, depth:])
        lstm.bias_ih_l0.copy_(bias)
        lstm.bias_hh_l0.zero_()
    inputs, lengths, targets = map(torch.from_numpy, (given.inputs, given.lengths.astype(np.int64), given.targets))
    weights = [lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0]
    back = np.argsort(order)

    def step() -> list[np.ndarray]:
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=case["length"])
        loss = (outputs - targets).square().mean()
        return [v.detach().numpy() for v in (loss, *torch.autograd.grad(loss, weights))]

    def as_ours(values: list[np.ndarray]) -> list[np.ndarray]:
        loss, dx, dh, db = values
        return [loss, np.concatenate([dx, dh], 1)[back].T, db[back]]

    return Observed(step, compared=as_ours)


EXPERIMENT = Experiment(
    name="rnn",
    cases=(
        {"batch": 64, "depth": 128, "units": 256, "length": 100},
        {"batch": 64, "depth": 64, "units": 64, "length": 100},
    ),
    engines={"tagloom": tagloom, "torch": torch},
    metric="steps_per_second",
    tolerance=2e-4,
)
