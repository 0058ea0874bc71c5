"""Queue elements in a snapshot: one or three arrays per component, regardless of the number of elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...base.errors import DtypeError, GraphError
from .elements import Element, ElementSpec

Column = dict[str, np.ndarray[Any, Any]]
_HINT = "restore what was saved of a queue of this kind"


def pack_elements(elements: Sequence[Element], spec: ElementSpec) -> list[Column]:
    """Return the columns of the components: "rows", or for differing shapes "values", "ranks" and "shapes"."""
    # zip of no elements would yield no columns, instead of an empty column for each component.
    columns = zip(*elements, strict=True) if elements else ((),) * len(spec.dtypes)
    return [_pack_column(column, np.dtype(dtype.numpy)) for column, dtype in zip(columns, spec.dtypes, strict=True)]


def packed_rows(rows: Sequence[np.ndarray[Any, Any]]) -> list[Column]:
    """Return the columns of elements which are the rows of arrays."""
    return [{"rows": each} for each in rows]


def _pack_column(column: Sequence[Any], dtype: np.dtype[Any]) -> Column:
    """Return the column of a component's values: "rows", or the concatenated values with their shapes."""
    shapes = [value.shape for value in column]
    # No values have no common shape: an empty column is saved in the other form.
    if len(set(shapes)) == 1:
        rows = np.empty((len(column), *shapes[0]), dtype)
        for i, value in enumerate(column):  # three times faster than np.stack
            rows[i] = value
        return {"rows": rows}
    values = [np.asarray(value, dtype).reshape(-1) for value in column]
    return {
        "values": np.concatenate(values) if values else np.empty(0, dtype),
        "ranks": np.array(list(map(len, shapes)), np.int64),
        "shapes": np.array([size for shape in shapes for size in shape], np.int64),
    }


def rows_of(saved: Any, spec: ElementSpec, queue: str) -> list[np.ndarray[Any, Any]] | None:
    """Return saved elements as rows of arrays, or None if they were saved in another format.

    Raises
    ------
    DtypeError, GraphError
        If the dtypes differ from the queue's, or the format from that of `pack_elements`.
    """
    columns = _checked_columns(saved, spec, queue)
    rows = [column["rows"] for column in columns if "rows" in column]
    if len(rows) != len(columns) or not rows or any(each.ndim == 0 for each in rows):
        return None
    return rows if len({len(each) for each in rows}) == 1 else None


def elements_of(saved: Any, spec: ElementSpec, queue: str) -> list[Element]:
    """Return saved elements whose shapes fit the queue.

    Raises
    ------
    OpError
        If a shape does not fit.
    DtypeError, GraphError
        As for `rows_of`.
    """
    columns = [_unpack_column(column, queue) for column in _checked_columns(saved, spec, queue)]
    if len({len(each) for each in columns}) != 1:
        raise _damaged_error(queue, "as many values of each component", [len(each) for each in columns])
    return [spec.checked(each, queue) for each in zip(*columns, strict=True)]


def _checked_columns(saved: Any, spec: ElementSpec, queue: str) -> list[Mapping[str, np.ndarray[Any, Any]]]:
    """Return the saved columns after a check of their number, format and dtypes."""
    if not isinstance(saved, list) or len(saved) != len(spec.dtypes) or not all(map(_is_column, saved)):
        raise _damaged_error(queue, f"{len(spec.dtypes)} components", type(saved).__name__)
    for index, (column, dtype) in enumerate(zip(saved, spec.dtypes, strict=True)):
        found = column["rows" if "rows" in column else "values"]
        if found.dtype != np.dtype(dtype.numpy):
            raise DtypeError(
                f"component {index} of queue '{queue}' was saved in another dtype",
                wanted=dtype,
                got=found.dtype,
                hint="make the queue as it was when it was saved",
            )
    return saved


def _is_column(column: Any) -> bool:
    return (
        isinstance(column, dict)
        and set(column) in ({"rows"}, {"values", "ranks", "shapes"})
        and all(isinstance(each, np.ndarray) for each in column.values())
    )


def _unpack_column(column: Mapping[str, np.ndarray[Any, Any]], queue: str) -> list[Any]:
    """Return the values of a column; a GraphError unless sizes and values agree in number."""
    if "rows" in column:
        rows = column["rows"]
        if rows.ndim == 0:
            raise _damaged_error(queue, "rows", "a scalar")
        # With the ellipsis a row of scalars yields arrays of rank 0, not scalars of NumPy.
        return [rows[i, ...] for i in range(len(rows))]
    values, ranks, sizes = column["values"], column["ranks"], column["shapes"]
    whole = all(each.ndim == 1 for each in column.values()) and ranks.dtype.kind == sizes.dtype.kind == "i"
    if not whole or (ranks < 0).any() or (sizes < 0).any() or sum(ranks.tolist()) != len(sizes):
        raise _damaged_error(queue, "the shapes of its elements", f"{len(ranks)} ranks, {len(sizes)} sizes")
    found, first, at = [], 0, 0
    for rank in ranks.tolist():
        shape = tuple(sizes[at : at + rank].tolist())
        # Python's integers: the product of damaged sizes must not overflow.
        count = 1
        for size in shape:
            count *= size
        # The check after the loop raises the error, for this case and for values that remain.
        if first + count > len(values):
            break
        found.append(values[first : first + count].reshape(shape))
        first, at = first + count, at + rank
    if first != len(values) or len(found) != len(ranks):
        raise _damaged_error(queue, f"{len(values)} values", "shapes of another number of them")
    return found


def _damaged_error(queue: str, wanted: str, got: object) -> GraphError:
    return GraphError(f"what was saved of queue '{queue}' does not fit it", wanted=wanted, got=got, hint=_HINT)


def checked_state(saved: Any, keys: set[str], what: str, optional: Set[str] = frozenset()) -> Mapping[str, Any]:
    """Return the saved state of a resource; GraphError unless it is a dict of `keys` and some `optional` ones."""
    if not isinstance(saved, Mapping) or set(saved) - optional != keys:
        got = sorted(map(str, saved)) if isinstance(saved, Mapping) else type(saved).__name__
        raise GraphError(f"what was saved of {what} does not fit it", wanted=sorted(keys), got=got, hint=_HINT)
    return saved


@contextmanager
def state_read(saved: Any, keys: set[str], what: str, optional: Set[str] = frozenset()) -> Iterator[Mapping[str, Any]]:
    """Check the saved state of a resource as `checked_state` does; errors of the block become GraphErrors."""
    saved = checked_state(saved, keys, what, optional)
    try:
        yield saved
    # A state may come from any file: an error in decoding it means that it does not fit.
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise GraphError(
            f"what was saved of {what} does not fit it", wanted="what was saved of one like it", got=error, hint=_HINT
        ) from error


def components_of(saved: Sequence[Any], indices: Sequence[int], spec: ElementSpec, what: str) -> Element:
    """Return saved values of some components of an element, read-only.

    Raises
    ------
    OpError
        If a shape does not fit.
    ValueError, IndexError
        If number or dtypes differ from those of the components, or an index has no component.
    """
    for index, value in zip(indices, saved, strict=True):
        wanted = np.dtype(spec.dtypes[index].numpy)
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype != wanted or index < 0:
            raise ValueError(f"component {index} is {type(value).__name__}, not an array of {wanted}")
    part = ElementSpec(tuple(spec.dtypes[i] for i in indices), tuple(spec.shapes[i] for i in indices))
    return part.checked(saved, what)
