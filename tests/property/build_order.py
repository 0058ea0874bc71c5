"""Programs whose reads and assignments are in order only because they were built in that order.

The generator of programs makes every touch wait for those before it. `unordered` takes these waits away; what is left
of them says what runs, so a touch may lose everybody who wanted it, and does not happen then (rules 57 and 143).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.property.programs import Assign, Block, Cond, Load, Op, Program, Statement, While, Write, names_of


def unordered(program: Program, drop: Callable[[Statement], bool]) -> Program:
    """Return the program without what statements wait for where `drop` says so."""

    def change(statement: Statement) -> Statement:
        waits = isinstance(statement, (Load, Assign, Cond, While, Op)) and statement.after
        return replace(statement, after=()) if waits and drop(statement) else statement

    return replace(program, body=_map(program.body, change))


def without_unneeded(program: Program) -> Program:
    """Return a program that reads where this one has an assignment that no result and no target needs."""
    needed = _Needs(program).names

    def change(statement: Statement) -> Statement:
        if isinstance(statement, Assign) and statement.name not in needed:
            return Load(statement.name, statement.variable)
        return statement

    return replace(program, body=_map(program.body, change))


def _map(block: Block, change: Callable[[Statement], Statement]) -> Block:
    return replace(block, statements=tuple(_inside(change(s), change) for s in block.statements))


def _inside(statement: Statement, change: Callable[[Statement], Statement]) -> Statement:
    if isinstance(statement, Cond):
        return replace(statement, blocks=tuple(_map(block, change) for block in statement.blocks))
    if isinstance(statement, While):
        return replace(statement, predicate=_map(statement.predicate, change), body=_map(statement.body, change))
    return statement


class _Needs:
    """The names that results and targets need: of a Cond or While, the results that are needed and no others."""

    def __init__(self, program: Program) -> None:
        self.made: dict[str, Statement] = {}
        self.params: dict[str, tuple[While, int]] = {}
        self._collect(program.body)
        self.names: set[str] = set()
        self.started: set[str] = set()  # Conds and Whiles, by their first name
        work = [*program.body.results]
        for name in program.targets:
            work += self._whole(name)
        while work:
            name = work.pop()
            if name not in self.names:
                self.names.add(name)
                work += self._of(name)

    def _collect(self, block: Block) -> None:
        for statement in block.statements:
            self.made.update(dict.fromkeys(names_of(statement), statement))
            for inner in _blocks(statement):
                self._collect(inner)
            if isinstance(statement, While):
                self.params.update((p, (statement, i)) for i, p in enumerate(statement.params))

    def _whole(self, name: str) -> Sequence[str]:
        """Return what is needed where an operation is waited for: all its results."""
        return names_of(self.made[name]) if name in self.made else [name]

    def _of(self, name: str) -> Iterator[str]:
        if name in self.params:
            loop, i = self.params[name]
            yield loop.names[i]
            return
        statement = self.made.get(name)  # None for inputs
        match statement:
            case Cond(names, chooser, blocks):
                yield chooser
                yield from (block.results[names.index(name)] for block in blocks)
            case While(names, params, inits, predicate, body):
                i = names.index(name)
                yield from (inits[i], params[i], body.results[i], *predicate.results)
            case Op(args=args):
                yield from args
            case Assign(value=value):
                yield value
            case Write(array=array, index=index, value=value):
                yield from (array, index, value)
            case _:
                yield from (getattr(statement, field) for field in ("array", "index") if hasattr(statement, field))
        for other in getattr(statement, "after", ()):
            yield from self._whole(other)


def _blocks(statement: Statement) -> Sequence[Block]:
    if isinstance(statement, Cond):
        return statement.blocks
    return (statement.predicate, statement.body) if isinstance(statement, While) else ()
