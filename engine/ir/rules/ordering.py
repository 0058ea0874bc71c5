"""Rules about the order of effects: see `engine/compile/order_effects.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..operation import Operation


@dataclass(frozen=True, slots=True)
class Ordered:
    """Operations of the type run in the order of building (rule 140).

    Attributes
    ----------
    key : callable
        ``key(op)`` is the key of the state accessed, such as ("variables", "w"), or None for a free operation.
    """

    key: Callable[[Operation], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class ReturnsInput:
    """The result of an operation run for its effects equals an input.

    Attributes
    ----------
    index : int
        Number of the input.
    """

    index: int
