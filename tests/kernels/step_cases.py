"""A case for each step of fused operations: its operands, and the result by other means than the table's."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from tagloom.kernels.steps import STEPS, StepKind

ROWS = 3
FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class StepCase:
    """Operands of a step, and its result.

    Attributes
    ----------
    wanted : callable
        The result from the operands, by plain NumPy in float64.
    widths : tuple of int
        Of the operands, 0 for one number.
    columns : tuple of int
        Of the step.
    low : float
        The least that elements may be.
    """

    wanted: Callable
    widths: tuple = (4,)
    columns: tuple = ()
    low: float = -2.0

    def operands(self, dtype):
        """Return operands that have all rows; the same for all cases of these widths."""
        rng = np.random.default_rng(len(self.widths))
        shapes = [(ROWS, width) if width else () for width in self.widths]
        return [np.asarray(rng.uniform(self.low, 2, shape), dtype) for shape in shapes]


def _comparison(function):
    """Return the case of a comparison, from a function of two numbers."""
    return StepCase(lambda x, y: np.vectorize(function, otypes=[bool])(x, y), (4, 1))


CASES = {
    "add": StepCase(lambda x, y: x - -y, (4, 4)),
    "subtract": StepCase(lambda x, y: x + -y, (4, 1)),
    "multiply": StepCase(lambda x, y: x / (1 / y), (4, 0)),
    "divide": StepCase(lambda x, y: x * (1 / y), (4, 4)),
    "power": StepCase(lambda x, y: np.exp(y * np.log(x)), (4, 4), low=0.1),
    "maximum": StepCase(lambda x, y: np.where(x > y, x, y), (4, 1)),
    "minimum": StepCase(lambda x, y: np.where(x < y, x, y), (1, 4)),
    "logaddexp": StepCase(lambda x, y: np.log(np.exp(x) + np.exp(y)), (4, 0)),
    "negative": StepCase(lambda x: 0 - x),
    "absolute": StepCase(lambda x: np.sqrt(x * x)),
    "sign": StepCase(lambda x: np.where(x > 0, 1.0, -1.0)),
    "square": StepCase(lambda x: x**2),
    "sqrt": StepCase(lambda x: x**0.5, low=0.1),
    "reciprocal": StepCase(lambda x: x**-1),
    "exp": StepCase(lambda x: np.e**x),
    "expm1": StepCase(lambda x: np.e**x - 1),
    "log": StepCase(lambda x: np.log2(x) * np.log(2), low=0.1),
    "log1p": StepCase(lambda x: np.log(1 + x), low=-0.5),
    "tanh": StepCase(lambda x: np.sinh(x) / np.cosh(x)),
    "sin": StepCase(lambda x: np.exp(1j * x).imag),
    "cos": StepCase(lambda x: np.exp(1j * x).real),
    "sigmoid": StepCase(expit),
    "where": StepCase(lambda mask, x, y: mask * x + (1 - mask) * y, (4, 4, 1)),
    "equal": _comparison(lambda x, y: not (x < y or x > y)),
    "not_equal": _comparison(lambda x, y: x < y or x > y),
    "greater": _comparison(lambda x, y: y < x),
    "greater_equal": _comparison(lambda x, y: not x < y),
    "less": _comparison(lambda x, y: y > x),
    "less_equal": _comparison(lambda x, y: not x > y),
    "sum": StepCase(lambda x: x @ np.ones((4, 1))),
    "mean": StepCase(lambda x: x @ np.full((4, 1), 0.25)),
    "max": StepCase(lambda x: np.sort(x)[:, -1:]),
    "min": StepCase(lambda x: np.sort(x)[:, :1]),
    "slice": StepCase(lambda x: np.delete(x, [0, 3], 1), columns=(1, 3)),
    "concat": StepCase(lambda x, y, z: np.hstack([x, y, z]), (4, 1, 2)),
    "broadcast": StepCase(lambda x: x @ np.ones((1, 5)), (1,), (0, 5)),
}


def with_ties(x, y):
    """Return operands of a comparison: in the first row all are equal."""
    x = x.copy()
    x[0] = y[0]
    return [x, y]


def operands(name, dtype):
    """Return the operands of a step's case; the first of `where` is truth values."""
    found = CASES[name].operands(dtype)
    if STEPS[name].kind is StepKind.COMPARE:
        return with_ties(*found)
    return [found[0] > 0, *found[1:]] if name == "where" else found


def wanted(name, dtype):
    """Return the result of a step's case, truth values as 1 and 0."""
    found = [np.asarray(x, None if x.dtype == bool else np.float64) for x in operands(name, dtype)]
    return np.asarray(CASES[name].wanted(*found), dtype)


def attributes(steps, widths, constants, last_dim, has_rows=None):
    """Return the attributes of a fused operation with one result, that of its last step."""
    registers = len(widths) + len(constants) + len(steps)
    return {
        "num": 1,
        "steps": tuple(steps),
        "constants": tuple(constants),
        "results": (registers - 1,),
        "batch_dims": (ROWS,),
        "has_rows": tuple(w > 0 for w in widths) if has_rows is None else tuple(has_rows),
        "last_dims": (last_dim,),
    }


def program(name, widths, columns, dtype, has_rows=None, last_dim=1):
    """Return the attributes of a fused operation that shows a step: truth values are made and used in it."""
    n, numbers = len(widths), ()
    steps = [(name, tuple(range(n)), tuple(columns))]
    if STEPS[name].kind is StepKind.COMPARE:
        numbers = (np.asarray(1, dtype), np.asarray(0, dtype))
        steps.append(("where", (n + 2, n, n + 1), ()))
    elif name == "where":
        numbers = (np.asarray(0, dtype),)
        steps = [("greater", (0, n), ()), ("where", (n + 1, *range(1, n)), ())]
    return attributes(steps, widths, numbers, last_dim, has_rows)


def fused(name, dtype):
    """Return the attributes and inputs of a fused operation that computes a step's case."""
    case = CASES[name]
    inputs = case.operands(dtype)
    if STEPS[name].kind is StepKind.COMPARE:
        inputs = with_ties(*inputs)
    return program(name, case.widths, case.columns, dtype, last_dim=wanted(name, dtype).shape[-1]), inputs
