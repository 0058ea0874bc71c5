"""Joining arrays with a single copy of each, straight from its memory, on or off the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ....kernels.core.continuation import Continuation
from ....kernels.cpu.elements import Element
from ....kernels.memory.swappable import SwappableArray
from ...support import copies
from ...support.context import KernelContext, LongCall

Array = np.ndarray[Any, Any]


def join_values(
    join: Callable[[list[Any]], Any], values: list[Any], put_back: list[tuple[Element, Any]], context: KernelContext
) -> Any:
    """Return ``join(values)``, or an awaitable of the result if joining takes long.

    Values perhaps off the device are joined at once: only the loop's thread may access them.

    Parameters
    ----------
    put_back : list of (Element, object)
        Contents to restore to the elements if there is no memory for the result.
    """
    calls = context.step.long_calls
    if (
        calls is None
        or any(isinstance(value, SwappableArray) for value in values)
        or _total_bytes(values) < copies.LARGE
    ):
        return join(values)
    return _join_later(context.step.later(join), values, put_back)


def _total_bytes(values: list[Any]) -> int:
    return sum(value.nbytes for value in values)


async def _join_later(
    call: Callable[..., LongCall], values: list[Any], put_back: list[tuple[Element, Any]]
) -> Continuation:
    with not_read_if_refused(put_back):
        # The thread may be refused memory as well.
        made = await call(values)
    return Continuation(lambda: made)


def values_at(elements: list[Element], indices: Any) -> list[tuple[Element, Any]]:
    """Return the elements at indices in range, each with its value."""
    return [(elements[i], elements[i].value) for i in indices if 0 <= i < len(elements)]


@contextmanager
def not_read_if_refused(put_back: list[tuple[Element, Any]]) -> Iterator[None]:
    """Restore the values of elements if there is no memory for the result, so the read can be repeated."""
    try:
        yield
    except MemoryError:
        for element, value in put_back:
            element.value = value
        raise


def concatenated_with_lengths(xp: Any, values: list[Any]) -> tuple[Array, Array]:
    """Join values along their first dimension; return the result and the lengths of the values."""
    return concatenate_values(xp, values), np.array([value.shape[0] for value in values], np.int32)


def stack_values(xp: Any, values: list[Any]) -> Array:
    """Return `numpy.stack` of values, without making a view of each value."""
    if any(isinstance(value, SwappableArray) for value in values):
        count = len(values)
        return _copy_pieces(
            xp, values, (count, *values[0].shape), lambda result: [result[k, ...] for k in range(count)]
        )
    # `concatenate` refuses arrays of rank 0.
    if values[0].size == 0 or values[0].ndim == 0:
        stacked: Array = xp.stack(values)
        return stacked
    rows: Array = xp.concatenate(values).reshape(len(values), *values[0].shape)
    return rows


def concatenate_values(xp: Any, values: list[Any]) -> Array:
    """Return `numpy.concatenate` of values, some perhaps off the device."""
    if not any(isinstance(value, SwappableArray) for value in values):
        joined: Array = xp.concatenate(values)
        return joined
    bounds = [0, *accumulate(value.shape[0] for value in values)]
    shape = (bounds[-1], *values[0].shape[1:])
    return _copy_pieces(xp, values, shape, lambda result: [result[a:b] for a, b in pairwise(bounds)])


def _copy_pieces(
    xp: Any, values: list[Any], shape: tuple[int, ...], pieces: Callable[[Array], Iterable[Array]]
) -> Array:
    """Return an array whose pieces are the values, each copied straight from its memory."""
    # A value off the device is copied once, into its piece, and not fetched into an array of its own first.
    result: Array = xp.empty(shape, values[0].dtype)
    for piece, value in zip(pieces(result), values, strict=True):
        if isinstance(value, SwappableArray):
            value.copy_to(piece)
        else:
            piece[...] = value
    return result
