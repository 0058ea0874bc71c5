"""Kernel of the candidate samplers: independent draws of classes, or draws until enough classes differ."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, define
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.traits import Effect
from ..math.random import DISCRETE, copied_in, instance_generator
from ..support.attributes import takes_attributes
from ..support.context import KernelContext
from ..support.vectorizing.families import one_by_one

Array = np.ndarray[Any, Any]
Source = Callable[[int], Array]

_TRIED = 4  # draws per class before `_draw_remaining` computes the missing classes without further draws
_MOST = 2.0**62  # largest count of draws, which has to fit an int64


@dataclass(frozen=True, slots=True)
class _Sampling:
    """Attributes of RandomCandidates: a distribution over classes, and the classes to draw."""

    distribution: str
    range_max: int
    num_sampled: int
    unique: bool
    seed: int

    def class_weights(self, weights: Array) -> Array:
        """Return weights of all classes, in proportion to their probabilities."""
        if self.distribution == "uniform":
            return np.ones(self.range_max)
        if self.distribution == "log_uniform":
            return np.log1p(1 / np.arange(1.0, self.range_max + 1))
        return weights


def _class_source(draw: np.random.Generator, sampling: _Sampling, weights: Array) -> Source:
    """Return a function that draws a number of classes independently."""
    if sampling.distribution == "uniform":
        return lambda count: draw.integers(0, sampling.range_max, count)
    if sampling.distribution == "log_uniform":
        scale = math.log1p(sampling.range_max)
        last = sampling.range_max - 1
        # The inverse of the distribution function; rounding may reach `range_max`.
        return lambda count: np.minimum(np.exp(draw.random(count) * scale).astype(np.int64) - 1, last)
    sums = np.cumsum(weights)
    if not weights.min(initial=0) >= 0 or not 0 < sums[-1] < np.inf:
        raise ValueError("a candidate sampler needs weights that are not negative, and one that is positive")
    last = int(np.searchsorted(sums, sums[-1]))  # the last class with a weight
    # Rounding may reach the sum of all weights, for which `searchsorted` returns the number of classes.
    return lambda count: np.minimum(np.searchsorted(sums, draw.random(count) * sums[-1], side="right"), last)


def _draw_distinct(
    draw: np.random.Generator, source: Source, weights: Callable[[], Array], count: int, enough: int
) -> tuple[Array, int]:
    """Draw until `count` classes are different; return the classes in order, and the number of draws.

    After `enough` draws, `_draw_remaining` computes the classes that are too improbable to wait for.
    """
    # A quarter more than needed, because some draws repeat earlier ones.
    drawn = source(count + count // 4 + 8)
    first = _first_times(drawn)
    while first.size < count and drawn.size < enough:
        # Doubling bounds the work of sorting all draws again by twice the last sort.
        drawn = np.concatenate([drawn, source(drawn.size)])
        first = _first_times(drawn)
    if first.size >= count:
        # Draws after the last new class do not count.
        return drawn[first[:count]], int(first[count - 1]) + 1
    more, tries = _draw_remaining(draw, weights(), drawn[first], count - first.size)
    return np.concatenate([drawn[first], more]), drawn.size + tries


def _first_times(drawn: Array) -> Array:
    """Return the index of the first occurrence of each value, ascending."""
    return np.sort(np.unique(drawn, return_index=True)[1])


def _draw_remaining(draw: np.random.Generator, weights: Array, taken: Array, count: int) -> tuple[Array, int]:
    """Draw `count` classes besides `taken`; return them and the number of draws that rejection would have needed.

    Exponential clocks with the weights as rates ring in the order in which classes are drawn first; between two new
    classes lies a geometric number of draws, all of earlier classes.
    """
    left = weights / weights.sum()
    left[taken] = 0
    if np.count_nonzero(left) < count:
        raise ValueError(
            f"{count + taken.size} different candidates were asked for, but only "
            f"{np.count_nonzero(left) + taken.size} classes have a weight"
        )
    # Classes of weight 0 never ring.
    found = np.flatnonzero(left)
    order = found[np.argsort(draw.exponential(size=found.size) / left[found])]
    new = np.cumsum(left[order][::-1])[::-1]  # the chance that a draw is none of those before
    tries = draw.geometric(np.minimum(new[:count], 1)).sum(dtype=np.float64)
    return order[:count], int(min(tries, _MOST))


@takes_attributes(_Sampling)
def _compute_candidates(xp: Any, context: KernelContext, weights: Any, *instance: Any, attrs: _Sampling) -> list[Array]:
    """Draw the classes of one instance; return them and the number of draws."""
    draw, count = instance_generator(context, attrs.seed, instance), attrs.num_sampled
    weights = np.asarray(weights, np.float64)
    source = _class_source(draw, attrs, weights)
    if attrs.unique:
        all_weights = functools.partial(attrs.class_weights, weights)
        found, tries = _draw_distinct(draw, source, all_weights, count, _TRIED * attrs.range_max)
    else:
        found, tries = source(count), count
    return [copied_in(xp, found, dtypes.int64), copied_in(xp, np.asarray(tries), dtypes.int64)]


def _count_draws(*_: Any, num_sampled: int, range_max: int, unique: bool, **__: Any) -> int:
    """Return the approximate number of draws: many if `unique` and more than half of all classes are needed."""
    return num_sampled + (_TRIED * range_max if unique and 2 * num_sampled > range_max else 0)


define(
    "RandomCandidates",
    "weights: host T, instance: host *int64 -> sampled: int64, tries: int64",
    where={"T": dtypes.FLOATING},
    attrs={
        "distribution": REQUIRED,
        "range_max": REQUIRED,
        "num_sampled": REQUIRED,
        "unique": REQUIRED,
        "seed": REQUIRED,
    },
    shape=lambda op: [Shape([op.attrs["num_sampled"]]), SCALAR],
    rules=[Vectorize(one_by_one), Elements(_count_draws)],
    kernel=_compute_candidates,
    gradient=DISCRETE,
    effects=Effect.RANDOM,
)
