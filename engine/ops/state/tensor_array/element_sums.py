"""Sums of values written to the elements of gradient arrays; large sums are computed in threads, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ....base.turns import Turns
from ....kernels.cpu.elements import Element
from ...support import copies
from ...support.context import KernelContext, LongCall, Wait, has_succeeded, until_ended

Array = np.ndarray[Any, Any]
Addend = tuple[Element, Array]  # an element, and the array to add to its value


class ElementSums:
    """Addition to the elements of an array.

    Parameters
    ----------
    xp : module
        Library of the arrays.
    """

    __slots__ = ("_turns", "_xp")

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._turns = Turns()

    def add(self, addends: list[Addend], context: KernelContext) -> Wait | None:
        """Add now, or return a function to wait for the addition in a thread."""
        calls = context.step.long_calls
        # A small sum waits too while another addition runs, so that additions keep their order.
        if calls is None or not (self._turns.taken or sum(array.nbytes for _, array in addends) >= copies.LARGE):
            self._add_all(addends)
            return None
        return partial(self._add_elsewhere, addends, context.step.later(self._add_all))

    def _add_all(self, addends: list[Addend]) -> None:
        for element, array in addends:
            # A value that others may hold is not written to: its sum is a new array; later addends go there in place.
            if element.owned:
                self._xp.add(element.value, array, out=element.value)
            else:
                element.value, element.owned = self._xp.asarray(element.value + array), True

    async def _add_elsewhere(self, addends: list[Addend], call: Callable[..., LongCall]) -> None:
        """Add in a thread in turn; a started addition ends before a cancelled step does."""
        async with self._turns.turn():
            running = call(addends)
            try:
                await until_ended(running)
                running.result()
            finally:
                # Called for its effect: an error counts as retrieved.
                has_succeeded(running)
                del running  # the traceback of its error refers to this frame
