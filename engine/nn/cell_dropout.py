"""Dropout inside of cells, by draws of their own or by one mask for all steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.creation import fill
from ..ops.array.shapes import shape
from ..ops.array.where import where
from ..ops.math.random import random_uniform


def is_one(keep: Any) -> bool:
    """Whether everything is kept, as the graph is built."""
    return isinstance(keep, (int, float)) and keep == 1


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
    return x if is_one(keep) else kept(x, random_uniform(shape(x), dtype=x.dtype, seed=seed), keep)


def kept(x: Tensor, draws: Tensor, keep: Any) -> Tensor:
    """Return x where draws from [0, 1), which broadcast to it, are below `keep`, divided by that; 0 elsewhere."""
    if is_one(keep):
        return x
    probability = convert_to_tensor(keep, x.dtype)
    zero = fill([], 0).astype(x.dtype)
    return where(draws < probability, x / probability, zero)
