"""Elementwise arithmetic on two operands, with NumPy broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.build import apply
from ..ir.definition import Sample, Ufunc, define
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from .common import broadcast_all, sum_to

_A = np.float64([[1.5, -2.0, 3.0]])
_B = np.float64([[0.5], [4.0]])


def _add_gradient(op: Operation, g: Tensor) -> list[Any]:
    x, y = op.inputs
    return [sum_to(g, x), sum_to(g, y)]


define(
    "Add",
    "x: T, y: T -> z: T",
    where={"T": (*dtypes.NUMERIC, dtypes.string)},
    shape=broadcast_all,
    kernel=Ufunc("add"),
    gradient=_add_gradient,
    samples=[Sample([_A, _B], lambda x, y: x + y), Sample([np.int32(3), np.int32(4)], np.int32(7))],
)


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Add elementwise.

    Parameters
    ----------
    x, y : Tensor of any numeric dtype, or string (concatenation)
        Same dtype; shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.
    """
    return apply("Add", x, y, name=name)  # type: ignore[no-any-return]


def _multiply_gradient(op: Operation, g: Tensor) -> list[Any]:
    x, y = op.inputs
    return [sum_to(g * conj(y), x), sum_to(g * conj(x), y)]


define(
    "Mul",
    "x: T, y: T -> z: T",
    where={"T": dtypes.NUMERIC},
    shape=broadcast_all,
    kernel=Ufunc("multiply"),
    gradient=_multiply_gradient,
    samples=[Sample([_A, _B], lambda x, y: x * y)],
)


def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Multiply elementwise.

    Parameters
    ----------
    x, y : Tensor of any numeric dtype
        Same dtype; shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape.
    """
    return apply("Mul", x, y, name=name)  # type: ignore[no-any-return]


def conj(x: Tensor) -> Tensor:
    """Return the complex conjugate of a complex tensor, and a real one as it is."""
    return apply("Conj", x) if x.dtype.is_complex else x
