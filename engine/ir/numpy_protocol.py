"""NumPy functions called on tensors: ufuncs build operations; others raise errors naming tagloom's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..base import dtypes
from ..base.errors import GraphError
from ..base.public_names import load
from .other_names import function_here, name_here
from .products import product
from .tensor import Operators

_LOGICAL = {  # NumPy's functions of bits are those of truth values too
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
}
_OTHERS: dict[str, Callable[..., Any]] = {
    "positive": lambda x: +x,
    "matmul": product,
    "divmod": lambda x, y: (load("floordiv")(x, y), load("floormod")(x, y)),
}
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def apply_ufunc(tensor: Operators, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Any) -> Any:
    """Build the operation of a NumPy ufunc, as for ``numpy.add(array, tensor)`` and ``array + tensor``.

    Raises
    ------
    GraphError
        If there is no such operation, or the call uses an unsupported form (``out=``, ``where=``, ``reduce``).
    """
    name = ufunc.__name__
    if method == "reduce" and name in _REDUCTIONS:
        _refuse_array_function(tensor, f"{name}.reduce", f"reduce_{_REDUCTIONS[name]}")
    if tensor.dtype is dtypes.bool_:
        name = _LOGICAL.get(name, name)
    function = _OTHERS.get(name) or function_here(name_here(name) or "")
    if function is None or method != "__call__":
        _refuse_array_function(tensor, name if method == "__call__" else f"{name}.{method}", None)
    if options:
        given = ", ".join(f"{option}=" for option in options)
        _refuse_array_function(tensor, f"{name} with {given}", name_here(name))
    return function(*map(_unwrap_scalar, inputs) if name in _COMPARISONS else inputs)


def _unwrap_scalar(value: object) -> Any:
    """Return the scalar in a 0-d array: NumPy wraps compared scalars in such arrays, which would lose weak typing."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def refuse_function(tensor: Operators, function: Callable[..., Any]) -> NoReturn:
    """Refuse a NumPy function of arrays, naming tagloom's function if there is any."""
    _refuse_array_function(tensor, function.__name__, name_here(function.__name__))


def _refuse_array_function(tensor: Operators, what: str, known: str | None) -> NoReturn:
    call = known if known is None or "(" in known else f"{known}(t)"
    raise GraphError(
        f"numpy.{what} wants arrays, and a symbolic tensor is none",
        got=repr(tensor),
        operation=tensor.op,
        hint=f"tagloom.{call}" if call else "fetch it: await session.run(t); or use tagloom operations on it",
    )
