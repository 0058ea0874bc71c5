"""Evaluate a program in plain Python: the meaning that every executor must give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.property.functions import ALL
from tests.property.programs import (
    Assign,
    Block,
    Cond,
    Const,
    Load,
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
UPDATES = {"assign": lambda old, new: new, "assign_add": np.add, "assign_sub": np.subtract}


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
    """The results, what variables hold, every decision: ``("cond", name, branch)`` or ``("while", name, trips)``."""

    results: list[Any] = field(default_factory=list)
    variables: Environment = field(default_factory=dict)
    decisions: list[tuple[str, str, int]] = field(default_factory=list)


def evaluate(program: Program, values: Environment | None = None) -> Evaluation:
    """Evaluate a program for `values` of its inputs, or for its own."""
    values = program.values if values is None else values
    inputs = {name: np.asarray(values[name], type.dtype) for name, type in program.inputs}
    evaluation = Evaluation(variables=initial_values(program))
    with np.errstate(all="ignore"):
        evaluation.results = _block(program.body, inputs, evaluation)
    return evaluation


def initial_values(program: Program) -> Environment:
    """Return what each variable holds at first."""
    return {name: np.asarray(program.values[name], type.dtype) for name, type in program.variables}


def _block(block: Block, outer: Environment, evaluation: Evaluation) -> list[Any]:
    scope = dict(outer)
    for statement in block.statements:
        _run(statement, scope, evaluation)
    return [scope[name] for name in block.results]


def _run(statement: Statement, scope: Environment, evaluation: Evaluation) -> None:
    match statement:
        case Const(name, type, value):
            scope[name] = np.asarray(value, type.dtype)
        case Op(name, function, args, _):
            scope[name] = np.asarray(ALL[function].plain(*(scope[a] for a in args)))
        case Cond(names, chooser, blocks):
            branch = _branch(scope[chooser], len(blocks))
            evaluation.decisions.append(("cond", names[0], branch))
            scope.update(zip(names, _block(blocks[branch], scope, evaluation), strict=True))
        case While(names):
            scope.update(zip(names, _loop(statement, scope, evaluation), strict=True))
        case NewArray(name, type):
            scope[name] = Array(type)
        case Write(name, array, index, value):
            scope[name] = scope[array].write(int(scope[index]), scope[value])
        case Read(name, array, index):
            scope[name] = scope[array].read(int(scope[index]))
        case Stack(name, array):
            scope[name] = scope[array].stack()
        case Load(name, variable):
            scope[name] = evaluation.variables[variable]
        case Assign(name, variable, how, value):
            new = np.asarray(UPDATES[how](evaluation.variables[variable], scope[value]))
            scope[name] = evaluation.variables[variable] = new


def _branch(chooser: Any, count: int) -> int:
    if chooser.dtype == bool:
        return int(chooser)
    return int(chooser) if 0 <= chooser < count else count - 1


def _loop(loop: While, scope: Environment, evaluation: Evaluation) -> list[Any]:
    values, trips = [scope[name] for name in loop.inits], 0
    while True:
        inner = {**scope, **dict(zip(loop.params, values, strict=True))}
        (more,) = _block(loop.predicate, inner, evaluation)
        if not more or trips == loop.at_most:
            evaluation.decisions.append(("while", loop.names[0], trips))
            return values
        values, trips = _block(loop.body, inner, evaluation), trips + 1
