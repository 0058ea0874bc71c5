"""Probabilities of labels spread over more time steps, with blanks between them (Graves et al., 2006).

A row of labels a, b becomes the states (blank, a, blank, b, blank). A path stays in its state, goes to the next state,
or skips a blank between two different labels. All numbers are logarithms, computed for a batch and all states at once,
and jets, so that derivatives to any order come from the same recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.array_library import add_at
from ..support.jets import exponentiate_jet, hide_jet, log_sum_exp, make_jet
from ..support.literals import Array

_NEVER = -np.inf


@dataclass(frozen=True, slots=True)
class States:
    """The states of each row of a batch, padded to equal numbers.

    Attributes
    ----------
    classes : int array of shape [batch, states]
        The class read in each state.
    is_state : bool array of the same shape
        False for padding, after the last state of a row.
    may_skip : bool array of the same shape
        True if a path may come from two states before.
    is_last : bool array of the same shape
        True if a path may end in the state.
    """

    classes: Array
    is_state: Array
    may_skip: Array
    is_last: Array


def states_of(labels: Array, lengths: Array, blank: int) -> States:
    """Return the states of rows of labels, the first `lengths` of each."""
    batch, most = labels.shape
    numbers = np.arange(2 * most + 1)
    is_state = numbers <= 2 * lengths[:, None]
    classes = np.full((batch, 2 * most + 1), blank, np.intp)
    classes[:, 1::2] = labels
    classes[~is_state] = blank
    may_skip = np.zeros(classes.shape, np.bool_)
    # Only labels, the odd states, are reached by a skip; state 1 has no label before it.
    may_skip[:, 3::2] = (classes[:, 3::2] != classes[:, 1:-2:2]) & is_state[:, 3::2]
    # A path ends in the last label, or in the blank after it; without labels there is only the blank.
    is_last = is_state & (numbers >= 2 * lengths[:, None] - 1)
    return States(classes, is_state, may_skip, is_last)


def _shift_forward(xp: Any, x: Any, count: int, never: Any) -> Any:
    """Return for each state the value of the state `count` before."""
    return xp.concatenate([never[..., :count], x[..., : x.shape[-1] - count]], -1)


def _shift_back(xp: Any, x: Any, count: int, never: Any) -> Any:
    return xp.concatenate([x[..., count:], never[..., :count]], -1)


def _in_float64(xp: Any, logits: Any, directions: list[Any]) -> tuple[Any, list[Any]]:
    """Return the inputs in float64: paths of a thousand steps have logarithms of thousands, where 1e-4 matters."""
    return logits.astype(xp.float64), [direction.astype(xp.float64) for direction in directions]


class Paths:
    """Log probabilities of all paths of a batch through the states of its labels.

    Parameters
    ----------
    xp : module
        The array library.
    logits : array of shape [time, batch, classes]
    directions : list of array of the same shape
        The directions of the derivatives.
    states : States
    lengths : int array of shape [batch]
        Number of time steps of each row.
    """

    def __init__(self, xp: Any, logits: Any, directions: list[Any], states: States, lengths: Array) -> None:
        time, batch, classes = logits.shape
        self.xp: Any = xp
        # Numbered through the whole batch, so that a single index reads, and later adds, all rows.
        self.classes: Any = xp.asarray(states.classes + np.arange(batch)[:, None] * classes)
        self.is_state: Any = xp.asarray(states.is_state)
        self.may_skip: Any = xp.asarray(states.may_skip)
        self.is_last: Any = xp.asarray(states.is_last)
        self.is_step: Any = xp.asarray(np.arange(time)[:, None] < lengths)
        x = make_jet(xp, *_in_float64(xp, logits, directions))
        self.log_softmax: Any = x - log_sum_exp(xp, x, -1)
        read = self.log_softmax.reshape(len(x), time, batch * classes)[:, :, self.classes]
        self.read: Any = hide_jet(xp, read, self.is_state, _NEVER)
        # The jet of impossible states: -inf, with no derivatives.
        nothing = xp.zeros((len(x), *self.classes.shape), dtype=x.dtype)
        self.never: Any = hide_jet(xp, nothing, xp.zeros((), dtype=xp.bool_), _NEVER)

    def _sum_choices(self, stay: Any, step: Any, skip: Any) -> Any:
        return log_sum_exp(self.xp, self.xp.stack([stay, step, skip], -1), -1)[..., 0]

    def _go_on(self, new: Any, old: Any, step: int) -> Any:
        """Return `new` for the rows that have this time step, `old` for the others."""
        return self.xp.where(self.is_step[step][:, None], new, old)

    def forward(self) -> list[Any]:
        """Return, for each number of time steps, the log probability of all paths that end in each state."""
        xp, never = self.xp, self.never
        # Before the first step paths are in the first blank, from where they stay, or go to the first label.
        is_first = xp.arange(never.shape[-1]) == 0
        found = [hide_jet(xp, xp.zeros(never.shape, dtype=never.dtype), is_first, _NEVER)]
        for t in range(self.read.shape[1]):
            a = found[-1]
            skip = hide_jet(xp, _shift_forward(xp, a, 2, never), self.may_skip, _NEVER)
            total = self._sum_choices(a, _shift_forward(xp, a, 1, never), skip)
            found.append(self._go_on(hide_jet(xp, total + self.read[:, t], self.is_state, _NEVER), a, t))
        return found

    def backward(self) -> list[Any]:
        """Return, after each time step, the log probability of all continuations from each state."""
        xp, never = self.xp, self.never
        found = [hide_jet(xp, xp.zeros(never.shape, dtype=never.dtype), self.is_last, _NEVER)]
        # The value after step t - 1 comes from step t; before step 0 there is no value to compute.
        for t in range(self.read.shape[1] - 1, 0, -1):
            b = found[-1] + self.read[:, t]
            skip = _shift_back(xp, hide_jet(xp, b, self.may_skip, _NEVER), 2, never)
            found.append(self._go_on(self._sum_choices(b, _shift_back(xp, b, 1, never), skip), found[-1], t))
        return found[::-1]

    def total(self, last: Any) -> Any:
        """Return the log probabilities of the labels, a jet of shape [batch, 1], from the values of the last step."""
        return log_sum_exp(self.xp, hide_jet(self.xp, last, self.is_last, _NEVER), -1)

    def gradient(self) -> Any:
        """Return the derivative of the loss by the logits, as a jet of their shape."""
        xp, forward = self.xp, self.forward()
        total = self.total(forward[-1])
        is_possible = total[0] != _NEVER
        softmax = exponentiate_jet(xp, self.log_softmax)
        if len(forward) == 1:
            return softmax  # empty: there are no time steps
        # Posterior of each state; a total of -inf is hidden, because its difference to -inf is NaN.
        # `forward` includes the probability of its own step and `backward` does not, so that the sum counts it once.
        here = xp.stack(forward[1:], 1) + xp.stack(self.backward(), 1) - hide_jet(xp, total, is_possible)[:, None]
        states = exponentiate_jet(xp, hide_jet(xp, here, here[0] != _NEVER, _NEVER))
        surplus = softmax - self._by_class(states, softmax.shape)
        return hide_jet(xp, surplus, is_possible & self.is_step[..., None])

    def _by_class(self, states: Any, shape: tuple[int, ...]) -> Any:
        """Add up the values of states by their classes."""
        order, time, batch, classes = shape
        out = self.xp.zeros((order * time, batch * classes), dtype=states.dtype)
        # A single flat index for all steps and directions.
        rows = self.xp.arange(order * time)[:, None, None] * (batch * classes)
        places = rows + self.classes
        flat = out.reshape(-1)
        add_at(self.xp, flat, places.reshape(-1), states.reshape(-1))
        return flat.reshape(shape)
