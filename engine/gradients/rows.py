"""The gradients of all elements of a tensor, one after the other in a loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import int64
from ..base.settings import WINDOW
from ..base.shapes import SCALAR
from ..base.source_lines import user_source
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.structured import make_while, new_region, save_series
from ..ir.tensor import Tensor
from .api import gradients, key_of
from .cotangents import densify
from .zeros import shape_of_value


def stacked_gradients(
    element: Callable[[Tensor], Tensor], count: Tensor, xs: Sequence[Any], unconnected: str, name: str
) -> list[Tensor | None]:
    """Return the gradients of elements with respect to each x, along a new first dimension.

    Parameters
    ----------
    element : callable
        ``element(k)`` is element number `k`; a non-scalar is summed before differentiation.
    count : Tensor of int64, scalar
    xs : sequence of Tensor or Variable
    unconnected : {'none', 'zero'}
        Result for an x without a path to the elements.
    name : str
    """
    cond, body = new_region("loop predicate"), new_region("loop body")
    for region in (cond, body):
        region.add_param(int64, SCALAR, f"{name}/row")
    with scopes.inside(cond):
        cond.results.append(cond.params[0] < count)
    with scopes.inside(body):
        found = gradients(element(body.params[0]), list(xs), unconnected_gradients=unconnected)
        rows = [None if row is None else apply("ExpandDims", densify(row), axis=0) for row in found]
        body.results.append(body.params[0] + 1)
    # Without a path there is nothing to compute, so no loop is built around the body.
    if not any(isinstance(row, Tensor) for row in rows):
        return rows
    loop = make_while(
        [constant(0, int64)],
        cond,
        body,
        name=name,
        source=user_source(),
        parallel_iterations=WINDOW,
        back_prop=True,
        swap_memory=False,
    )
    return [
        None if row is None else _stack_rows(save_series(loop, row), row, x) for row, x in zip(rows, xs, strict=True)
    ]


def _stack_rows(series: Tensor, row: Tensor, x: object) -> Tensor:
    """Return the rows saved by all iterations as one tensor, empty without iterations."""
    like = apply("Concat", [constant([0], "int32"), shape_of_value(key_of(x))], axis=0)
    return apply("SeriesConcat", series, like, dtype=row.dtype, shape=row.shape)
