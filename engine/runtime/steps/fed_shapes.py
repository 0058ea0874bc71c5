"""Which shapes a step is fed again and again, so that it is worth being compiled for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.tensor import Tensor

Shapes = tuple[tuple[int, ...], ...]

_REMEMBERED = 64  # combinations of shapes that were fed once


class FedShapes:
    """The shapes that one step was fed; never by time, so that the same calls give the same results.

    Parameters
    ----------
    feeds : sequence of Tensor
    most : int
        For how many combinations of shapes the step may be compiled.

    Attributes
    ----------
    may_be_chosen : bool
        Whether it may be compiled for any.
    """

    __slots__ = ("_chosen", "_most", "_once", "may_be_chosen")

    def __init__(self, feeds: Sequence[Tensor], most: int) -> None:
        self._most = 0 if all(t.shape.is_fully_known for t in feeds) else most
        self.may_be_chosen: bool = self._most > 0
        self._once: OrderedDict[Shapes, None] = OrderedDict()
        self._chosen: dict[Shapes, bool] = {}

    def chosen(self, values: Sequence[np.ndarray[Any, Any]]) -> Shapes | None:
        """Return the shapes of fed values, if the step has been, or should be, compiled for them."""
        shapes = tuple([value.shape for value in values])
        wanted = self._chosen.get(shapes)
        if wanted is not None:
            return shapes if wanted else None
        if len(self._chosen) == self._most:
            return None
        if shapes in self._once:
            del self._once[shapes]
            self._chosen[shapes] = True
            return shapes
        self._once[shapes] = None
        if len(self._once) > _REMEMBERED:
            self._once.popitem(last=False)
        return None

    def decline(self, shapes: Shapes) -> None:
        """Choose some shapes no more: the step can not be compiled for them alone."""
        self._chosen[shapes] = False
