"""A small language of programs with data-dependent control flow and state, as plain dataclasses.

A program is a block: statements in order, then the names of its results. Every name is assigned once; variables are
read and assigned as often as one likes, in an order that arguments and ``after`` make certain. The same program is
evaluated by ``interpret.evaluate`` in plain Python and built by ``translate.build`` as a graph; its repr is Python
source that makes it again, and ``show`` prints it to be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Type:
    """What a variable holds: a tensor, or an array of `size` such tensors."""

    dtype: str
    shape: tuple[int, ...] = ()
    size: int | None = None


BOOL = Type("bool")
INT = Type("int32")
FLOAT = Type("float64")
VECTOR = Type("float64", (3,))
INTS = Type("int32", (3,))


@dataclass(frozen=True)
class Const:
    """A constant."""

    name: str
    type: Type
    value: Any


@dataclass(frozen=True)
class Op:
    """Apply a function of ``functions.FUNCTIONS``, after the statements that assign `after`."""

    name: str
    function: str
    args: tuple[str, ...]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cond:
    """Evaluate one of the blocks: by a bool, false first; or by an int, whose last block is the default."""

    names: tuple[str, ...]
    chooser: str
    blocks: tuple[Block, ...]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class While:
    """Repeat `body` while `predicate` holds; both see `params`, which start as `inits` and end as `names`."""

    names: tuple[str, ...]
    params: tuple[str, ...]
    inits: tuple[str, ...]
    predicate: Block
    body: Block
    at_most: int | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class NewArray:
    """An array whose elements read as zeros where nothing was written."""

    name: str
    type: Type


@dataclass(frozen=True)
class Write:
    """The array after a write; the one before must not be read at this index."""

    name: str
    array: str
    index: str
    value: str


@dataclass(frozen=True)
class Read:
    """One element."""

    name: str
    array: str
    index: str


@dataclass(frozen=True)
class Stack:
    """All elements as one tensor."""

    name: str
    array: str


@dataclass(frozen=True)
class Load:
    """What a variable holds, after the statements that assign `after`."""

    name: str
    variable: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assign:
    """What a variable holds after ``assign``, ``assign_add`` or ``assign_sub`` (`how`) of a value."""

    name: str
    variable: str
    how: str
    value: str
    after: tuple[str, ...] = ()


Statement = Const | Op | Cond | While | NewArray | Write | Read | Stack | Load | Assign


@dataclass(frozen=True)
class Block:
    """Statements in order; inner blocks see the names of outer ones."""

    statements: tuple[Statement, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A block, the names and types of its inputs and variables, their values; `targets` run for their effects."""

    inputs: tuple[tuple[str, Type], ...]
    body: Block
    values: dict[str, Any] = field(compare=False)
    variables: tuple[tuple[str, Type], ...] = ()
    targets: tuple[str, ...] = ()


def names_of(statement: Statement) -> tuple[str, ...]:
    """Return the names that a statement assigns."""
    return statement.names if isinstance(statement, (Cond, While)) else (statement.name,)


def show(program: Program) -> str:
    """Return the program as text to be read."""
    lines = [f"{name}: {_type(type)} = {program.values[name]}" for name, type in program.inputs]
    lines += [f"{name}: variable {_type(type)} = {program.values[name]}" for name, type in program.variables]
    targets = [f"run {', '.join(program.targets)}"] if program.targets else []
    return "\n".join([*lines, *_block(program.body, "return"), *targets])


def _type(type: Type) -> str:
    tensor = f"{type.dtype}{list(type.shape)}"
    return tensor if type.size is None else f"array({type.size} x {tensor})"


def _after(names: tuple[str, ...]) -> str:
    return f" after {', '.join(names)}" if names else ""


def _block(block: Block, verb: str) -> list[str]:
    lines = [line for statement in block.statements for line in _statement(statement)]
    return [*lines, f"{verb} {', '.join(block.results)}"]


def _statement(statement: Statement) -> list[str]:
    match statement:
        case Const(name, type, value):
            return [f"{name} = {_type(type)} {value}"]
        case Op(name, function, args, after):
            return [f"{name} = {function}({', '.join(args)}){_after(after)}"]
        case Cond(names, chooser, blocks, after):
            lines = [[f"  branch {i}:", *_indent(_block(b, "give"), 2)] for i, b in enumerate(blocks)]
            return [f"{', '.join(names)} = cond {chooser}{_after(after)}:", *(line for part in lines for line in part)]
        case While(names, params, inits, predicate, body, at_most, after):
            start = ", ".join(f"{p}={i}" for p, i in zip(params, inits, strict=True))
            bound = f" at most {at_most}" if at_most is not None else ""
            head = f"{', '.join(names)} = while {start}{bound}{_after(after)}:"
            return [head, *_indent(_block(predicate, "while")), *_indent(_block(body, "next"))]
        case NewArray(name, type):
            return [f"{name} = {_type(type)}"]
        case Write(name, array, index, value):
            return [f"{name} = {array}.write({index}, {value})"]
        case Read(name, array, index):
            return [f"{name} = {array}.read({index})"]
        case Stack(name, array):
            return [f"{name} = {array}.stack()"]
        case Load(name, variable, after):
            return [f"{name} = {variable}.read(){_after(after)}"]
        case Assign(name, variable, how, value, after):
            return [f"{name} = {variable}.{how}({value}){_after(after)}"]


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return ["  " * depth + line for line in lines]
