"""Base of optimizers with the same elementwise update for whole variables and for the rows of sparse gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..base.dtypes import DType, accumulator_dtype
from ..frontend.state.variables import Variable
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.array.distinct import sum_repeats
from ..ops.array.gather import gather
from ..ops.control.effects import group
from ..ops.math.casting import cast
from ..ops.support.indexed_slices import IndexedSlices
from .optimizer import Optimizer


class Part(ABC):
    """The elements that one gradient updates: a variable and its slots, whole or some rows of each.

    Variables of two-byte dtypes are read as float32 and rounded when written: in a two-byte dtype, ``1 - beta2`` and
    squares of small gradients would be 0.

    Attributes
    ----------
    var : Variable
    dtype : DType
        Of the values that `read` returns, and of the computation.
    updates : list of Tensor
        Outputs of the operations that write variables, in the order of building.
    """

    def __init__(self, var: Variable) -> None:
        self.var = var
        self.dtype: DType = accumulator_dtype(var.dtype)
        self.updates: list[Tensor] = []

    def read(self, variable: Variable) -> Tensor:
        """Return the part of the variable or of a slot, as of before later updates."""
        return cast(self._read_part(variable), self.dtype)

    def write(self, variable: Variable, value: Tensor) -> Tensor:
        """Replace the part of the variable or of a slot; return the new value for further computation."""
        written = self._write_part(variable, cast(value, variable.dtype))
        # The unrounded value, if the variable has a narrower dtype.
        return written if variable.dtype is self.dtype else value

    def lower(self, step: Tensor) -> None:
        """Subtract `step` from the part of the variable."""
        self._subtract_from_part(cast(step, self.var.dtype))

    @abstractmethod
    def _read_part(self, variable: Variable) -> Tensor: ...

    @abstractmethod
    def _write_part(self, variable: Variable, value: Tensor) -> Tensor: ...

    @abstractmethod
    def _subtract_from_part(self, step: Tensor) -> None: ...


class Whole(Part):
    """A whole variable and its slots."""

    def _read_part(self, variable: Variable) -> Tensor:
        return variable.value()

    def _write_part(self, variable: Variable, value: Tensor) -> Tensor:
        self.updates.append(variable.assign(value))
        return self.updates[-1]  # the output, not `value`: one fused operation then computes and writes the slot

    def _subtract_from_part(self, step: Tensor) -> None:
        self.updates.append(self.var.assign_sub(step))


class Rows(Part):
    """Distinct rows of a variable and its slots, gathered and scattered without touching other rows."""

    def __init__(self, var: Variable, indices: Tensor) -> None:
        super().__init__(var)
        self._indices = indices

    def _read_part(self, variable: Variable) -> Tensor:
        return gather(variable, self._indices)

    def _write_part(self, variable: Variable, value: Tensor) -> Tensor:
        self.updates.append(variable.scatter_update(self._indices, value))
        return value  # the output of a scatter is the whole table

    def _subtract_from_part(self, step: Tensor) -> None:
        self.updates.append(self.var.scatter_sub(self._indices, step))


class ElementwiseOptimizer(Optimizer):
    """Base of optimizers that define `update` of one part; for a sparse gradient the part is its rows."""

    def update(self, gradient: Tensor, part: Part) -> None:
        """Build the update of one part from its gradient, in `part.dtype`. Subclasses define this method."""
        raise NotImplementedError

    def apply_dense(self, gradient: Tensor, var: Variable) -> Operation:
        return self._build_update(gradient, Whole(var))

    def apply_sparse(self, gradient: IndexedSlices, var: Variable) -> Operation:
        # A scatter keeps only one of several updates of a row, so repeated rows are summed first.
        rows = sum_repeats(gradient)
        return self._build_update(rows.values, Rows(var, rows.indices))

    def _build_update(self, gradient: object, part: Part) -> Operation:
        self.update(cast(gradient, part.dtype), part)
        return group(*part.updates)
