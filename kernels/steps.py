"""The steps of fused operations: a table of their meanings, and of their forms in C and in CUDA C.

A fused operation is a list of steps over registers. Registers are first the inputs, then the constants, then the result
of each step. All registers have the same rows (the dimensions before the last, ``batch_dims``), and each has a width of
its own: the last dimension, or 0 for a scalar. An input without all rows (``has_rows`` is false) is a single row, or a
scalar, repeated for all rows.

A new step is a row of `STEPS`, with a case in `tests/kernels/step_cases.py`.

See docs/design/0005-loops-made-fast.md and docs/design/0018-the-house.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from .elementary.functions import elementary_function

# A step in attributes: its name, its operand registers, and, for some moves, columns.
Step = tuple[str, tuple[int, ...], tuple[int, ...]]
Dims = tuple[Any, ...]  # dimensions of an array, or of a static shape, whose unknown dimensions are None
# meaning(xp, operands, columns, batch_dims) returns the result as an array of the library `xp`.
Meaning = Callable[[Any, Sequence[Any], Sequence[int], Dims], Any]


class StepKind(Enum):
    """Dependence of the elements of a step's result on those of its operands."""

    ELEMENTWISE = auto()  # each from the operands' elements at the same place
    COMPARE = auto()  # elementwise too, with truth values as results, which stay within the fused operation
    REDUCE = auto()  # a column: each element from all elements of its row
    MOVE = auto()  # each is an operand's element, at another column


class StepCode(Enum):
    """The function of `kernels/cpu/steps.pxd` that runs a step."""

    APPLY = auto()  # an inner loop: of the step's ufunc, or ours for `where`
    SIGMOID = auto()
    SUM = auto()  # a ufunc's inner loop folds each row, starting from 0
    MEAN = auto()
    EXTREME = auto()  # a ufunc's inner loop folds each row, starting from its first element
    SLICE = auto()
    CONCAT = auto()
    BROADCAST = auto()


class RowLoop(NamedTuple):
    """A reduction in CUDA C: the initial value of each thread, and the struct of `prelude.cu` for joining two."""

    begin: str
    join: str


@dataclass(frozen=True, slots=True)
class StepOp:
    """A step for fused operations.

    Attributes
    ----------
    name : str
    arity : int or None
        Number of operands; None for any number.
    kind : StepKind
    numpy : callable
        The step's meaning: ``numpy(xp, operands, columns, batch_dims)`` with `xp` the array library.
    ufunc : str or None
        The ufunc whose inner loop the C kernel runs. For a reduction, the ufunc joins two elements.
    code : StepCode
        The C kernel's function.
    cuda : str or RowLoop or None
        For an elementwise step the expression in CUDA C, with ``{}`` for each operand. None for a move, which only
        changes the columns to read.
    """

    name: str
    arity: int | None
    kind: StepKind
    numpy: Meaning
    ufunc: str | None
    code: StepCode
    cuda: str | RowLoop | None

    @property
    def is_elementwise(self) -> bool:
        """True if each element depends on the operands' elements at the same place only."""
        return self.kind in (StepKind.ELEMENTWISE, StepKind.COMPARE)


def _ufunc_step(name: str, arity: int, cuda: str, kind: StepKind = StepKind.ELEMENTWISE) -> StepOp:
    """Return the row of a step by its ufunc's name."""
    return StepOp(
        name, arity, kind, lambda xp, operands, *_: elementary_function(xp, name)(*operands), name, StepCode.APPLY, cuda
    )


def _comparison_step(name: str, cuda: str) -> StepOp:
    return _ufunc_step(name, 2, cuda, StepKind.COMPARE)


def _reduction_step(name: str, ufunc: str, code: StepCode, cuda: RowLoop) -> StepOp:
    """Return the row of a reduction, a function of the same name in array libraries."""

    def compute_reduction(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
        return getattr(xp, name)(operands[0], axis=-1, keepdims=True)

    return StepOp(name, 1, StepKind.REDUCE, compute_reduction, ufunc, code, cuda)


def _move_step(name: str, arity: int | None, code: StepCode, meaning: Meaning) -> StepOp:
    return StepOp(name, arity, StepKind.MOVE, meaning, None, code, None)


def _compute_sigmoid(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
    return 1 / (1 + elementary_function(xp, "exp")(-operands[0]))


def _select_elements(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
    return xp.where(*operands)


def _slice_columns(xp: Any, operands: Sequence[Any], columns: Sequence[int], _: Dims) -> Any:
    """Return the columns from the first of `columns` up to the second."""
    return operands[0][..., slice(*columns)]


def _concat_rows(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
    """Return the rows of all operands side by side."""
    return xp.concatenate(operands, axis=-1)


def _broadcast_column(xp: Any, operands: Sequence[Any], columns: Sequence[int], batch_dims: Dims) -> Any:
    """Return a column, or a scalar, repeated to the width `columns[1]`."""
    (operand,) = operands
    if isinstance(operand, np.generic):  # a scalar of the host, which device libraries do not broadcast
        return xp.full((*batch_dims, columns[1]), operand, dtype=operand.dtype)
    return xp.broadcast_to(operand, (*(operand.shape[:-1] or batch_dims), columns[1]))


_ADDS = RowLoop("0", "Add")

_ROWS = (
    _ufunc_step("add", 2, "{} + {}"),
    _ufunc_step("subtract", 2, "{} - {}"),
    _ufunc_step("multiply", 2, "{} * {}"),
    _ufunc_step("divide", 2, "{} / {}"),
    _ufunc_step("power", 2, "pow({}, {})"),
    _ufunc_step("maximum", 2, "larger({}, {})"),
    _ufunc_step("minimum", 2, "smaller({}, {})"),
    _ufunc_step("logaddexp", 2, "log_add_exp({}, {})"),
    _ufunc_step("negative", 1, "-{}"),
    _ufunc_step("absolute", 1, "fabs({})"),
    _ufunc_step("sign", 1, "sign({})"),
    _ufunc_step("square", 1, "{0} * {0}"),
    _ufunc_step("sqrt", 1, "sqrt({})"),
    _ufunc_step("reciprocal", 1, "1 / {}"),
    _ufunc_step("exp", 1, "exp({})"),
    _ufunc_step("expm1", 1, "expm1({})"),
    _ufunc_step("log", 1, "log({})"),
    _ufunc_step("log1p", 1, "log1p({})"),
    _ufunc_step("tanh", 1, "tanh({})"),
    _ufunc_step("sin", 1, "sin({})"),
    _ufunc_step("cos", 1, "cos({})"),
    StepOp("sigmoid", 1, StepKind.ELEMENTWISE, _compute_sigmoid, None, StepCode.SIGMOID, "sigmoid({})"),
    StepOp("where", 3, StepKind.ELEMENTWISE, _select_elements, None, StepCode.APPLY, "{} ? {} : {}"),
    _comparison_step("equal", "{} == {}"),
    _comparison_step("not_equal", "{} != {}"),
    _comparison_step("greater", "{} > {}"),
    _comparison_step("greater_equal", "{} >= {}"),
    _comparison_step("less", "{} < {}"),
    _comparison_step("less_equal", "{} <= {}"),
    _reduction_step("sum", "add", StepCode.SUM, _ADDS),
    _reduction_step("mean", "add", StepCode.MEAN, _ADDS),
    _reduction_step("max", "maximum", StepCode.EXTREME, RowLoop("-infinity()", "Larger")),
    _reduction_step("min", "minimum", StepCode.EXTREME, RowLoop("infinity()", "Smaller")),
    _move_step("slice", 1, StepCode.SLICE, _slice_columns),
    _move_step("concat", None, StepCode.CONCAT, _concat_rows),
    _move_step("broadcast", 1, StepCode.BROADCAST, _broadcast_column),
)
STEPS = {row.name: row for row in _ROWS}


def can_be_register(dims: Dims) -> bool:
    """Return True if a fused operation may compute a value of static dimensions: of known width, and not empty."""
    return bool(dims) and bool(dims[-1]) and 0 not in dims


def has_all_rows(dims: Dims, batch_dims: Dims) -> bool:
    """Return True if an array has all rows of a fused operation; unknown dimensions count as equal."""
    return bool(dims) and dims[:-1] == batch_dims


def stands_for_all_rows(dims: Dims, batch_dims: Dims) -> bool:
    """Return True if an array is a single row, or a scalar, to be repeated for all rows."""
    return len(dims) <= len(batch_dims) + 1 and all(d == 1 for d in dims[:-1])


def find_batch_dims(inputs: Iterable[tuple[Dims, bool]], otherwise: Dims) -> Dims:
    """Return the dimensions before the last, from the first input with all rows.

    Parameters
    ----------
    inputs : iterable of (dimensions, bool)
        Dimensions of each input, and whether the input has all rows.
    otherwise : tuple
        Result if no input has all rows.
    """
    return next((dims[:-1] for dims, has_rows in inputs if has_rows and dims), otherwise)


def result_width(step: StepOp, widths: Sequence[int], have_rows: Sequence[bool], columns: Sequence[int]) -> int:
    """Return the width of a step's result. `find_width` in `kernels/cpu/steps.pxd` is the same rule in C.

    Parameters
    ----------
    step : StepOp
    widths : sequence of int
        Widths of the operands, 0 for a scalar.
    have_rows : sequence of bool
        For each operand, True if all rows are present.
    columns : sequence of int
        Columns of the step.

    Raises
    ------
    ValueError
        If the operands' widths are incompatible, or the result would not have all rows.
    """
    width = _find_width(step, widths, have_rows, columns)
    if width <= 0:
        raise ValueError(f"the operands of {step.name} do not go together: their widths are {list(widths)}")
    return width


def _find_width(step: StepOp, widths: Sequence[int], have_rows: Sequence[bool], columns: Sequence[int]) -> int:
    """Return the width of a step's result, 0 for incompatible operands."""
    if step.is_elementwise:
        # scalars and columns (widths 0 and 1) are repeated
        return max(widths) if any(have_rows) and len(set(widths) - {0, 1}) <= 1 else 0
    if step.code is StepCode.BROADCAST:
        return columns[1] if widths[0] == 0 or (widths[0] == 1 and have_rows[0]) else 0
    if not all(have_rows):
        return 0
    if step.code is StepCode.SLICE:
        return columns[1] - columns[0] if columns[1] <= widths[0] else 0
    return sum(widths) if step.code is StepCode.CONCAT else 1
