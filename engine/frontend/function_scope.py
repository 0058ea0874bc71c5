"""What a Python function that is traced expects of the graph: its variables are made once, its effects happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from ..base import nest
from ..base.errors import GraphError
from ..ir import scopes
from ..ir.accesses import key_of
from ..ir.apply import apply, convert_to_tensor
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ir.topological import Captured, uses
from ..ir.traits import Effect
from ..ir.unused import unless_it_fails
from ..ops.control.effects import group
from ..ops.control.placeholders import no_op

_numbers = count()


class FunctionScope:
    """Entered whenever one function is called while a graph is built.

    The n-th variable of a name that a call makes is the n-th of that name which the first call made. Their graph keeps
    them, so that they live as long as it does.

    Parameters
    ----------
    name : str
        Prefix of the variables' names, wherever and however often the function is called. That of other operations is
        made unique for each call.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.number: int = next(_numbers)

    @contextmanager
    def call(self) -> Iterator[str]:
        """Build inside as the function does, in a name scope of this call, which is given."""
        prefix = scopes.get_default_graph().unique_name(self.name)
        token = _calls.set(_Call(self, prefix))
        try:
            with scopes.within(name=prefix), unless_it_fails(scopes.get_default_graph()):
                yield prefix
        finally:
            _calls.reset(token)


class _Call:
    def __init__(self, function: FunctionScope, prefix: str) -> None:
        self._function = function
        self.prefix = prefix
        self._seen: Counter[str] = Counter()

    def get_or_make(self, name: str, make: Callable[[], Any]) -> Any:
        kept, place = self._kept(), self._place(name)
        self._seen[place[0]] += 1
        if place not in kept:
            with scopes.within(name=self._scope_of_variables()):
                kept[place] = make()
        return kept[place]

    def has_made(self, name: str) -> bool:
        return self._place(name) in self._kept()

    def _kept(self) -> dict[tuple[str, int], Any]:
        return scopes.get_default_graph().kept_variables.setdefault(self._function.number, {})

    def _place(self, name: str) -> tuple[str, int]:
        scope = self._scope_of_variables()
        wanted = f"{scope}/{name}" if scope else name
        return wanted, self._seen[wanted]

    def _scope_of_variables(self) -> str:
        scope = scopes.current().name
        inside = scope == self.prefix or scope.startswith(f"{self.prefix}/")
        return self._function.name + scope[len(self.prefix) :] if inside else scope


class Attempts:
    """Variables of a body that may be built several times: the n-th of a name is the n-th of the first attempt."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], Any] = {}

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Build inside, with the variables that earlier attempts have made."""
        token = _attempts.set(_Attempt(self._kept, _attempts.get()))
        try:
            yield
        finally:
            _attempts.reset(token)


class _Attempt:
    def __init__(self, kept: dict[tuple[str, int], Any], outer: _Attempt | None) -> None:
        self._kept, self._outer = kept, outer
        self._seen: Counter[str] = Counter()

    def get_or_make(self, name: str, make: Callable[[], Any]) -> Any:
        place = self._place(name)
        self._seen[place[0]] += 1
        if place not in self._kept:
            outer = self._outer
            self._kept[place] = _made_by_call(name, make) if outer is None else outer.get_or_make(name, make)
        return self._kept[place]

    def has_made(self, name: str) -> bool:
        return self._place(name) in self._kept or self._outer is not None and self._outer.has_made(name)

    def _place(self, name: str) -> tuple[str, int]:
        wanted = f"{scopes.current().name}/{name}"
        return wanted, self._seen[wanted]


_attempts: ContextVar[_Attempt | None] = ContextVar("tagloom_attempt", default=None)
_calls: ContextVar[_Call | None] = ContextVar("tagloom_function", default=None)


def get_or_make(name: str, make: Callable[[], Any]) -> Any:
    """Return what ``make()`` makes, or in a function that is called again what it made the first time.

    Parameters
    ----------
    name : str
        As asked for, before scopes and numbers.
    make : callable
    """
    attempt = _attempts.get()
    return _made_by_call(name, make) if attempt is None else attempt.get_or_make(name, make)


def _made_by_call(name: str, make: Callable[[], Any]) -> Any:
    call = _calls.get()
    return make() if call is None else call.get_or_make(name, make)


def has_made(name: str) -> bool:
    """Whether `get_or_make` would return what a function that is called again made the first time."""
    attempt, call = _attempts.get(), _calls.get()
    return attempt is not None and attempt.has_made(name) or call is not None and call.has_made(name)


def prefix() -> str:
    """Return the scope of all that the function called here builds; "" where none is."""
    call = _calls.get()
    return "" if call is None else call.prefix


def is_inside() -> bool:
    """Whether a function is called here."""
    return _calls.get() is not None


def outlasts(op: Operation) -> bool:
    """Whether an operation, or one in its regions, does what is noticed after its step, or outside of it."""
    if op.regions:
        return any(outlasts(inner) for region in op.regions for inner in region.operations)
    effects = op.definition.effects
    if effects & Effect.PYTHON:
        return key_of(op) is not None  # else it is pure
    if effects & Effect.WRITES:
        return op.inputs[0].op.definition.outlives_step
    return bool(effects & Effect.SHOWS)


def keep_effects(region: Region, tensors: list[Tensor]) -> None:
    """In a function, let the first of a branch's, a body's or a predicate's results wait for all its effects.

    Elsewhere only what is needed for the fetches runs; a function in Python runs every line.

    Parameters
    ----------
    region : Region
    tensors : list of Tensor
        The results; changed.
    """
    effects = [op for op in region.operations if outlasts(op)] if is_inside() else []
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
            tensors[0] = behind(tensors[0], effects)


def with_effects(structure: Any, built: Sequence[Operation], name: str) -> Any:
    """Return what a function returns as something to fetch, the first of it when all that lasts has happened.

    Parameters
    ----------
    structure : structure of tensors, operations and None
    built : sequence of Operation
        All that the function has built in the region around it.
    name : str
        Of the function.
    """
    graph = scopes.get_default_graph()
    initial = ancestors([v.initializer for v in graph.collections.get("variables", ())])
    effects = [op for op in built if outlasts(op) and op not in initial]
    leaves = [_fetchable(leaf, name) for leaf in nest.flatten(structure)]
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
        leaves[0] = group(first, *effects) if isinstance(first, Operation) else behind(first, effects)
    return nest.pack_as(structure, leaves)


def _fetchable(leaf: Any, name: str) -> Tensor | Operation:
    if leaf is None or isinstance(leaf, Operation):
        return leaf or no_op()
    if hasattr(leaf, "with_flow"):
        raise GraphError(f"{name} returns a TensorArray", wanted="tensors", got=leaf, hint="return array.stack()")
    return convert_to_tensor(leaf)


def ancestors(operations: Iterable[Operation]) -> set[Operation]:
    """Return operations of the root region, and all that they depend on there."""
    found: set[Operation] = set()
    captured: Captured = {}
    work = list(operations)
    while work:
        op = work.pop()
        if op not in found:
            found.add(op)
            work += uses(op, captured)
    return found


def behind(tensor: Tensor, operations: Iterable[Operation]) -> Tensor:
    """Return a tensor that is there when operations have run, as well as the tensor given."""
    with scopes.within(control_inputs=(*scopes.current().control_inputs, *operations)):
        return apply("Identity", tensor)  # type: ignore[no-any-return]
