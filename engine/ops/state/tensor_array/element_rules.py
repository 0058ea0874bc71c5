"""Rules for the elements of a TensorArray."""

from __future__ import annotations

from dataclasses import dataclass

from ....base.shapes import UNKNOWN, Shape


@dataclass(frozen=True, slots=True)
class ElementRules:
    """Rules for the elements of a TensorArray.

    Attributes
    ----------
    element_shape : Shape
        Shape that all elements fit.
    dynamic_size : bool
        Let the array grow as elements are written.
    clear_after_read : bool
        Free an element after its read.
    identical_shapes : bool
        Require one shape of all elements.
    sums : bool
        Add repeated writes up, as a gradient array does that has no primal.
    """

    element_shape: Shape = UNKNOWN
    dynamic_size: bool = False
    clear_after_read: bool = True
    identical_shapes: bool = False
    sums: bool = False


ANY_ELEMENTS = ElementRules()


def describe_instance(instance: tuple[str, int] | None) -> str:
    """Return an operation and its iteration as text, for errors about its access to an element."""
    return "nobody" if instance is None else f"'{instance[0]}' in iteration {instance[1]}"
