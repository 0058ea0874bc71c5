"""Shapes and names of the components of a queue's elements, as users give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import GraphError
from ..base.shapes import Shape


def component_shapes(given: Any, count: int) -> tuple[Shape, ...]:
    """Return a shape for each component; GraphError if they are not so many."""
    if given is None:
        return (Shape(None),) * count
    listed: Sequence[Any] = given
    if count == 1 and (
        len(listed) != 1 or isinstance(listed, Shape) or not isinstance(listed[0], (list, tuple, Shape))
    ):
        listed = [given]
    if len(listed) != count:
        raise GraphError(
            "a queue needs a shape for each component",
            wanted=f"{count} shapes",
            got=list(listed),
            hint="give shapes as a list, with one shape for each dtype",
        )
    return tuple(map(Shape, listed))


def component_names(given: Any, count: int) -> tuple[str, ...] | None:
    """Return a name for each component, if there are any; GraphError if they are not all different."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    if len(set(names)) != count:
        raise GraphError(
            "a queue needs a name of its own for each component",
            wanted=f"{count} names",
            got=list(names),
            hint="give names= as many different names as there are dtypes, or leave it out",
        )
    return names
