"""What a session keeps from step to step, as its users read and write it: variables, and snapshots of all there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..base.errors import GraphError
from ..frontend.variables import Variable
from ..ir.graph import Graph
from ..ops.state.variables import CONTAINER, fitting, no_such_variable, slots_of, write_slots
from .devices.device_values import copied_out
from .devices.session_devices import SessionDevice
from .memory.limits import from_outside
from .resources.manager import ResourceManager, Snapshot
from .steps.runner import StepRunner

R = TypeVar("R")
Named = str | Variable


class SessionState:
    """The part of a session that has to do with values that outlive steps.

    Parameters
    ----------
    graph : Graph
    resources : ResourceManager
        Keeps the values.
    devices : tuple of SessionDevice
    steps : StepRunner
        Says whether the session is open.
    """

    def __init__(
        self, graph: Graph, resources: ResourceManager, devices: tuple[SessionDevice, ...], steps: StepRunner
    ) -> None:
        self.graph = graph
        self.resources = resources
        self._devices = devices
        self._steps = steps

    async def read_variables(self, names: Named | Iterable[Named] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of the variables' values.

        Parameters
        ----------
        names : str, Variable, or iterable of them, optional
            Which variables; all that have a value by default.

        Returns
        -------
        dict of str to numpy.ndarray
            By name, of one variable too.

        Raises
        ------
        GraphError
            If the graph has no variable of a name.
        UninitializedVariableError
            If a variable asked for has no value.
        """
        self._steps.check_open()
        wanted = self.resources.names(CONTAINER) if names is None else self._wanted(names)
        slots = self._from_outside("the values restored", slots_of, self.resources, wanted)
        values = {slot.name: slot.copied() for slot in slots if names is not None or slot.is_initialized}
        return await self._copied_out(values)  # type: ignore[no-any-return]

    async def write_variables(self, values: Mapping[Any, Any]) -> None:
        """Set variables, all or (when one does not fit) none.

        Parameters
        ----------
        values : mapping of str or Variable to array-like
            New values, of the variables' dtypes and shapes.

        Raises
        ------
        GraphError
            If the graph has no variable of a name; a DtypeError or ShapeError if a value does not fit its variable.
        """
        self._steps.check_open()
        arrays = self._fitting({self._name(key): value for key, value in values.items()})
        self._from_outside("the new values of variables", write_slots, self.resources, arrays)

    async def snapshot(self) -> Snapshot:
        """Return copies of all that the session keeps from step to step, taken at one time: between two updates.

        Returns
        -------
        dict of str to dict of str to object
            By kind ("variables") and name: arrays in the host's memory, or structures of them.
        """
        self._steps.check_open()
        return await self._copied_out(self.resources.snapshot())  # type: ignore[no-any-return]

    async def restore(self, snapshot: Mapping[str, Mapping[str, Any]]) -> None:
        """Let the session hold again what it held at a snapshot, its own or that of another session of this graph.

        Parameters
        ----------
        snapshot : mapping of str to mapping of str to object
            What :meth:`snapshot` returned, or a part of it; what is not in it stays as it is.

        Raises
        ------
        GraphError, DtypeError, ShapeError
            If a value does not fit its variable. Then nothing has changed, nor if there is no memory.
        """
        self._steps.check_open()
        variables = self._fitting(snapshot.get(CONTAINER, {}))
        self._from_outside("the values restored", self.resources.restore, {**snapshot, CONTAINER: variables})

    def _wanted(self, names: Named | Iterable[Named]) -> list[str]:
        """Return names, each of a variable of the graph or of a value that the session keeps."""
        listed = [names] if isinstance(names, (str, Variable)) else names
        found = [self._name(each) for each in listed]
        known = dict.fromkeys([*self._variables(), *self.resources.names(CONTAINER)])
        for name in found:
            if name not in known:
                raise no_such_variable(name, known)
        return found

    def _name(self, key: object) -> str:
        if isinstance(key, Variable):
            self.graph.as_graph_element(key)  # refuses one of another graph
            return key.name
        if isinstance(key, str):
            return key
        raise GraphError(
            "this names no variable",
            wanted="a Variable or its name",
            got=repr(key),
            hint="give variables, or the names that read_variables() gives",
        )

    def _variables(self) -> dict[str, Variable]:
        return {v.name: v for v in self.graph.collections.get("variables", ())}

    def _fitting(self, values: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        return fitting(values, self._variables())

    def _from_outside(self, what: str, function: Callable[..., R], *arguments: Any) -> R:
        return from_outside(self._devices[0].contexts, self.resources, what, function, *arguments)

    async def _copied_out(self, values: Any) -> Any:
        return await copied_out(values, [each.device for each in self._devices])
