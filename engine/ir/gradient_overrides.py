"""Replacements for the gradients of operation types inside a scope: ``graph.gradient_override_map``.

An operation keeps the name of its gradient in an attribute, which copies, texts and pickles of graphs preserve. The
function is looked up by this name when `gradients` reaches the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.errors import GraphError
from .definition import OpDefinition, all_definitions, definition_of
from .traits import Role

if TYPE_CHECKING:
    from .operation import Operation

OVERRIDE = "gradient_override"  # the attribute
F = TypeVar("F", bound=Callable[..., Any])
_REGISTERED: dict[str, Callable[..., Any]] = {}
_WITH_RULES = frozenset(
    {Role.COND, Role.WHILE, Role.SERIES_READ}
)  # cotangents leave a region or a series by rules of the walk, not by functions


class RegisterGradient:
    """Decorator to register a gradient function under a name for :meth:`Graph.gradient_override_map`.

    The function takes the operation and a cotangent for each of its outputs (None where none arrives), and returns a
    cotangent for each of its inputs, None where there is none; a single cotangent needs no list. The function may use
    the operation's inputs and outputs, also in loops and branches, and can be differentiated again.

    Parameters
    ----------
    op_type : str
        The name. A name of an operation type does not change the type's own gradient.

    Raises
    ------
    GraphError
        If another function or an operation type has this name.

    Examples
    --------
    A straight-through estimator:

    >>> import tagloom as tg
    >>> @tg.RegisterGradient("DocsPassThrough")
    ... def pass_through(op, grad):
    ...     return grad
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [])
    ...     with graph.gradient_override_map({"Sign": "DocsPassThrough"}):
    ...         y = tg.sign(x)
    ...     slope = tg.gradients(3.0 * y, x)
    >>> with tg.SyncSession(graph) as session:
    ...     [float(value) for value in session.run([y, *slope], {x: 0.5})]
    [1.0, 3.0]
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str) or not op_type:
            raise GraphError("a gradient needs a name", wanted="a text", got=repr(op_type), hint='as "Clipped"')
        self.name: str = op_type

    def __call__(self, f: F) -> F:
        known = _REGISTERED.get(self.name)
        if (known is not None and _identity_of(known) != _identity_of(f)) or self.name in _operation_types():
            raise GraphError(
                f"there is a gradient named '{self.name}' already",
                got=getattr(f, "__qualname__", repr(f)),
                hint="register the function under another name",
            )
        _REGISTERED[self.name] = f
        return f


def _identity_of(f: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the identity of a gradient function, which survives its redefinition in a rerun notebook cell."""
    return getattr(f, "__module__", None), getattr(f, "__qualname__", f)


def _operation_types() -> set[str]:
    return {definition.type for definition in all_definitions()}


def checked_overrides(op_type_map: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of a map from operation types to names of gradients; GraphError for unknown types or names."""
    if not isinstance(op_type_map, Mapping):
        raise GraphError(
            "gradient_override_map takes a dict",
            wanted='as {"Sign": "Identity"}',
            got=repr(op_type_map),
            hint="use one",
        )
    types = _operation_types()
    for type, name in op_type_map.items():
        if type not in types or definition_of(type).role in _WITH_RULES:
            raise GraphError(
                "this type of operation has no gradient to replace",
                got=repr(type),
                wanted="a type of operation that computes its outputs, as op.type says it",
                hint="custom_gradient is for functions of several operations",
            )
        # For the error: an unknown name is refused here, not when the gradient is built.
        _gradient_function(name)
    return dict(op_type_map)


def _gradient_function(name: str) -> Callable[..., Any]:
    """Return the gradient function of a name: a registered function, or the gradient of an operation type."""
    found = _REGISTERED.get(name)
    if found is not None:
        return found
    if name in _operation_types():
        gradient = definition_of(name).gradient
        if callable(gradient):
            return gradient
    raise GraphError(
        "there is no such gradient",
        got=repr(name),
        wanted="a name that was registered, or an operation type that has a gradient",
        hint=f"register it: @RegisterGradient({name!r})",
    )


def note_override(op: Operation, overrides: Mapping[str, str]) -> None:
    """Record the replacement of an operation's gradient, if `overrides` names its type."""
    type = op.type
    if type in overrides:
        op.attrs[OVERRIDE] = overrides[type]


def has_gradient(op: Operation) -> bool:
    """Return True if cotangents pass through an operation, by its type or by an override."""
    return OVERRIDE in op.attrs or op.definition.is_differentiable


def cotangents_of_inputs(op: Operation, cotangents: Sequence[Any]) -> list[Any]:
    """Return the cotangents of an operation's inputs, by its type or by an override."""
    definition: OpDefinition = op.definition
    if OVERRIDE not in op.attrs:
        return list(definition.gradient(op, *cotangents))  # type: ignore[operator]
    found = _gradient_function(op.attrs[OVERRIDE])(op, *cotangents)
    # A gradient function of an operation with one input may return the cotangent without a list.
    return list(found) if isinstance(found, (list, tuple)) else [found]
