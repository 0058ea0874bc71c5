"""Common parameters, results and errors of losses, for their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..base.docstrings import Family
from ..ir.entry import builds

F = TypeVar("F", bound=Callable[..., Any])

_LOSSES = Family(
    {
        "labels, predictions": """Tensor
    Of the same shape; predictions of a floating dtype, to which labels of other dtypes are cast.""",
        "logits": "Tensor of a floating dtype",
        "weights": """Tensor of any real dtype
    A scalar, or of the rank of the elementwise losses, with the same dimensions or 1 in their place. Elements of
    weight 0 do not count.""",
        "scope": "str, optional\n    Name scope of the operations.",
        "loss_collection": """str, optional
    Collection of the result, for `get_total_loss`, if the result is a scalar; None for no collection.""",
        "reduction": "str\n    One of `Reduction`.",
    },
    """Tensor
    Of the dtype of the losses, a scalar unless the reduction is NONE; 0 if the divisor is 0. Dtypes narrower than
    float32 are summed in float32.""",
    {
        "ShapeError": "If the shapes differ (labels and predictions are not broadcast), or the weights do not fit.",
        "DtypeError": "If predictions, logits or losses are not floating numbers.",
    },
)
# For losses with the argument `reduction`, which may be unknown.
_REDUCED = replace(_LOSSES, raises={**_LOSSES.raises, "GraphError": "If the reduction is unknown."})


def loss_function(function: F) -> F:
    """Mark a public loss function, and complete its docstring."""
    family = _REDUCED if "reduction" in inspect.signature(function).parameters else _LOSSES
    return builds(family.complete(function))
