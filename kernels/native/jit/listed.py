"""Steps of a run in the form used for code: without addresses."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from ...steps import Step

CONSTANT = -2  # in place of a value's number: an element that no step changes
ELSEWHERE = -1  # in place of a value's number: an address without further knowledge, or none


class StepCode(IntEnum):
    """Kind of a step; ``kernels/native/run.pxd`` describes each."""

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
    """State of a run."""

    SUSPENDED = 0
    DONE = 1
    GAVE_UP = 2
    NO_ROOM = 3


class Verdict(IntEnum):
    """Result of an acting step."""

    NO = 0
    YES = 1
    LATER = 2


class FusedLayout(NamedTuple):
    """Offsets in bytes in a fused operation's deferred work: FUSED_LAYOUT of ``kernels/cpu/fused_works.pyx``."""

    registers: int
    steps: int
    register_size: int
    data: int  # of a register
    step_size: int
    loop: int  # of a step
    last: int  # argument of its loop


class Layout(NamedTuple):
    """Offsets of struct fields, in bytes, and the size of a step."""

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
    block: tuple[int, int, int, int]  # of a Writer: first slot, slots, data, flags of written slots
    reader: tuple[int, int, int]  # of a Reader: rows, their number, flag of the last read
    place: tuple[int, int, int]  # of a Place: its size, the address to update, the offset in the row
    fused: FusedLayout
    shared: tuple[int, int, int]  # of a shared work's arguments: size, size of the copied part, function
    sum: tuple[int, int, int, int]  # of a Sum: rows, most rows before a product, data of both factors


class Product(NamedTuple):
    """A product of matrices in a step: as `Product` in ``kernels/cpu/linear.pxd``, without addresses.

    Attributes
    ----------
    rows, columns, inner : int
    transposed_a, transposed_b : bool
        True if a factor is stored transposed.
    adds : bool
        True to add the product to the destination.
    copies : bool
        True to copy a total to the destination first.
    is_small : bool
        True for a product of few elements, computed inline.
    is_fused : bool
        True if multiplications are fused with additions.
    factors : tuple of int
        The value numbers of both factors, the product and the total, or `ELSEWHERE`.
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
    """A fused operation in a step, without addresses.

    Attributes
    ----------
    dtype : numpy.dtype
        Of all elements except truth values.
    rows : int
    block : int
        Rows computed at a time; all if few.
    is_shared : bool
        True if several threads share the rows.
    widths : tuple of int
        Widths of the registers: inputs, constants, and the steps' results; 0 for a scalar, negative for a single row
        repeated for all.
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
    """Properties of a step that determine its code.

    Attributes
    ----------
    code : StepCode
    target, targets : int, tuple of int
        Numbers of steps.
    amount : int
        Number of elements, or bytes: the `count` of `StepCode`.
    strides : tuple of int
        Strides in bytes, by operand.
    values : tuple of int
        By operand, the value's number, `CONSTANT`, or `ELSEWHERE`.
    sizes : tuple of int
        Accessed bytes, by operand.
    in_cells : tuple of bool
        By operand, True for an element in a cell of eight bytes.
    name : str
        Name of an inner loop: the ufunc's, or the operation's in lower case.
    dtypes : tuple of numpy.dtype
        Dtypes of the operands of an inner loop, or a product.
    product : Product or None
    num_places : int or None
        Number of addresses to update with a row's place; None for a step that copies the row.
    moving : int
        Bit set of the operands whose addresses such a step updates.
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
