"""Elements in states: a shuffle buffer of thousands of elements is saved as a few arrays."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ...base.deferred import Deferred
from .elements import (
    Failure,
    Item,
    Origin,
    in_order_of,
    is_structure,
    leaves_of,
    make_failure,
    pack_leaves,
    skeleton_of,
)

_SMALL = 4096  # bytes; larger arrays are saved as they are, not concatenated


def saved_items(items: Iterable[Item]) -> Deferred:
    """Return elements for a state, `Deferred` until the state is written: thousands of elements take milliseconds.

    The list is copied at once, because the stage goes on while the state is written.
    """
    return Deferred(partial(_save_items, list(items)))


def _save_items(listed: list[Item]) -> dict[str, Any]:
    """Return elements for a file; failures are reduced to their texts.

    Values of equal structure are saved leaf by leaf, with the small arrays of a leaf concatenated. Large arrays are
    neither copied nor changed.
    """
    # without failures, so that values form columns; restoring puts failures back by their positions
    values = [value for value, _ in listed if type(value) is not Failure]
    names = list(dict.fromkeys(origin[0] for _, origin in listed if origin is not None))
    place = {name: number for number, name in enumerate(names)}
    return {
        "names": names,
        "which": np.array([-1 if origin is None else place[origin[0]] for _, origin in listed], np.int64),
        "numbers": np.array([0 if origin is None else origin[1] for _, origin in listed], np.int64),
        "failures": [(i, _failure_texts(value)) for i, (value, _) in enumerate(listed) if type(value) is Failure],
        **_saved_values(values),
    }


def _failure_texts(failed: Failure) -> dict[str, Any]:
    error = failed.error
    # without the cause: a user's exception may hold anything
    return {"what": error.what, "number": error.element, "hint": error.hint}


def _saved_values(values: list[Any]) -> dict[str, Any]:
    """Return values as columns of leaves if their structures are equal, else as they are."""
    if values and not any(map(is_structure, values)):
        return {"like": None, "columns": [_saved_column(values)]}
    if not values or any(skeleton_of(each) != skeleton_of(values[0]) for each in values[1:]):
        return {"values": values}
    first = values[0]
    # equal dicts may differ in the order of their keys
    columns = zip(*(leaves_of(in_order_of(first, each)) for each in values), strict=True)
    like = pack_leaves(first, iter([None] * len(leaves_of(first))))
    return {"like": like, "columns": [_saved_column(list(column)) for column in columns]}


def _saved_column(column: list[Any]) -> dict[str, Any]:
    """Return the values of a leaf as one array, for scalars and small arrays of equal dtype."""
    first = column[0]
    dtypes = {getattr(each, "dtype", None) for each in column}
    kinds = set(map(type, column))
    # only values of NumPy: a number of Python would return from an array as a NumPy scalar
    if len(dtypes) > 1 or len(kinds) > 1 or first is None or first.__class__.__module__ != "numpy":
        return {"values": column}
    if isinstance(first, np.generic):
        return {"scalars": np.array(column)}
    is_small = isinstance(first, np.ndarray) and max(each.nbytes for each in column) <= _SMALL
    # one rank, because the shapes are saved as the rows of a matrix
    if not is_small or len({each.ndim for each in column}) > 1:
        return {"values": column}
    flat = np.concatenate([each.ravel() for each in column])
    return {"flat": flat, "shapes": np.array([each.shape for each in column], np.int64)}


def restored_items(saved: Any) -> list[Item]:
    """Return the elements of a state, which may come from a file."""
    saved = saved.make() if isinstance(saved, Deferred) else saved
    names = [str(each) for each in saved["names"]]
    origins: list[Origin] = [
        None if which < 0 else (names[which], number)
        for which, number in zip(saved["which"].tolist(), saved["numbers"].tolist(), strict=True)
    ]
    values = iter(_restored_values(saved))
    failures = {int(i): said for i, said in saved["failures"]}
    return [
        (next(values) if i not in failures else _restored_failure(failures[i], origin), origin)
        for i, origin in enumerate(origins)
    ]


def _restored_failure(said: dict[str, Any], origin: Origin) -> Failure:
    return make_failure(said["what"], int(said["number"]), origin, None, hint=said["hint"])


def _restored_values(saved: dict[str, Any]) -> list[Any]:
    if "values" in saved:
        return list(saved["values"])
    rows = zip(*map(_restored_column, saved["columns"]), strict=True)
    return [pack_leaves(saved["like"], iter(row)) for row in rows]


def _restored_column(saved: dict[str, Any]) -> list[Any]:
    if "values" in saved:
        return list(saved["values"])
    if "scalars" in saved:
        return list(saved["scalars"])
    shapes = [tuple(shape) for shape in saved["shapes"].tolist()]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)]).tolist()
    return [saved["flat"][a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]
