"""Rules for the elements of a TensorArray, the attributes of its operation, and the errors of broken rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.dtypes import DType
from ....base.errors import TensorArrayError
from ....base.shapes import UNKNOWN, Shape
from ...support.context import KernelContext


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
        Add repeated writes up, as in a gradient array without a primal.
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


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Attributes of a TensorArrayNew."""

    dtype: DType
    element_shape: Shape
    dynamic_size: bool
    clear_after_read: bool
    identical_shapes: bool
    array_name: str
    swappable: bool
    accepts_host_rows: bool
    sums: bool

    def element_rules(self) -> ElementRules:
        """Return the rules for the elements."""
        shape = Shape(self.element_shape)
        return ElementRules(shape, self.dynamic_size, self.clear_after_read, self.identical_shapes, self.sums)


def array_error(what: str, context: KernelContext, **fields: Any) -> TensorArrayError:
    """Return the error of an operation on a TensorArray."""
    return TensorArrayError(what, operation=context.operation, **fields)
