"""Session state shared by name among operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class SharedKind(Generic[S]):
    """A kind of state that operations share by name.

    Attributes
    ----------
    container : str
        The kind of state, in the plural.
    make : callable
        ``make(name, spec)`` returns a new resource.
    agreeing : str
        Properties to agree on among users of a name, for the error.
    """

    container: str
    make: Callable[[str, Any], S]
    agreeing: str

    def get(self, resources: Resources, name: str, spec: Any, requester: str) -> S:
        """Return the session's resource of a name, made on first use.

        Parameters
        ----------
        resources : Resources
        name : str
            Shared name.
        spec : object
            Description of the resource.
        requester : str
            Name of the requesting operation.

        Raises
        ------
        OpError
            If the existing resource has another `spec` (rule 130).
        """
        found = resources.get_or_create(self.container, name, lambda name: self.make(name, spec))
        if found.spec != spec:
            raise OpError(
                f"{self.container[:-1]} '{name}' is shared by what differs",
                wanted=found.spec,
                got=spec,
                operation=requester,
                hint=f"give {self.container} of one shared_name the same {self.agreeing}",
            )
        return found
