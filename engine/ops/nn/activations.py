"""Activation functions of neural networks, elementwise."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base import dtypes
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Kernel, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ...kernels.elementary.functions import elementary_function
from ..math.complex import conj
from ..math.elementwise import abs, erf, square
from ..math.trigonometry import tanh
from ..support.batching import batch_pointwise
from ..support.common import same_as
from ..support.families import Unary, UnaryOperation, keep_dtype, make_samples
from ..support.fusing import by_step
from ..support.literals import f64
from ..support.vectorizing.families import pointwise

_X = [[0.5, -1.25], [7.5, -0.3]]


def _expected_sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


sigmoid: Unary = UnaryOperation(
    "Sigmoid",
    "sigmoid",
    "Logistic function ``1 / (1 + exp(-x))``, elementwise.",
    # Where the exponential overflows to infinity, the quotient is 0, the limit of the function.
    kernel=keep_dtype(lambda xp, x: 1 / (1 + elementary_function(xp, "exp")(-x))),
    rules=[by_step("sigmoid")],
    gradient=lambda x, y, g: g * conj(y * (1 - y)),
    samples=make_samples(_expected_sigmoid, _X, lambda z: 1 / (1 + cmath.exp(-z)), [0.5 + 0.25j, -1 + 2j]),
    examples={"np.array([0.0, 1.0, -1.0])": "array([0.5       , 0.73105858, 0.26894142])"},
).declare_type()


@dataclass(frozen=True)
class _Activation:
    """Declaration of an activation; `gradient` takes its input, its result, their gradient and the attributes."""

    type: str
    kernel: Kernel
    gradient: Callable[..., Tensor]
    samples: list[Sample]
    where: tuple[dtypes.DType, ...] = dtypes.FLOATING
    attrs: Mapping[str, Any] = field(default_factory=dict)
    rules: Sequence[object] = ()

    def define_type(self) -> None:
        """Define the operation type."""
        define(
            self.type,
            "features: T -> activations: T",
            where={"T": self.where},
            attrs=self.attrs,
            shape=same_as(0),
            rules=[Batch(batch_pointwise), Vectorize(pointwise), *self.rules],
            kernel=keep_dtype(self.kernel),
            gradient=self._pull_back,
            samples=self.samples,
        )

    def _pull_back(self, op: Operation, g: Tensor) -> list[Any]:
        attrs = {key: op.attrs[key] for key in self.attrs}
        return [self.gradient(op.inputs[0], op.outputs[0], g, **attrs)]


_Activation(
    "Softplus",
    lambda xp, x: xp.logaddexp(x, xp.zeros((), x.dtype)),
    lambda x, y, g: g * sigmoid(x),
    make_samples(lambda x: math.log(1 + math.exp(x)), _X),
    rules=[by_step("logaddexp", 0)],
).define_type()


@public
def softplus(features: Any, name: str | None = None) -> Tensor:
    """``log(1 + exp(x))`` without overflow, elementwise.

    Parameters
    ----------
    features : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.softplus(np.array([0.0, 100.0]))).sync()
    array([  0.69314718, 100.        ])
    """
    return apply("Softplus", features, name=name)


_Activation(
    "Softsign",
    lambda xp, x: x / (1 + xp.abs(x)),
    lambda x, y, g: g / square(abs(x) + 1),
    make_samples(lambda x: x / (1 + math.fabs(x)), _X),
).define_type()


@public
def softsign(features: Any, name: str | None = None) -> Tensor:
    """``x / (1 + abs(x))``, elementwise.

    Parameters
    ----------
    features : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.softsign([1.0, -3.0])).sync()
    array([ 0.5 , -0.75], dtype=float32)
    """
    return apply("Softsign", features, name=name)


_Activation(
    "Relu",
    lambda xp, x: xp.maximum(x, xp.zeros((), x.dtype)),
    # By the result, so that the input need not be kept for the gradient.
    lambda x, y, g: apply("Where", y > 0, g, 0),
    make_samples(lambda x: max(x, 0.0), _X),
    where=dtypes.REAL,
    rules=[by_step("maximum", 0)],
).define_type()


@public
def relu(features: Any, name: str | None = None) -> Tensor:
    """``max(x, 0)``, elementwise; the gradient at 0 is 0.

    Parameters
    ----------
    features : Tensor of an integer or floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.relu([-1.0, 2.0])).sync()
    array([0., 2.], dtype=float32)
    >>> tg.grad(lambda x: tg.reduce_sum(tg.relu(x))).sync(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 1.])
    """
    return apply("Relu", features, name=name)


_Activation(
    "Relu6",
    lambda xp, x: xp.clip(x, x.dtype.type(0), x.dtype.type(6)),
    lambda x, y, g: apply("Where", (y > 0) & (y < 6), g, 0),
    make_samples(lambda x: min(max(x, 0.0), 6.0), _X),
    where=dtypes.REAL,
).define_type()


@public
def relu6(features: Any, name: str | None = None) -> Tensor:
    """``min(max(x, 0), 6)``, elementwise; the gradient at 0 and 6 is 0.

    Parameters
    ----------
    features : Tensor of an integer or floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.relu6([-1.0, 2.0, 8.0])).sync()
    array([0., 2., 6.], dtype=float32)
    """
    return apply("Relu6", features, name=name)


_Activation(
    "Elu",
    lambda xp, x: xp.where(x > 0, x, xp.expm1(x)),
    # The slope for negative x, exp(x), is y + 1: the gradient does not need x.
    lambda x, y, g: apply("Where", y > 0, g, g * (y + 1)),
    make_samples(lambda x: x if x > 0 else math.expm1(x), _X),
).define_type()


@public
def elu(features: Any, name: str | None = None) -> Tensor:
    """``x`` where positive, else ``exp(x) - 1``, elementwise (Clevert et al., 2015).

    Parameters
    ----------
    features : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.elu(np.array([-1.0, 2.0]))).sync()
    array([-0.63212056,  2.        ])
    """
    return apply("Elu", features, name=name)


# With these constants mean 0 and variance 1 are a stable fixed point from layer to layer.
_ALPHA = 1.6732632423543772
_SCALE = 1.0507009873554805

_Activation(
    "Selu",
    lambda xp, x: xp.where(x > 0, x, x.dtype.type(_ALPHA) * xp.expm1(x)) * x.dtype.type(_SCALE),
    lambda x, y, g: apply("Where", y > 0, g * _SCALE, g * (y + _SCALE * _ALPHA)),
    make_samples(lambda x: _SCALE * (x if x > 0 else _ALPHA * math.expm1(x)), _X),
).define_type()


@public
def selu(features: Any, name: str | None = None) -> Tensor:
    """Scaled exponential linear unit, elementwise (Klambauer et al., 2017).

    Parameters
    ----------
    features : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.selu(np.array([-1.0, 2.0]))).sync()
    array([-1.11133074,  2.10140197])
    """
    return apply("Selu", features, name=name)


_Activation(
    "LeakyRelu",
    lambda xp, x, alpha: xp.where(x > 0, x, x * x.dtype.type(alpha)),
    # By the sign of x, not of y: a negative alpha makes all results positive.
    lambda x, y, g, alpha: apply("Where", x > 0, g, g * alpha),
    [Sample([f64([2.0, -3.0])], f64([2.0, -0.75]), {"alpha": 0.25})],
    attrs={"alpha": 0.2},
).define_type()


@public
def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """``x`` where positive, else ``alpha * x``, elementwise.

    Parameters
    ----------
    features : Tensor of a floating dtype
    alpha : float
        Slope for negative values.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.leaky_relu([-1.0, 2.0])).sync()
    array([-0.2,  2. ], dtype=float32)
    >>> tg.function(lambda: tg.leaky_relu([-1.0, 2.0], alpha=0.5)).sync()
    array([-0.5,  2. ], dtype=float32)
    """
    return apply("LeakyRelu", features, name=name, alpha=float(alpha))


@public
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Tensor:
    """Gaussian error linear unit, elementwise (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    features : Tensor of a floating dtype
    approximate : bool
        Use tanh instead of the error function.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.gelu(np.array([-1.0, 2.0]))).sync()
    array([-0.15865525,  1.95449974])
    >>> tg.function(lambda: tg.gelu(np.array([-1.0, 2.0]), approximate=True)).sync()
    array([-0.15880801,  1.95459769])
    """
    x = convert_to_tensor(features)
    if approximate:
        # The approximation of the error function in section 2 of the paper.
        inner = tanh((x + x * square(x) * 0.044715) * math.sqrt(2 / math.pi))
    else:
        inner = erf(x * math.sqrt(0.5))
    return apply("Mul", x * 0.5, inner + 1, name=name)


@public
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """``log(sigmoid(x))`` without overflow, elementwise.

    Parameters
    ----------
    x : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.log_sigmoid(np.array([0.0, -100.0]))).sync()
    array([  -0.69314718, -100.        ])
    """
    return apply("Neg", softplus(-convert_to_tensor(x)), name=name)
