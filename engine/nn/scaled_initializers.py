"""Variance-scaling initializers, by the numbers of inputs and outputs (Glorot, He, LeCun)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base.docstrings import Family, name_function
from ..base.dtypes import DType
from ..base.errors import DtypeError, GraphError
from ..ir.misuse import refuses_misuse
from ..ir.tensor import Tensor
from ..ops.math.random import random_normal, random_uniform, truncated_normal
from .initializers import Initializer

# Standard deviation of a standard normal distribution truncated at -2 and 2.
_TRUNCATED_DEVIATION = 0.87962566103423978


@refuses_misuse
def variance_scaling_initializer(
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    seed: int | None = None,
    dtype: Any = "float32",
) -> Initializer:
    """Return an initializer of variance ``scale / n``, which preserves the variance of sums over n inputs.

    Parameters
    ----------
    scale : float
        Positive.
    mode : {'fan_in', 'fan_out', 'fan_avg'}
        The number n: the inputs of each output, the outputs of each input, or the mean of both. For filters, channels
        are multiplied by the elements of a window.
    distribution : {'truncated_normal', 'untruncated_normal', 'uniform'}
        'normal' is a synonym of 'truncated_normal'.
    seed : int, optional
        As for `random_normal_initializer`.
    dtype : dtype-like
        A floating dtype.

    Returns
    -------
    Initializer

    Raises
    ------
    GraphError
        If `scale` is not positive, or the mode or distribution is unknown.

    Examples
    --------
    >>> import tagloom as tg
    >>> init = tg.nn.variance_scaling_initializer(2.0, distribution="uniform")
    >>> drawn = tg.function(lambda: init([50, 200])).sync()
    >>> round(float(drawn.var()), 2), 2 / 50
    (0.04, 0.04)
    """
    _require_known("mode", mode, ("fan_in", "fan_out", "fan_avg"))
    _require_known("distribution", distribution, ("truncated_normal", "normal", "untruncated_normal", "uniform"))
    if not scale > 0:
        raise GraphError("scale has to be positive", wanted="a number above 0", got=scale, hint="1.0 keeps variances")

    def draw_scaled(shape: list[int], weight_dtype: DType) -> Tensor:
        if not (weight_dtype.is_floating or weight_dtype.is_complex):
            raise DtypeError(
                "weights drawn by a variance are no integers",
                wanted="a floating dtype",
                got=weight_dtype,
                hint="cast the inputs of the layer, or give it dtype= or another initializer",
            )
        fan_in, fan_out = _count_fans(shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        deviation = math.sqrt(scale / max(1.0, n))
        # The variance of a uniform distribution on [-a, a] is a² / 3.
        if distribution == "uniform":
            limit = math.sqrt(3.0) * deviation
            return random_uniform(shape, -limit, limit, weight_dtype, seed)
        if distribution == "untruncated_normal":
            return random_normal(shape, 0.0, deviation, weight_dtype, seed)
        # Truncation reduces the deviation, so the normal distribution that is truncated has a larger one.
        return truncated_normal(shape, 0.0, deviation / _TRUNCATED_DEVIATION, weight_dtype, seed)

    return Initializer(draw_scaled, dtype)


def _require_known(what: str, value: str, names: Sequence[str]) -> None:
    """Raise GraphError for a value not in `names`, the first of which is the default."""
    if value not in names:
        wanted = ", ".join(map(repr, names))
        raise GraphError(f"no such {what}", wanted=wanted, got=repr(value), hint=f"the default is {names[0]!r}")


def _count_fans(shape: Sequence[int]) -> tuple[float, float]:
    """Return the number of inputs of each output and of outputs of each input, for weights of a shape."""
    # A vector is no kernel: all its elements count as inputs and as outputs.
    if len(shape) < 2:
        return float(math.prod(shape)), float(math.prod(shape))
    # Kernels are [*window, inputs, outputs]; each element of the window has inputs, and outputs, of its own.
    window = math.prod(shape[:-2])
    return float(window * shape[-2]), float(window * shape[-1])


_FAMILY = Family(
    {"seed": "int, optional\n    As for `random_normal_initializer`.", "dtype": "dtype-like\n    A floating dtype."},
    "Initializer",
)


def _define_initializer(
    name: str, scale: float, mode: str, distribution: str, summary: str, example: str
) -> Callable[..., Initializer]:
    """Return the public function for a choice of scale, mode and distribution.

    Parameters
    ----------
    name, summary : str
        Name without "_initializer", and first line of the docstring.
    scale, mode, distribution
        As of `variance_scaling_initializer`.
    example : str
        Expression of `drawn`, an array of shape [100, 300], and its value on the next line.
    """

    def make_initializer(seed: int | None = None, dtype: Any = "float32") -> Initializer:
        return variance_scaling_initializer(scale, mode, distribution, seed, dtype)

    # Six functions differ only in three constants, so they are made here with their docstrings.
    call = f">>> drawn = tg.function(lambda: tg.nn.{name}_initializer()([100, 300])).sync()"
    examples = f">>> import tagloom as tg\n{call}\n>>> {example}"
    return _FAMILY.complete(name_function(make_initializer, f"{name}_initializer", summary), examples)


# Expressions of the examples; their values, on the next line of the docstring, are appended below. An array of shape
# [100, 300] has 100 inputs, and 400 inputs and outputs.
_DEVIATION_EXAMPLE = "round(float(drawn.std()), 2)\n"
_LIMIT_EXAMPLE = "round(float(abs(drawn).max()), 3)\n"
glorot_uniform_initializer: Callable[..., Initializer] = _define_initializer(
    "glorot_uniform",
    1.0,
    "fan_avg",
    "uniform",
    "Return an initializer uniform within ``sqrt(6 / (inputs + outputs))`` of 0 (Glorot and Bengio, 2010).",
    _LIMIT_EXAMPLE + str(round(math.sqrt(6 / 400), 3)),
)
glorot_normal_initializer: Callable[..., Initializer] = _define_initializer(
    "glorot_normal",
    1.0,
    "fan_avg",
    "truncated_normal",
    "Return a truncated normal initializer of deviation ``sqrt(2 / (inputs + outputs))`` (Glorot and Bengio, 2010).",
    _DEVIATION_EXAMPLE + str(round(math.sqrt(2 / 400), 2)),
)
he_uniform_initializer: Callable[..., Initializer] = _define_initializer(
    "he_uniform",
    2.0,
    "fan_in",
    "uniform",
    "Return an initializer uniform within ``sqrt(6 / inputs)`` of 0, for layers with `relu` (He et al., 2015).",
    _LIMIT_EXAMPLE + str(round(math.sqrt(6 / 100), 3)),
)
he_normal_initializer: Callable[..., Initializer] = _define_initializer(
    "he_normal",
    2.0,
    "fan_in",
    "truncated_normal",
    "Return an initializer of standard deviation ``sqrt(2 / inputs)``, truncated normal, for `relu` (He et al., 2015).",
    _DEVIATION_EXAMPLE + str(round(math.sqrt(2 / 100), 2)),
)
lecun_uniform_initializer: Callable[..., Initializer] = _define_initializer(
    "lecun_uniform",
    1.0,
    "fan_in",
    "uniform",
    "Return an initializer uniform within ``sqrt(3 / inputs)`` of 0 (LeCun et al., 1998, section 4.6).",
    _LIMIT_EXAMPLE + str(round(math.sqrt(3 / 100), 3)),
)
lecun_normal_initializer: Callable[..., Initializer] = _define_initializer(
    "lecun_normal",
    1.0,
    "fan_in",
    "truncated_normal",
    "Return an initializer of standard deviation ``sqrt(1 / inputs)``, truncated normal (LeCun et al., 1998).",
    _DEVIATION_EXAMPLE + str(round(math.sqrt(1 / 100), 2)),
)
