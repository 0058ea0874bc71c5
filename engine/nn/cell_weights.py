"""Initial values and linear maps of recurrent cells and of attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..base.dtypes import DType
from ..base.errors import ShapeError
from ..frontend.variables import Variable
from ..ir.tensor import Tensor
from ..ops.array.creation import fill
from ..ops.array.shapes import reshape, shape
from ..ops.math.linear import matmul
from ..ops.math.random import random_uniform
from .module import Module

Initializer = Callable[[list[int], DType], Any]


def glorot(sizes: list[int], dtype: DType) -> Tensor:
    """Draw weights that keep the scale of what they multiply (Glorot and Bengio, 2010)."""
    limit = math.sqrt(6.0 / max(1, sizes[0] + sizes[-1]))
    return random_uniform(sizes, -limit, limit, dtype)


def weight(sizes: list[int], dtype: DType, name: str, initializer: Initializer | None = None) -> Variable:
    """Make a variable of a matrix or vector."""
    make = initializer or glorot
    return Variable(lambda: make(sizes, dtype), name=name, dtype=dtype)


def filled(sizes: list[int], dtype: DType, value: float, name: str) -> Variable:
    """Make a variable that begins as one number everywhere."""
    return Variable(lambda: fill(sizes, value).astype(dtype), name=name, dtype=dtype)


def depth_of(x: Any, what: str) -> int:
    """Return the last dimension, by which weights are made; ShapeError if it is not known."""
    depth = x.shape[-1] if x.rank else None
    if depth is None:
        raise ShapeError(
            f"{what} makes its weights by the last dimension of what it is given",
            wanted="a last dimension that is known",
            got=x.shape,
            operation=x.op,
            hint="give the placeholder that dimension, or call set_shape",
        )
    return int(depth)


class Linear(Module):
    """A matrix that what comes is multiplied by, made when it first comes; leading dimensions stay as they are."""

    def __init__(self, units: int, bias: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        self.units = units
        self.has_bias = bias
        self.kernel: Variable | None = None
        self.bias: Variable | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x @ kernel + bias``."""
        depth = depth_of(x, "a linear map")
        if self.kernel is None:
            self.kernel = weight([depth, self.units], x.dtype, "kernel")
            self.bias = filled([self.units], x.dtype, 0.0, "bias") if self.has_bias else None
        product = matmul(x if x.rank == 2 else reshape(x, [-1, depth]), self.kernel)
        if self.bias is not None:
            product = product + self.bias
        return product if x.rank == 2 else self._as_before(x, product)

    def _as_before(self, x: Tensor, product: Tensor) -> Tensor:
        sizes = shape(x)
        lead = [sizes[i] if d is None else d for i, d in enumerate(x.shape[:-1])]
        result: Tensor = reshape(product, [*lead, self.units])
        result.set_shape([*x.shape[:-1], self.units])
        return result
