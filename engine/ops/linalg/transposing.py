"""Transposes and adjoints of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..math.complex import conj
from ..support.literals import f64, i32
from ..support.vectorizing.families import leading
from .common import matrices_shape


def _infer_transposed_shape(op: Operation) -> Shape:
    shape = matrices_shape(op)
    return shape if shape.rank is None else Shape([*shape.dims[:-2], shape[-1], shape[-2]])


define(
    "MatrixTranspose",
    "x: T -> y: T",
    shape=_infer_transposed_shape,
    rules=[Vectorize(leading)],
    kernel=lambda xp, x: x.swapaxes(-1, -2),
    gradient=lambda op, g: [matrix_transpose(g)],
    samples=[
        Sample([f64([[1, 2, 3], [4, 5, 6]])], f64([[1, 4], [2, 5], [3, 6]])),
        Sample([np.arange(12.0).reshape(2, 3, 2)], lambda x: np.einsum("abc->acb", x)),
        Sample([i32([[[1, 2]]])], i32([[[1], [2]]])),
    ],
)


@public
def matrix_transpose(a: Any, name: str | None = None, conjugate: bool = False) -> Tensor:
    """Transpose matrices: swap the last two dimensions.

    Parameters
    ----------
    a : Tensor of any dtype
        Shape ``[..., rows, columns]``.
    conjugate : bool
        Conjugate complex elements too: return the adjoints.

    Returns
    -------
    Tensor
        Of shape ``[..., columns, rows]``.

    Raises
    ------
    ShapeError
        If `a` has fewer than two dimensions.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.matrix_transpose([[[1, 2, 3]], [[4, 5, 6]]])).sync().tolist()
    [[[1], [2], [3]], [[4], [5], [6]]]
    >>> tg.function(lambda: tg.matrix_transpose([[1 + 2j, 3]], conjugate=True)).sync()
    array([[1.-2.j],
           [3.-0.j]], dtype=complex64)
    """
    x = convert_to_tensor(a)
    if conjugate:
        x = conj(x)
    # MatrixTranspose needs no known rank, and its shape rule refuses ranks below 2.
    if x.rank is None or x.rank < 2:
        return apply("MatrixTranspose", x, name=name)
    perm = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return apply("Transpose", x, name=name, perm=perm)


def adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transposes of the matrices `x`."""
    return matrix_transpose(x, conjugate=True)
