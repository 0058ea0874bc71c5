"""Variables of layers, shared where a variable scope says so."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..base.dtypes import as_dtype
from ..base.shapes import Shape
from .by_name import as_initializer
from .get_variable import get_or_make_variable


def layer_variable(
    module: Any,
    name: str,
    shape: Any,
    dtype: Any,
    initializer: Any,
    trainable: bool = True,
    default: Any = "glorot_uniform",
) -> Any:
    """Return a variable of a module: a new one, or in a variable scope that reuses variables the one that is there.

    The open variable scope decides, or where none is open that in which the module was constructed, with its custom
    getter, and its regularizer for what is trained. New variables are named by name scopes.

    Parameters
    ----------
    module : Module
    name : str
        In the module.
    shape : sequence of int
    dtype : dtype-like
    initializer : callable, str, array-like or None
        None for that of the variable scope, or `default` where it has none.
    trainable : bool
    default : callable, str or array-like

    Returns
    -------
    Variable
        Or what the custom getter of the scope returns.

    Raises
    ------
    GraphError
        If the scope is to reuse variables and there is none, or the other way round.
    ShapeError, DtypeError
        If the variable that is there has another shape or dtype.
    """
    scope = module._place.scope()
    if initializer is None:
        initializer = default if scope.initializer is None else scope.initializer
    given = {
        "shape": Shape(shape),
        "dtype": as_dtype(dtype),
        "initializer": as_initializer(initializer),
        "regularizer": scope.regularizer if trainable else None,
        "trainable": trainable,
        "reuse": scope.reuse,
    }
    get = partial(get_or_make_variable, scope.store, layer_name=name, is_unique=not (scope.name or scope.reuse))
    key = f"{module._place.path_in(scope)}/{name}"
    return get(key, **given) if scope.custom_getter is None else scope.custom_getter(get, key, **given)
