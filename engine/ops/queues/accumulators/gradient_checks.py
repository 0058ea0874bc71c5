"""Checks of gradients for accumulators while the graph is built: their dtype, and their shapes as far as known."""

from __future__ import annotations

from ....base.errors import DtypeError, ShapeError
from ....base.shapes import SCALAR, Shape
from ....ir.operation import Operation
from ....ir.static_values import static_shape
from ....ir.tensor import Tensor


def check_gradient(op: Operation) -> Shape:
    """Return the shape of the output; an error unless the gradient fits the accumulator."""
    gradient = op.inputs[2]
    _check_dtype(op, gradient)
    _merge(op, Shape(op.attrs["shape"]), gradient.shape)
    return SCALAR


def check_rows(op: Operation) -> Shape:
    """Return the shape of the output; an error unless rows, indices and whole shape fit each other and the sum."""
    _, _, values, indices, whole = op.inputs
    _check_dtype(op, values)
    rows, count = values.shape, indices.shape
    if not Shape([None]).is_compatible_with(count) or not _are_as_many(rows, count):
        raise ShapeError(
            f"{op.name} was given rows that are not as many as their indices",
            wanted="indices of shape [n] and values of shape [n, ...]",
            got=f"indices {count}, values {rows}",
            operation=op,
            hint="give an index for each row",
        )
    known = Shape(op.attrs["shape"])
    if rows.rank is not None:
        known = _merge(op, known, Shape([None, *rows[1:]]))
    if whole.shape != Shape([0]):  # an empty vector stands for an unknown shape
        _merge(op, known, static_shape(whole))
    return SCALAR


def _are_as_many(rows: Shape, count: Shape) -> bool:
    """Return False if the numbers of rows and of indices are known to differ."""
    return rows.rank is None or (rows.rank > 0 and Shape([rows[0]]).is_compatible_with(count))


def _check_dtype(op: Operation, gradient: Tensor) -> None:
    """Raise DtypeError if the gradient's dtype is not the accumulator's."""
    wanted = op.attrs["dtype"]
    # None in graphs saved before the operation had this attribute: the step then fails at the take.
    if wanted is not None and gradient.dtype is not wanted:
        raise DtypeError(
            f"{op.name} was given a gradient of another dtype than the accumulator's",
            wanted=wanted,
            got=gradient.dtype,
            operation=op,
            hint="cast the gradient to the accumulator's dtype",
        )


def _merge(op: Operation, known: Shape, got: Shape) -> Shape:
    """Return the combined knowledge of two shapes; ShapeError if they contradict each other."""
    if not known.is_compatible_with(got):
        raise ShapeError(
            f"{op.name} was given a gradient of another shape than the accumulator's",
            wanted=known,
            got=got,
            operation=op,
            hint="apply gradients of one shape, that of the variable",
        )
    return known.merge(got)
