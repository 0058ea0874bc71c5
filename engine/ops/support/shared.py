"""State of a session that operations find by a shared name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...base.errors import OpError
from ...base.resources import Resource
from .context import Resources


class SharedResource(Resource):
    """A resource that says what it is, in which all who share it must agree.

    Attributes
    ----------
    name : str
    spec : object
    """

    __slots__ = ()
    name: str
    spec: Any


S = TypeVar("S", bound=SharedResource)


def shared(
    resources: Resources, container: str, name: str, spec: Any, make: Callable[[str, Any], S], agreeing: str, who: str
) -> S:
    """Return the session's resource of a name, made by ``make(name, spec)`` when nobody has asked for it yet.

    Parameters
    ----------
    resources : Resources
    container : str
        The kind of state, in the plural.
    name : str
        By which it is shared.
    spec : object
        What it is.
    make : callable
    agreeing : str
        In what all of one name must agree, for the error.
    who : str
        The operation that asks.

    Raises
    ------
    OpError
        If it is another than `spec` says (rule 130).
    """
    found = resources.get_or_create(container, name, lambda name: make(name, spec))
    if found.spec != spec:
        raise OpError(
            f"{container[:-1]} '{name}' is shared by what differs",
            wanted=found.spec,
            got=spec,
            operation=who,
            hint=f"give {container} of one shared_name the same {agreeing}",
        )
    return found
