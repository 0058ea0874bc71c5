"""Rows of equal numbers combined by any function, for kernels written once for NumPy and for a GPU.

A GPU has atomic additions, but hardly another atomic function. There rows are sorted by number, and each is combined
with earlier rows in steps of doubling reach (Hillis and Steele, Data Parallel Algorithms, 1986).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.array_libraries import is_numpy
from .array_library import add_at


def combine_at(xp: Any, function: str, out: Any, places: Any, updates: Any) -> None:
    """Combine rows with the rows of `out` at their places, in the order of `places`.

    Parameters
    ----------
    xp : module
    function : {'multiply', 'divide', 'maximum', 'minimum'}
    out : array of shape [n, width], C-contiguous
    places : integer array of shape [m]
    updates : array of shape [m, width]
    """
    if is_numpy(xp):
        # Flat places, for the fast path of NumPy's `at` for vectors.
        flat = (places.astype(np.intp)[:, None] * out.shape[1] + np.arange(out.shape[1])).reshape(-1)
        add_at(np, out.reshape(-1), flat, updates.reshape(-1), function)
        return
    # Stable, so that rows of one place are combined in the order of `places`.
    order = xp.argsort(places, kind="stable")
    numbers = places[order]
    # Dividing by several rows is dividing once by their product.
    rows = scan_equal(xp, "multiply" if function == "divide" else function, updates[order], numbers)
    last = xp.nonzero(~_equals_next(xp, numbers))[0]
    out[numbers[last]] = getattr(xp, function)(out[numbers[last]], rows[last])


def _equals_next(xp: Any, numbers: Any) -> Any:
    """Return, for each number of a sorted vector, whether the next number is equal."""
    return xp.concatenate([numbers[1:] == numbers[:-1], xp.zeros(min(numbers.size, 1), dtype=xp.bool_)])


def scan_equal(xp: Any, function: str, rows: Any, numbers: Any) -> Any:
    """Combine each row with the earlier rows of its number; `numbers` is sorted."""
    combine, step = getattr(xp, function), 1
    rows = rows.copy()
    while step < numbers.size:
        same = (numbers[step:] == numbers[:-step])[:, None]
        # `where` makes a new array first, so that no row is read after its update.
        rows[step:] = xp.where(same, combine(rows[step:], rows[:-step]), rows[step:])
        step *= 2
    return rows


def products_of_others(xp: Any, rows: Any, numbers: Any) -> Any:
    """Return, for each row, the product of the other rows of its number; `numbers` is sorted."""
    # Not the product of all divided by the row: a row may contain zeros.
    before = _multiplied_before(xp, rows, numbers)
    behind = _multiplied_before(xp, rows[::-1], numbers[::-1])[::-1]
    return before * behind


def _multiplied_before(xp: Any, rows: Any, numbers: Any) -> Any:
    products = scan_equal(xp, "multiply", rows, numbers)
    same = (numbers[1:] == numbers[:-1])[:, None]
    shifted = xp.ones_like(products)
    shifted[1:] = xp.where(same, products[:-1], shifted[1:])
    return shifted


def places_among_equals(xp: Any, numbers: Any) -> Any:
    """Return, for each number, the count of equal numbers before it."""
    order = xp.argsort(numbers, kind="stable")
    ordered = numbers[order]
    places = xp.zeros(numbers.shape, dtype=xp.int64)
    # `searchsorted` finds the first of equal numbers.
    places[order] = xp.arange(numbers.size) - xp.searchsorted(ordered, ordered)
    return places
