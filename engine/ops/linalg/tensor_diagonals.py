"""``diag`` and ``diag_part``: diagonals of tensors of any even rank, whose first dimensions are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.literals import c128, f64, i32
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.shapes import diag_examples, diag_part_examples

_ELEMENTS = {"T": (*dtypes.NUMERIC, dtypes.bool_)}


def _compute_diag(xp: Any, diagonal: Any) -> Any:
    out = xp.zeros(diagonal.shape * 2, diagonal.dtype)
    # In the flat result, elements of the diagonal are `size + 1` apart.
    out.reshape(-1)[:: diagonal.size + 1] = diagonal.reshape(-1)
    return out


define(
    "Diag",
    "diagonal: T -> output: T",
    where=_ELEMENTS,
    shape=lambda op: op.inputs[0].shape + op.inputs[0].shape,
    rules=[Vectorize(diag_examples), LINEAR_IN_FIRST, Elements(lambda diagonal: diagonal.size**2)],
    kernel=_compute_diag,
    gradient=lambda op, g: [diag_part(g)],
    samples=[
        Sample([f64([1, 2])], f64([[1, 0], [0, 2]])),
        Sample([f64([[1, 2]])], f64([[[[1, 0]], [[0, 2]]]]).reshape(1, 2, 1, 2)),
        Sample([c128([1j])], c128([[1j]])),
        Sample([i32(3)], i32(3)),
        Sample([np.zeros(0)], np.zeros((0, 0))),
    ],
)


def _part_shape(op: Operation) -> Shape:
    """Return the first half of the dimensions; refuse an odd rank, or another second half."""
    x = op.inputs[0].shape
    if x.rank is None:
        return x
    first, second = x[: x.rank // 2], x[x.rank // 2 :]
    if x.rank % 2 or not first.is_compatible_with(second):
        raise ShapeError(
            "diag_part takes a tensor whose dimensions are those of the diagonal twice",
            wanted="shape + shape",
            got=x,
            operation=op,
            hint="matrix_diag_part takes the diagonals of a batch of matrices",
        )
    return first.merge(second)


def _compute_diag_part(xp: Any, x: Any) -> Any:
    shape = x.shape[: x.ndim // 2]
    if x.shape != shape * 2:
        raise ValueError(f"diag_part: the dimensions of a tensor {x.shape} are not those of a diagonal twice")
    return xp.asarray(x.reshape(-1)[:: max(1, int(np.prod(shape, dtype=int)) + 1)].reshape(shape)).copy()


define(
    "DiagPart",
    "input: T -> diagonal: T",
    where=_ELEMENTS,
    shape=_part_shape,
    kernel=_compute_diag_part,
    rules=[Vectorize(diag_part_examples), LINEAR_IN_FIRST],
    gradient=lambda op, g: [diag(g)],
    samples=[
        Sample([f64([[1, 2], [3, 4]])], f64([1, 4])),
        Sample([np.arange(36.0).reshape(2, 3, 2, 3)], lambda x: np.einsum("abab->ab", x)),
        Sample([i32([[7]])], i32([7])),
        Sample([np.zeros((0, 0))], np.zeros(0)),
    ],
)


@public
def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Make a tensor with a diagonal, and zeros elsewhere.

    In Python: ``output[i1, ..., ik, i1, ..., ik] = diagonal[i1, ..., ik]``. For a batch of matrices: `matrix_diag`.

    Parameters
    ----------
    diagonal : Tensor of any numeric dtype, or bool
        Of any shape.

    Returns
    -------
    Tensor
        Same dtype, shape ``diagonal.shape + diagonal.shape``.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.diag([1, 2])).sync()
    array([[1, 0],
           [0, 2]], dtype=int32)
    >>> tg.function(lambda: tg.diag([[1, 2]])).sync().shape
    (1, 2, 1, 2)
    """
    return apply("Diag", diagonal, name=name)


@public
def diag_part(input: Any, name: str | None = None) -> Tensor:
    """Take the diagonal of a tensor whose shape is the shape of the diagonal twice.

    In Python: ``diagonal[i1, ..., ik] = input[i1, ..., ik, i1, ..., ik]``. For a batch of matrices: `matrix_diag_part`.

    Parameters
    ----------
    input : Tensor of any numeric dtype, or bool
        Shape ``[d1, ..., dk, d1, ..., dk]``.

    Returns
    -------
    Tensor
        Same dtype, shape ``[d1, ..., dk]``.

    Raises
    ------
    ShapeError
        If the second half of the dimensions is known to differ from the first, or the rank is odd.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.diag_part([[1, 2], [3, 4]])).sync()
    array([1, 4], dtype=int32)
    """
    return apply("DiagPart", input, name=name)
