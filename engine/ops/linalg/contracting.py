"""Sums of products over labelled dimensions, made of transposes, reshapes, products of matrices and sums.

A labelled tensor has a label for each dimension. Dimensions with the same kept label may broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.apply import apply
from ...ir.tensor import Tensor
from ..array.layout import transpose
from ..array.shapes import reshape
from ..math.linear import matmul
from ..math.reductions import reduce_sum
from ..support.common import dimension_of
from .diagonals import matrix_diag_part


@dataclass(frozen=True, slots=True)
class Labelled:
    """A tensor of known rank, and the label of each of its dimensions."""

    tensor: Tensor
    labels: tuple[Any, ...]

    def sizes(self, labels: Sequence[Any]) -> list[Any]:
        """Return the size along each label: an integer, or a scalar tensor."""
        return [dimension_of(self.tensor, self.labels.index(label)) for label in labels]

    def ordered(self, labels: Sequence[Any]) -> Labelled:
        """Return the tensor with its dimensions in the order of `labels`."""
        perm = [self.labels.index(label) for label in labels]
        if perm == sorted(perm):
            return self
        return Labelled(transpose(self.tensor, perm), tuple(labels))

    def summed(self, kept: Collection[Any]) -> Labelled:
        """Return the sum over all dimensions whose labels are not kept."""
        gone = [i for i, label in enumerate(self.labels) if label not in kept]
        if not gone:
            return self
        return Labelled(reduce_sum(self.tensor, gone), tuple(label for label in self.labels if label in kept))

    def without_repetition(self) -> Labelled:
        """Return the tensor with each repeated label replaced by a diagonal, as the last dimension."""
        found = self
        while len(set(found.labels)) < len(found.labels):
            label = next(label for label in found.labels if found.labels.count(label) > 1)
            found = found._take_diagonal(label)
        return found

    def _take_diagonal(self, label: Any) -> Labelled:
        """Replace the first two dimensions with this label by their diagonal, as the last dimension."""
        twice = [i for i, other in enumerate(self.labels) if other == label][:2]
        rest = [i for i in range(len(self.labels)) if i not in twice]
        moved = transpose(self.tensor, [*rest, *twice])
        # matrix_diag_part would also take the diagonal of a matrix that is not square.
        if None in moved.shape[-2:]:  # the reshape fails in the step if the sizes differ
            moved = reshape(
                moved,
                [*(dimension_of(moved, i) for i in range(len(rest))), *[dimension_of(moved, len(rest))] * 2],
            )
        return Labelled(matrix_diag_part(moved), (*(self.labels[i] for i in rest), label))


def _product_of(sizes: Sequence[Any]) -> Any:
    """Return the product of sizes, an integer if all are known."""
    known = math.prod(size for size in sizes if isinstance(size, int))
    symbols = [size for size in sizes if not isinstance(size, int)]
    # 0 times unknown sizes is 0.
    if not symbols or known == 0:
        return known
    result = symbols[0]
    for symbol in symbols[1:]:
        result = result * symbol
    return result if known == 1 else result * known


def contract_pair(left: Labelled, right: Labelled, kept: Collection[Any]) -> Labelled:
    """Multiply two tensors, and sum over the labels that are not kept.

    Parameters
    ----------
    left, right : Labelled
        Tensors without repeated labels.
    kept : collection of labels
        Labels of the result, or of later products.

    Returns
    -------
    Labelled
        Kept labels of both tensors come first, then kept labels of `left` alone, then of `right` alone.
    """
    shared = set(left.labels) & set(right.labels)
    # Labels of one operand alone are summed first, which makes the product smaller.
    left, right = left.summed({*shared, *kept}), right.summed({*shared, *kept})
    # The roles of labels: summed, kept of both operands, and of one operand alone.
    inner = [x for x in left.labels if x in shared and x not in kept]
    batch = [x for x in left.labels if x in shared and x not in inner]
    rows = [x for x in left.labels if x not in shared]
    columns = [x for x in right.labels if x not in shared]
    # Outer products, and dot products of each batch element, are no products of matrices: they broadcast and sum.
    if inner and (rows or columns):
        result = _matrix_product(left, right, batch, rows, inner, columns)
    else:
        result = _multiply_elementwise(left, right, batch, rows, inner, columns)
    return result


def _multiply_elementwise(
    left: Labelled, right: Labelled, batch: list[Any], rows: list[Any], inner: list[Any], columns: list[Any]
) -> Labelled:
    """Multiply element by element: each tensor gets dimensions of size 1 for the free labels of the other."""
    a, b = left.ordered([*batch, *rows, *inner]), right.ordered([*batch, *columns, *inner])
    x, y = a.tensor, b.tensor
    # Left becomes [batch, rows, 1 per column label, inner], and right [batch, 1 per row label, columns, inner].
    for _ in columns:
        x = apply("ExpandDims", x, axis=len(batch) + len(rows))
    for _ in rows:
        y = apply("ExpandDims", y, axis=len(batch))
    return Labelled(apply("Mul", x, y), (*batch, *rows, *columns, *inner)).summed([*batch, *rows, *columns])


def _matrix_product(
    left: Labelled, right: Labelled, batch: list[Any], rows: list[Any], inner: list[Any], columns: list[Any]
) -> Labelled:
    """Multiply as batches of matrices; where the layout allows, a flag of `matmul` replaces a transpose."""
    # A transpose inside of the product costs nothing; one before the product copies the operand.
    turned_a, turned_b = _begins_with(left, [*batch, *inner]), not _begins_with(right, [*batch, *inner])
    a = _as_matrices(left, batch, *((inner, rows) if turned_a else (rows, inner)))
    b = _as_matrices(right, batch, *((columns, inner) if turned_b else (inner, columns)))
    product = matmul(a, b, transpose_a=turned_a, transpose_b=turned_b)
    labels = (*batch, *rows, *columns)
    if len(rows) == len(columns) == 1:
        return Labelled(product, labels)
    leading = [dimension_of(product, i) for i in range(len(batch))]
    return Labelled(reshape(product, [*leading, *left.sizes(rows), *right.sizes(columns)]), labels)


def _begins_with(operand: Labelled, labels: list[Any]) -> bool:
    """Return True if the first dimensions have these labels, in any order, and further dimensions follow."""
    return set(operand.labels[: len(labels)]) == set(labels) and len(operand.labels) > len(labels)


def _as_matrices(operand: Labelled, batch: list[Any], rows: list[Any], columns: list[Any]) -> Tensor:
    """Return the tensor as matrices: dimensions of `rows` merged, and dimensions of `columns` merged."""
    tensor = operand.ordered([*batch, *rows, *columns]).tensor
    if len(rows) == len(columns) == 1:
        return tensor
    sizes = [_product_of(operand.sizes(group)) for group in (rows, columns)]
    return reshape(tensor, [*operand.sizes(batch), *sizes])
