"""The steps of a run as code for them sees them: without addresses."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ...steps import Step

CONSTANT = -2  # in place of a value's number: an element that no step changes
ELSEWHERE = -1  # an address of which nothing else is known, or none


class StepCode(IntEnum):
    """What a step does; ``kernels/native/run.pxd`` says more."""

    APPLY = 0
    WORK = 1
    WORK_TO = 2
    COPY = 3
    COPY_8 = 4
    ADD_ONE = 5
    GO = 6
    GO_BACK = 7
    GO_UNLESS = 8
    GO_TO = 9
    GUARD_DIVISOR = 10
    GUARD_EXPONENT = 11
    PUSH_ROW = 12
    READ_ROW = 13
    ADD_ROWS = 14
    CALL = 15
    END = 16


class Status(IntEnum):
    """How a run stands."""

    SUSPENDED = 0
    DONE = 1
    GAVE_UP = 2
    NO_ROOM = 3


class Verdict(IntEnum):
    """What a step that acts says."""

    NO = 0
    YES = 1
    LATER = 2


class FusedLayout(NamedTuple):
    """Where fields lie of what a fused operation left, in bytes: FUSED_LAYOUT of ``kernels/cpu/fused_works.pyx``."""

    registers: int
    steps: int
    register_size: int
    data: int  # of a register
    step_size: int
    loop: int  # of a step
    last: int  # argument of its loop


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
    places: int
    at: int
    left: int
    declined: int
    result: int
    factors: tuple[int, int, int, int]  # of a Product: both factors, the product, the total
    block: tuple[int, int, int, int]  # of a Writer: first slot, slots, data, which are written
    reader: tuple[int, int, int]  # of a Reader: rows, how many, whether this is the last read
    place: tuple[int, int, int]  # of a Place: its size, the address that it is written to, the offset in the row
    fused: FusedLayout
    shared: tuple[int, int, int]  # of the arguments of a shared work: size, that of what is given, the function's place
    sum: tuple[int, int, int, int]  # of a Sum: rows, most of them without a product, data of both factors


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
    is_small : bool
        Whether it is one of a few elements, which is computed in line.
    is_fused : bool
        Whether multiplications are fused with additions.
    factors : tuple of int
        The numbers of the values that both factors, the product and the total are, or `ELSEWHERE`.
    """

    rows: int
    columns: int
    inner: int
    transposed_a: bool
    transposed_b: bool
    adds: bool
    copies: bool
    is_small: bool
    is_fused: bool
    factors: tuple[int, int, int, int]


class Fused(NamedTuple):
    """A fused operation that a step computes, without addresses.

    Attributes
    ----------
    dtype : numpy.dtype
        Of all elements but truth values.
    rows : int
    block : int
        Rows that are computed at a time; all of them, if they are few.
    is_shared : bool
        Whether several threads compute them.
    widths : tuple of int
        Of the registers: inputs, constants, and what each step makes; 0 of one number, less than 0 of one row that
        stands for all.
    results : tuple of int
        Registers that are outputs.
    steps : tuple of (str, tuple of int, tuple of int)
        As in ``kernels/steps.py``.
    """

    dtype: np.dtype[Any]
    rows: int
    block: int
    is_shared: bool
    widths: tuple[int, ...]
    results: tuple[int, ...]
    steps: tuple[Step, ...]


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
    values : tuple of int
        By operand, the number of the value that it is, `CONSTANT`, or `ELSEWHERE`.
    sizes : tuple of int
        Bytes that are seen, by operand.
    in_cells : tuple of bool
        By operand, whether it is an element in a cell, which has eight bytes.
    name : str
        Of an inner loop: the ufunc, or the operation in small letters.
    dtypes : tuple of numpy.dtype
        Of the operands of an inner loop, or a product.
    product : Product or None
    num_places : int or None
        Of a step that says where a row is: how many addresses it writes; None of one that copies the row.
    moving : int
        A bit for each operand whose address such a step writes.
    fused : Fused or None
    """

    code: StepCode
    target: int
    targets: tuple[int, ...]
    amount: int
    strides: tuple[int, ...]
    values: tuple[int, ...]
    sizes: tuple[int, ...]
    in_cells: tuple[bool, ...]
    name: str = ""
    dtypes: tuple[np.dtype[Any], ...] = ()
    product: Product | None = None
    num_places: int | None = None
    moving: int = 0
    fused: Fused | None = None
