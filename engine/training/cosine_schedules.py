"""Learning-rate schedules along a cosine."""

from __future__ import annotations

import math

from ..frontend.control.scopes import name_scope
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.where import where
from ..ops.math.arithmetic import maximum, minimum
from ..ops.math.arithmetic import pow as power
from ..ops.math.elementwise import floor, log, sqrt
from ..ops.math.random import random_normal
from ..ops.math.trigonometry import cos
from .optimizer import check_number
from .schedules import convert_arguments, convert_rate, define_schedule


def _half_wave(part: Tensor) -> Tensor:
    """Return a half wave of a cosine, from 1 to 0 while `part` grows from 0 to 1."""
    return (1 + cos(part * math.pi)) / 2


@define_schedule
def cosine_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    alpha: ArrayLike = 0.0,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate along half a wave of a cosine, then hold it (Loshchilov and Hutter, 2017).

    Examples
    --------
    >>> import tagloom as tg
    >>> decayed = tg.function(lambda step: tg.training.cosine_decay(2.0, step, 100, alpha=0.5))
    >>> [float(decayed.sync(step)) for step in (0, 50, 100, 200)]
    [2.0, 1.5, 1.0, 1.0]
    """
    with name_scope(name, "CosineDecay"):
        rate, step, steps, end = convert_arguments(learning_rate, global_step, decay_steps, alpha)
        return convert_rate(learning_rate, rate * ((1 - end) * _half_wave(minimum(step, steps) / steps) + end))


@define_schedule
def cosine_decay_restarts(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    first_decay_steps: ArrayLike,
    t_mul: ArrayLike = 2.0,
    m_mul: ArrayLike = 1.0,
    alpha: ArrayLike = 0.0,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate along successive half waves of a cosine (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    first_decay_steps : number or scalar Tensor
        Number of updates of the first half wave.
    t_mul, m_mul : float or floating scalar Tensor
        Factors of length and height from each half wave to the next; `t_mul` is at least 1.

    Raises
    ------
    GraphError
        If `t_mul` is a number below 1, or `global_step` is None.

    Examples
    --------
    >>> import tagloom as tg
    >>> def rate(step):
    ...     return tg.training.cosine_decay_restarts(4.0, step, 10, t_mul=2.0, m_mul=0.5)
    >>> [round(float(tg.function(rate).sync(step)), 4) for step in (0, 5, 10, 20, 30)]
    [4.0, 2.0, 2.0, 1.0, 1.0]
    """
    with name_scope(name, "SGDRDecay"):
        check_number("t_mul", t_mul, lambda x: x >= 1, "1 or more")
        rate, step, steps, longer, higher, end = convert_arguments(
            learning_rate, global_step, first_decay_steps, t_mul, m_mul, alpha
        )
        done = step / steps
        grows = longer > 1
        ratio = where(grows, longer, 2)  # 1 has the logarithm 0; with `longer` 1, results of `ratio` are unused
        # Lengths are a geometric series: `many` half waves have ended, the last of them at `_sum_powers(ratio, many)`.
        many = floor(log(1 - done * (1 - ratio)) / log(ratio))
        many = where(_sum_powers(ratio, many + 1) <= done, many + 1, many)  # rounding may have lost one
        start = where(grows, _sum_powers(ratio, many), floor(done))
        count = where(grows, many, floor(done))
        part = (done - start) / where(grows, power(ratio, many), 1)
        return convert_rate(learning_rate, rate * ((1 - end) * power(higher, count) * _half_wave(part) + end))


def _sum_powers(ratio: Tensor, count: Tensor) -> Tensor:
    """Return the sum of the first `count` powers of `ratio`, beginning with 1."""
    return (1 - power(ratio, count)) / (1 - ratio)


@define_schedule
def linear_cosine_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    num_periods: ArrayLike = 0.5,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate along a line times a cosine (Bello et al., 2017, "Neural Optimizer Search").

    In Python: ``((alpha + left) * (1 + cos(2 * pi * num_periods * done)) / 2 + beta) * learning_rate``, with ``done``
    the elapsed fraction of `decay_steps`, at most 1, and ``left = 1 - done``.

    Parameters
    ----------
    num_periods, alpha, beta : float or floating scalar Tensor

    Examples
    --------
    >>> import tagloom as tg
    >>> decayed = tg.function(lambda step: tg.training.linear_cosine_decay(1.0, step, 100, beta=0.0))
    >>> [round(float(decayed.sync(step)), 4) for step in (0, 50, 100)]
    [1.0, 0.25, 0.0]
    """
    with name_scope(name, "LinearCosineDecay"):
        rate, step, steps, periods, above, end = convert_arguments(
            learning_rate, global_step, decay_steps, num_periods, alpha, beta
        )
        done = minimum(step, steps) / steps
        return convert_rate(learning_rate, ((above + 1 - done) * _half_wave(2 * periods * done) + end) * rate)


@define_schedule
def noisy_linear_cosine_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    initial_variance: ArrayLike = 1.0,
    variance_decay: ArrayLike = 0.55,
    num_periods: ArrayLike = 0.5,
    alpha: ArrayLike = 0.0,
    beta: ArrayLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate as `linear_cosine_decay`, with noise added to the line (Bello et al., 2017).

    Parameters
    ----------
    initial_variance, variance_decay : float or floating scalar Tensor
        The noise is normal, of variance ``initial_variance / (1 + step) ** variance_decay``, drawn once per step
        for all consumers of the rate.

    Examples
    --------
    >>> import tagloom as tg
    >>> def rate(step):
    ...     return tg.training.noisy_linear_cosine_decay(1.0, step, 100, initial_variance=0.0, beta=0.0)
    >>> round(float(tg.function(rate).sync(50)), 4)
    0.25
    """
    with name_scope(name, "NoisyLinearCosineDecay"):
        rate, step, steps, variance, fall, periods, above, end = convert_arguments(
            learning_rate, global_step, decay_steps, initial_variance, variance_decay, num_periods, alpha, beta
        )
        # Held at the end, where the variance of the noise remains too.
        step = minimum(step, steps)
        deviation = sqrt(maximum(variance, 0) / power(1 + step, fall))
        noisy = 1 - step / steps + deviation * random_normal([], dtype=rate.dtype)
        return convert_rate(learning_rate, ((above + noisy) * _half_wave(2 * periods * step / steps) + end) * rate)
