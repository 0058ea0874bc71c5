"""Variables of layers, shared under variable scopes that reuse variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.dtypes import as_dtype
from ..base.shapes import Shape
from .by_name import as_initializer
from .shared_variables import getter_of


@dataclass(frozen=True, slots=True)
class Default:
    """An initializer for variables without an initializer of their own, in scopes without an initializer."""

    initializer: Any = "glorot_uniform"


GLOROT = Default()


def layer_variable(
    module: Any, name: str, shape: Any, dtype: Any, initializer: Any = GLOROT, trainable: bool = True
) -> Any:
    """Return a variable of a module, new or, under a variable scope that reuses variables, shared.

    The current variable scope decides, or, outside of all scopes, the scope of the module's construction: about reuse,
    the custom getter, and the regularizer of trainable variables. New variables are named by name scopes.

    Parameters
    ----------
    module : Module
    name : str
        Name within the module.
    shape : sequence of int
    dtype : dtype-like
    initializer : callable, str, array-like or Default
        A Default yields to the variable scope's, if the scope has an initializer.
    trainable : bool

    Returns
    -------
    Variable
        Or the result of the scope's custom getter.

    Raises
    ------
    GraphError
        If the scope reuses variables and the variable is missing, or vice versa.
    ShapeError, DtypeError
        If the shared variable has another shape or dtype.
    """
    scope = module._place.scope()
    if isinstance(initializer, Default):
        initializer = initializer.initializer if scope.initializer is None else scope.initializer
    given = {
        "shape": Shape(shape),
        "dtype": as_dtype(dtype),
        "initializer": as_initializer(initializer),
        # Moving averages and other variables that are not trained have no part in the loss.
        "regularizer": scope.regularizer if trainable else None,
        "trainable": trainable,
        "reuse": scope.reuse,
    }
    # Outside of all scopes two layers of one chosen name differ; inside of a scope the second shares, or is an error.
    get = getter_of(scope.store, name, is_unique=not (scope.name or scope.reuse))
    # Shared by the path of modules; name scopes, which differ between calls, only name a new variable.
    key = f"{module._place.path_in(scope)}/{name}"
    return get(key, **given) if scope.custom_getter is None else scope.custom_getter(get, key, **given)
