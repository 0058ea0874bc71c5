"""Build a program as a graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import tagloom as tg

from tests.property.functions import ALL
from tests.property.interpret import initial_values
from tests.property.programs import (
    BOOL,
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
    While,
    Write,
)

Environment = dict[str, Any]
Around = Callable[[Statement], AbstractContextManager[Any]]
Change = Callable[[Op, Any], Any]


@dataclass(frozen=True)
class Built:
    """A program's graph, its placeholders and variables by name, its results, the operations to run as well."""

    graph: tg.Graph
    inputs: dict[str, Any]
    variables: dict[str, Any]
    results: list[Any]
    targets: list[Any]

    @property
    def fetches(self) -> list[Any]:
        """What to run: results first."""
        return [*self.results, *self.targets]

    def feeds(self, values: dict[str, Any]) -> dict[Any, Any]:
        """Return what to feed for values of the inputs."""
        return {tensor: np.asarray(values[name], tensor.dtype.numpy) for name, tensor in self.inputs.items()}

    def in_order(self, tensors: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return the values of the results, given the value of each different tensor among them."""
        found = dict(zip(tensors, values, strict=True))
        return [found[tensor] for tensor in self.results]


def build(
    program: Program,
    window: int = 32,
    around: Around = lambda statement: nullcontext(),
    every: Sequence[int | None] = (None,),
    change: Change = lambda statement, tensor: tensor,
    read: str = "read_value",
) -> Built:
    """Build a program.

    All its loops get `window` parallel iterations and, in turn, what is in `every` as ``checkpoint_every``; each
    statement is built inside `around`, `change` gives what stands for the result of an Op, and `read` is the method
    that reads a variable.
    """
    with tg.Graph().as_default() as graph:
        inputs = {name: tg.placeholder(type.dtype, type.shape, name) for name, type in program.inputs}
        variables = {
            name: tg.Variable(value, name=name, dtype=value.dtype) for name, value in initial_values(program).items()
        }
        builder = _Builder(window, around, variables, every, change, read)
        scope = dict(inputs)
        results = builder.block(program.body, scope)
    return Built(graph, inputs, variables, results, [scope[name].op for name in program.targets])


class _Builder:
    def __init__(
        self,
        window: int,
        around: Around,
        variables: Environment,
        every: Sequence[int | None],
        change: Change,
        read: str,
    ) -> None:
        self.window = window
        self.around = around
        self.variables = variables
        self.every = itertools.cycle(every)
        self.change = change
        self.read = read

    def block(self, block: Block, scope: Environment) -> list[Any]:
        for statement in block.statements:
            with self.around(statement):
                self.statement(statement, scope)
        return [scope[name] for name in block.results]

    def statement(self, statement: Statement, scope: Environment) -> None:
        match statement:
            case Const(name, type, value):
                scope[name] = tg.constant(np.asarray(value, type.dtype))
            case Op(name, function, args, after):
                with tg.control_dependencies([scope[a] for a in after]):
                    scope[name] = self.change(statement, ALL[function].graph(*(scope[a] for a in args)))
            case Cond(names, after=after):
                with tg.control_dependencies([scope[a] for a in after]):
                    scope.update(zip(names, self.cond(statement, scope), strict=True))
            case While(names, after=after):
                with tg.control_dependencies([scope[a] for a in after]):
                    scope.update(zip(names, self.loop(statement, scope), strict=True))
            case NewArray(name, type):
                scope[name] = tg.TensorArray(
                    type.dtype, type.size, clear_after_read=False, element_shape=type.shape, name=name
                )
            case Write(name, array, index, value):
                scope[name] = scope[array].write(scope[index], scope[value])
            case Read(name, array, index):
                scope[name] = scope[array].read(scope[index])
            case Stack(name, array):
                scope[name] = scope[array].stack()
            case Load(name, variable, after):
                with tg.control_dependencies([scope[a] for a in after]):
                    scope[name] = getattr(self.variables[variable], self.read)()
            case Assign(name, variable, how, value, after):
                with tg.control_dependencies([scope[a] for a in after]):
                    scope[name] = getattr(self.variables[variable], how)(scope[value])

    def cond(self, statement: Cond, scope: Environment) -> list[Any]:
        chooser = scope[statement.chooser]
        branches = [lambda block=block: self.block(block, dict(scope)) for block in statement.blocks]
        if chooser.dtype.name == BOOL.dtype:
            return tg.cond(chooser, branches[1], branches[0], strict=True, name=f"cond_{statement.names[0]}")
        result = tg.switch_case(chooser, branches, name=f"switch_{statement.names[0]}")
        return result if len(statement.names) > 1 else [result]

    def loop(self, statement: While, scope: Environment) -> list[Any]:
        def inner(block: Block) -> Callable[..., list[Any]]:
            return lambda *params: self.block(block, {**scope, **dict(zip(statement.params, params, strict=True))})

        predicate = inner(statement.predicate)
        return tg.while_loop(
            lambda *params: predicate(*params)[0],
            inner(statement.body),
            [scope[name] for name in statement.inits],
            parallel_iterations=self.window,
            maximum_iterations=statement.at_most,
            checkpoint_every=next(self.every),
            name=f"while_{statement.names[0]}",
            return_same_structure=True,
        )
