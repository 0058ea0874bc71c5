"""What a region of operations is as a program: registers, and instructions that follow one another.

`NativeProgram` is data, made by ``engine/compile/native``; ``kernels/native/compiled.pyx`` gives it a form in C. See
docs/design/0025-native-loops.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

MOST_BYTES = 1 << 13  # of a value that a cluster takes or computes; copies of larger ones cost what tokens do


class Code(IntEnum):
    """What an instruction does.

    COMPUTE: an operation. MOVE: give registers the values of others, all at once; the first time it runs it decides on
    the shapes of what it gives. COUNT: add one to an int64. JUMP, UNLESS: go on at the target, always or if the input
    is false. SELECT: go on at the target that the input numbers, or at the last; a bool numbers two. PUSH: write a
    value to the slot of a series that an integer numbers. READ: give what is in the slot of a series that an integer
    numbers; where there is nothing, zeros of the shape that a third input is, if there is one. ADD_PRODUCT: add the
    product of two matrices, the first transposed, to a ProductSum. GET, PUT: read or write the element of a TensorArray
    that an integer numbers. NEST: write the slots of a series from one number to another, as a series, to the slot of
    another that a count numbers. READ_NESTED: as READ, of the series that is in the slot that the second input numbers.
    """

    COMPUTE = 0
    MOVE = 1
    COUNT = 2
    JUMP = 3
    UNLESS = 4
    SELECT = 5
    PUSH = 6
    READ = 7
    ADD_PRODUCT = 8
    GET = 9
    PUT = 10
    NEST = 11
    READ_NESTED = 12


@dataclass(frozen=True, slots=True)
class Computation:
    """An operation that an instruction computes.

    Attributes
    ----------
    name, type : str
        Of the operation in the user's graph.
    attrs : mapping
        Its attributes.
    ufunc : str or None
        The NumPy ufunc that it is.
    shape_only : bool
        Whether the result depends on the shape of its input alone.
    reads : tuple of int
        Inputs of which a kernel must know the values before it can say what it will do.
    """

    name: str
    type: str
    attrs: Mapping[str, Any]
    ufunc: str | None = None
    shape_only: bool = False
    reads: tuple[int, ...] = ()
    stateful: bool = field(default=False, init=False)

    def to_attribute(self) -> tuple[Any, ...]:
        """Return the computation as tuples, strings and what its attributes are."""
        return self.name, self.type, tuple(self.attrs.items()), self.ufunc, self.shape_only, self.reads

    @classmethod
    def from_attribute(cls, attribute: tuple[Any, ...]) -> Computation:
        """Return the computation that tuples stand for."""
        name, type_, attrs, *rest = attribute
        return cls(name, type_, dict(attrs), *rest)


@dataclass(slots=True)
class Instruction:
    """One step of a program.

    Attributes
    ----------
    code : Code
    inputs, outputs : tuple of int
        Registers; of a MOVE as many of both.
    last : tuple of bool
        For each input, whether nothing reads the register's value after this.
    targets : tuple of int
        Instructions.
    computation : Computation or None
        Of a COMPUTE.
    name : str
        Of the operation that it comes from, where that shows.
    is_maybe : bool
        Of a READ, whether there may be nothing in the slot; then nobody looks at what it gives.
    is_last : bool
        Of a READ, whether it is the only one of the slot, which may then be released.
    shape : tuple of int or None
        Of what a GET gives, if that is known.
    """

    code: Code
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    last: tuple[bool, ...] = ()
    targets: tuple[int, ...] = ()
    computation: Computation | None = None
    name: str = ""
    is_maybe: bool = False
    is_last: bool = False
    shape: tuple[int, ...] | None = None

    def to_attribute(self) -> tuple[Any, ...]:
        """Return the instruction as tuples and strings."""
        computation = None if self.computation is None else self.computation.to_attribute()
        more = self.name, self.is_maybe, self.is_last, self.shape
        return self.code.name, self.inputs, self.outputs, self.last, self.targets, computation, *more

    @classmethod
    def from_attribute(cls, attribute: tuple[Any, ...]) -> Instruction:
        """Return the instruction that tuples stand for."""
        code, inputs, outputs, last, targets, computation, *rest = attribute
        made = None if computation is None else Computation.from_attribute(computation)
        return cls(Code[code], inputs, outputs, last, targets, made, *rest)


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A region of pure operations as a program.

    Attributes
    ----------
    name : str
        Of the operation that owns the region.
    registers : tuple of (str, numpy.dtype or None)
        Name and dtype of each; None for a series, or another object.
    inputs, outputs : tuple of int
        Registers that come from outside, and those that are results.
    constants : mapping of int to numpy.ndarray
        Registers with the same value in all runs.
    trips : tuple of (int, int, int) or None
        How often the outermost loop runs, about, if that is known when it begins: registers with the initial value and
        the limit of a counter, and by how much it changes.
    instructions : tuple of Instruction
        The program ends behind the last one.
    reuse : bool
        Whether a result may lie where an input lay that nothing reads any more.
    compile_after : float or None
        Seconds that the program runs step by step before it is compiled; None for never.
    is_cluster : bool
        Whether it has no loop, and a run is kept for other inputs of the same shapes, which are copied to memory of its
        own.
    """

    name: str
    registers: tuple[tuple[str, np.dtype[Any] | None], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, Any]
    instructions: tuple[Instruction, ...]
    trips: tuple[int, int, int] | None = None
    reuse: bool = True
    compile_after: float | None = None
    is_cluster: bool = False
    native: bool = field(default=True, init=False)
    loops: bool = field(default=True, init=False)

    def to_attribute(self) -> tuple[Any, ...]:
        """Return the program as an attribute of an operation: tuples, strings and arrays."""
        return (
            self.name,
            tuple((name, dtype and dtype.name) for name, dtype in self.registers),
            self.inputs,
            self.outputs,
            tuple(self.constants.items()),
            tuple(each.to_attribute() for each in self.instructions),
            self.trips,
            self.reuse,
            self.compile_after,
            self.is_cluster,
        )

    @classmethod
    def from_attribute(cls, attribute: tuple[Any, ...]) -> NativeProgram:
        """Return the program that an attribute stands for."""
        name, registers, inputs, outputs, constants, instructions, trips, *rest = attribute
        return cls(
            name,
            tuple((name, dtype and np.dtype(dtype)) for name, dtype in registers),
            inputs,
            outputs,
            dict(constants),
            tuple(map(Instruction.from_attribute, instructions)),
            trips,
            *rest,
        )

    def to_text(self) -> str:
        """Return the program as text, one instruction a line."""
        return "\n".join(self._lines())

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<NativeProgram {self.name}: {len(self.instructions)} instructions>"

    def _lines(self) -> Iterator[str]:
        declared = ", ".join(f"{self._name(r)} {self.registers[r][1] or 'object'}" for r in self.inputs)
        yield f"program {self.name} ({declared})"
        for register, value in self.constants.items():
            yield f"  {self._name(register)} = {np.array2string(value, threshold=4)}"
        for i, each in enumerate(self.instructions):
            yield f"  {i}: {self._text(each)}"
        yield f"  return {self._names(self.outputs)}"

    def _text(self, each: Instruction) -> str:
        inputs, outputs = self._names(each.inputs), self._names(each.outputs)
        if each.computation is not None:
            return f"{outputs} = {each.computation.type}({inputs})"
        targets = ", ".join(map(str, each.targets))
        return {
            Code.MOVE: f"{outputs} = {inputs}",
            Code.COUNT: f"{outputs} += 1",
            Code.JUMP: f"jump {targets}",
            Code.UNLESS: f"unless {inputs} jump {targets}",
            Code.SELECT: f"select {inputs} of {targets}",
            Code.PUSH: f"push {inputs} to {outputs}",
            Code.ADD_PRODUCT: f"add product {inputs}",
            Code.GET: f"{outputs} = get {inputs}",
            Code.PUT: f"put {inputs}",
            Code.NEST: f"nest {inputs} in {outputs}",
            Code.READ_NESTED: f"{outputs} = {'last ' * each.is_last}read nested {inputs}",
            Code.READ: f"{outputs} = {'last ' * each.is_last}read {inputs}",
        }[each.code]

    def _names(self, registers: tuple[int, ...]) -> str:
        return ", ".join(map(self._name, registers))

    def _name(self, register: int) -> str:
        return f"%{register}" + (f":{name}" if (name := self.registers[register][0]) else "")
