"""Rules for traced Python functions: variables are created once, and effects always run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from ...base import nest
from ...base.errors import GraphError
from ...ir import scopes
from ...ir.accesses import key_of
from ...ir.apply import apply, convert_to_tensor
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.rules.placing import OutlivesStep
from ...ir.tensor import Tensor
from ...ir.topological import Captured, uses
from ...ir.traits import Effect
from ...ir.unused import unless_it_fails
from ...ops.control.effects import group
from ...ops.control.placeholders import no_op

# Names of functions may repeat, as may ids of objects after their end, so graphs keep variables by number.
_numbers = count()


class FunctionScope:
    """The variables of a traced function, across its calls.

    The n-th variable of a name in a call is the n-th variable of the name in the first call. The graph owns these
    variables, so that they live as long as the graph.

    Parameters
    ----------
    name : str
        Prefix of the variables' names, wherever and however often the function is called. The prefix of other
        operations is made unique for each call.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.number: int = next(_numbers)

    @contextmanager
    def call(self) -> Iterator[str]:
        """Open a scope for a call of the function, with a unique name scope; yields the prefix."""
        prefix = scopes.get_default_graph().unique_name(self.name)
        token = _calls.set(_Call(self, prefix))
        try:
            # Warnings about unused writes are not for a call that fails: the users of its writes were not built.
            with scopes.within(name=prefix), unless_it_fails(scopes.get_default_graph()):
                yield prefix
        finally:
            _calls.reset(token)


class _Call:
    """A call of a traced function: the prefix of its operations, and the variables used so far."""

    def __init__(self, function: FunctionScope, prefix: str) -> None:
        self._function = function
        self.prefix = prefix
        self._seen: Counter[str] = Counter()

    def get_or_make(self, name: str, make: Callable[[], Any]) -> Any:
        kept, place = self._kept(), self._variable_key(name)
        # Existing variables count too, so that the n-th request of every call finds the n-th variable.
        self._seen[place[0]] += 1
        if place not in kept:
            with scopes.within(name=self._scope_of_variables()):
                kept[place] = make()
        return kept[place]

    def has_made(self, name: str) -> bool:
        return self._variable_key(name) in self._kept()

    def _kept(self) -> dict[tuple[str, int], Any]:
        # The graph is the owner: a function traced in two graphs has separate variables in each.
        return scopes.get_default_graph().kept_variables.setdefault(self._function.number, {})

    def _variable_key(self, name: str) -> tuple[str, int]:
        scope = self._scope_of_variables()
        full_name = f"{scope}/{name}" if scope else name
        return full_name, self._seen[full_name]

    def _scope_of_variables(self) -> str:
        # Only the unique prefix of this call is replaced: scopes opened inside the function stay in variables' names.
        scope = scopes.current().name
        # A scope entered again by its full name may lie outside of the function's scope.
        inside = scope == self.prefix or scope.startswith(f"{self.prefix}/")
        return self._function.name + scope[len(self.prefix) :] if inside else scope


class Attempts:
    """Variables of a body built several times: the n-th variable of a name is the n-th of the first attempt."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Any] = {}

    @contextmanager
    def open_attempt(self) -> Iterator[None]:
        """Open a scope in which earlier attempts' variables are used again."""
        token = _attempts.set(_Attempt(self._kept, _attempts.get()))
        try:
            yield
        finally:
            _attempts.reset(token)


class _Attempt:
    """An attempt to build a body, inside an outer attempt or directly in a function call."""

    def __init__(self, kept: dict[tuple[str, int], Any], outer: _Attempt | None) -> None:
        self._kept, self._outer = kept, outer
        self._seen: Counter[str] = Counter()

    def get_or_make(self, name: str, make: Callable[[], Any]) -> Any:
        place = self._variable_key(name)
        self._seen[place[0]] += 1
        if place not in self._kept:
            outer = self._outer
            # The first attempt asks the outer attempt or the call, which must know the variable too.
            self._kept[place] = _made_by_call(name, make) if outer is None else outer.get_or_make(name, make)
        return self._kept[place]

    def has_made(self, name: str) -> bool:
        return self._variable_key(name) in self._kept or self._outer is not None and self._outer.has_made(name)

    def _variable_key(self, name: str) -> tuple[str, int]:
        full_name = f"{scopes.current().name}/{name}"
        return full_name, self._seen[full_name]


_attempts: ContextVar[_Attempt | None] = ContextVar("tagloom_attempt", default=None)
_calls: ContextVar[_Call | None] = ContextVar("tagloom_function", default=None)


def get_or_make(name: str, make: Callable[[], Any]) -> Any:
    """Return the result of ``make()``, or the variable of the first call in a function called again.

    Parameters
    ----------
    name : str
        Requested name, before scopes and numbers.
    make : callable
    """
    attempt = _attempts.get()
    return _made_by_call(name, make) if attempt is None else attempt.get_or_make(name, make)


def _made_by_call(name: str, make: Callable[[], Any]) -> Any:
    call = _calls.get()
    return make() if call is None else call.get_or_make(name, make)


def has_made(name: str) -> bool:
    """Return True if `get_or_make` would return an existing variable of an earlier call or attempt."""
    attempt, call = _attempts.get(), _calls.get()
    return attempt is not None and attempt.has_made(name) or call is not None and call.has_made(name)


def traced_prefix() -> str:
    """Return the name scope of the traced function called here, or "" outside of traced functions."""
    call = _calls.get()
    return "" if call is None else call.prefix


def is_inside() -> bool:
    """Return True inside a call of a traced function."""
    return _calls.get() is not None


def outlasts_step(op: Operation) -> bool:
    """Return True for an operation, or a region's operation, with effects visible after or outside of its step."""
    if op.regions:
        return any(outlasts_step(inner) for region in op.regions for inner in region.operations)
    effects = op.definition.effects
    if effects & Effect.PYTHON:
        return key_of(op) is not None  # stateful=False promises purity
    if effects & Effect.WRITES:
        # The first input of a write is the handle of its state; a TensorArray, for example, ends with its step.
        return op.inputs[0].op.definition.has(OutlivesStep)
    return bool(effects & Effect.SHOWS)


def keep_effects(region: Region, tensors: list[Tensor]) -> None:
    """In a traced function, make the first result of a branch, body or predicate wait for all effects in its region.

    Elsewhere only operations needed by the fetches run; a Python function runs every line.

    Parameters
    ----------
    region : Region
    tensors : list of Tensor
        The results; the first is replaced.
    """
    # Outside of traced functions operations run only if they are fetched or waited for, as in TensorFlow 1.
    effects = [op for op in region.operations if outlasts_step(op)] if is_inside() else []
    if effects and not tensors:
        raise GraphError(
            f"a {region.role} of a function has effects and returns nothing that could wait for them",
            wanted="a tensor or an operation returned from it",
            got=effects[0].name,
            operation=effects[0],
            hint="return a value, or the operation itself",
        )
    if effects:
        with scopes.inside(region):
            tensors[0] = delay_until(tensors[0], effects)


def with_effects(structure: Any, built: Sequence[Operation], name: str) -> Any:
    """Return the results of a function as fetches, of which the first is available after all lasting effects.

    Parameters
    ----------
    structure : structure of tensors, operations and None
    built : sequence of Operation
        All operations built by the function in its surrounding region.
    name : str
        Name of the function.
    """
    graph = scopes.get_default_graph()
    initial = find_ancestors([v.initializer for v in graph.collections.get("variables", ())])
    # Initializers run in steps of their own: a call must not reset the variables made by the function.
    effects = [op for op in built if outlasts_step(op) and op not in initial]
    leaves = [_convert_fetch(leaf, name) for leaf in nest.flatten(structure)]
    if effects and not leaves:
        raise GraphError(
            f"{name} has effects and returns an empty {type(structure).__name__}",
            wanted="tensors, operations or None",
            got=effects[0].name,
            operation=effects[0],
            hint="return None",
        )
    if effects:
        first = leaves[0]
        leaves[0] = group(first, *effects) if isinstance(first, Operation) else delay_until(first, effects)
    return nest.pack_as(structure, leaves)


def _convert_fetch(leaf: Any, name: str) -> Tensor | Operation:
    if leaf is None or isinstance(leaf, Operation):
        return leaf or no_op()
    if hasattr(leaf, "with_flow"):
        raise GraphError(f"{name} returns a TensorArray", wanted="tensors", got=leaf, hint="return array.stack()")
    return convert_to_tensor(leaf)


def find_ancestors(operations: Iterable[Operation]) -> set[Operation]:
    """Return operations of the root region, and all operations of the region they depend on."""
    closure: set[Operation] = set()
    captured: Captured = {}
    work = list(operations)
    while work:
        op = work.pop()
        if op not in closure:
            closure.add(op)
            # Inputs, control inputs, and operations outside that regions of the operation use.
            work += uses(op, captured)
    return closure


def delay_until(tensor: Tensor, operations: Iterable[Operation]) -> Tensor:
    """Return a tensor with the value of `tensor`, available only after the operations have run."""
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *operations)):
        return apply("Identity", tensor)
