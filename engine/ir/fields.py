"""Constructors made from the fields of a class, for classes whose constructors take many options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

from .misuse import refuses_misuse

T = TypeVar("T")
_MARK = "InitVar["


@dataclass_transform(eq_default=False)
def takes_fields(kind: type[T]) -> type[T]:
    """Give a class a constructor whose parameters are the annotated fields of the class, in their order.

    The constructor sets an attribute for each parameter, and calls ``__post_init__`` for all else. A field marked
    ``InitVar`` sets no attribute: ``__post_init__`` takes its value. The mark is for a parameter that the object does
    not keep, and for an attribute of another type than the parameter of the same name.

    Of a dataclass there is the constructor only: objects are compared by identity, and are leaves of structures.
    """
    return make_constructor(kind, refuses_misuse)


def make_constructor(kind: type[T], guard: Callable[[Callable[..., None]], Callable[..., None]]) -> type[T]:
    """Give a class the constructor of its fields, wrapped by `guard`; see `takes_fields`."""
    made: Any = dataclass(eq=False, repr=False, match_args=False)(kind)
    constructor = made.__init__
    # Readers of the signature see the type of the parameter; the mark concerns the class alone.
    marked = {name: of for name, of in constructor.__annotations__.items() if str(of).startswith(_MARK)}
    constructor.__annotations__ |= {name: of[len(_MARK) : -1] for name, of in marked.items()}
    made.__init__ = guard(constructor)
    made._is_leaf = True  # of nested structures, unlike other dataclasses
    return kind
