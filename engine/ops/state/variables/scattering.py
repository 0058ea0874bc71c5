"""Updates of a variable at indices by products, quotients and extremes; and updates at index vectors."""

from __future__ import annotations

import math
from typing import Any

from ....base import dtypes
from ...array.scattering import change_rows
from ...support.segmented import combine_at
from .operations import define_scatter


def _rows_changed(function: str) -> Any:
    """Return a function combining rows of a buffer with updates; a scalar update goes to all rows."""

    def change_rows_of_buffer(xp: Any, buffer: Any, indices: Any, updates: Any) -> None:
        # Reshaping the buffer below makes views, because buffers of variables are C-contiguous; copies would be lost.
        width = math.prod(buffer.shape[1:])
        each = xp.broadcast_to(updates, indices.shape + buffer.shape[1:])
        rows = xp.ascontiguousarray(each).reshape(indices.size, width)
        combine_at(xp, function, buffer.reshape(buffer.shape[0], width), indices.reshape(-1), rows)

    return change_rows_of_buffer


define_scatter("ScatterMul", dtypes.NUMERIC, _rows_changed("multiply"))
define_scatter("ScatterDiv", dtypes.DIFFERENTIABLE, _rows_changed("divide"))
define_scatter("ScatterMax", dtypes.REAL, _rows_changed("maximum"))
define_scatter("ScatterMin", dtypes.REAL, _rows_changed("minimum"))


def _blocks_changed(function: str) -> Any:
    return lambda xp, buffer, indices, updates: change_rows(xp, function, buffer, indices, updates)


define_scatter("ScatterNdUpdate", dtypes.VALUES, _blocks_changed("put"), by_vectors=True)
define_scatter("ScatterNdAdd", dtypes.NUMERIC, _blocks_changed("add"), by_vectors=True)
define_scatter("ScatterNdSub", dtypes.NUMERIC, _blocks_changed("subtract"), by_vectors=True)
