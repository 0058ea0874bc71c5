"""Dropout inside of cells and between layers, by probabilities to keep an element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..ir.tensor import Tensor
from ..ops.math.casting import cast
from ..ops.nn.dropout import dropout


def is_one(keep: Any) -> bool:
    """Whether everything is kept, as the graph is built."""
    return isinstance(keep, (int, float, np.number)) and keep == 1


def checked_keep(keep: Any, what: str) -> Any:
    """Return a probability; GraphError if it is a number that is none."""
    if isinstance(keep, (int, float, np.number)) and not 0 < keep <= 1:
        raise GraphError(
            f"{what} is a probability to keep an element",
            wanted="a number above 0, at most 1",
            got=keep,
            hint="pass 1 - rate, if you have the rate of what is dropped",
        )
    return keep


def dropped(x: Tensor, keep: Any, seed: int | None) -> Tensor:
    """Return x with elements that are zero by chance, the others divided by the probability `keep` to stay."""
    if is_one(keep):
        return x
    return dropout(x, cast(keep, x.dtype) if hasattr(keep, "dtype") else keep, seed=seed)
