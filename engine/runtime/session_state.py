"""What a session keeps from step to step, as its users read and write it: variables, and snapshots of all there is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..base import nest
from ..base.array_like import UnreadArray
from ..base.deferred import made
from ..base.errors import GraphError
from ..base.resources import Resource
from ..compile.place.processes import require_here
from ..frontend.variables import Variable
from ..ir.graph import Graph
from ..ir.operation import Operation
from ..ops.state.variable_values import fitting, no_such_variable
from ..ops.state.variables import CONTAINER, prepare_slots, slots_of
from ..ops.support.context import allowed_in
from ..ops.support.handles import make_shared
from .devices.device_values import copied_out
from .devices.session_devices import DeviceAttributes, SessionDevice, homes_of
from .memory.limits import from_outside
from .resources.manager import ResourceManager, Snapshot
from .scheduling.timeouts import check_seconds
from .scheduling.worker_pool import WorkerPool
from .steps.outcomes import RandomState
from .steps.runner import StepRunner
from .steps.values import made_elsewhere, taken_out, turns_at

R = TypeVar("R")


class Capture(NamedTuple):
    """What a session kept from step to step at one time: see :meth:`Session.capture`.

    Attributes
    ----------
    values : dict of str to dict of str to object
        By kind ("variables") and name: arrays in the host's memory, not to be written, or structures of them.
    devices : list of str
        For each leaf of `values`, in order, the device that it came from.
    random_state : RandomState
        By what the next step would have drawn.
    along : object
        What was called at the same time has returned.
    """

    values: Snapshot
    devices: list[str]
    random_state: RandomState
    along: Any


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

    async def write_variables(
        self, values: Mapping[Any, Any], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        """Set variables, all at one moment or (when one does not fit) none.

        Parameters
        ----------
        values : mapping of str or Variable to array-like
            New values, of the variables' dtypes and shapes.
        consistent : bool
            Set them between two steps that use variables, so that each step has the old values of all or the new ones:
            steps that want to begin meanwhile wait until those under way have ended. Otherwise they are set now, and
            a step under way may have read some variables and read others later.
        seconds : float
            How long the steps under way may take to their end.

        Raises
        ------
        GraphError
            If the graph has no variable of a name; a DtypeError or ShapeError if a value does not fit its variable.
        CheckpointError
            If steps that use variables do not end in time. Then nothing has changed.
        """
        async with self._between_steps(consistent, seconds):
            await self._write_variables(values)

    @asynccontextmanager
    async def _between_steps(self, consistent: bool, seconds: float) -> AsyncIterator[None]:
        """Hold steps that use variables back until the end of the block, if that is asked for."""
        self._steps.check_open()
        check_seconds(seconds, "seconds")
        if not consistent:
            yield
            return
        async with self._steps.boundary.hold(seconds, readers=True):
            yield

    async def _write_variables(self, values: Mapping[Any, Any]) -> None:
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
            values = made(self.resources.snapshot())
        return await self._taken_out(values)  # type: ignore[no-any-return]

    async def restore(
        self, snapshot: Mapping[str, Mapping[str, Any]], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        """Let the session hold again what it held at a snapshot, its own or that of another session of this graph.

        Parameters
        ----------
        snapshot : mapping of str to mapping of str to object
            What :meth:`snapshot` returned, or a part of it; what is not in it stays as it is.
        consistent, seconds
            As for :meth:`write_variables`.

        Raises
        ------
        GraphError, DtypeError, ShapeError
            If a value does not fit its variable, or a state what the graph has of its name. Then nothing has changed,
            nor if there is no memory.
        CheckpointError
            If steps that use variables do not end in time. Then nothing has changed.
        """
        async with self._between_steps(consistent, seconds):
            await self._restore(snapshot)

    async def _restore(self, snapshot: Mapping[str, Mapping[str, Any]]) -> None:
        self._steps.check_open()
        variables = self._fitting(snapshot.get(CONTAINER, {}))
        saved = {**snapshot, CONTAINER: variables}
        others = {name for kind, values in snapshot.items() if kind != CONTAINER for name in values}
        if others:
            walk = self.graph.root.walk()
            self._require_here(op for op in walk if op.definition.outlives_step and op.attrs["shared_name"] in others)
            self._from_outside("the values restored", make_shared, self.graph, self.resources, others)
        # What is still to be read goes to where it stays at once, so that there must be slots for it.
        unread = [name for name, value in variables.items() if isinstance(value, UnreadArray)]
        self._from_outside("the values restored", slots_of, self.resources, unread)
        await self._put_in("the values restored", saved, self.resources, self.resources.prepare)

    async def capture(
        self, *, consistent: bool = False, seconds: float = 10.0, along: Callable[[], Any] | None = None
    ) -> Capture:
        """Return all that the session keeps from step to step, at one time: arrays of the host's memory without a copy.

        Arrays are the session's own, read-only, and keep their values: as long as somebody holds the array of a
        variable, an update makes a new one. So a snapshot takes a few microseconds for each variable, and memory only
        as updates come; let go of its arrays, one after another, as soon as they are written.

        Parameters
        ----------
        consistent : bool
            Take it between two steps that update variables, so that it has all updates of each step or none of them.
            Such steps that want to begin meanwhile wait until those under way have ended. Otherwise it is taken now,
            between two updates of each variable.
        seconds : float, optional
            How long the steps under way may take to their end.
        along : callable, optional
            Called at the same time; its result becomes the capture's `along`.

        Returns
        -------
        Capture
            Parts of its values may be `Deferred`, as the elements that a pipeline holds.

        Raises
        ------
        CheckpointError
            If steps that update variables do not end in time.
        SessionClosed
            If the session is closed, or closed meanwhile.
        """
        self._steps.check_open()
        check_seconds(seconds, "seconds")
        async with AsyncExitStack() as held:
            if consistent:
                await held.enter_async_context(self._steps.boundary.hold(seconds))
            if any(each.turns is not None and each.turns.taken for each in self.resources):
                await held.enter_async_context(turns_at(self.resources))
            self._steps.check_open()
            values, state = self.resources.snapshot(), self._steps.random_state
            found = None if along is None else along()
        places = homes_of(nest.flatten(values), self._devices)
        if any(each.device.arrays is not None for each in self._devices):
            values = await copied_out(values, [each.device for each in self._devices])
        return Capture(values, places, state, found)

    @property
    def random_state(self) -> RandomState:
        """By what the random operations of the next step draw; set it to let them draw what they drew elsewhere."""
        return self._steps.random_state

    @random_state.setter
    def random_state(self, state: tuple[int, int]) -> None:
        seed, step = map(int, state)
        self._steps.random_state = RandomState(seed, step)

    @property
    def is_adrift(self) -> bool:
        """True if the session is open but the event loop that it was used on is closed."""
        return self._steps.is_adrift

    def names_in_use(self) -> set[str]:
        """Return the names of variables, and whatever else outlives steps, that steps use now, or threads."""
        steps = [each.step for each in list(self._steps.running) if not each.loop.is_closed()]
        found = {node.attrs["shared_name"] for step in steps for node in step.plan.nodes if "shared_name" in node.attrs}
        return found | self.resources.names_in_turn()

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
        found = fitting(values, variables := self._variables())
        self._require_here(variables[name].handle.op for name in found if name in variables)
        return found

    def _require_here(self, operations: Iterable[Operation]) -> None:
        """Raise GraphError if something that is given values is on a device of another machine."""
        require_here(operations, [each.spec for each in self._devices])

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
