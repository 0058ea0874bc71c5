"""Checks of values from outside against the receiving variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ....base.array_like import UnreadArray, as_array
from ....base.dtypes import DType, as_dtype
from ....base.errors import DtypeError, GraphError, ShapeError
from ....base.shapes import Shape

Array = np.ndarray[Any, Any]


def fit_values(values: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Array]:
    """Return values as arrays that fit the variables of the same names.

    Parameters
    ----------
    values : mapping of str to array-like
    variables : mapping of str to Variable
        The graph's variables by name, with the required dtypes and shapes.

    Raises
    ------
    GraphError, DtypeError, ShapeError
        If a name is unknown, or a value does not fit its variable.
    """
    return {name: _fit_value(name, value, variables) for name, value in values.items()}


def _fit_value(name: str, value: Any, variables: Mapping[str, Any]) -> Array:
    """Return a value as an array of its variable's dtype; ShapeError if its shape does not fit."""
    if name not in variables:
        raise no_such_variable(name, variables)
    variable = variables[name]
    array = (
        _checked_unread(value, variable.dtype) if isinstance(value, UnreadArray) else as_array(value, variable.dtype)
    )
    if not variable.shape.includes(Shape(array.shape)):
        raise ShapeError(
            f"a value does not fit variable '{name}'",
            wanted=variable.shape,
            got=Shape(array.shape),
            operation=variable.op,
            hint="reshape the value, or make the variable with shape=None dimensions",
        )
    return array


def _checked_unread(value: Any, dtype: DType) -> Any:
    found = as_dtype(value.dtype)
    if found is not dtype:
        raise DtypeError("this array has another dtype", wanted=dtype, got=found, hint="restore it with cast=True")
    return value


def no_such_variable(name: object, known: Iterable[str]) -> GraphError:
    """Return the error about an unknown name of a variable."""
    return GraphError(
        "the graph has no variable of this name",
        wanted=", ".join(known) or "none",
        got=name,
        hint="use the names that read_variables gives",
    )
