"""Draw reads and assignments of variables, so ordered that a program has one meaning.

The order comes from control dependencies, or from values where they carry it: what is assigned is computed from what
another assignment gave, a loop's token is a loop variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.property import programs as ast
from tests.property.order import Names
from tests.property.programs import Type

WAYS = ("assign", "assign", "assign", "load", "assign_add", "assign_sub")
TOUCHING = 70  # the percentage of branches and loops that may touch variables


def touch(scope: Any) -> None:
    """Read or assign a variable, and often another or the same right after."""
    variable, how = scope.draw(st.sampled_from([*scope.variables])), scope.draw(st.sampled_from(WAYS))
    if how == "load":
        load(scope, variable)
    else:
        assign(scope, variable, how)
    if scope.writer.room > 0 and scope.chance(50):
        touch(scope)


def load(scope: Any, variable: str) -> str:
    """Read a variable."""
    after = waits(scope, scope.order.pending([variable], reading=True), ())
    (name,) = scope.add(lambda names: ast.Load(names[0], variable, after), scope.variables[variable])
    scope.order.touch(name, [variable], after, reading=True)
    return name


def assign(scope: Any, variable: str, how: str) -> str:
    """Assign a variable something, mostly computed from what a touch gave."""
    type = scope.variables[variable]
    value = _computed(scope, type)
    after = waits(scope, scope.order.pending([variable]), (value,))
    (name,) = scope.add(lambda names: ast.Assign(names[0], variable, how, value, after), type)
    scope.order.touch(name, [variable], (value, *after))
    return name


def _computed(scope: Any, type: Type) -> str:
    found = _touched(scope, type)
    if not found or scope.chance(20):
        return scope.value(type)
    mix = scope.draw(st.sampled_from(("mul", *scope.kind.mixes)))
    return scope.apply(mix, scope.one_of(found), scope.value(type))


def _touched(scope: Any, type: Type) -> list[str]:
    return [n for n in scope.named(lambda t: t == type) if scope.order.of([n])]


def waits(scope: Any, touches: Names, names: Sequence[str]) -> tuple[str, ...]:
    """Choose what a touch with these arguments waits for, to come after `touches`; sometimes more than it needs."""
    more = (scope.one_of(list(scope.types)),) if scope.types and scope.chance(5) else ()
    return tuple(dict.fromkeys((*more, *_carriers(scope, scope.order.missing(touches, (*names, *more))))))


def _carriers(scope: Any, touches: list[str]) -> list[str]:
    """Choose names to wait for: the touches, or what was computed from them."""
    return [
        touch
        if touch in scope.types and scope.chance(70)
        else scope.one_of([n for n in scope.types if touch in scope.order.of([n])])
        for touch in touches
    ]


def behind(scope: Any, type: Type, touches: Names) -> str:
    """Return a name of this type that comes after all of `touches`: one there is, or a new one."""
    found = [n for n in scope.named(lambda t: t == type) if touches <= scope.order.of([n])]
    if found and scope.chance(60):
        return scope.one_of(found)
    mix = scope.draw(st.sampled_from(scope.kind.mixes))
    return joined(scope, touches, _computed(scope, type), scope.value(type), mix)


def before_cond(scope: Any) -> tuple[dict[str, Type], tuple[str, ...]]:
    """Return the variables that the branches of a Cond may touch, and what it waits for before it chooses."""
    if not scope.variables or not scope.chance(TOUCHING):
        return {}, ()
    last = sorted(scope.order.pending(scope.variables))
    return scope.variables, tuple(_carriers(scope, last)) if scope.chance(30) else ()


def tokens(scope: Any, branches: list[tuple[Any, list[str]]]) -> tuple[Names, list[Type]]:
    """Add a token to the results of branches of which one touched variables; return these, the token's type."""
    touched = frozenset[str]().union(*(branch.order.touched for branch, _ in branches))
    if not touched:
        return touched, []
    type = scope.draw(st.sampled_from([*scope.variables.values()]))
    for branch, results in branches:
        results.append(behind(branch, type, branch.order.pending(touched)))
    return touched, [type]


def tested(predicate: Any, test: str) -> str:
    """Return the result of a predicate, after what it touched."""
    last = predicate.order.pending(predicate.order.touched)
    return joined(predicate, last, test, test, "and") if last else test


def joined(scope: Any, touches: Names, left: str, right: str, mix: str) -> str:
    """Apply a function of two arguments after all of `touches`."""
    after = _carriers(scope, sorted(touches - scope.order.of((left, right))))
    return scope.apply(mix, left, right, after=tuple(after))


def start(scope: Any) -> list[str]:
    """Return what the token of a loop starts as; nothing for a loop that touches no variables."""
    if not scope.variables or not scope.chance(TOUCHING):
        return []
    type = scope.draw(st.sampled_from([*scope.variables.values()]))
    found = _touched(scope, type)
    return [scope.one_of(found) if found and scope.chance(70) else scope.value(type)]
