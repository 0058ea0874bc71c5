"""The steps of a run as code for them sees them: without addresses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..run import StepCode

CONSTANT = -2  # in place of a cell's number: an element that no step changes
ELSEWHERE = -1  # an address of which nothing else is known, or none


class Layout(NamedTuple):
    """Where fields of structs lie, in bytes, and the size of a step."""

    step: int
    operands: int
    strides: int
    amount: int
    loop: int
    data: int
    compute: int
    act: int
    arguments: int
    at: int
    left: int
    declined: int
    result: int
    product_a: int
    product_b: int
    product_data: int
    product_total: int


class Product(NamedTuple):
    """A product of matrices that a step computes: as `Product` in ``kernels/cpu/linear.pxd``, without addresses.

    Attributes
    ----------
    rows, columns, inner : int
    transposed_a, transposed_b : bool
        Whether a factor is stored with its rows as columns.
    adds : bool
        Whether the product is added to what is there.
    copies : bool
        Whether a total is copied there first.
    continues : bool
        Whether the factors go on elsewhere.
    """

    rows: int
    columns: int
    inner: int
    transposed_a: bool
    transposed_b: bool
    adds: bool
    copies: bool
    continues: bool


class ListedStep(NamedTuple):
    """What code for a step depends on.

    Attributes
    ----------
    code : StepCode
    target, targets : int, tuple of int
        Steps.
    amount : int
        Of elements, or bytes: the `count` of `StepCode`.
    strides : tuple of int
        Bytes, by operand.
    cells : tuple of int
        By operand, the number of the cell that it is, `CONSTANT`, or `ELSEWHERE`.
    name : str
        Of an inner loop: the ufunc, or the operation.
    dtypes : tuple of numpy.dtype
        Of an inner loop's operands.
    product : Product or None
    """

    code: StepCode
    target: int
    targets: tuple[int, ...]
    amount: int
    strides: tuple[int, ...]
    cells: tuple[int, ...]
    name: str = ""
    dtypes: tuple[np.dtype[Any], ...] = ()
    product: Product | None = None
