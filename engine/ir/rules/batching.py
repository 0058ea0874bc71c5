"""Rules of the loop passes, which compute many iterations by one operation: see `engine/compile/loops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..builder import Builder
    from ..operation import Operation
    from ..tensor import Tensor

Batched = Callable[["Builder", "list[Tensor]"], "list[Tensor]"]
BatchRule = Callable[["Operation", Sequence[bool]], "Batched | None"]


@dataclass(frozen=True, slots=True)
class Batch:
    """The type computes many instances at once (a vmap rule of JAX, for axis 0).

    Attributes
    ----------
    rule : callable
        ``rule(op, varying)`` returns a function emitting the operation for many instances at once, or None if the
        operation cannot be batched: ``emit(builder, operands)`` returns outputs with a leading dimension counting the
        instances, as each operand has for which `varying` is true.
    """

    rule: BatchRule


@dataclass(frozen=True, slots=True)
class TakesRow:
    """The result is a row of an array.

    Attributes
    ----------
    row : callable
        ``row(op)`` is the array and the row number; None for other uses of the type.
    """

    row: Callable[[Operation], tuple[Tensor, Tensor] | None]


def taken_row(op: Operation) -> tuple[Tensor, Tensor] | None:
    """Return the array and the row number if an operation takes a row of an array, else None."""
    takes = op.rule(TakesRow)
    return None if takes is None else takes.row(op)
