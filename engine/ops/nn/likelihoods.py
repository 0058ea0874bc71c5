"""Negative log likelihoods: of counts, and of labels with a weight for positives."""

from __future__ import annotations

import math
from typing import Any

from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..control.weights import of_one_shape
from ..math.elementwise import exp, log
from .activations import softplus


@public
def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None
) -> Tensor:
    """Cross-entropy of independent yes/no probabilities with ``sigmoid(logits)``, with a weight for yes.

    In Python: ``-pos_weight * labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))``, without
    overflow.

    Parameters
    ----------
    labels, logits : Tensor of a floating dtype
        Same dtype; shapes broadcast.
    pos_weight : Tensor of the same dtype, or float
        Weight of yes, which broadcasts too.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape, in nats.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> loss = tg.function(lambda p, x: tg.weighted_cross_entropy_with_logits(p, x, 3.0))
    >>> loss.sync(np.array([1.0, 0.0]), np.array([0.0, 100.0]))
    array([  2.07944154, 100.        ])
    """
    x = convert_to_tensor(logits)
    # log(sigmoid(x)) is -softplus(-x), and log(1 - sigmoid(x)) is -x - softplus(-x).
    weight = (convert_to_tensor(pos_weight, x.dtype) - 1) * labels + 1
    return apply("Add", (1 - convert_to_tensor(labels, x.dtype)) * x, weight * softplus(-x), name=name)


@public
def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """Negative log likelihood of counts under Poisson distributions.

    Parameters
    ----------
    targets : Tensor of a floating dtype
        The counts.
    log_input : Tensor of the same dtype and shape
        Logarithms of the expected counts.
    compute_full_loss : bool
        Add ``log(targets!)`` by Stirling's approximation, 0 for counts from 0 to 1; independent of `log_input`.

    Returns
    -------
    Tensor
        Same dtype and shape, in nats.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.log_poisson_loss(np.array([0.0, 3.0]), np.array([0.0, 1.0]))).sync()
    array([ 1.        , -0.28171817])
    """
    x = convert_to_tensor(log_input)
    count = convert_to_tensor(targets, x.dtype)
    x = of_one_shape(count, x, "targets and log_input")
    loss = apply("Sub", exp(x), x * count, name=name)
    if not compute_full_loss:
        return loss
    is_large = (count < 0) | (count > 1)
    # The approximation is computed for all elements: at 0 the logarithm would be infinite, its gradient NaN.
    safe = apply("Where", is_large, count, 1)
    stirling = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
    return loss + apply("Where", is_large, stirling, 0)
