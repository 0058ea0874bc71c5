"""Evaluate a program in plain Python: the meaning that every executor must give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.property.functions import ALL
from tests.property.programs import (
    Block,
    Cond,
    Const,
    NewArray,
    Op,
    Program,
    Read,
    Stack,
    Statement,
    Type,
    While,
    Write,
)

Environment = dict[str, Any]


@dataclass(frozen=True)
class Array:
    """A TensorArray as a value: writing gives another one."""

    type: Type
    elements: dict[int, Any] = field(default_factory=dict)

    def write(self, index: int, value: Any) -> Array:
        assert index in range(self.type.size), f"write to {index}"
        assert index not in self.elements, f"second write to {index}"
        return Array(self.type, {**self.elements, index: value})

    def read(self, index: int) -> Any:
        assert index in range(self.type.size), f"read of {index}"
        return self.elements.get(index, np.zeros(self.type.shape, self.type.dtype))

    def stack(self) -> Any:
        return np.stack([self.read(i) for i in range(self.type.size)])


@dataclass
class Evaluation:
    """The results, and every decision on the way: ``("cond", name, branch)`` or ``("while", name, trips)``."""

    results: list[Any] = field(default_factory=list)
    decisions: list[tuple[str, str, int]] = field(default_factory=list)


def evaluate(program: Program, values: Environment | None = None) -> Evaluation:
    """Evaluate a program for `values` of its inputs, or for its own."""
    values = program.values if values is None else values
    inputs = {name: np.asarray(values[name], type.dtype) for name, type in program.inputs}
    evaluation = Evaluation()
    with np.errstate(all="ignore"):
        evaluation.results = _block(program.body, inputs, evaluation.decisions)
    return evaluation


def _block(block: Block, outer: Environment, decisions: list[Any]) -> list[Any]:
    scope = dict(outer)
    for statement in block.statements:
        _run(statement, scope, decisions)
    return [scope[name] for name in block.results]


def _run(statement: Statement, scope: Environment, decisions: list[Any]) -> None:
    match statement:
        case Const(name, type, value):
            scope[name] = np.asarray(value, type.dtype)
        case Op(name, function, args, _):
            scope[name] = np.asarray(ALL[function].plain(*(scope[a] for a in args)))
        case Cond(names, chooser, blocks):
            branch = _branch(scope[chooser], len(blocks))
            decisions.append(("cond", names[0], branch))
            scope.update(zip(names, _block(blocks[branch], scope, decisions), strict=True))
        case While(names):
            scope.update(zip(names, _loop(statement, scope, decisions), strict=True))
        case NewArray(name, type):
            scope[name] = Array(type)
        case Write(name, array, index, value):
            scope[name] = scope[array].write(int(scope[index]), scope[value])
        case Read(name, array, index):
            scope[name] = scope[array].read(int(scope[index]))
        case Stack(name, array):
            scope[name] = scope[array].stack()


def _branch(chooser: Any, count: int) -> int:
    if chooser.dtype == bool:
        return int(chooser)
    return int(chooser) if 0 <= chooser < count else count - 1


def _loop(loop: While, scope: Environment, decisions: list[Any]) -> list[Any]:
    values, trips = [scope[name] for name in loop.inits], 0
    while True:
        inner = {**scope, **dict(zip(loop.params, values, strict=True))}
        (more,) = _block(loop.predicate, inner, decisions)
        if not more or trips == loop.at_most:
            decisions.append(("while", loop.names[0], trips))
            return values
        values, trips = _block(loop.body, inner, decisions), trips + 1
