"""A session's state between steps, as users read and write it: variables, and snapshots of all resources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...base import nest
from ...base.array_like import UnreadArray
from ...base.deferred import build_deferred
from ...base.errors import GraphError
from ...base.resources import Resource
from ...frontend.state.variables import Variable
from ...ir.operation import Operation
from ...ir.processes import require_here
from ...ir.rules.placing import OutlivesStep
from ...ops.state.variables.operations import CONTAINER, prepare_slots, slots_of
from ...ops.state.variables.values import fit_values, no_such_variable
from ...ops.support.context import allowed_in
from ...ops.support.handles import make_shared
from ..devices.device_values import copied_out
from ..devices.session_devices import homes_of
from ..memory.limits import from_outside
from ..resources.manager import Snapshot
from ..scheduling.timeouts import check_seconds
from ..steps.outcomes import RandomState
from ..steps.runner import StepRunner
from ..steps.values import copy_to_host, run_offloaded, turns_at

R = TypeVar("R")


class Capture(NamedTuple):
    """State of a session between steps at one time: see :meth:`Session.capture`.

    Attributes
    ----------
    values : dict of str to dict of str to object
        By kind ("variables") and name: read-only arrays in the host's memory, or structures of them.
    devices : list of str
        Device of origin of each leaf of `values`, in order.
    random_state : RandomState
        Random state of the following step.
    along : object
        Result of the function `along`, called at the same time.
    """

    values: Snapshot
    devices: list[str]
    random_state: RandomState
    along: Any


Named = str | Variable


class SessionVariables:
    """Methods of a session for its values between steps: variables, and all other resources.

    Parameters
    ----------
    steps : StepRunner
        Runner of the session's steps, whose environment owns the resources.
    """

    def __init__(self, steps: StepRunner) -> None:
        self._steps = steps
        self._running = steps.running
        self._graph = steps.graph
        self._resources = steps.environment.resources
        self._devices = steps.environment.devices
        self._calls = steps.environment.long_calls

    async def read_variables(self, names: Named | Iterable[Named] | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of the variables' values.

        Parameters
        ----------
        names : str, Variable, or iterable of them, optional
            Variables to read; by default all variables with a value.

        Returns
        -------
        dict of str to numpy.ndarray
            By name, also for a single variable.

        Raises
        ------
        GraphError
            If the graph has no variable of a name.
        UninitializedVariableError
            If a named variable has no value.
        """
        self._running.check_open()
        selected = self._resources.names(CONTAINER) if names is None else self._check_names(names)
        slots = self._from_outside("the values restored", slots_of, self._resources, selected)
        async with turns_at(slots):
            self._running.check_open()  # the session may have been closed while this waited
            values = {slot.name: slot.read() for slot in slots if names is not None or slot.is_initialized}
        return await self._copy_to_host(values)  # type: ignore[no-any-return]

    async def write_variables(
        self, values: Mapping[Any, Any], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        """Set variables, all at one moment or, when a value does not fit, none.

        Parameters
        ----------
        values : mapping of str or Variable to array-like
            New values, of the variables' dtypes and shapes.
        consistent : bool
            True to set the variables between two steps that use variables, so each step sees all old or all new values:
            running steps are waited for, and new steps begin afterwards. Otherwise the variables are set at once, and a
            running step may see some old and some new values.
        seconds : float
            Longest wait for the end of running steps.

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
        """Delay new steps that use variables until the end of the block, if `consistent`, and wait for running ones."""
        self._running.check_open()
        check_seconds(seconds, "seconds")
        if not consistent:
            yield
            return
        async with self._steps.boundary.hold(seconds, readers=True):
            yield

    async def _write_variables(self, values: Mapping[Any, Any]) -> None:
        """Convert all values, then set all variables: `_convert_values` raises before any slot exists."""
        self._running.check_open()
        arrays = self._convert_values({self._name_of_variable(key): value for key, value in values.items()})
        slots = self._from_outside("the values restored", slots_of, self._resources, arrays)
        # Only the slots' turns are awaited: threads may go on changing other resources.
        await self._put_in("the new values of variables", arrays, slots, partial(prepare_slots, slots))

    async def snapshot(self) -> Snapshot:
        """Return copies of the session's state between steps, all taken at one time, between two updates.

        Returns
        -------
        dict of str to dict of str to object
            By kind ("variables") and name: arrays in the host's memory, or structures of them.
        """
        self._running.check_open()
        async with turns_at(self._resources):
            self._running.check_open()
            values = build_deferred(self._resources.snapshot())
        return await self._copy_to_host(values)  # type: ignore[no-any-return]

    async def restore(
        self, snapshot: Mapping[str, Mapping[str, Any]], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        """Restore the session's state from a snapshot of this session or of another session of this graph.

        Parameters
        ----------
        snapshot : mapping of str to mapping of str to object
            Result of :meth:`snapshot`, or a part of the result; other state is unchanged.
        consistent, seconds
            As for :meth:`write_variables`.

        Raises
        ------
        GraphError, DtypeError, ShapeError
            If a value does not fit its variable, or a state the graph's resource of its name. Then nothing has changed,
            and neither if memory is short.
        CheckpointError
            If steps that use variables do not end in time. Then nothing has changed.
        """
        async with self._between_steps(consistent, seconds):
            await self._restore_resources(snapshot)

    async def _restore_resources(self, snapshot: Mapping[str, Mapping[str, Any]]) -> None:
        """Restore variables and other resources; resources named by the snapshot are made first, if missing."""
        self._running.check_open()
        variables = self._convert_values(snapshot.get(CONTAINER, {}))
        saved = {**snapshot, CONTAINER: variables}
        others = {name for kind, values in snapshot.items() if kind != CONTAINER for name in values}
        if others:
            walk = self._graph.root.walk()
            self._require_here(
                op for op in walk if op.definition.has(OutlivesStep) and op.attrs["shared_name"] in others
            )
            self._from_outside("the values restored", make_shared, self._graph, self._resources, others)
        # Values not read from the file yet are read straight into their variables' memory, so the slots must exist.
        unread = [name for name, value in variables.items() if isinstance(value, UnreadArray)]
        self._from_outside("the values restored", slots_of, self._resources, unread)
        await self._put_in("the values restored", saved, self._resources, self._resources.prepare)

    async def capture(
        self, *, consistent: bool = False, seconds: float = 10.0, along: Callable[[], Any] | None = None
    ) -> Capture:
        """Return the session's state between steps at one time, without copies of arrays in the host's memory.

        The arrays are the session's own, read-only, and keep their values: while a variable's array is referenced, an
        update makes a new array. So a capture takes a few microseconds for each variable, and memory only as updates
        come; drop each array as soon as it is written.

        Parameters
        ----------
        consistent : bool
            True to capture between two steps that update variables, so the capture has all updates of each step or
            none: running steps are waited for, and new steps begin afterwards. Otherwise the state is captured at once,
            between two updates of each variable.
        seconds : float, optional
            Longest wait for the end of running steps.
        along : callable, optional
            Function called at the same time; its result becomes the capture's `along`.

        Returns
        -------
        Capture
            Parts of its values may be `Deferred`, as the elements in a pipeline.

        Raises
        ------
        CheckpointError
            If steps that update variables do not end in time.
        SessionClosed
            If the session is closed, or closed meanwhile.
        """
        self._running.check_open()
        check_seconds(seconds, "seconds")
        async with AsyncExitStack() as held:
            if consistent:
                await held.enter_async_context(self._steps.boundary.hold(seconds))
            # Turns are waited for only where a thread changes a resource: usually the snapshot needs no await.
            if any(each.turns is not None and each.turns.taken for each in self._resources):
                await held.enter_async_context(turns_at(self._resources))
            self._running.check_open()
            # Nothing is awaited between these lines, so the state, the random state and `along` belong together.
            values, state = self._resources.snapshot(), self._steps.random.state
            result = None if along is None else along()
        # Looked up before copies to the host replace the devices' arrays.
        places = homes_of(nest.flatten(values), self._devices)
        if any(each.device.arrays is not None for each in self._devices):
            values = await copied_out(values, [each.device for each in self._devices])
        return Capture(values, places, state, result)

    def names_in_use(self) -> set[str]:
        """Return the names of variables and other resources in use by running steps or by threads."""
        steps = [each.step for each in list(self._running.steps) if not each.loop.is_closed()]
        names = {node.attrs["shared_name"] for step in steps for node in step.plan.nodes if "shared_name" in node.attrs}
        return names | self._resources.names_in_turn()

    def _check_names(self, names: Named | Iterable[Named]) -> list[str]:
        """Return the names of variables; GraphError for a name with neither a variable nor a kept value."""
        keys = [names] if isinstance(names, (str, Variable)) else names
        checked = [self._name_of_variable(key) for key in keys]
        known = dict.fromkeys([*self._variables_by_name(), *self._resources.names(CONTAINER)])
        for name in checked:
            if name not in known:
                raise no_such_variable(name, known)
        return checked

    def _name_of_variable(self, key: object) -> str:
        """Return the name of a variable of this graph; names themselves are not checked here."""
        if isinstance(key, Variable):
            self._graph.as_graph_element(key)  # raises for a variable of another graph
            return key.name
        if isinstance(key, str):
            return key
        raise GraphError(
            "this names no variable",
            wanted="a Variable or its name",
            got=repr(key),
            hint="give variables, or the names that read_variables() gives",
        )

    def _variables_by_name(self) -> dict[str, Variable]:
        return {v.name: v for v in self._graph.collections.get("variables", ())}

    def _convert_values(self, values: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return values converted for their variables; raise if a value does not fit, or lives on another machine."""
        arrays = fit_values(values, variables := self._variables_by_name())
        self._require_here(variables[name].handle.op for name in arrays if name in variables)
        return arrays

    def _require_here(self, operations: Iterable[Operation]) -> None:
        """Raise GraphError if one of the operations is on a device of another machine, out of this session's reach."""
        require_here(operations, [each.spec for each in self._devices])

    async def _put_in(
        self,
        what: str,
        values: Mapping[str, Any],
        resources: Iterable[Resource],
        prepare: Callable[[Mapping[str, Any]], Callable[[], None]],
    ) -> None:
        """Store values in resources: ``prepare(values)`` allocates, and returns a function that stores without failing.

        `what` names the values in an error about memory.
        """
        async with turns_at(resources):
            # `prepare` may copy large values, in a thread; the change itself is brief, and made on the loop's thread.
            allowed = partial(allowed_in(self._devices[0].contexts.pool, prepare), values)
            change = await run_offloaded(self._calls, values, partial(self._from_outside, what, allowed))
            self._running.check_open()
            self._from_outside(what, change)

    def _from_outside(self, what: str, function: Callable[..., R], *arguments: Any) -> R:
        return from_outside(self._devices[0].contexts, self._resources, what, function, *arguments)

    async def _copy_to_host(self, values: Any) -> Any:
        return await copy_to_host(values, [each.device for each in self._devices], self._calls)
