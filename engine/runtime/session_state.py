"""What a session keeps from step to step, as its users read and write it: variables, and snapshots of all there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ..base.errors import GraphError
from ..base.resources import Resource
from ..frontend.variables import Variable
from ..ir.graph import Graph
from ..ops.state.variables import CONTAINER, fitting, no_such_variable, prepare_slots, slots_of
from ..ops.support.context import allowed_in
from .devices.session_devices import DeviceAttributes, SessionDevice
from .memory.limits import from_outside
from .resources.manager import ResourceManager, Snapshot
from .scheduling.worker_pool import WorkerPool
from .steps.runner import StepRunner
from .steps.values import made_elsewhere, taken_out, turns_at

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
    cores : WorkerPool
        Its threads copy large values.
    """

    def __init__(
        self,
        graph: Graph,
        resources: ResourceManager,
        devices: tuple[SessionDevice, ...],
        steps: StepRunner,
        cores: WorkerPool,
    ) -> None:
        self.graph = graph
        self.resources = resources
        self._devices = devices
        self._steps = steps
        self._cores = cores

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
        async with turns_at(slots):
            self._steps.check_open()
            values = {slot.name: slot.read() for slot in slots if names is not None or slot.is_initialized}
        return await self._taken_out(values)  # type: ignore[no-any-return]

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
        slots = self._from_outside("the values restored", slots_of, self.resources, arrays)
        await self._put_in("the new values of variables", arrays, slots, partial(prepare_slots, slots))

    async def snapshot(self) -> Snapshot:
        """Return copies of all that the session keeps from step to step, taken at one time: between two updates.

        Returns
        -------
        dict of str to dict of str to object
            By kind ("variables") and name: arrays in the host's memory, or structures of them.
        """
        self._steps.check_open()
        async with turns_at(self.resources):
            self._steps.check_open()
            values = self.resources.snapshot()
        return await self._taken_out(values)  # type: ignore[no-any-return]

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
        saved = {**snapshot, CONTAINER: variables}
        await self._put_in("the values restored", saved, self.resources, self.resources.prepare)

    def list_devices(self) -> list[DeviceAttributes]:
        """Return the session's devices: their names, types, and limits of memory."""
        return [each.attributes() for each in self._devices]

    def reset_peak_memory_stats(self) -> None:
        """Let ``statistics().peak_bytes``, and that of each device, begin anew from what is in use now."""
        for device in self._devices:
            if device.pool is not None:
                device.pool.reset_peak()

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

    async def _put_in(
        self,
        what: str,
        values: Mapping[str, Any],
        resources: Iterable[Resource],
        prepare: Callable[[Mapping[str, Any]], Callable[[], None]],
    ) -> None:
        """Give values to resources: ``prepare(values)`` makes what that takes, and returns what does it at once."""
        async with turns_at(resources):
            allowed = partial(allowed_in(self._devices[0].contexts.pool, prepare), values)
            change = await made_elsewhere(self._cores.calls, values, partial(self._from_outside, what, allowed))
            self._steps.check_open()
            self._from_outside(what, change)

    def _from_outside(self, what: str, function: Callable[..., R], *arguments: Any) -> R:
        return from_outside(self._devices[0].contexts, self.resources, what, function, *arguments)

    async def _taken_out(self, values: Any) -> Any:
        return await taken_out(values, [each.device for each in self._devices], self._cores.calls)
