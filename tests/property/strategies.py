"""Draw random programs that are well typed, end, and use every array rightly.

Every loop has a bound on its trips that holds whatever the data, and a program has a budget of statement instances
that loops use up by their bounds, so that programs are small to run even where loops are nested. An array is
filled before anything else sees it, each index once or never. Touches of variables are ordered (see ``order``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.property import programs as ast
from tests.property import variable_touches
from tests.property.functions import ALL, broadcast
from tests.property.order import Order
from tests.property.program_kinds import MIXED, REAL, SHORT, USUAL, Kind, Limits
from tests.property.programs import BOOL, FLOAT, INT, VECTOR, Block, Program, Statement, Type

Finish = Callable[["_Scope"], list[str]]
BodyFinish = Callable[["_Scope", list[str]], list[str]]


def mixed_programs(limits: Limits = USUAL, kind: Kind = MIXED) -> st.SearchStrategy[Program]:
    """Draw programs of all types, with values of their inputs."""
    return _programs(kind, limits)


def smooth_programs(limits: Limits = SHORT) -> st.SearchStrategy[Program]:
    """Draw programs of smooth float64 functions; where no decision changes, they are differentiable."""
    return _programs(REAL, limits, min_inputs=1)


@st.composite
def _programs(draw: Any, kind: Kind, limits: Limits, min_inputs: int = 0) -> Program:
    types = draw(st.lists(st.sampled_from(kind.types), min_size=min_inputs, max_size=5))
    inputs = tuple((f"x{i}", type) for i, type in enumerate(types))
    values = {name: draw(kind.values[type]) for name, type in inputs}
    variables = draw(_variables(kind))
    values |= {name: draw(kind.values[type]) for name, type in variables}
    writer = _Writer(draw, kind, limits)
    scope = _Scope(writer, dict(inputs), 0, 1, dict(variables), Order())
    scope.fill_up(draw(st.integers(2, 8)))
    loads = (variable_touches.load(scope, name) for name, _ in variables if scope.chance(30))
    results = [*scope.choose_results(), *loads]
    return Program(inputs, scope.close(results), values, variables, scope.targets(results))


@st.composite
def _variables(draw: Any, kind: Kind) -> tuple[tuple[str, Type], ...]:
    if not kind.stateful or draw(st.integers(0, 99)) < 100 - kind.stateful:
        return ()
    types = draw(st.lists(st.sampled_from(kind.state), min_size=1, max_size=2))
    return tuple((f"w{i}", type) for i, type in enumerate(types))


class _Writer:
    """What the whole program shares: names, the budget."""

    def __init__(self, draw: Any, kind: Kind, limits: Limits) -> None:
        self.draw = draw
        self.kind = kind
        self.limits = limits
        self.room = limits.instances
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"


class _Scope:
    """A block while it is written: `types` of the names it sees, how often it may run, variables it may touch.

    An array that is being filled has no type here, so that nothing chooses it.
    """

    def __init__(
        self, writer: _Writer, types: dict[str, Type], depth: int, times: int, variables: dict[str, Type], order: Order
    ) -> None:
        self.writer = writer
        self.draw = writer.draw
        self.kind = writer.kind
        self.types = types
        self.depth = depth
        self.times = times
        self.variables = variables
        self.order = order
        self.statements: list[Statement] = []

    def inner(self, types: dict[str, Type], times: int, variables: dict[str, Type], order: Order) -> _Scope:
        runs = max(1, self.times * times)
        types = {**self.types, **types}
        return _Scope(self.writer, types, self.depth + 1, runs, variables, order)

    def close(self, results: list[str]) -> Block:
        return Block(tuple(self.statements), tuple(results))

    def add(self, make: Callable[[tuple[str, ...]], Statement], *types: Type | None) -> tuple[str, ...]:
        """Append the statement that `make` gives for a fresh name of each type, None for a hidden one."""
        names = tuple(self.writer.name() for _ in types)
        self.statements.append(make(names))
        self.writer.room -= self.times
        self.types.update((n, t) for n, t in zip(names, types, strict=True) if t is not None)
        return names

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent

    # ---- values

    def named(self, accept: Callable[[Type], bool]) -> list[str]:
        return [name for name, type in self.types.items() if accept(type)]

    def one_of(self, names: list[str]) -> str:
        """Choose a name, the newest more often than others."""
        return self.draw(st.sampled_from((names[-3:] if self.chance(50) else names)[::-1]))

    def constant(self, type: Type, value: Any = None) -> str:
        given = self.draw(self.kind.values[type]) if value is None else value
        return self.add(lambda names: ast.Const(names[0], type, given), type)[0]

    def apply(self, function: str, *args: str, after: tuple[str, ...] = ()) -> str:
        result = ALL[function].rule(*(self.types[a] for a in args))
        assert result is not None, f"{function} of {[self.types[a] for a in args]}"
        (name,) = self.add(lambda names: ast.Op(names[0], function, args, after), result)
        self.order.follow(name, [*args, *after])
        return name

    def value(self, type: Type) -> str:
        """Return a name of this type: one there is, mostly, else a new one."""
        found = self.named(lambda t: t == type)
        if type == BOOL and not (found and self.chance(30)):
            return self.comparison()
        if found and self.chance(90):
            return self.one_of(found)
        return self.reshaped(type) if not found and type.dtype == "float64" else self.constant(type)

    def reshaped(self, type: Type) -> str:
        """Make a float tensor of another one, if there is one."""
        found = self.named(lambda t: t.dtype == type.dtype and broadcast(t, VECTOR) == VECTOR.shape)
        if not found:
            return self.constant(type)
        other = self.one_of(found)
        return self.apply("average", other) if type == FLOAT else self.apply("mul", other, self.constant(type))

    def outcome(self, type: Type) -> str:
        """Return a name of this type to end a block with: mostly one computed there."""
        if type == BOOL or not self.chance(self.kind.fresh):
            return self.value(type)
        mix = self.draw(st.sampled_from(self.kind.mixes))
        return self.apply(mix, self.value(type), self.value(type))

    def comparison(self) -> str:
        type = self.draw(st.sampled_from([t for t in self.kind.types if t in (INT, FLOAT)]))
        left = self.value(type)
        others = self.named(lambda t: t == type)
        others.remove(left)
        right = self.one_of(others) if others and self.chance(80) else self.constant(type)
        return self.apply("less", left, right)

    def choose_results(self) -> list[str]:
        """Choose what the program returns: what its control flow gives, and some more."""
        dtypes = {t.dtype for t in self.kind.types}
        found = self.named(lambda t: t.size is None and t.dtype in dtypes)
        wanted = {
            n
            for s in self.statements
            if isinstance(s, (ast.Cond, ast.While, ast.Stack, ast.Read))
            for n in ast.names_of(s)
        }
        chosen = [n for n in found if n in wanted] + found[-1:]
        joined = [self.joined(a, b) for a, b in itertools.combinations(chosen[-4:], 2) if self.chance(50)]
        return list(dict.fromkeys([*chosen, *filter(None, joined), *map(self.outcome, self.some_types(1, 2))]))

    def joined(self, a: str, b: str) -> str | None:
        """Use two values at once, which come at different times; None if no function takes both."""
        mix = self.draw(st.sampled_from(self.kind.mixes))
        return self.apply(mix, a, b) if ALL[mix].rule(self.types[a], self.types[b]) else None

    def targets(self, results: list[str]) -> tuple[str, ...]:
        """Return the last touches that nothing returned comes after."""
        return tuple(sorted(self.order.pending(self.variables) - self.order.of(results)))

    # ---- statements

    def fill_up(self, count: int) -> None:
        for _ in range(count):
            if self.writer.room > 0:
                self.statement()
        if self.variables and self.writer.room > 0 and self.chance(60):
            self.touch()

    def statement(self) -> None:
        simple = [*[self.touch] * (5 if self.variables else 0), self.op, self.use_array]
        nested = [self.cond, self.loop, self.array, self.loop, self.cond]
        self.draw(st.sampled_from(simple + nested if self.depth < self.writer.limits.depth else simple))()

    def touch(self) -> None:
        variable_touches.touch(self)

    def op(self) -> None:
        function = self.draw(st.sampled_from(self.kind.functions))
        args = [self.condition()] if function == "where" else []
        while len(args) < ALL[function].arity:
            found = self.named(lambda t: self._fits(function, args, t))
            if not found:
                return
            args.append(self.one_of(found))
        self.apply(function, *args, after=(self.one_of(list(self.types)),) if self.chance(10) else ())

    def condition(self) -> str:
        found = self.named(lambda t: t.dtype == "bool" and t.shape != ())
        return self.one_of(found) if found and self.chance(50) else self.value(BOOL)

    def _fits(self, function: str, args: list[str], candidate: Type) -> bool:
        given = [self.types[a] for a in args]
        rest = [candidate] * (ALL[function].arity - len(given))
        return ALL[function].rule(*given, *rest) is not None

    def some_types(self, least: int, most: int) -> list[Type]:
        return self.draw(st.lists(st.sampled_from(self.kind.types), min_size=least, max_size=most))

    def cond(self) -> None:
        self.write_cond(self.some_types(1, 3), [], lambda scope: [])

    def write_cond(self, types: list[Type], arrays: list[str], finish: Finish) -> tuple[str, ...]:
        """Write a Cond; `finish(scope)` gives each branch's `arrays`."""
        several = INT in self.kind.types and self.chance(20)
        chooser = self.value(INT if several else BOOL)
        variables, after = variable_touches.before_cond(self)
        branches: list[tuple[_Scope, list[str]]] = []
        for _ in range(self.draw(st.integers(1, 3)) if several else 2):
            scope = self.inner({}, 1, variables, self.order.inner(self.order.of([chooser, *after])))
            scope.fill_up(self.draw(st.integers(0, 3)))
            branches.append((scope, [*finish(scope), *map(scope.outcome, types)]))
        touched, tokens = variable_touches.tokens(self, branches)
        blocks = tuple(scope.close(results) for scope, results in branches)
        hidden = [None for _ in arrays]
        names = self.add(lambda names: ast.Cond(names, chooser, blocks, after), *hidden, *types, *tokens)
        if touched:
            self.order.touch(names[-1], touched, [chooser, *after])
        return names

    def loop(self) -> None:
        trips = self.draw(st.integers(0, self.most_trips())) if self.chance(50) else self.most_trips()
        if self.chance(85):
            self.write_loop(trips, [], lambda scope, params: [])
        else:
            self.write_open_loop(trips)

    def most_trips(self) -> int:
        return max(1, min(self.writer.limits.trips, self.writer.room // self.times // 6))

    def write_loop(self, trips: int, arrays: list[str], finish: BodyFinish) -> tuple[str, ...]:
        """Write a loop that counts; `finish(scope, params)` gives the body's `arrays`."""
        types = self.some_types(0, self.writer.limits.variables)
        inits = [self.constant(INT, 0), *arrays, *map(self.value, types)]
        limit = self.limit(trips)

        def results(body: _Scope, params: list[str]) -> list[str]:
            following = body.apply("add", params[0], body.constant(INT, 1))
            return [following, *finish(body, params), *map(body.outcome, types)]

        return self.repeat(
            inits,
            [INT, *(None for _ in arrays), *types],
            trips,
            lambda predicate, params: predicate.counts(params[0], limit),
            results,
            trips if self.chance(15) else None,
        )

    def write_open_loop(self, at_most: int) -> None:
        """Write a loop that runs until its data or `at_most` end it."""
        types = self.some_types(1, self.writer.limits.variables)
        inits = list(map(self.value, types))
        self.repeat(
            inits,
            types,
            at_most,
            lambda predicate, params: predicate.test(),
            lambda body, params: list(map(body.outcome, types)),
            at_most,
        )

    def repeat(
        self,
        inits: list[str],
        types: Sequence[Type | None],
        trips: int,
        test: Callable[[_Scope, list[str]], str],
        finish: BodyFinish,
        at_most: int | None,
    ) -> tuple[str, ...]:
        """Write a loop that `test` and `finish` end the predicate and the body of; with a token if it may touch."""
        token = variable_touches.start(self)
        inits, types = [*inits, *token], [*types, *(self.types[name] for name in token)]
        params = [self.writer.name() for _ in inits]
        seen = {n: t for n, t in zip(params, types, strict=True) if t is not None}
        variables = self.variables if token else {}
        predicate = self.inner(seen, trips + 1, variables, self.order.iteration(params[-1], variables))
        held = variable_touches.tested(predicate, test(predicate, params))
        body = self.inner(seen, trips, variables, predicate.order.body(params, held))
        body.fill_up(self.draw(st.integers(0, 4)))
        results = finish(body, params)
        touched = body.order.touched
        if token:
            results = [*results, variable_touches.behind(body, self.types[token[0]], body.order.pending(touched))]
        after = variable_touches.waits(self, self.order.pending(touched), token) if touched else ()
        parts = tuple(params), tuple(inits), predicate.close([held]), body.close(results), at_most, after
        names = self.add(lambda names: ast.While(names, *parts), *types)
        if touched:
            self.order.touch(names[-1], touched, [*token, *after])
        return names

    def limit(self, trips: int) -> str:
        """Name how often a loop runs: `trips`, or what the data says, but no more."""
        integers = self.named(lambda t: t == INT)
        if not integers or INT not in self.kind.types or self.chance(50):
            return self.constant(INT, trips)
        data = self.apply("mod5", self.one_of(integers))
        return self.apply("min", data, self.constant(INT, trips))

    def counts(self, counter: str, limit: str) -> str:
        test = self.apply("less", counter, limit)
        return self.apply("and", test, self.test()) if self.chance(12) else test

    def test(self) -> str:
        self.fill_up(self.draw(st.integers(0, 2)))
        return self.value(BOOL)

    # ---- arrays

    def array(self) -> None:
        size = self.draw(st.integers(1, 4))
        element = self.draw(st.sampled_from(self.kind.elements))
        type = Type(element.dtype, element.shape, size)
        (empty,) = self.add(lambda names: ast.NewArray(names[0], type), None)
        full = self.fill(empty, self.constant(INT, 0), size, element)
        self.types[full] = type
        if self.chance(70):
            self.use_array()

    def fill(self, array: str, base: str, extent: int, element: Type) -> str:
        """Write indices `base` to `base + extent - 1`, each at most once; return the array after it."""
        if extent == 1:
            return self.fill_one(array, base, element)
        if self.depth < self.writer.limits.depth and extent <= self.most_trips() and self.chance(60):
            return self.fill_loop(array, base, extent, element)
        for k in range(extent):
            index = self.apply("add", base, self.constant(INT, k))
            array = self.fill_one(array, index, element)
        return array

    def fill_one(self, array: str, index: str, element: Type) -> str:
        if self.depth < self.writer.limits.depth and self.chance(15):
            types = self.some_types(0, 2)
            return self.write_cond(types, [array], lambda scope: [scope.maybe_write(array, index, element)])[0]
        return self.write(array, index, element)

    def maybe_write(self, array: str, index: str, element: Type) -> str:
        return self.write(array, index, element) if self.chance(70) else array

    def write(self, array: str, index: str, element: Type) -> str:
        value = self.value(element)
        (written,) = self.add(lambda names: ast.Write(names[0], array, index, value), None)
        if self.chance(30):
            self.add(lambda names: ast.Read(names[0], written, index), element)
        return written

    def fill_loop(self, array: str, base: str, extent: int, element: Type) -> str:
        trips = 2 if extent == 4 and self.chance(50) else extent

        def finish(body: _Scope, params: list[str]) -> list[str]:
            offset = body.apply("mul", params[0], body.constant(INT, extent // trips))
            return [body.fill(params[1], body.apply("add", base, offset), extent // trips, element)]

        return self.write_loop(trips, [array], finish)[1]

    def use_array(self) -> None:
        arrays = self.named(lambda t: t.size is not None)
        if not arrays:
            return
        array = self.one_of(arrays)
        type = self.types[array]
        assert type.size is not None
        if self.chance(50):
            self.add(lambda names: ast.Stack(names[0], array), Type(type.dtype, (type.size, *type.shape)))
        else:
            index = self.index(type.size)
            self.add(lambda names: ast.Read(names[0], array, index), Type(type.dtype, type.shape))

    def index(self, size: int) -> str:
        integers = self.named(lambda t: t == INT)
        if not integers or self.chance(30):
            return self.constant(INT, self.draw(st.integers(0, size - 1)))
        below = self.apply("min", self.one_of(integers), self.constant(INT, size - 1))
        return self.apply("max", below, self.constant(INT, 0))
