"""Traces of a function: the operations built for arguments of certain dtypes and shapes, and their steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from ...base import nest
from ...base.errors import GraphError
from ...frontend.state.variables import Variable
from ...frontend.tracing.function_scope import find_ancestors
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.rules.placing import OutlivesStep
from ...ir.tensor import Tensor
from ..steps.step import Step

if TYPE_CHECKING:
    from ..session.session import Session

_ELEMENTS = (Tensor, Operation)  # types of graph elements
_locks: WeakKeyDictionary[Session, asyncio.Lock] = WeakKeyDictionary()  # held while variables are initialized


class ConcreteFunction:
    """Placeholders, results and effects of a trace.

    Parameters
    ----------
    graph : Graph
    build : callable
        ``build()`` returns placeholders, results, and their name scope, and is called with the graph's root current.

    Attributes
    ----------
    placeholders : list of Tensor
        Tensors to be fed with the arguments.
    built : list of Operation
        Operations added by the trace to the graph's root region.
    kept : frozenset of str
        Shared names of the variables and other resources used by the trace, which sessions keep from call to call.
    """

    def __init__(self, graph: Graph, build: Callable[[], tuple[list[Tensor], Any, str]]) -> None:
        self._graph = graph
        # Built alone, so the operations from `first` on are those of this trace.
        with graph.built_alone(), graph.as_default():
            first = len(graph.root.operations)
            self.placeholders, self._fetches, self._scope = build()
            self._variables = _variables_read(graph, self._fetches)
            self._flags = [v.is_initialized() for v in self._variables]  # tensors, fetched before initialization
            self.built: list[Operation] = graph.root.operations[first:]
            self.kept: frozenset[str] = _kept_by(graph, self._fetches, self._variables)
        self._steps: WeakKeyDictionary[Session, Step[Any]] = WeakKeyDictionary()
        self._initialized: WeakSet[Session] = WeakSet()

    async def step(self, session: Session, values: Sequence[Any], watch: Sequence[Tensor] = ()) -> Step[Any]:
        """Return the step in a session after initializing its variables; a new step is compiled in a thread.

        Parameters
        ----------
        session : Session
        values : sequence of array-like
            The arguments of the call; initial values may depend on them.
        watch : sequence of Tensor, optional
            Tensors to be streamed.
        """
        step = self._steps.get(session)
        if step is None:
            # Concurrent calls may all come here: the lock of `_initialize_variables` and the session's cache of
            # compiled steps do the work once.
            if self._variables:
                await self._initialize_variables(session, values)
            step = self._steps[session] = await session.compile(self._fetches, self.placeholders)
        return await session.compile(self._fetches, self.placeholders, watch=watch) if watch else step

    def remove(self) -> None:
        """Remove the trace's operations from the graph, except operations used by variables or other traces.

        The trace's steps are forgotten too; running calls are not affected.
        """
        stay = find_ancestors([*_kept_operations(self._graph), *_users_outside(self.built)])
        removed = [op for op in self.built if op not in stay]
        # Sessions' caches of compiled steps would keep the removed operations alive.
        elements = {*removed, *(tensor for op in removed for tensor in op.outputs)}
        for step in list(self._steps.values()):
            step.forget(elements)
        self._graph.remove(removed, self._scope)

    def find(self, name: Any) -> Any:
        """Return the tensor with a name, or with a name ending in the last parts given; other values unchanged.

        Raises
        ------
        GraphError
            If no tensor of this trace has the name, or several have.
        """
        if not isinstance(name, str):
            return name
        wanted = name if ":" in name else f"{name}:0"
        found = [
            t
            for op in self.built
            for inner in (op, *_operations_inside(op))
            for t in inner.outputs
            if _matches_name(t.name, wanted)
        ]
        if len(found) != 1:
            raise GraphError(
                "no tensor of the function has this name" if not found else "several tensors have this name",
                wanted="the name of one tensor, or its last parts",
                got=repr(name) if not found else ", ".join(t.name for t in found),
                hint="give the tensor a name, as in tagloom.identity(x, name='token')",
            )
        return found[0]

    async def _initialize_variables(self, session: Session, values: Sequence[Any]) -> None:
        """Initialize the trace's variables without a value in the session, once per trace and session.

        Functions running in one session share variables, so a lock of the session keeps two calls from initializing
        the same variable.
        """
        async with _locks.setdefault(session, asyncio.Lock()):
            if session in self._initialized:
                return
            known = await (await session.compile(self._flags))()
            missing = [v.initializer for v, is_known in zip(self._variables, known) if not is_known]
            if missing:
                step = await session.compile(missing, self.placeholders)
                await step(*values)
            self._initialized.add(session)


def _variables_read(graph: Graph, fetches: Any) -> list[Variable]:
    """Return the variables read by fetches, and by the initial values of these variables."""
    variables: list[Variable] = graph.collections.get("variables", [])
    elements = [graph.as_graph_element(leaf) for leaf in nest.flatten(fetches)]
    targets = [e.op if isinstance(e, Tensor) else e for e in elements]
    reachable: list[Variable] = []
    # A fixed point: an initial value may read a variable whose own initial value reads another.
    while True:
        reached = find_ancestors([*targets, *(v.initializer for v in reachable)])
        now = [v for v in variables if v.handle.op in reached]
        if len(now) == len(reachable):
            return now
        reachable = now


def _kept_by(graph: Graph, fetches: Any, variables: Sequence[Variable]) -> frozenset[str]:
    """Return the shared names of resources outliving steps that fetches, or initial values of variables, use."""
    elements = [graph.as_graph_element(leaf) for leaf in nest.flatten(fetches)]
    targets = [e.op if isinstance(e, Tensor) else e for e in elements]
    reached = find_ancestors([*targets, *(v.initializer for v in variables)])
    operations = [inner for op in reached for inner in (op, *_operations_inside(op))]
    return frozenset(op.attrs["shared_name"] for op in operations if op.definition.has(OutlivesStep))


def _kept_operations(graph: Graph) -> list[Operation]:
    """Return the root operations of objects kept by a graph, such as variables with their initial values.

    An object is a tensor or an operation, or has some as attributes, as a Variable.
    """
    kept = [variable for places in graph.kept_variables.values() for variable in places.values()]
    operations: list[Operation] = []
    for value in [*kept, *(value for collection in graph.collections.values() for value in collection)]:
        parts = [value, *vars(value).values()] if hasattr(value, "__dict__") else [value]
        operations += [part.op if isinstance(part, Tensor) else part for part in parts if isinstance(part, _ELEMENTS)]
    return [op for op in operations if op.region is graph.root]


def _users_outside(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations, of some in the root region, with a consumer outside of these."""
    inside = set(operations)
    return [
        op
        for op in operations
        if any(_at_root(user) not in inside for tensor in op.outputs for user in tensor._consumers)
    ]


def _at_root(op: Operation) -> Operation:
    """Return an operation's ancestor in the root region, or the operation itself."""
    while op.region.owner is not None:
        op = op.region.owner
    return op


def _operations_inside(op: Operation) -> list[Operation]:
    """Return the operations in the regions of an operation, at any depth."""
    return [
        found for region in op.regions for inner in region.operations for found in (inner, *_operations_inside(inner))
    ]


def _matches_name(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith("/" + wanted)
