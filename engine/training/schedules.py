"""Learning-rate schedules: rates computed from the number of updates, for an optimizer's `learning_rate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ..base.docstrings import Family
from ..base.dtypes import DType, accumulator_dtype, as_dtype, float32, int32, int64
from ..base.errors import DtypeError, GraphError
from ..frontend.control.scopes import name_scope
from ..ir.apply import apply, convert_to_tensor
from ..ir.entry import builds
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.where import where
from ..ops.math.arithmetic import maximum, minimum
from ..ops.math.arithmetic import pow as power
from ..ops.math.elementwise import ceil, exp, floor
from .optimizer import cast_hyperparameter

F = TypeVar("F", bound=Callable[..., Any])


_FAMILY = Family(
    {
        "learning_rate": "float or floating scalar Tensor",
        "global_step": "Variable, Tensor or int\n    Number of updates so far.",
        "decay_steps": "number or scalar Tensor\n    Number of updates of the decay, or of one of its periods.",
        "decay_rate": "number or scalar Tensor",
        "staircase": "bool, optional\n    Decay in jumps, after each `decay_steps`.",
        "num_periods, alpha, beta": "float or floating scalar Tensor\n    As in the formula of `linear_cosine_decay`.",
        "alpha": "float or floating scalar Tensor\n    Final rate, as a fraction of `learning_rate`.",
        "name": "str, optional",
    },
    "Tensor\n    A scalar of the dtype of `learning_rate`.",
    {"GraphError": "If `global_step` is None.", "DtypeError": "If `learning_rate` is not floating."},
)


def define_schedule(function: F) -> F:
    """Decorate a learning-rate schedule: mark the function as a builder and complete its docstring."""
    return builds(_FAMILY.complete(function))


def convert_arguments(learning_rate: ArrayLike, global_step: ArrayLike, *others: Any) -> list[Tensor]:
    """Return a learning rate, the number of updates and other scalars in the rate's dtype, or float32 if wider."""
    if global_step is None:
        raise GraphError(
            "a schedule needs the number of updates",
            wanted="an integer scalar",
            got=None,
            hint="give get_or_create_global_step() to it, and to minimize",
        )
    rate = convert_to_tensor(learning_rate)
    if not rate.dtype.is_floating:
        raise DtypeError("a learning rate is a floating number", wanted="float", got=rate.dtype, hint="as 1.0, not 1")
    wide = accumulator_dtype(rate.dtype)  # float16 does not count beyond 65504
    return [cast_hyperparameter(value, wide) for value in (rate, global_step, *others)]


def convert_rate(learning_rate: ArrayLike, rate: Tensor) -> Tensor:
    """Return the rate of a schedule in the dtype of the schedule's `learning_rate`."""
    return cast_hyperparameter(rate, as_dtype(getattr(learning_rate, "dtype", rate.dtype)))


@define_schedule
def exponential_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    decay_rate: ArrayLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate by a factor per `decay_steps` updates: ``learning_rate * decay_rate ** (step / steps)``.

    Examples
    --------
    >>> import tagloom as tg
    >>> decayed = tg.function(lambda step: tg.training.exponential_decay(8.0, step, 10, 0.5))
    >>> [float(decayed.sync(step)) for step in (0, 10, 30)]
    [8.0, 4.0, 1.0]
    """
    with name_scope(name, "ExponentialDecay"):
        rate, step, steps, factor = convert_arguments(learning_rate, global_step, decay_steps, decay_rate)
        return convert_rate(learning_rate, rate * power(factor, _count_periods(step / steps, staircase)))


def _count_periods(number: Tensor, staircase: bool) -> Tensor:
    return floor(number) if staircase else number


@define_schedule
def natural_exp_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    decay_rate: ArrayLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate exponentially: ``learning_rate * exp(-decay_rate * step / decay_steps)``.

    Examples
    --------
    >>> import tagloom as tg
    >>> decayed = tg.function(lambda step: tg.training.natural_exp_decay(1.0, step, 10, 2.0))
    >>> [round(float(decayed.sync(step)), 4) for step in (0, 5, 10)]
    [1.0, 0.3679, 0.1353]
    """
    with name_scope(name, "NaturalExpDecay"):
        rate, step, steps, factor = convert_arguments(learning_rate, global_step, decay_steps, decay_rate)
        return convert_rate(learning_rate, rate * exp(-factor * _count_periods(step / steps, staircase)))


@define_schedule
def inverse_time_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    decay_rate: ArrayLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate as the inverse of time: ``learning_rate / (1 + decay_rate * step / decay_steps)``.

    Examples
    --------
    >>> import tagloom as tg
    >>> decayed = tg.function(lambda step: tg.training.inverse_time_decay(1.0, step, 10, 1.0, staircase=True))
    >>> [float(decayed.sync(step)) for step in (9, 10, 30)]
    [1.0, 0.5, 0.25]
    """
    with name_scope(name, "InverseTimeDecay"):
        rate, step, steps, factor = convert_arguments(learning_rate, global_step, decay_steps, decay_rate)
        return convert_rate(learning_rate, rate / (1 + factor * _count_periods(step / steps, staircase)))


@define_schedule
def polynomial_decay(
    learning_rate: ArrayLike,
    global_step: ArrayLike,
    decay_steps: ArrayLike,
    end_learning_rate: ArrayLike = 0.0001,
    power: ArrayLike = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """Decay a learning rate to `end_learning_rate` along a power of the remaining fraction of `decay_steps`.

    In Python: ``(learning_rate - end) * (1 - step / decay_steps) ** power + end``.

    Parameters
    ----------
    end_learning_rate, power : float or floating scalar Tensor
    cycle : bool, optional
        If True, the rate jumps up after each `decay_steps`, and decays over the smallest multiple of `decay_steps`
        not below `global_step`. Otherwise the rate is constant after `decay_steps`.

    Examples
    --------
    >>> import tagloom as tg
    >>> decayed = tg.function(lambda step: tg.training.polynomial_decay(1.0, step, 10, 0.0, power=2.0))
    >>> [float(decayed.sync(step)) for step in (0, 5, 99)]
    [1.0, 0.25, 0.0]
    """
    with name_scope(name, "PolynomialDecay"):
        rate, step, steps, end, exponent = convert_arguments(
            learning_rate, global_step, decay_steps, end_learning_rate, power
        )
        if cycle:
            # The least multiple of `decay_steps` that is not below the step; `decay_steps` itself at the start.
            steps = steps * where(step > 0, ceil(step / steps), 1)
        left = 1 - minimum(step, steps) / steps
        # Not `power`: the public parameter of this name hides the function.
        part: Tensor = apply("Pow", left, exponent)
        return convert_rate(learning_rate, (rate - end) * part + end)


@builds
def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the value of the interval that contains a number.

    Parameters
    ----------
    x : Variable, Tensor or number, scalar
        Such as the number of updates.
    boundaries : sequence of numbers or scalar Tensors
        Upper ends of the intervals, inclusive, in increasing order.
    values : sequence of numbers or scalar Tensors
        One value more than `boundaries` has; all of one dtype.
    name : str, optional

    Returns
    -------
    Tensor
        A scalar of the dtype of the values.

    Raises
    ------
    GraphError
        If the number of values is wrong, or the boundaries do not increase.
    DtypeError
        If the dtypes of the values differ, or a boundary is floating where `x` is an integer.

    Examples
    --------
    >>> import tagloom as tg
    >>> rate = tg.function(lambda step: tg.training.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.25]))
    >>> [float(rate.sync(step)) for step in (0, 10, 11, 20, 21)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    known = [float(b) for b in boundaries if isinstance(b, (int, float, np.integer, np.floating))]
    if len(values) != len(boundaries) + 1 or any(a >= b for a, b in pairwise(known)):
        raise GraphError(
            "piecewise_constant takes a value for each interval",
            wanted="boundaries that increase, and one more of values",
            got=f"boundaries {list(boundaries)} and {len(values)} of values",
            hint="give piecewise_constant(x, [10, 20], [1.0, 0.5, 0.25])",
        )
    with name_scope(name, "PiecewiseConstant"):
        x = convert_to_tensor(x)
        dtype = _common_dtype(values)
        result = cast_hyperparameter(values[-1], dtype)
        # From the last interval to the first, so that the first boundary not below `x` decides.
        for boundary, value in reversed(list(zip(boundaries, values, strict=False))):
            result = where(x <= _convert_boundary(boundary, x.dtype), cast_hyperparameter(value, dtype), result)
        return result


def _common_dtype(values: Sequence[Any]) -> DType:
    """Return the dtype of typed values; of literals, float32 if any is a float, else int32."""
    found = {as_dtype(value.dtype) for value in values if hasattr(value, "dtype")}
    if len(found) > 1:
        names = ", ".join(sorted(dtype.name for dtype in found))
        raise DtypeError("the values are of several dtypes", wanted="one dtype", got=names, hint="cast some of them")
    return found.pop() if found else float32 if any(isinstance(value, float) for value in values) else int32


def _convert_boundary(boundary: object, dtype: DType) -> Tensor:
    """Return a boundary in the dtype of the compared number."""
    given = as_dtype(getattr(boundary, "dtype", type(boundary)))
    if given.is_floating and dtype in (int32, int64):
        raise DtypeError("a boundary between integers is an integer", wanted=dtype, got=given, hint="as 10, not 10.0")
    return cast_hyperparameter(boundary, dtype)


@define_schedule
def linear_warmup(
    learning_rate: ArrayLike, global_step: ArrayLike, warmup_steps: Any, start: Any = 0.0, name: str | None = None
) -> Tensor:
    """Raise a learning rate linearly from `start` during `warmup_steps` updates; return the rate itself afterwards.

    Parameters
    ----------
    learning_rate : float or floating scalar Tensor
        The rate after the warmup, such as another schedule, which also counts from the first update.
    warmup_steps : number or scalar Tensor
    start : float or floating scalar Tensor
        The rate at update 0.

    Examples
    --------
    >>> import tagloom as tg
    >>> def rate(step):
    ...     return tg.training.linear_warmup(tg.training.exponential_decay(8.0, step, 10, 0.5), step, 10)
    >>> [float(tg.function(rate).sync(step)) for step in (0, 10, 20)]
    [0.0, 4.0, 2.0]
    """
    with name_scope(name, "LinearWarmup"):
        rate, step, steps, first = convert_arguments(learning_rate, global_step, warmup_steps, start)
        # With `warmup_steps` 0 the result is `rate`; the maximum avoids a division by 0.
        part = minimum(step / maximum(steps, 1), 1)
        return convert_rate(learning_rate, where(step >= steps, rate, first + (rate - first) * part))
