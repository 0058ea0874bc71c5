"""Regions of operations as programs: registers, and a sequence of instructions.

`NativeProgram` is data, made by ``engine/compile/native``; ``kernels/native/compiled.pyx`` translates programs to C
structs. See docs/design/0025-native-loops.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

MOST_BYTES = 1 << 13  # of a value in a cluster: copies of larger values cost as much as tokens save


class Code(IntEnum):
    """Kind of an instruction.

    COMPUTE: an operation. MOVE: copy values between registers, all at once; the first run fixes the shapes of the
    outputs. COUNT: add one to an int64. JUMP, UNLESS: continue at the target, always or if the input is false. SELECT:
    continue at the target numbered by the input, or at the last target; a bool chooses between two. PUSH: write a value
    to the slot of a series numbered by an integer. READ: read the slot of a series numbered by an integer; an empty
    slot reads as zeros of the shape in a third input, if present. ADD_PRODUCT: add the product of two matrices, the
    first transposed, to a ProductSum. GET, PUT: read or write the element of a TensorArray numbered by an integer; an
    element to which nothing was written reads as zeros of the shape in a third of four inputs, if present; a gradient
    array adds up what is written.
    NEST: write a range of slots of a series, as a series of its own, to the slot of another series numbered by a count.
    READ_NESTED: READ from the series in the slot numbered by the second input. GATHER, SCATTER: GET and PUT of several
    elements, by a vector of integers. STACK, UNSTACK: the same of all elements. NEW: make a TensorArray of a size, or
    the gradient array of a TensorArray; no other program sees it. PUSH_AT: PUSH to the slot numbered by the sum of two
    integers.
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
    GATHER = 13
    SCATTER = 14
    STACK = 15
    UNSTACK = 16
    NEW = 17
    PUSH_AT = 18


class PythonKernel(Protocol):
    """The Python kernel of an operation.

    Attributes
    ----------
    is_traceable : bool
        True if the kernel is one of the package, and may run with arrays that only stand for others.
    """

    is_traceable: bool

    def bound_to(self, xp: Any) -> Callable[..., Any]:
        """Return the kernel, which computes with the functions of an array library.

        It takes arrays, and returns an array, or a sequence of arrays for several outputs.
        """
        ...

    def output_shapes(
        self, shapes: Sequence[tuple[int, ...]], values: Sequence[np.ndarray[Any, Any] | None]
    ) -> list[tuple[int, ...]] | None:
        """Return the shapes of the outputs for shapes of the inputs, and values of inputs where these are known.

        None if a shape depends on other values.
        """
        ...


@dataclass(frozen=True, slots=True)
class Computation:
    """An operation for a COMPUTE instruction.

    Attributes
    ----------
    name, type : str
        Name and type of the operation in the user's graph.
    attrs : mapping
        The operation's attributes.
    ufunc : str or None
        The equivalent NumPy ufunc.
    shape_only : bool
        True if the result depends on the input's shape alone.
    reads : tuple of int
        Inputs whose values a kernel needs for its plan.
    kernel : PythonKernel or None
        The kernel to call where no C kernel leaves work that can be repeated.
    is_called : bool
        True if there is no C kernel.
    sizes : tuple of int
        Inputs whose values may determine the shapes of the outputs.
    """

    name: str
    type: str
    attrs: Mapping[str, Any]
    ufunc: str | None = None
    shape_only: bool = False
    reads: tuple[int, ...] = ()
    kernel: PythonKernel | None = None
    is_called: bool = False
    sizes: tuple[int, ...] = ()
    stateful: bool = field(default=False, init=False)

    def to_attribute(self) -> tuple[Any, ...]:
        """Return the computation as tuples, strings, attribute values and a kernel."""
        return (
            self.name,
            self.type,
            tuple(self.attrs.items()),
            self.ufunc,
            self.shape_only,
            self.reads,
            self.kernel,
            self.is_called,
            self.sizes,
        )

    @classmethod
    def from_attribute(cls, attribute: tuple[Any, ...]) -> Computation:
        """Return the computation of an attribute."""
        name, type_, attrs, *rest = attribute
        return cls(name, type_, dict(attrs), *rest)


@dataclass(slots=True)
class Instruction:
    """An instruction of a program.

    Attributes
    ----------
    code : Code
    inputs, outputs : tuple of int
        Registers; a MOVE has equally many inputs and outputs.
    last : tuple of bool
        For each input, True if the register's value is not read again.
    targets : tuple of int
        Numbers of instructions.
    computation : Computation or None
        Operation of a COMPUTE.
    name : str
        Name of the original operation, if used in errors or statistics.
    is_maybe : bool
        For a READ, True if the slot may be empty; then the output is not used. For a NEST, True if the slots were not
        written in order.
    is_last : bool
        For a READ, True if no other READ has the slot, which may then be released.
    shape : tuple of int or None
        Shape of the elements that a GET, GATHER or STACK reads, if known.
    options : tuple
        Of a NEW with a size: the name of the dtype, the shape of the elements or None, and whether the array grows,
        clears elements after a read, and adds repeated writes up.
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
    options: tuple[Any, ...] = ()

    def to_attribute(self) -> tuple[Any, ...]:
        """Return the instruction as tuples and strings."""
        computation = None if self.computation is None else self.computation.to_attribute()
        more = self.name, self.is_maybe, self.is_last, self.shape, self.options
        return self.code.name, self.inputs, self.outputs, self.last, self.targets, computation, *more

    @classmethod
    def from_attribute(cls, attribute: tuple[Any, ...]) -> Instruction:
        """Return the instruction of an attribute."""
        code, inputs, outputs, last, targets, computation, *rest = attribute
        made = None if computation is None else Computation.from_attribute(computation)
        return cls(Code[code], inputs, outputs, last, targets, made, *rest)


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A region of pure operations as a program.

    Attributes
    ----------
    name : str
        Name of the region's operation.
    registers : tuple of (str, numpy.dtype or None)
        Name and dtype of each register; no dtype for a series, or another object.
    inputs, outputs : tuple of int
        Registers with the arguments, and with the results.
    constants : mapping of int to numpy.ndarray
        Registers with the same value in all runs.
    trips : tuple of (int, int, int) or None
        Source of the approximate trip count of the outermost loop, if known at its start: registers with the initial
        value and the limit of a counter, and the counter's increment.
    instructions : tuple of Instruction
        The program ends after the last instruction.
    reuse : bool
        True if a result may take over the memory of an input after its last use.
    compile_after : float or None
        Seconds of interpretation before the program is compiled; None for never.
    is_cluster : bool
        True for a program without a loop, whose run is reused for inputs of the same shapes; the inputs are copied to
        the run's own memory.
    keeps_runs : bool
        False where memory has a limit: a run that is kept for later inputs holds memory.
    sizes : tuple of int
        Registers whose values may determine shapes, and should be known when a run is recorded.
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
    keeps_runs: bool = True
    sizes: tuple[int, ...] = ()
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
            self.keeps_runs,
            self.sizes,
        )

    @classmethod
    def from_attribute(cls, attribute: tuple[Any, ...]) -> NativeProgram:
        """Return the program of an attribute."""
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
        """Return the program as text, with an instruction per line."""
        return "\n".join(self._text_lines())

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<NativeProgram {self.name}: {len(self.instructions)} instructions>"

    def _text_lines(self) -> Iterator[str]:
        declared = ", ".join(f"{self._register_name(r)} {self.registers[r][1] or 'object'}" for r in self.inputs)
        yield f"program {self.name} ({declared})"
        for register, value in self.constants.items():
            yield f"  {self._register_name(register)} = {np.array2string(value, threshold=4)}"
        for i, each in enumerate(self.instructions):
            yield f"  {i}: {self._instruction_text(each)}"
        yield f"  return {self._register_names(self.outputs)}"

    def _instruction_text(self, each: Instruction) -> str:
        """Return an instruction as text."""
        inputs, outputs = self._register_names(each.inputs), self._register_names(each.outputs)
        if each.computation is not None:
            return f"{outputs} = {'call ' * each.computation.is_called}{each.computation.type}({inputs})"
        targets = ", ".join(map(str, each.targets))
        return {
            Code.MOVE: f"{outputs} = {inputs}",
            Code.COUNT: f"{outputs} += 1",
            Code.JUMP: f"jump {targets}",
            Code.UNLESS: f"unless {inputs} jump {targets}",
            Code.SELECT: f"select {inputs} of {targets}",
            Code.PUSH: f"push {inputs} to {outputs}",
            Code.PUSH_AT: f"push {inputs} to {outputs}",
            Code.ADD_PRODUCT: f"add product {inputs}",
            Code.GET: f"{outputs} = get {inputs}",
            Code.PUT: f"put {inputs}",
            Code.NEST: f"nest {inputs} in {outputs}",
            Code.READ_NESTED: f"{outputs} = {'last ' * each.is_last}read nested {inputs}",
            Code.READ: f"{outputs} = {'last ' * each.is_last}read {inputs}",
            Code.GATHER: f"{outputs} = gather {inputs}",
            Code.SCATTER: f"scatter {inputs}",
            Code.STACK: f"{outputs} = stack {inputs}",
            Code.UNSTACK: f"unstack {inputs}",
            Code.NEW: f"{outputs} = new array {inputs}",
        }[each.code]

    def _register_names(self, registers: tuple[int, ...]) -> str:
        return ", ".join(map(self._register_name, registers))

    def _register_name(self, register: int) -> str:
        return f"%{register}" + (f":{name}" if (name := self.registers[register][0]) else "")
