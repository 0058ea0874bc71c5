"""Translation of operations into steps of a fused operation, as declared by their definitions.

See docs/design/0018-the-house.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..operation import Operation
    from ..tensor import Tensor


class StepWriter(Protocol):
    """A program of steps under construction; its values are tensors, or results of steps without a tensor."""

    def add(self, name: str, operands: Sequence[Any], made: Tensor | None = None, columns: tuple[int, ...] = ()) -> Any:
        """Append a step of the table in ``kernels/steps.py``; return its result, `made` if a tensor is passed."""
        ...

    def number(self, op: Operation, value: float) -> Tensor:
        """Return a number as a constant of the dtype of the result of `op`."""
        ...


def all_inputs(op: Operation) -> Sequence[Tensor]:
    """Return the inputs of an operation: the tensors read by its steps by default."""
    return op.inputs


@dataclass(frozen=True, slots=True)
class Fusion:
    """The steps of an operation type.

    Attributes
    ----------
    fits : callable
        ``fits(op)`` is true if the steps compute the operation, by its attributes and static shapes; called for
        operations whose results are floating and not empty.
    write : callable
        ``write(op, writer)`` appends the steps to a `StepWriter`.
    reads : callable
        ``reads(op)`` returns the tensors read by the steps.
    moves : bool
        True if all steps are moves: fusing nothing but moves would save no work.
    """

    fits: Callable[[Operation], bool]
    write: Callable[[Operation, StepWriter], None]
    reads: Callable[[Operation], Sequence[Tensor]] = all_inputs
    moves: bool = False


@dataclass(frozen=True, slots=True)
class AddsBias:
    """A large computation, to which a bias may be added before the result leaves the cache.

    Attributes
    ----------
    type : str
        The type which also adds the bias, with a further input and the attribute ``relu``.
    """

    type: str


@dataclass(frozen=True, slots=True)
class AddsPart:
    """An array of zeros except for a part, in a sum.

    Attributes
    ----------
    type : str
        The type which adds the part to another array, its first input; further inputs and attributes are the same.
    """

    type: str


@dataclass(frozen=True, slots=True)
class AppliesMask:
    """A large computation, whose result may be zeroed before it leaves the cache.

    Attributes
    ----------
    type : str
        The type which also zeroes the result wherever a further input, the last, is not positive.
    """

    type: str


@dataclass(frozen=True, slots=True)
class SumsRows:
    """A large computation, which reads its last input as rows.

    Attributes
    ----------
    type : str
        The type with the sum of these rows as second result.
    """

    type: str


@dataclass(frozen=True, slots=True)
class LargestPlaces:
    """The result is the place of the largest element of each window.

    Attributes
    ----------
    pool : str
        The type returning these elements.
    """

    pool: str


@dataclass(frozen=True, slots=True)
class SpreadsWindows:
    """Each element of the first input goes to the window element selected by the second input."""
