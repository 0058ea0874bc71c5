"""The optimizers' formulas in plain NumPy, for tests: of a whole variable, and of the rows that have a gradient."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tagloom.training import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    AdamWOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    LambOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)

RATE = 0.05


@dataclass(frozen=True)
class Case:
    """One optimizer with its options, and what it is to do.

    Attributes
    ----------
    kind : type
    formula : callable
        ``formula(w, g, s, t)`` returns the new `w` and changes the dict `s`, its state, in step `t` from 1 up.
    begin : mapping
        The state before the first step: what each array is filled with.
    options : mapping
        Of the optimizer, beside the learning rate.
    """

    kind: type
    formula: Callable[..., Any]
    begin: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def make(self, **more):
        """Return the optimizer."""
        return self.kind(RATE, **self.options, **more)

    def start(self, w):
        """Return the state that belongs to `w` before the first step."""
        return {name: np.full_like(w, value) for name, value in self.begin.items()}

    def step(self, w, g, state, t, rows=None):
        """Return `w` after a step; with `rows`, indices without repeats, `g` has their gradients."""
        if rows is None:
            return self.formula(w, g, state, t)
        part = {name: array[rows] for name, array in state.items()}
        w = w.copy()
        w[rows] = self.formula(w[rows], g, part, t)
        for name, array in part.items():
            state[name][rows] = array
        return w


def descend(w, g, s, t):
    return w - RATE * g


def momentum(w, g, s, t):
    s["momentum"] = 0.9 * s["momentum"] + g
    return w - RATE * s["momentum"]


def nesterov(w, g, s, t):
    s["momentum"] = 0.9 * s["momentum"] + g
    return w - RATE * (g + 0.9 * s["momentum"])


def adagrad(w, g, s, t):
    s["accumulator"] = s["accumulator"] + g * g
    return w - RATE * g / np.sqrt(s["accumulator"])


def adadelta(w, g, s, t):
    s["accum"] = 0.8 * s["accum"] + 0.2 * g * g
    step = np.sqrt((s["accum_update"] + 1e-3) / (s["accum"] + 1e-3)) * g
    s["accum_update"] = 0.8 * s["accum_update"] + 0.2 * step**2
    return w - RATE * step


def rmsprop(w, g, s, t):
    s["rms"] = 0.8 * s["rms"] + 0.2 * g * g
    s["momentum"] = 0.5 * s["momentum"] + RATE * g / np.sqrt(s["rms"] + 1e-3)
    return w - s["momentum"]


def centered(w, g, s, t):
    s["rms"] = 0.8 * s["rms"] + 0.2 * g * g
    s["mg"] = 0.8 * s["mg"] + 0.2 * g
    s["momentum"] = 0.5 * s["momentum"] + RATE * g / np.sqrt(s["rms"] - s["mg"] ** 2 + 1e-3)
    return w - s["momentum"]


def adam_direction(g, s, t):
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.99 * s["v"] + 0.01 * g * g
    return s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.99**t)) + 1e-12)


def adam(w, g, s, t):
    return w - RATE * adam_direction(g, s, t)


def adamw(w, g, s, t):
    return (1 - RATE * 0.1) * w - RATE * adam_direction(g, s, t)


def lamb(w, g, s, t):
    direction = adam_direction(g, s, t) + 0.1 * w
    return w - RATE * np.linalg.norm(w) / np.linalg.norm(direction) * direction


def ftrl(w, g, s, t):
    after = s["accum"] + g * g
    sigma = (after**0.4 - s["accum"] ** 0.4) / RATE
    s["linear"] = s["linear"] + g + 2 * 0.01 * w - sigma * w
    s["accum"] = after
    z = s["linear"]
    return np.where(np.abs(z) <= 0.3, 0, -(z - np.sign(z) * 0.3) / ((0.5 + after**0.4) / RATE + 2 * 0.2))


_MOMENTS = {"m": 0.0, "v": 0.0}
_ADAM = {"beta2": 0.99, "epsilon": 1e-12}
_RMS = {"decay": 0.8, "momentum": 0.5, "epsilon": 1e-3}
CASES = {
    "descent": Case(GradientDescentOptimizer, descend),
    "momentum": Case(MomentumOptimizer, momentum, {"momentum": 0.0}, {"momentum": 0.9}),
    "nesterov": Case(MomentumOptimizer, nesterov, {"momentum": 0.0}, {"momentum": 0.9, "use_nesterov": True}),
    "adagrad": Case(AdagradOptimizer, adagrad, {"accumulator": 0.2}, {"initial_accumulator_value": 0.2}),
    "adadelta": Case(AdadeltaOptimizer, adadelta, {"accum": 0.0, "accum_update": 0.0}, {"rho": 0.8, "epsilon": 1e-3}),
    "rmsprop": Case(RMSPropOptimizer, rmsprop, {"rms": 1.0, "momentum": 0.0}, _RMS),
    "centered": Case(RMSPropOptimizer, centered, {"rms": 1.0, "mg": 0.0, "momentum": 0.0}, {**_RMS, "centered": True}),
    "adam": Case(AdamOptimizer, adam, _MOMENTS, _ADAM),
    "adamw": Case(AdamWOptimizer, adamw, _MOMENTS, {**_ADAM, "weight_decay": 0.1}),
    "lamb": Case(LambOptimizer, lamb, _MOMENTS, {**_ADAM, "weight_decay": 0.1}),
    "ftrl": Case(
        FtrlOptimizer,
        ftrl,
        {"accum": 0.1, "linear": 0.0},
        {
            "learning_rate_power": -0.4,
            "l1_regularization_strength": 0.3,
            "l2_regularization_strength": 0.2,
            "l2_shrinkage_regularization_strength": 0.01,
            "beta": 0.5,
        },
    ),
}
