"""Initializers and activations by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.calling import takes
from ..base.dtypes import as_dtype
from ..base.errors import GraphError
from ..ir.tensor import Tensor
from ..ops.math.trigonometry import tanh
from ..ops.nn import activations as functions
from ..ops.nn import activations_composed as composed
from ..ops.nn.losses import log_softmax, softmax
from . import initializers, orthogonal_initializers, scaled_initializers

_INITIALIZERS: dict[str, Callable[[], initializers.Initializer]] = {
    # Collected by their names, so that a new initializer has its short name without being listed.
    name.removesuffix("_initializer"): made
    for module in (initializers, scaled_initializers, orthogonal_initializers)
    for name, made in vars(module).items()
    if name.endswith("_initializer")
}
_FUNCTIONS: tuple[Any, ...] = (
    functions.elu,
    composed.hard_sigmoid,
    composed.swish,
    functions.gelu,
    functions.leaky_relu,
    functions.log_sigmoid,
    functions.relu,
    functions.relu6,
    functions.selu,
    functions.sigmoid,
    functions.softplus,
    functions.softsign,
    log_softmax,
    softmax,
    tanh,
)
_ACTIVATIONS: dict[str, Callable[[Any], Tensor]] = {function.__name__: function for function in _FUNCTIONS}


def as_initializer(given: Any) -> Callable[..., Any]:
    """Return a function as initializer, or the initializer of a name or of constant numbers."""
    if isinstance(given, str):
        if given not in _INITIALIZERS:
            raise _unknown_name_error("initializer", given, _INITIALIZERS)
        return _INITIALIZERS[given]()
    if not callable(given):
        return initializers.constant_initializer(given)
    # A function that cannot take a shape and a dtype makes the value by itself.
    if not takes(given, ([], as_dtype("float32"))):
        function: Callable[..., Any] = given
        return function
    return lambda shape, dtype: given(shape, dtype)  # pass both arguments also to functions with defaults


def as_activation(given: Any) -> Callable[[Any], Tensor]:
    """Return a function as activation, the activation of a name, or the identity for None."""
    if isinstance(given, str):
        if given not in _ACTIVATIONS:
            raise _unknown_name_error("activation", given, _ACTIVATIONS)
        return _ACTIVATIONS[given]
    return (lambda x: x) if given is None else given


def _unknown_name_error(what: str, name: str, known: dict[str, Any]) -> GraphError:
    return GraphError(
        f"no {what} of this name",
        wanted=", ".join(sorted(known)),
        got=repr(name),
        hint="give a function, or one of these names",
    )
