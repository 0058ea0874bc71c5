"""The gradients of all elements of a tensor: at once, or by a loop in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import int64
from ..base.errors import VectorizationError
from ..base.settings import WINDOW
from ..base.shapes import SCALAR
from ..base.source_lines import user_source
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.examples import join_sizes, known_rank, spread
from ..ir.region import Region
from ..ir.structured import make_while, new_region, save_series
from ..ir.tensor import Tensor
from ..ops.support.common import shape_of, size_along
from ..vectorize.function import vectorize
from .api import gradients, key_of
from .cotangents import densify
from .zeros import shape_of_value


def stacked_gradients(
    elements: Tensor, xs: Sequence[Any], unconnected: str, name: str, vectorized: bool | None
) -> list[Tensor | None]:
    """Return the gradients of elements with respect to each x, along a new first dimension.

    Parameters
    ----------
    elements : Tensor
        Element number k is ``elements[k]``; a non-scalar is summed before differentiation.
    xs : sequence of Tensor or Variable
    unconnected : {'none', 'zero'}
        Result for an x without a path to the elements.
    name : str
    vectorized : bool or None
        True for gradients of all elements at once, False for a loop; None for a loop where an operation has no rule.
    """
    if vectorized is False:
        return _in_a_loop(elements, xs, unconnected, name)
    try:
        return _at_once(elements, xs, unconnected)
    except VectorizationError:
        if vectorized:
            raise
        return _in_a_loop(elements, xs, unconnected, name)


def _at_once(elements: Tensor, xs: Sequence[Any], unconnected: str) -> list[Tensor | None]:
    """Return the gradients for the cotangents of all elements, each 1 for its element and 0 for others."""
    count, rest = size_along(elements, 0), [1] * (known_rank(elements) - 1)
    ones = apply("Fill", join_sizes(count), constant(np.ones((), elements.dtype.numpy)))
    seeds = apply("MatrixDiag", ones, k=(0, 0))
    if rest:
        seeds = apply("Reshape", seeds, join_sizes(count, count, *rest))
        seeds = apply("BroadcastTo", seeds, join_sizes(count, shape_of(elements)))

    def build(region: Region, params: list[Tensor]) -> list[Tensor | None]:
        with scopes.inside(region):
            found = gradients(elements, list(xs), params, unconnected_gradients=unconnected)
            return [None if row is None else densify(row) for row in found]

    rows, differ = vectorize(build, [seeds], count, "cotangent")
    return [row if row is None or differs else spread(row, count) for row, differs in zip(rows, differ, strict=True)]


def _in_a_loop(elements: Tensor, xs: Sequence[Any], unconnected: str, name: str) -> list[Tensor | None]:
    """Return the gradients of elements by a loop in the graph."""
    count = apply("Cast", size_along(elements, 0), dtype=int64)
    cond, body = new_region("loop predicate"), new_region("loop body")
    for region in (cond, body):
        region.add_param(int64, SCALAR, f"{name}/row")
    with scopes.inside(cond):
        cond.results.append(cond.params[0] < count)
    with scopes.inside(body):
        found = gradients(elements[body.params[0]], list(xs), unconnected_gradients=unconnected)
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
    """Return the rows saved by all iterations as a tensor, empty without iterations."""
    like = apply("Concat", [constant([0], "int32"), shape_of_value(key_of(x))], axis=0)
    return apply("SeriesConcat", series, like, dtype=row.dtype, shape=row.shape)
