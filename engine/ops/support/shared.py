"""Session state shared by name among operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...base.errors import OpError
from ...base.resources import Resource
from .context import Resources


class SharedResource(Resource):
    """A resource with a description, `spec`, on which all its users must agree.

    Attributes
    ----------
    name : str
    spec : object
    """

    __slots__ = ()
    name: str
    spec: Any


S = TypeVar("S", bound=SharedResource)


def get_shared(
    resources: Resources, container: str, name: str, spec: Any, make: Callable[[str, Any], S], agreeing: str, who: str
) -> S:
    """Return the session's resource of a name, made by ``make(name, spec)`` on first use.

    Parameters
    ----------
    resources : Resources
    container : str
        The kind of state, in the plural.
    name : str
        Shared name.
    spec : object
        Description of the resource.
    make : callable
    agreeing : str
        Properties to agree on among users of a name, for the error.
    who : str
        Name of the requesting operation.

    Raises
    ------
    OpError
        If the existing resource has another `spec` (rule 130).
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
