"""How operations of a type become steps of a fused operation, as their definition says.

See docs/design/0018-the-house.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .operation import Operation
    from .tensor import Tensor


class StepWriter(Protocol):
    """A program of steps while it is written; its values are tensors, and results of steps that are no tensors."""

    def add(self, name: str, operands: Sequence[Any], made: Tensor | None = None, columns: tuple[int, ...] = ()) -> Any:
        """Append a step of the table in ``kernels/steps.py``; return its result, the tensor `made` if there is one."""

    def number(self, op: Operation, value: float) -> Tensor:
        """Return a number of the dtype of the result of `op`, as a constant."""


def all_inputs(op: Operation) -> Sequence[Tensor]:
    """Return the inputs of an operation: what its steps read, unless its definition says otherwise."""
    return op.inputs


@dataclass(frozen=True, slots=True)
class Fusion:
    """How an operation becomes steps.

    Attributes
    ----------
    fits : callable
        ``fits(op)``: whether the steps compute what this operation does, by its attributes and static shapes. That its
        results are floating and not empty is known.
    write : callable
        ``write(op, writer)`` appends the steps to a `StepWriter`.
    reads : callable
        ``reads(op)`` gives the tensors that the steps read.
    moves : bool
        Whether all steps are moves: a fused operation of nothing else would save no work.
    """

    fits: Callable[[Operation], bool]
    write: Callable[[Operation, StepWriter], None]
    reads: Callable[[Operation], Sequence[Tensor]] = all_inputs
    moves: bool = False
