"""Rules about shapes as values: see `engine/ir/static_values.py` and the simplifying passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...base.shapes import Shape
    from ..operation import Operation


@dataclass(frozen=True, slots=True)
class ShapeOnly:
    """The result depends on the shape of the type's input alone, as of Shape, Size and Rank."""


@dataclass(frozen=True, slots=True)
class ShapeVector:
    """The result is an integer vector, often used as a shape.

    Attributes
    ----------
    known : callable
        ``known(op)`` is the known part of the shape in the vector, or None.
    is_checked : bool
        True if the known part is right only where sizes fit each other, which the kernel checks.
    """

    known: Callable[[Operation], Shape | None]
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class StoresElement:
    """The type writes to an array of values, its first input.

    Attributes
    ----------
    shape : callable
        ``shape(op)`` is the static shape of the element written.
    """

    shape: Callable[[Operation], Shape]


@dataclass(frozen=True, slots=True)
class LoadsElement:
    """The type reads an array of values, its first input.

    Attributes
    ----------
    shape : callable
        ``shape(op, element)`` is the static shape of the first output, if all elements written have the static shape
        `element`.
    """

    shape: Callable[[Operation, Shape], Shape]
