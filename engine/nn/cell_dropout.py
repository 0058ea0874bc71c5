"""Dropout in cells and between layers, by the probability of keeping an element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..ir.tensor import Tensor
from ..ops.math.casting import cast
from ..ops.nn.dropout import dropout


def is_one(keep: Any) -> bool:
    """Return True for the constant probability 1, known while the graph is built."""
    # A tensor has no static value to compare, and is never taken for 1.
    return isinstance(keep, (int, float, np.number)) and keep == 1


def checked_keep(keep: Any, what: str) -> Any:
    """Return a probability; raise GraphError for a number outside of (0, 1]."""
    if isinstance(keep, (int, float, np.number)) and not 0 < keep <= 1:
        raise GraphError(
            f"{what} is a probability to keep an element",
            wanted="a number above 0, at most 1",
            got=keep,
            hint="pass 1 - rate, if you have the rate of what is dropped",
        )
    return keep


def drop_elements(x: Tensor, keep: Any, seed: int | None) -> Tensor:
    """Return `x` with randomly zeroed elements, the others divided by their probability `keep`."""
    if is_one(keep):
        return x
    # A Python number is not cast, so that `dropout` can check its range.
    return dropout(x, cast(keep, x.dtype) if hasattr(keep, "dtype") else keep, seed=seed)
