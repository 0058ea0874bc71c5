"""Shapes that a step is fed again and again, and is therefore compiled for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.tensor import Tensor

Shapes = tuple[tuple[int, ...], ...]

_REMEMBERED = 64  # combinations of shapes that were fed once


class FedShapes:
    """The shapes fed to a step, chosen by counts and never by time: the same calls return the same results.

    Parameters
    ----------
    feeds : sequence of Tensor
    most : int
        Number of combinations of shapes that the step may be compiled for.

    Attributes
    ----------
    may_be_chosen : bool
        True if the step may be compiled for any combination of shapes.
    """

    __slots__ = ("_chosen", "_most", "_once", "may_be_chosen")

    def __init__(self, feeds: Sequence[Tensor], most: int) -> None:
        self._most = 0 if all(t.shape.is_fully_known for t in feeds) else most
        self.may_be_chosen: bool = self._most > 0
        self._once: OrderedDict[Shapes, None] = OrderedDict()
        self._chosen: dict[Shapes, bool] = {}

    def choose_shapes(self, values: Sequence[np.ndarray[Any, Any]]) -> Shapes | None:
        """Return the shapes of fed values if the step is compiled for them: from their second occurrence on."""
        shapes = tuple([value.shape for value in values])
        wanted = self._chosen.get(shapes)
        if wanted is not None:
            return shapes if wanted else None
        # Declined shapes count too: the number of compilations stays bounded.
        if len(self._chosen) == self._most:
            return None
        if shapes in self._once:
            del self._once[shapes]
            self._chosen[shapes] = True
            return shapes
        self._once[shapes] = None
        # Feeds whose shapes never repeat must not fill the memory.
        if len(self._once) > _REMEMBERED:
            self._once.popitem(last=False)
        return None

    def decline(self, shapes: Shapes) -> None:
        """Exclude some shapes from now on, because the step cannot be compiled for them alone."""
        self._chosen[shapes] = False
