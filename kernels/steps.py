"""The steps of fused operations: one table of what each means, and what the kernels in C and in CUDA C make of it.

A fused operation is a list of steps over registers. Registers are first the inputs, then the constants, then the result
of each step. All registers have the same rows (the dimensions before the last, ``batch_dims``), and each has a width of
its own: the last dimension, or 0 for one number. An input that does not have all rows (``has_rows``) is one row, or one
number, that stands for all rows.

A new step is a row of `STEPS`; `tests/kernels/step_cases.py` wants a case for it.

See docs/design/0005-loops-made-fast.md and docs/design/0018-the-house.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np

from .elementary.functions import elementary_function

# A step as attributes hold it: its name, the registers that it takes, and, of some moves, columns.
Step = tuple[str, tuple[int, ...], tuple[int, ...]]
Dims = tuple[Any, ...]  # dimensions of an array, or of a static shape, of which some may be None
# meaning(xp, operands, columns, batch_dims) gives the result as an array of the library `xp`.
Meaning = Callable[[Any, Sequence[Any], Sequence[int], Dims], Any]


class StepKind(Enum):
    """How the elements of a step's result come from those of its operands."""

    ELEMENTWISE = auto()  # each from the elements at its place
    COMPARE = auto()  # elementwise too, with a result of truth values, which do not leave the fused operation
    REDUCE = auto()  # a column: each element from all elements of its row
    MOVE = auto()  # each is an element of an operand, at another column


class StepCode(Enum):
    """Which function of `kernels/cpu/steps.pxd` runs a step."""

    APPLY = auto()  # an inner loop: of the step's ufunc, or our own for `where`
    SIGMOID = auto()
    SUM = auto()  # a ufunc's inner loop that joins the elements of each row, beginning with 0
    MEAN = auto()
    EXTREME = auto()  # the same, beginning with the row's first element
    SLICE = auto()
    CONCAT = auto()
    BROADCAST = auto()


class RowLoop(NamedTuple):
    """A reduction in CUDA C: what each thread of a row begins with, and the struct of `prelude.cu` that joins two."""

    begin: str
    join: str


@dataclass(frozen=True, slots=True)
class StepOp:
    """A step that fused operations may contain.

    Attributes
    ----------
    name : str
    arity : int or None
        Number of operands; None where there may be any number.
    kind : StepKind
    numpy : callable
        Its meaning: ``numpy(xp, operands, columns, batch_dims)`` with `xp` the array library.
    ufunc : str or None
        The ufunc whose inner loop the C kernel runs. Of a reduction, the ufunc that joins two elements.
    code : StepCode
        What the C kernel does.
    cuda : str or RowLoop or None
        Of an elementwise step the expression in CUDA C, with ``{}`` for each operand. A move has none: it says which
        columns are read.
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
        """Whether each element comes from the elements at its place."""
        return self.kind in (StepKind.ELEMENTWISE, StepKind.COMPARE)


def _ufunc(name: str, arity: int, cuda: str, kind: StepKind = StepKind.ELEMENTWISE) -> StepOp:
    """Return the row of a step that is a ufunc, by the ufunc's name."""
    return StepOp(
        name, arity, kind, lambda xp, operands, *_: elementary_function(xp, name)(*operands), name, StepCode.APPLY, cuda
    )


def _compare(name: str, cuda: str) -> StepOp:
    return _ufunc(name, 2, cuda, StepKind.COMPARE)


def _reduce(name: str, ufunc: str, code: StepCode, cuda: RowLoop) -> StepOp:
    """Return the row of a reduction, which is a function of array libraries by the same name."""

    def meaning(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
        return getattr(xp, name)(operands[0], axis=-1, keepdims=True)

    return StepOp(name, 1, StepKind.REDUCE, meaning, ufunc, code, cuda)


def _move(name: str, arity: int | None, code: StepCode, meaning: Meaning) -> StepOp:
    return StepOp(name, arity, StepKind.MOVE, meaning, None, code, None)


def _sigmoid(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
    return 1 / (1 + elementary_function(xp, "exp")(-operands[0]))


def _where(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
    return xp.where(*operands)


def _slice(xp: Any, operands: Sequence[Any], columns: Sequence[int], _: Dims) -> Any:
    """Return the columns from the first of `columns` to before the second."""
    return operands[0][..., slice(*columns)]


def _concat(xp: Any, operands: Sequence[Any], *_: Any) -> Any:
    """Return the rows of all operands side by side."""
    return xp.concatenate(operands, axis=-1)


def _broadcast(xp: Any, operands: Sequence[Any], columns: Sequence[int], batch_dims: Dims) -> Any:
    """Return a column, or one number, at all of `columns`."""
    (operand,) = operands
    if isinstance(operand, np.generic):  # a number of the host, which other libraries do not broadcast
        return xp.full((*batch_dims, columns[1]), operand, dtype=operand.dtype)
    return xp.broadcast_to(operand, (*(operand.shape[:-1] or batch_dims), columns[1]))


_ADDS = RowLoop("0", "Add")

_ROWS = (
    _ufunc("add", 2, "{} + {}"),
    _ufunc("subtract", 2, "{} - {}"),
    _ufunc("multiply", 2, "{} * {}"),
    _ufunc("divide", 2, "{} / {}"),
    _ufunc("power", 2, "pow({}, {})"),
    _ufunc("maximum", 2, "larger({}, {})"),
    _ufunc("minimum", 2, "smaller({}, {})"),
    _ufunc("logaddexp", 2, "log_add_exp({}, {})"),
    _ufunc("negative", 1, "-{}"),
    _ufunc("absolute", 1, "fabs({})"),
    _ufunc("sign", 1, "sign({})"),
    _ufunc("square", 1, "{0} * {0}"),
    _ufunc("sqrt", 1, "sqrt({})"),
    _ufunc("reciprocal", 1, "1 / {}"),
    _ufunc("exp", 1, "exp({})"),
    _ufunc("expm1", 1, "expm1({})"),
    _ufunc("log", 1, "log({})"),
    _ufunc("log1p", 1, "log1p({})"),
    _ufunc("tanh", 1, "tanh({})"),
    _ufunc("sin", 1, "sin({})"),
    _ufunc("cos", 1, "cos({})"),
    StepOp("sigmoid", 1, StepKind.ELEMENTWISE, _sigmoid, None, StepCode.SIGMOID, "sigmoid({})"),
    StepOp("where", 3, StepKind.ELEMENTWISE, _where, None, StepCode.APPLY, "{} ? {} : {}"),
    _compare("equal", "{} == {}"),
    _compare("not_equal", "{} != {}"),
    _compare("greater", "{} > {}"),
    _compare("greater_equal", "{} >= {}"),
    _compare("less", "{} < {}"),
    _compare("less_equal", "{} <= {}"),
    _reduce("sum", "add", StepCode.SUM, _ADDS),
    _reduce("mean", "add", StepCode.MEAN, _ADDS),
    _reduce("max", "maximum", StepCode.EXTREME, RowLoop("-infinity()", "Larger")),
    _reduce("min", "minimum", StepCode.EXTREME, RowLoop("infinity()", "Smaller")),
    _move("slice", 1, StepCode.SLICE, _slice),
    _move("concat", None, StepCode.CONCAT, _concat),
    _move("broadcast", 1, StepCode.BROADCAST, _broadcast),
)
STEPS = {row.name: row for row in _ROWS}


def can_be_register(dims: Dims) -> bool:
    """Say whether a value of these static dimensions can be made in a fused operation: its width known, none empty."""
    return bool(dims) and bool(dims[-1]) and 0 not in dims


def has_all_rows(dims: Dims, batch_dims: Dims) -> bool:
    """Say whether an array has all rows of a fused operation; dimensions that are not known count as the same."""
    return bool(dims) and dims[:-1] == batch_dims


def stands_for_all_rows(dims: Dims, batch_dims: Dims) -> bool:
    """Say whether an array is one row, or one number, that NumPy would repeat for all rows."""
    return len(dims) <= len(batch_dims) + 1 and all(d == 1 for d in dims[:-1])


def find_batch_dims(inputs: Iterable[tuple[Dims, bool]], otherwise: Dims) -> Dims:
    """Return the dimensions before the last, from the first input that has all rows.

    Parameters
    ----------
    inputs : iterable of (dimensions, bool)
        Of each input, and whether it has all rows.
    otherwise : tuple
        What is known of them where no input has all rows.
    """
    return next((dims[:-1] for dims, has_rows in inputs if has_rows and dims), otherwise)


def result_width(step: StepOp, widths: Sequence[int], have_rows: Sequence[bool], columns: Sequence[int]) -> int:
    """Return the width of a step's result. `find_width` in `kernels/cpu/steps.pxd` is the same rule in C.

    Parameters
    ----------
    step : StepOp
    widths : sequence of int
        Of its operands, 0 for one number.
    have_rows : sequence of bool
        Whether each operand has all rows.
    columns : sequence of int
        Of the step.

    Raises
    ------
    ValueError
        If the operands do not go together, or the result would not have all rows.
    """
    width = _width(step, widths, have_rows, columns)
    if width <= 0:
        raise ValueError(f"the operands of {step.name} do not go together: their widths are {list(widths)}")
    return width


def _width(step: StepOp, widths: Sequence[int], have_rows: Sequence[bool], columns: Sequence[int]) -> int:
    """Return the width of a step's result, 0 if the operands do not go together."""
    if step.is_elementwise:
        return max(widths) if any(have_rows) and len(set(widths) - {0, 1}) <= 1 else 0
    if step.code is StepCode.BROADCAST:
        return columns[1] if widths[0] == 0 or (widths[0] == 1 and have_rows[0]) else 0
    if not all(have_rows):
        return 0
    if step.code is StepCode.SLICE:
        return columns[1] - columns[0] if columns[1] <= widths[0] else 0
    return sum(widths) if step.code is StepCode.CONCAT else 1
