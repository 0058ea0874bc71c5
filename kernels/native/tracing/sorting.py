"""NumPy's sorts and searches for arrays that are traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Traced, as_traced, handles, tape_of
from .interface import Operand, Untraceable

_MOST_COMPARED = 1 << 14  # pairs of elements that are compared for equality


@handles(np.sort)
def _sort_values(x: Operand, axis: int = -1, kind: str | None = None, **options: Any) -> Any:
    if any(each is not None for each in options.values()):
        raise Untraceable
    made = np.moveaxis(x, axis, -1).copy()
    x.tape.sort_rows(made.array, _is_stable(kind))
    return np.moveaxis(made, -1, axis)


@handles(np.argsort)
def _order_values(x: Operand, axis: int = -1, kind: str | None = None, **options: Any) -> Any:
    if any(each is not None for each in options.values()):
        raise Untraceable
    rows = np.moveaxis(x, axis, -1).in_order()
    places: Any = np.empty(rows.shape, np.int64)
    x.tape.order_rows(rows.array, places, _is_stable(kind))
    found: Any = Traced(x.tape, places)
    return np.moveaxis(found, -1, axis)


def _is_stable(kind: str | None) -> bool:
    if kind not in (None, "stable"):
        raise Untraceable
    return kind == "stable"


@handles(np.lexsort)
def _order_by_keys(keys: Operand, axis: int = -1) -> Any:
    """Append the positions that sort by several rows of keys, of which the last counts first."""
    if keys.ndim != 2:
        raise Untraceable
    order = np.argsort(keys[0], kind="stable")
    for key in range(1, len(keys)):
        order = order[np.argsort(keys[key][order], kind="stable")]
    return order


@handles(np.searchsorted)
def _search_sorted(row: Operand, values: Operand, side: str = "left", sorter: Any = None) -> Any:
    """Append a search by halving; NaN sorts last."""
    tape = tape_of(row, values)
    row, values = as_traced(tape, row), as_traced(tape, values)
    if sorter is not None or row.ndim != 1 or row.dtype != values.dtype:
        raise Untraceable
    count = row.size
    low: Any = as_traced(tape, np.zeros(values.shape, np.int64))
    high: Any = as_traced(tape, np.full(values.shape, count))
    for _ in range(count.bit_length()):
        middle = (low + high) >> 1
        found = row[np.minimum(middle, count - 1)]
        is_right = (_sorts_before(found, values) if side == "left" else ~_sorts_before(values, found)) & (low < high)
        low, high = np.where(is_right, middle + 1, low), np.where(is_right, high, middle)
    return low


def _sorts_before(x: Traced, y: Traced) -> Any:
    return (x < y) | ((x == x) & (y != y))


@handles(np.isin)
def _test_membership(x: Operand, values: Operand, **options: Any) -> Any:
    tape = tape_of(x, values)
    x, values = as_traced(tape, x), as_traced(tape, values)
    if options or x.size * values.size > _MOST_COMPARED:
        raise Untraceable
    if not values.size:
        return np.zeros(x.shape, bool)
    return np.any(x[..., None] == values.reshape(-1), -1)
