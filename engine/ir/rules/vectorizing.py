"""The rule of `engine/vectorize`, which computes a function for many examples at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..examples import Examples
    from ..tensor import Tensor


@dataclass(frozen=True, slots=True)
class Vectorize:
    """The type computes the results of many examples at once.

    Attributes
    ----------
    rule : callable
        ``rule(examples)`` builds the operation for all examples and returns its outputs, each with a first dimension
        for the examples. Called only if an operand differs between examples, or if the type draws random numbers.
    """

    rule: Callable[[Examples], Sequence[Tensor]]
