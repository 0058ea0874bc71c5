"""Rules of forward-mode differentiation: see `engine/gradients/tangents.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..operation import Operation
    from ..tensor import Tensor

TangentRule = Callable[["Operation", "Sequence[Tensor | None]"], "Sequence[Tensor | None] | None"]


@dataclass(frozen=True, slots=True)
class Tangents:
    """The tangents of the outputs are built directly; those of other types by transposing their gradient.

    Attributes
    ----------
    rule : callable
        ``rule(op, given)`` builds, in the region of `op`, a tangent for each output from the tangents of the inputs,
        None where a tangent is zero. It returns None for operations that it does not cover.
    """

    rule: TangentRule


@dataclass(frozen=True, slots=True)
class DependsOn:
    """The outputs depend, for derivatives, on some of the inputs alone.

    Attributes
    ----------
    inputs : callable
        ``inputs(op)`` returns these inputs.
    """

    inputs: Callable[[Operation], Sequence[Tensor]]
