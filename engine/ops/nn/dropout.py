"""Dropout: elements set to 0 at random."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import DtypeError, GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..math.random import random_uniform
from ..support.arguments import shape_vector
from ..support.common import shape_of


@public
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Set elements to 0 at random and scale the others up, to keep the mean (Srivastava et al., 2014).

    Each step, iteration and frame draws anew. The gradient of dropped elements is 0.

    Parameters
    ----------
    x : Tensor of a floating dtype
    keep_prob : float or scalar Tensor of the same dtype, optional
        Probability of keeping an element, in (0, 1].
    noise_shape : int32 or int64 vector, optional
        Shape of the random numbers, which broadcasts to the shape of `x`: along dimensions of size 1 elements stay or
        go together.
    seed : int, optional
        As for `random_uniform`.
    rate : float or scalar Tensor of the same dtype, optional
        ``1 - keep_prob``, in [0, 1): either argument is needed.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If both probabilities are passed, or neither, or the probability is out of range.
    DtypeError
        If `x` is not of a floating dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> rows = tg.function(lambda: tg.dropout(tg.ones([1000, 3]), rate=0.5, noise_shape=[1000, 1])).sync()
    >>> sorted({tuple(row) for row in rows.tolist()})
    [(0.0, 0.0, 0.0), (2.0, 2.0, 2.0)]
    """
    return drop_elements(
        x, keep_prob, rate, noise_shape, lambda size, d: random_uniform(size, dtype=d, seed=seed), name
    )


def drop_elements(
    x: Any, keep_prob: Any, rate: Any, noise_shape: Any, draw: Callable[[Tensor, DType], Tensor], name: str | None
) -> Tensor:
    """Drop elements of `x` where ``draw(shape, dtype)`` is less than `rate`, or ``1 - keep_prob``.

    The random numbers have the shape `noise_shape`, by default the shape of `x`.
    """
    tensor = convert_to_tensor(x)
    if not tensor.dtype.is_floating:
        raise DtypeError(
            "dropout scales what stays",
            wanted="a floating dtype",
            got=tensor.dtype,
            operation=tensor.op,
            hint='cast(x, "float32")',
        )
    lost = _drop_rate(keep_prob, rate)
    if not isinstance(lost, float):
        lost = convert_to_tensor(lost, tensor.dtype)
    elif lost == 0:
        # Nothing is dropped, so nothing need be drawn in the step.
        return apply("Identity", tensor, name=name)
    shape = shape_of(tensor) if noise_shape is None else shape_vector(noise_shape)
    # Numbers from [0, 1) are at least `lost` with probability 1 - `lost`.
    kept = draw(shape, tensor.dtype) >= lost
    # A choice and not a product with the mask: 0 times an infinite element is NaN.
    result: Tensor = apply("Where", kept, tensor * (1 / (1 - lost)), 0, name=name)
    # The shape of random numbers may be known in the step only, but they broadcast to the shape of `x`.
    result.set_shape(tensor.shape)
    return result


def _drop_rate(keep_prob: Any, rate: Any) -> Any:
    """Return the share of dropped elements: a checked float where known, else a value to convert to a tensor."""
    if (keep_prob is None) == (rate is None):
        raise GraphError(
            "dropout needs one probability",
            wanted="rate, or keep_prob",
            got="neither" if rate is None else "both",
            hint="rate is the part that is left out",
        )
    given = keep_prob if rate is None else rate
    # A bool is a number to Python, but a mistake here.
    if isinstance(given, (str, bytes, list, tuple, dict, bool)) or callable(given):
        raise DtypeError(
            "a probability of dropout is a number",
            wanted="a number of 0 to 1, or a floating scalar tensor",
            got=repr(given),
            hint="dropout(x, rate=0.1)",
        )
    lost = 1 - keep_prob if rate is None else rate
    if isinstance(lost, Tensor):
        known = static_value(lost)
        lost = lost if known is None else known
    if isinstance(lost, np.ndarray) and not lost.shape:
        lost = lost.item()
    if not isinstance(lost, numbers.Real):
        return lost
    part = float(lost)
    if not 0 <= part < 1:
        raise GraphError("a part is left out", wanted="0 <= rate < 1", got=part, hint="rate is 1 - keep_prob")
    return part
