"""Optimizers whose update of an element is the same in a whole variable and in the rows that have a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..base.dtypes import DType, accumulator_dtype
from ..frontend.variables import Variable
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.array.distinct import sum_repeats
from ..ops.array.gather import gather
from ..ops.control.effects import group
from ..ops.math.casting import cast
from ..ops.support.indexed_slices import IndexedSlices
from .optimizer import Optimizer


class Part(ABC):
    """What one gradient changes: a variable and its slots, as a whole or some rows of each.

    Variables of two bytes are read as float32 and rounded when they are written: in between, ``1 - beta2`` and squares
    of small gradients would be 0.

    Attributes
    ----------
    var : Variable
    dtype : DType
        That of what `read` gives, and of what is computed.
    updates : list of Tensor
        Of the operations that change something, noted when they are built.
    """

    def __init__(self, var: Variable) -> None:
        self.var = var
        self.dtype: DType = accumulator_dtype(var.dtype)
        self.updates: list[Tensor] = []

    def read(self, variable: Variable) -> Tensor:
        """Return the value of the part of the variable or of a slot, in front of the updates that come."""
        return cast(self._value(variable), self.dtype)

    def write(self, variable: Variable, value: Tensor) -> Tensor:
        """Replace the part of the variable or of a slot; return the new value, to go on with."""
        written = self._replace(variable, cast(value, variable.dtype))
        return written if variable.dtype is self.dtype else value

    def lower(self, step: Tensor) -> None:
        """Subtract from the part of the variable."""
        self._subtract(cast(step, self.var.dtype))

    @abstractmethod
    def _value(self, variable: Variable) -> Tensor: ...

    @abstractmethod
    def _replace(self, variable: Variable, value: Tensor) -> Tensor: ...

    @abstractmethod
    def _subtract(self, step: Tensor) -> None: ...


class Whole(Part):
    """A variable and its slots."""

    def _value(self, variable: Variable) -> Tensor:
        return variable.value()

    def _replace(self, variable: Variable, value: Tensor) -> Tensor:
        self.updates.append(variable.assign(value))
        return self.updates[-1]  # which one fused operation makes, with all that is computed from it

    def _subtract(self, step: Tensor) -> None:
        self.updates.append(self.var.assign_sub(step))


class Rows(Part):
    """Some rows, each once: nothing goes through the table that they are of."""

    def __init__(self, var: Variable, indices: Tensor) -> None:
        super().__init__(var)
        self._indices = indices

    def _value(self, variable: Variable) -> Tensor:
        return gather(variable, self._indices)

    def _replace(self, variable: Variable, value: Tensor) -> Tensor:
        self.updates.append(variable.scatter_update(self._indices, value))
        return value

    def _subtract(self, step: Tensor) -> None:
        self.updates.append(self.var.scatter_sub(self._indices, step))


class ElementwiseOptimizer(Optimizer):
    """Base of optimizers that say by `update` what happens to a part; of a sparse gradient the part is its rows."""

    def update(self, gradient: Tensor, part: Part) -> None:
        """Build the update of one part from its gradient, in `part.dtype`; every such optimizer defines this."""
        raise NotImplementedError

    def apply_dense(self, gradient: Tensor, var: Variable) -> Operation:
        return self._updated(gradient, Whole(var))

    def apply_sparse(self, gradient: IndexedSlices, var: Variable) -> Operation:
        rows = sum_repeats(gradient)
        return self._updated(rows.values, Rows(var, rows.indices))

    def _updated(self, gradient: Any, part: Part) -> Operation:
        self.update(cast(gradient, part.dtype), part)
        return group(*part.updates)
