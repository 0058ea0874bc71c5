"""``hessians``: the Jacobians of gradients."""

from __future__ import annotations

from typing import Any

from ..base import nest
from ..ir.apply import apply, constant
from ..ir.entry import public
from ..ir.tensor import Tensor
from ..ops.support.common import shape_of
from .api import ZERO, gradients, key_of
from .cotangents import densify
from .rows import stacked_gradients
from .zeros import zeros_for


@public
def hessians(ys: Any, xs: Any, name: str = "hessians", *, vectorized: bool | None = None) -> list[Tensor]:
    """Build the matrix of second derivatives of the sum of `ys` with respect to each x.

    Each row is the gradient of an element of the gradient; all rows are computed at once.

    Parameters
    ----------
    ys : Tensor or structure of Tensor
    xs : Tensor, Variable or sequence of them
        Of shape s.
    name : str, optional
        Name scope of the new operations.
    vectorized : bool, optional
        As for `jacobian`.

    Returns
    -------
    list of Tensor
        For each x a tensor of shape s + s.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.constant([1.0, 2.0])
    ...     (h,) = tg.hessians(x[0] * x[0] * x[1], [x])
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(h)
    array([[4., 2.],
           [2., 0.]], dtype=float32)
    """
    values = nest.flatten(xs)
    first = gradients(ys, values, name=name)
    return [_build_hessian(g, x, name, vectorized) for g, x in zip(first, values, strict=True)]


def _build_hessian(gradient: Any, x: Any, name: str, vectorized: bool | None) -> Tensor:
    """Return the derivatives of a gradient's elements with respect to x, in shape s + s; zeros without a gradient."""
    key = key_of(x)
    if gradient is None:
        zeros = zeros_for(key)
        both = apply("Concat", [shape_of(zeros), shape_of(zeros)], axis=0)
        return apply("Fill", both, apply("Cast", constant(0), dtype=zeros.dtype))
    gradient = densify(gradient)
    flat = apply("Reshape", gradient, constant([-1], "int32"))
    (rows,) = stacked_gradients(flat, [x], ZERO, name, vectorized)
    shape = shape_of(gradient)
    return apply("Reshape", rows, apply("Concat", [shape, shape], axis=0))
