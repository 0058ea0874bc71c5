"""The functions of the language: typed, in NumPy and as operations of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tagloom as tg
from tagloom.kernels.elementary.functions import elementary_function

from tests.property.programs import Type

Rule = Callable[..., Type | None]


@dataclass(frozen=True)
class Function:
    """One function: `rule` gives the type of its result, or None for arguments it does not take."""

    arity: int
    rule: Rule
    plain: Callable[..., Any]
    graph: Callable[..., Any]


def broadcast(*types: Type) -> tuple[int, ...] | None:
    """Return the common shape of tensors that are scalars or have one shape; None where there is none."""
    if any(t.size is not None for t in types):
        return None
    shapes = {t.shape for t in types} - {()}
    return None if len(shapes) > 1 else shapes.pop() if shapes else ()


def _alike(*types: Type, allowed: tuple[str, ...]) -> tuple[int, ...] | None:
    dtypes = {t.dtype for t in types}
    return broadcast(*types) if len(dtypes) == 1 and dtypes <= set(allowed) else None


def _same(*allowed: str) -> Rule:
    def rule(*types: Type) -> Type | None:
        shape = _alike(*types, allowed=allowed)
        return None if shape is None else Type(types[0].dtype, shape)

    return rule


def _comparison(*types: Type) -> Type | None:
    shape = _alike(*types, allowed=("int32", "float64"))
    return None if shape is None else Type("bool", shape)


def _where(condition: Type, x: Type, y: Type) -> Type | None:
    shape = broadcast(condition, x, y)
    return Type(x.dtype, shape) if shape is not None and condition.dtype == "bool" and x.dtype == y.dtype else None


def _sum(type: Type) -> Type | None:
    return Type(type.dtype) if type.size is None and type.shape and type.dtype != "bool" else None


def _to_float(type: Type) -> Type | None:
    return Type("float64", type.shape) if type.size is None and type.dtype == "int32" else None


_NUMBER = _same("int32", "float64")
_REAL = _same("float64")
_FLAG = _same("bool")

FUNCTIONS = {
    "add": Function(2, _NUMBER, np.add, tg.add),
    "sub": Function(2, _NUMBER, np.subtract, tg.subtract),
    "mul": Function(2, _NUMBER, np.multiply, tg.multiply),
    "min": Function(2, _NUMBER, np.minimum, tg.minimum),
    "max": Function(2, _NUMBER, np.maximum, tg.maximum),
    "neg": Function(1, _NUMBER, np.negative, tg.negative),
    "mod5": Function(1, _same("int32"), lambda x: np.remainder(x, np.int32(5)), lambda x: tg.floormod(x, np.int32(5))),
    "safe_div": Function(2, _REAL, lambda x, y: x / (y * y + 1.0), lambda x, y: x / (y * y + 1.0)),
    "tanh": Function(1, _REAL, elementary_function(np, "tanh"), tg.tanh),
    "sin": Function(1, _REAL, np.sin, tg.sin),
    "where": Function(3, _where, np.where, tg.where),
    "sum": Function(1, _sum, lambda x: np.sum(x, dtype=x.dtype), tg.reduce_sum),
    "float": Function(1, _to_float, lambda x: x.astype(np.float64), lambda x: tg.cast(x, "float64")),
    "less": Function(2, _comparison, np.less, tg.less),
    "less_equal": Function(2, _comparison, np.less_equal, tg.less_equal),
    "equal": Function(2, _comparison, np.equal, tg.equal),
    "and": Function(2, _FLAG, np.logical_and, tg.logical_and),
    "or": Function(2, _FLAG, np.logical_or, tg.logical_or),
    "not": Function(1, _FLAG, np.logical_not, tg.logical_not),
}

# Smooth functions whose results stay in [-1, 1] when their arguments do, and that stretch distances at most threefold:
# what a few nested loops compose of them still has derivatives that finite differences can resolve.
SMOOTH = {
    "mean": Function(2, _REAL, lambda x, y: (x + y) * 0.5, lambda x, y: (x + y) * 0.5),
    "gap": Function(2, _REAL, lambda x, y: (x - y) * 0.5, lambda x, y: (x - y) * 0.5),
    "mul": FUNCTIONS["mul"],
    "tanh": FUNCTIONS["tanh"],
    "sin": FUNCTIONS["sin"],
    "exp": Function(1, _REAL, lambda x: elementary_function(np, "exp")(x - 1.0), lambda x: tg.exp(x - 1.0)),
    "safe_div": FUNCTIONS["safe_div"],
    "average": Function(1, lambda t: _sum(t) if t.dtype == "float64" else None, np.mean, tg.reduce_mean),
}

ALL = FUNCTIONS | SMOOTH
