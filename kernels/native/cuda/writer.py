"""A native program as CUDA C, for arrays of certain shapes: a single kernel, run by a single block of threads.

Elements without dimensions are variables that all threads compute alike, so that all threads take the same branches;
elements of arrays are distributed, number i to thread i modulo the number of threads. Between instructions the threads
wait for each other only before a thread may access elements of another thread. See
docs/design/0028-native-loops-on-cuda.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..program import Code, Computation, Instruction, NativeProgram
from .emitting import find_emitter, find_instruction
from .text import text_of
from .values import NotWritten, Shape, Strided, Value, broadcast, c_type, write_literal
from .written import Given, Written, threads_for

MOST_ELEMENTS = 1 << 17  # of an array in a program: larger arrays are faster on all blocks of a device
_ALIGNMENT = 16  # bytes
_SMALL = 64  # most elements of a constant in the source
HEADER = 3  # words of the state before the elements: status, next block, register without room


def write_kernel(program: NativeProgram, given: Mapping[int, Given]) -> Written:
    """Return the kernel of a program for arguments by register.

    Raises
    ------
    NotWritten
        If an instruction cannot be written for these shapes.
    """
    return Writer(program, given).write_kernel()


class Writer:
    """A kernel while it is written.

    Parameters
    ----------
    program : NativeProgram
    given : mapping of int to Given

    Attributes
    ----------
    values : dict of int to Value
        By register.
    lines : list of str
        Lines of the program, extended by each instruction.
    parameters : list of str
        Parameters of the kernel, for arguments and saved series.
    pending : dict of str to set of (bool, bool)
        By memory, the accesses since the last barrier: written or read, and own elements or any.
    branches : set of int
        Instructions that may be skipped.
    """

    def __init__(self, program: NativeProgram, given: Mapping[int, Given]) -> None:
        self.program = program
        self.given = given
        self.made: Written = Written()
        self.values: dict[int, Value] = {}
        self.lines: list[str] = []
        self.functions: dict[str, str] = {}  # names of functions, by text
        self.arrays: dict[str, str] = {}  # constants in the source, by name
        self.parameters: list[str] = []
        self.pointers: list[str] = []  # declarations of pointers to intermediate arrays
        self.variables: list[tuple[str, str]] = []  # types and names of the variables in the state
        self.pending: dict[str, set[tuple[bool, bool]]] = {}
        self.element_shapes: dict[int, Shape] = {}  # by register of a TensorArray's handle
        self.may_fail: bool = False
        self.widest: int = 1
        self.branches = _find_branch_instructions(program.instructions)

    def write_kernel(self) -> Written:
        """Return the kernel."""
        self._take_inputs()
        leaders = _find_leaders(self.program.instructions)
        for i, each in enumerate(self.program.instructions):
            if i in leaders:
                self.begin_block(i)
            find_instruction(each.code)(self, i, each)
        self._end_program(len(self.program.instructions))
        self.made.words = HEADER + len(self.variables)
        self.made.element_shapes = self.element_shapes
        self.made.threads = threads_for(self.widest)
        self.made.code, self.made.parameters = text_of(self)
        return self.made

    def _end_program(self, i: int) -> None:
        self.begin_block(i)
        self.check_failures(i)
        self.add_line(f"LEAVE(ENDED, {i})")

    # ---- values

    def _take_inputs(self) -> None:
        """Create the values of constants and inputs."""
        for register, constant in self.program.constants.items():
            self.values[register] = self.add_constant(np.asarray(constant))
        for register in self.program.inputs:
            self._take_input(register, self.given[register])

    def _take_input(self, register: int, given: Given) -> None:
        """Create the value of an input, with parameters."""
        if given.value is not None:
            self.values[register] = self.add_constant(given.value)
        if given.value is not None or given.dtype is None:
            return
        kind, name = c_type(given.dtype), f"x{register}"
        if given.kind == "element":
            self.parameters.append(f"{kind} {name}")
            self.values[register] = Value(given.dtype, (), name)
        elif given.kind == "array":
            self.parameters.append(f"const {kind}* {name}")
            self.values[register] = Value(given.dtype, given.shape, name if given.shape else f"{name}[0]")
        elif given.kind == "sum":
            self.parameters.append(f"{kind}* {name}")
            self.values[register] = Value(given.dtype, given.shape, name, name)  # a memory, as the program writes it
        elif "series" in given.kind:
            self._take_series(register, given, f"const {kind}* {name}")
        else:
            self._take_elements(register, given, f"{kind}* {name}")

    def _take_series(self, register: int, given: Given, rows: str) -> None:
        """Declare parameters of a series: rows, their number, flags of written rows, bounds of inner runs."""
        self.parameters += [rows, f"long long n{register}"]
        self.parameters += [f"const unsigned char* w{register}"] * given.is_masked
        if given.kind == "nested series":
            self.parameters += [f"const long long* t{register}", f"long long m{register}"]

    def _take_elements(self, register: int, given: Given, rows: str) -> None:
        """Declare parameters of a TensorArray: rows, their number, flags before the run, accesses in the run."""
        if "new" not in given.kind:
            self.element_shapes[register] = given.shape
        self.parameters += [rows, f"long long n{register}", f"const unsigned char* b{register}"]
        self.parameters.append(f"long long* d{register}")

    def add_constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Return a constant value."""
        if array.ndim == 0:
            return Value(array.dtype, (), write_literal(array[()]), known=array)
        if 0 < array.size <= _SMALL:
            name = f"a{len(self.arrays)}"
            elements = ", ".join(write_literal(each) for each in array.flat)
            self.arrays[name] = f"{c_type(array.dtype)} {name}[] = {{{elements}}};"
        else:
            name = f"c{len(self.made.constants)}"
            self.made.constants.append(array)
        return Value(array.dtype, array.shape, name, known=array)

    def value(self, register: int) -> Value:
        """Return the value of a register."""
        return self.values[register]

    def dtype_of(self, register: int) -> np.dtype[Any]:
        """Return the dtype of an array's register."""
        dtype = self.program.registers[register][1]
        assert dtype is not None
        return dtype

    def known_value(self, register: int) -> np.ndarray[Any, Any]:
        """Return a register's known value; NotWritten if the value may change between runs."""
        found = self.values[register].known
        if found is None:
            raise NotWritten(f"{self.name_of(register)} decides on a shape, and changes")
        return found

    def name_of(self, register: int) -> str:
        """Return the name of a register."""
        return self.program.registers[register][0] or f"%{register}"

    def alias(self, register: int, value: Value, shape: Shape) -> None:
        """Make a register a view of another's elements, in another shape."""
        if bool(shape) == value.is_element:  # an element becomes an array, or an array an element
            self.copy_elements(register, value, Strided(shape, (0,) * len(shape)))
            return
        known = None if value.known is None else value.known.reshape(shape)
        self.values[register] = Value(value.dtype, shape, value.code, value.memory, known)

    def make(self, register: int, shape: Shape) -> Value:
        """Return the destination of a register: a variable, or an array in memory; the same each time."""
        found = self.values.get(register)
        if found is not None:
            if found.shape != shape:
                raise NotWritten(f"{self.name_of(register)} changes its shape")
            return found
        if math.prod(shape) > MOST_ELEMENTS:
            raise NotWritten(f"{self.name_of(register)} has {math.prod(shape)} elements")
        dtype = self.dtype_of(register)
        self.values[register] = made = (
            self._make_array(register, dtype, shape) if shape else self._make_variable(register, dtype)
        )
        return made

    def _make_variable(self, register: int, dtype: np.dtype[Any]) -> Value:
        self.made.elements[register] = self.declare_state(c_type(dtype), f"s{register}")
        return Value(dtype, (), f"s{register}")

    def _make_array(self, register: int, dtype: np.dtype[Any], shape: Shape) -> Value:
        name = f"p{register}"
        if register in self.program.outputs:
            self.made.results[register] = shape, dtype
            return Value(dtype, shape, name, name)
        return Value(dtype, shape, self.allocate_memory(name, dtype, math.prod(shape)), name)

    def allocate_memory(self, name: str, dtype: np.dtype[Any], size: int) -> str:
        """Allocate intermediate memory; return the name of its pointer."""
        self.pointers.append(f"{c_type(dtype)}* const {name} = ({c_type(dtype)}*)(memory + {self.made.nbytes});")
        self.made.nbytes += -(-size * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        return name

    def declare_state(self, kind: str, name: str) -> int:
        """Declare a variable kept between launches; return its word of the state."""
        self.variables.append((kind, name))
        return HEADER + len(self.variables) - 1

    # ---- lines

    def add_line(self, text: str) -> None:
        """Add a line."""
        self.lines.append(text)

    def note_access(self, value: Value, each_own: bool = True, written: bool = False) -> None:
        """Record an access of the next line, after a barrier if elements of other threads may not be ready.

        Parameters
        ----------
        value : Value
        each_own : bool
            True if thread i accesses only elements whose number is i modulo the number of threads.
        written : bool
            True for a write.
        """
        if not value.memory:
            return
        before = self.pending.get(value.memory, set())
        # reads do not conflict, nor do accesses of each thread to its own elements
        if any((written or was_written) and not (each_own and was_own) for was_written, was_own in before):
            self.add_barrier()
        self.pending.setdefault(value.memory, set()).add((written, each_own))

    def add_barrier(self) -> None:
        """Add a barrier for all threads."""
        self.add_line("__syncthreads();")
        self.pending.clear()

    def add_barrier_if_needed(self) -> None:
        """Add a barrier if arrays were accessed since the last."""
        if self.pending:
            self.add_barrier()

    def add_loop(self, count: int, lines: Sequence[str], cost: float = 1.0) -> None:
        """Add a loop over elements `i`, distributed over the threads."""
        self.note_elements(count, cost)
        self.lines += [f"EACH(i, {count})", *(["{", *lines, "}"] if len(lines) > 1 else [f"    {lines[0]}"])]

    def note_elements(self, count: int, cost: float) -> None:
        """Record the size of the next line's loop, for the number of threads and the cost."""
        self.widest = max(self.widest, count)
        # nanoseconds, estimated: a fixed part, and a part for each round of the threads
        self.made.cost += 700 + (60 + 20 * cost) * -(-count // threads_for(count))

    def map_elements(self, register: int, shape: Shape, expression: str, operands: Sequence[Value]) -> None:
        """Compute each element of a result from the elements of broadcast operands at the same place.

        Parameters
        ----------
        register : int
        shape : tuple of int
        expression : str
            C with {} for each operand.
        operands : sequence of Value
        """
        views = [broadcast(each, shape) for each in operands]
        made = self.make(register, shape)
        for each, view in zip(operands, views, strict=True):
            self.note_access(each, each_own=view.is_plain)
        self.note_access(made, written=True)
        codes = [each.at(view.index("i")) for each, view in zip(operands, views, strict=True)]
        self.assign(made, expression.format(*codes))

    def copy_elements(self, register: int, source: Value, view: Strided) -> None:
        """Copy elements of an array."""
        made = self.make(register, view.shape)
        self.note_access(source, each_own=view.is_plain and bool(view.shape))
        self.note_access(made, written=True)
        self.assign(made, source.at(view.index("i")))

    def assign(self, made: Value, text: str) -> None:
        """Assign to an element, or to each element `i` of an array."""
        if made.is_element:
            self.add_line(f"{made.code} = {text};")
        else:
            self.add_loop(made.size, [f"{made.code}[i] = {text};"])

    def fail_if(self, condition: str) -> None:
        """Give up if a condition on elements holds, which is the same in all threads."""
        # no barrier is left waiting, because all threads leave together
        self.lines += [f"if ({condition})", "    LEAVE(GAVE_UP, pc)"]

    def fail_later(self) -> str:
        """Return C by which a single thread requests to give up the run."""
        self.may_fail = True
        return "failed = true"

    def check_failures(self, i: int) -> None:
        """Give up if any thread has requested to."""
        if self.may_fail:
            self.lines += ["if (__syncthreads_or(failed))", f"    LEAVE(GAVE_UP, {i})"]
            self.pending.clear()

    def add_function(self, text: str) -> str:
        """Return the name of a function of the source; `text` has the name ``NAME``."""
        return self.functions.setdefault(text, f"function_{len(self.functions)}")

    def begin_block(self, i: int) -> None:
        """Begin a block: a target of jumps, or a point of resumption."""
        self.add_barrier_if_needed()
        self.add_line(f"case {i}:")

    def compute(self, computation: Computation, each: Instruction) -> None:
        """Write an operation."""
        kind = self.dtype_of(each.inputs[0]).kind if each.inputs else ""
        emit = find_emitter(computation.type, computation.ufunc, kind)
        if emit is None:
            raise NotWritten(f"{computation.name} ({computation.type}) has no form in CUDA C")
        self.made.cost += 100
        emit(self, computation, [self.value(r) for r in each.inputs], each)


def _find_leaders(instructions: Sequence[Instruction]) -> set[int]:
    """Return the first instructions of blocks: jump targets, successors of jumps, and accesses that may lack room."""
    found = {0, *(target for each in instructions for target in each.targets)}
    for i, each in enumerate(instructions):
        if each.code in (Code.PUSH, Code.PUT, Code.NEST):
            found.add(i)
        if each.targets:
            found.add(i + 1)
    return found - {len(instructions)}


def _find_branch_instructions(instructions: Sequence[Instruction]) -> set[int]:
    """Return the instructions within branches, which may be skipped."""
    found: set[int] = set()
    for i, each in enumerate(instructions):
        if each.code is Code.SELECT:
            (join,) = instructions[each.targets[1] - 1].targets
            found.update(range(i + 1, join))
    return found
