"""What all losses have in common, for their docstrings."""

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
    Of one shape; predictions of a floating dtype, to which labels of another are cast.""",
        "logits": "Tensor of a floating dtype",
        "weights": """Tensor of any real dtype
    A scalar, or of the rank of the losses of elements, with the same dimensions or 1 in their place. Elements of
    weight 0 do not count.""",
        "scope": "str, optional\n    Name scope of the operations.",
        "loss_collection": """str, optional
    Where the result is noted, for `get_total_loss`, if it is a scalar; with None nowhere.""",
        "reduction": "str\n    One of `Reduction`.",
    },
    """Tensor
    Of the dtype of the losses, a scalar unless the reduction is NONE; 0 if the divisor is 0. Sums of what is smaller
    than float32 are in float32.""",
    {
        "ShapeError": "If the shapes differ, as nothing is broadcast, or the weights do not fit.",
        "DtypeError": "If predictions, logits or losses are not floating numbers.",
    },
)
_REDUCED = replace(_LOSSES, raises={**_LOSSES.raises, "GraphError": "If there is no such reduction."})


def loss_function(function: F) -> F:
    """Mark a loss: a function that users build with, whose docstring is completed."""
    family = _REDUCED if "reduction" in inspect.signature(function).parameters else _LOSSES
    return builds(family.complete(function))
