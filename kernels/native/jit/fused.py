"""Fused operations as loops over vectors, in which a step's result is an LLVM value for the next steps.

Steps with a rule are computed at their uses; slices are loads from other columns, and a column repeated over a row is
computed by elements. Steps without a rule are calls, as in ``kernels/cpu/steps.pxd``, whose operands are first written
to memory: one loop writes the operands of all calls that are ready. For a sigmoid, only exp is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...steps import STEPS, StepCode, StepKind
from .listed import Fused, FusedLayout
from .rules import rule_named
from .types import Value, element_type, size_of, vector_of, zero_of
from .writer import Writer

VECTOR_BYTES = 64
MOST_SCRATCH = 1 << 17  # bytes of a thread's stack
ZERO = Value("0", "i64")


class Target(NamedTuple):
    """Destination of the elements of a register in a loop.

    Attributes
    ----------
    register : int
    to : int
        The register in whose memory the elements go,
    column : int
        and their first column.
    negated : bool
        True to negate the elements.
    """

    register: int
    to: int
    column: int = 0
    negated: bool = False


def _as_constant(number: int) -> Value:
    return Value(str(number), "i64")


def can_be_loops(fused: Fused) -> bool:
    """Return True if all steps of a fused operation are supported here."""
    return bool(element_type(fused.dtype)) and all(map(_is_known, *zip(*_with_operands(fused), strict=True)))


def _with_operands(fused: Fused) -> Iterator[tuple[str, int, list[int], list[bool]]]:
    """Yield each step's name, its width, its operands' widths, and whether each operand has truth values."""
    first = len(fused.widths) - len(fused.steps)
    compares = {i for i, (name, _, _) in enumerate(fused.steps, first) if STEPS[name].kind is StepKind.COMPARE}
    for i, (name, operands, _) in enumerate(fused.steps, first):
        yield name, fused.widths[i], [fused.widths[k] for k in operands], [k in compares for k in operands]


def _is_known(name: str, width: int, widths: list[int], truths: list[bool]) -> bool:
    if any(truths) and (name != "where" or any(truths[1:])):
        return False
    if _is_lazy(name):
        return True
    if STEPS[name].is_elementwise:  # a single call over all elements, so without repeated columns
        return all(w in (0, width) for w in widths)
    return True


def _is_lazy(name: str) -> bool:
    """Return True if a step is computed at its uses."""
    return name in ("slice", "broadcast") or _has_rule(name)


def _has_rule(name: str) -> bool:
    return rule_named(name) is not None


class FusedLoops:
    """The loops and calls of a fused operation.

    Parameters
    ----------
    to : Writer
        Destination of the code.
    layout : FusedLayout
    arguments : Value
        The address of the operation's deferred work.
    fused : Fused
    """

    def __init__(self, to: Writer, layout: FusedLayout, arguments: Value, fused: Fused) -> None:
        self.to: Writer = to
        self.fused: Fused = fused
        self.first: int = len(fused.widths) - len(fused.steps)
        self.rows: Value = _as_constant(fused.rows)
        self.widths: Sequence[int] = fused.widths
        self.results: set[int] = set(fused.results)
        self.type: str = element_type(fused.dtype)
        self.lanes: int = VECTOR_BYTES // size_of(self.type)
        self.in_memory: set[int] = set(range(self.first))
        self.exps: set[int] = set()  # sigmoids whose memory holds exp(-x) of their operands
        self.layout: FusedLayout = layout
        self.registers: Value = self._load_field(arguments, self.layout.registers)
        self.steps: Value = self._load_field(arguments, self.layout.steps)
        self.places: dict[int, Value] = {}
        self.values: dict[tuple[int, int], Value] = {}  # values in the current loop, by register and column
        self.index: dict[int, Value] = {}  # index of the current element, by the width of rows
        self.row: Value = ZERO
        self.column: Value = ZERO
        self.width: int = 1  # columns of the loop
        self.at: int = 1  # lanes of the current vectors

    def _load_field(self, struct: Value, offset: int, type_: str = "ptr") -> Value:
        place = self.to.let("ptr", f"getelementptr i8, {struct}, i64 {offset}")
        return self.to.let(type_, f"load {type_}, {place}")

    def write(self) -> None:
        """Write all loops and calls."""
        waiting = [i for i in range(self.first, len(self.widths)) if not _is_lazy(self._step_of(i)[0])]
        while waiting:
            ready = [i for i in waiting if not self._needed_registers(i).intersection(waiting)]
            self._write_operands(ready, [i for i in waiting if i not in ready])
            for i in ready:
                self._call_step(i)
            waiting = [i for i in waiting if i not in ready]
            self._finish_sliced_sigmoids()
        self._write_targets([Target(i, i) for i in sorted(self.results - self.in_memory)], [])

    def _step_of(self, i: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        return self.fused.steps[i - self.first]

    def _needed_registers(self, i: int) -> set[int]:
        """Return the registers needed before a call: its operands, and through lazy steps the operands of these."""
        found: set[int] = set()
        left = list(self._step_of(i)[1])
        while left:
            k = left.pop()
            if k in found or k in self.in_memory or k in self.exps:
                continue
            found.add(k)
            if k >= self.first and _is_lazy(self._step_of(k)[0]):
                left += self._step_of(k)[1]
        return found

    def _write_operands(self, ready: Sequence[int], later: Sequence[int]) -> None:
        """Write the operands of calls, and all parts of concatenations, to memory."""
        targets = []
        for i in ready:
            name, operands, _ = self._step_of(i)
            column = 0
            for k in operands:
                if name == "concat":
                    targets.append(Target(k, i, column))
                    column += abs(self.widths[k])
                elif name == "sigmoid":
                    targets.append(Target(k, i, negated=True))
                elif k not in self.in_memory:
                    targets.append(Target(k, k))
        self._write_targets(list(dict.fromkeys(targets)), later)

    def _finish_sliced_sigmoids(self) -> None:
        """Finish sigmoids with slices, so that each element is computed only once."""
        cut = {k for name, operands, _ in self.fused.steps if name == "slice" for k in operands}
        targets = [Target(i, i) for i in sorted(self.exps & cut - self.in_memory)]
        self._write_targets(targets, [])

    def _call_step(self, i: int) -> None:
        """Call the inner loop of a step over whole registers, or for each row of a reduction."""
        name, operands, _ = self._step_of(i)
        size = size_of(self.type)
        if STEPS[name].kind is StepKind.REDUCE:
            self._fold_rows(i, name, operands[0])
        elif name != "concat":
            operands = (i, i) if name == "sigmoid" else (*operands, i)
            strides = [size if self.widths[k] else 0 for k in operands]
            self._call_loop(
                i,
                [self._register_address(k) for k in operands],
                strides,
                self._multiply_count(self.rows, self.widths[i]),
            )
        (self.exps if name == "sigmoid" else self.in_memory).add(i)

    def _call_loop(self, i: int, places: Sequence[Value], strides: Sequence[int], count: Value) -> None:
        to = self.to
        step = to.let("ptr", f"getelementptr i8, {self.steps}, i64 {(i - self.first) * self.layout.step_size}")
        loop, last = self._load_field(step, self.layout.loop), self._load_field(step, self.layout.last)
        pointers, number = to.add_local_array("ptr", places), to.add_local_array("i64", [count])
        steps = to.add_local_array("i64", [_as_constant(s) for s in strides])
        to.add_line(f"call void {loop.name}({pointers}, {number}, {steps}, {last})")

    def _fold_rows(self, i: int, name: str, operand: int) -> None:
        """Fold the elements of each row, as `_fold` in ``kernels/cpu/steps.pxd``."""
        to, size, width = self.to, size_of(self.type), self.widths[operand]
        made, elements = self._register_address(i), self._register_address(operand)
        with self._write_loop(ZERO, self.rows, 1) as row:
            start = to.let("i64", f"mul {row}, {width}")
            place = to.let("ptr", f"getelementptr {self.type}, {made}, {row}")
            first = to.let("ptr", f"getelementptr {self.type}, {elements}, {start}")
            begin = Value(zero_of(self.type), self.type)
            if STEPS[name].code is StepCode.EXTREME:
                begin = to.let(self.type, f"load {self.type}, {first}")
            to.add_line(f"store {begin}, {place}")
            # as in a ufunc's reduction, result and first operand are one element, with stride 0
            self._call_loop(i, [place, first, place], [0, size, 0], _as_constant(width))
            if STEPS[name].code is StepCode.MEAN:
                self._divide_element(place, width)

    def _divide_element(self, place: Value, width: int) -> None:
        """Divide the element at a place by a number, in double precision."""
        to = self.to
        total = to.let(self.type, f"load {self.type}, {place}")
        if self.type != "double":
            total = to.let("double", f"fpext {total} to double")
        mean = to.let("double", f"fdiv {total}, {width}.0")
        if self.type != "double":
            mean = to.let(self.type, f"fptrunc {mean} to {self.type}")
        to.add_line(f"store {mean}, {place}")

    # Loops

    def _write_targets(self, targets: Sequence[Target], later: Sequence[int]) -> None:
        """Write a loop for all targets of each width, storing also values that later steps need."""
        for width in dict.fromkeys(abs(self.widths[each.register]) for each in targets):
            chosen = [each for each in targets if abs(self.widths[each.register]) == width]
            self._write_loops(chosen, width, set().union(self.results, *(self._needed_registers(i) for i in later)))

    def _write_loops(self, targets: Sequence[Target], width: int, wanted: set[int]) -> None:
        """Write the loops for targets of one width: over rows, and in each over vectors and remaining elements."""
        self._look_up(sorted(self._accessed_registers(targets) | self.results))
        rows, whole = self.rows, _as_constant(width)
        # as one long row, without partial vectors at the ends of rows
        if self._is_dense(targets, width):
            rows, whole = _as_constant(1), self._multiply_count(self.rows, width)
        vectors = self._whole_vectors(whole, width)
        made: set[int] = set()
        with self._write_loop(ZERO, rows, 1) as row:
            for begin, end, lanes in ((ZERO, vectors, self.lanes), (vectors, whole, 1)):
                if begin != end:
                    with self._write_loop(begin, end, lanes) as column:
                        made = self._write_body(targets, width, wanted, row, column, lanes)
        self.in_memory |= made

    def _write_body(
        self, targets: Sequence[Target], width: int, wanted: set[int], row: Value, column: Value, lanes: int
    ) -> set[int]:
        """Compute and store elements at the current place; return the registers in memory after the loop."""
        self.values, self.index = {}, {}
        self.width, self.row, self.column, self.at = width, row, column, lanes
        for target in targets:
            value = self._value_of(target.register, 0)
            if target.negated:
                value = self.to.let(value.type, f"fneg {value}")
            self._store_elements(target.to, target.column, value)
        made = {each.to for each in targets if each.register == each.to}
        for register, shift in list(self.values):
            is_own = shift == 0 and self.widths[register] == width and register not in self.in_memory | made
            if is_own and register in wanted and not self._is_truth(register):
                self._store_elements(register, 0, self.values[register, 0])
                made.add(register)
        return made

    def _is_truth(self, i: int) -> bool:
        return i >= self.first and STEPS[self._step_of(i)[0]].kind is StepKind.COMPARE

    def _value_of(self, i: int, shift: int) -> Value:
        """Return the elements of a register at the current place, shifted by some columns."""
        if (i, shift) not in self.values:
            is_column = abs(self.widths[i]) == 1 != self.width and i not in self.in_memory | self.exps
            self.values[i, shift] = self._repeat_column(i) if is_column else self._compute_value(i, shift)
        return self.values[i, shift]

    def _repeat_column(self, i: int) -> Value:
        """Return a row's only element, repeated for all columns, computed as in a loop over a single column."""
        here = self.values, self.index, self.width, self.column, self.at
        self.values, self.index, self.width, self.column, self.at = {}, {}, 1, ZERO, 1
        value = self._value_of(i, 0)
        self.values, self.index, self.width, self.column, self.at = here
        return self.to.splat(value, self.at)

    def _compute_value(self, i: int, shift: int) -> Value:
        """Return the elements of a register: loaded, finished from exp, or computed by the step's rule."""
        if i in self.in_memory or i in self.exps:
            value = self._load_elements(i, shift)
            return self._finish_sigmoid(value) if i not in self.in_memory else value
        name, operands, columns = self._step_of(i)
        if name == "slice":
            return self._value_of(operands[0], shift + columns[0])
        if name == "broadcast":
            return self._value_of(operands[0], 0)
        values = [self._value_of(k, shift if abs(self.widths[k]) == self.widths[i] else 0) for k in operands]
        type_ = vector_of("i8" if STEPS[name].kind is StepKind.COMPARE else self.type, self.at)
        rule = rule_named(name)
        made = rule and rule(self.to, values, type_, True)
        assert made is not None, name
        return made

    def _finish_sigmoid(self, value: Value) -> Value:
        """Return the sigmoid 1 / (1 + x) of x = exp(-operand)."""
        one = self.to.splat(Value("1.0", self.type), self.at)
        total = self.to.let(value.type, f"fadd {one}, {value.name}")
        return self.to.let(value.type, f"fdiv {one}, {total.name}")

    def _load_elements(self, i: int, shift: int) -> Value:
        """Return loaded elements: a scalar or a row's only element is repeated for all lanes."""
        width = self.widths[i]
        if width == 0:
            return self.to.splat(self.to.let(self.type, f"load {self.type}, {self._register_address(i)}"), self.at)
        if abs(width) == 1 != self.width:  # a single element for all columns
            place = self.to.let("ptr", f"getelementptr {self.type}, {self._register_address(i)}, {self._row_of(width)}")
            return self.to.splat(self.to.let(self.type, f"load {self.type}, {place}"), self.at)
        type_ = vector_of(self.type, self.at)
        place = self._element_address(i, shift)
        return self.to.let(type_, f"load {type_}, {place}, align {size_of(self.type)}")

    def _store_elements(self, i: int, column: int, value: Value) -> None:
        self.to.add_line(f"store {value}, {self._element_address(i, column)}, align {size_of(self.type)}")

    def _element_address(self, i: int, shift: int) -> Value:
        """Return the address of a register's element at the current place, shifted by some columns."""
        width = self.widths[i]
        if width not in self.index:
            self.index[width] = self.to.let("i64", f"add {self._row_of(width)}, {self.column.name}")
        place = self.to.let("ptr", f"getelementptr {self.type}, {self._register_address(i)}, {self.index[width]}")
        return self.to.let("ptr", f"getelementptr {self.type}, {place}, i64 {shift}") if shift else place

    def _row_of(self, width: int) -> Value:
        """Return the index at which the current row begins."""
        return self.to.let("i64", f"mul {self.row}, {max(width, 0)}")

    def _register_address(self, i: int) -> Value:
        """Return the address of a register's elements."""
        if i not in self.places:
            self.places[i] = self._load_field(self.registers, i * self.layout.register_size + self.layout.data)
        return self.places[i]

    def _look_up(self, registers: Sequence[int]) -> None:
        """Load the addresses of registers before a loop."""
        for i in registers:
            self._register_address(i)

    def _accessed_registers(self, targets: Sequence[Target]) -> set[int]:
        """Return the registers read or written by a loop for targets."""
        seen = {each.to for each in targets}
        left = [each.register for each in targets]
        while left:
            k = left.pop()
            seen.add(k)
            if k not in self.in_memory and k not in self.exps:
                left += [each for each in self._step_of(k)[1] if each not in seen]
        return seen

    def _is_dense(self, targets: Sequence[Target], width: int) -> bool:
        """Return True if a loop reads and writes all registers contiguously, across rows."""
        seen = self._accessed_registers(targets)
        names = [self._step_of(k)[0] for k in seen if k not in self.in_memory and k not in self.exps]
        return all(self.widths[k] in (0, width) for k in seen) and not {"slice", "broadcast"}.intersection(names)

    def _whole_vectors(self, count: Value, width: int) -> Value:
        """Return the number of elements in whole vectors, among rows of a width."""
        if count.name.isdigit():
            return _as_constant(int(count.name) // self.lanes * self.lanes)
        return count if width % self.lanes == 0 else self.to.let("i64", f"and {count}, {-self.lanes}")

    def _multiply_count(self, count: Value, by: int) -> Value:
        if count.name.isdigit():
            return _as_constant(int(count.name) * by)
        return count if by == 1 else self.to.let("i64", f"mul {count}, {by}")

    @contextmanager
    def _write_loop(self, begin: Value, end: Value, by: int) -> Iterator[Value]:
        """Write a loop over an index; no loop is needed for at most a single iteration."""
        are_known = begin.name.isdigit() and end.name.isdigit()
        if are_known and int(end.name) - int(begin.name) <= by:
            yield begin
            return
        to = self.to
        index, head, done = to.add_local("i64"), to.new_label("head"), to.new_label("done")
        to.add_line(f"store {begin}, {index}")
        if are_known:
            to.add_line(f"br label %{head}")
        else:
            to.add_line(f"br {to.let('i1', f'icmp slt {begin}, {end.name}')}, label %{head}, label %{done}")
        to.lines.append(f"{head}:")
        at = to.let("i64", f"load i64, {index}")
        yield at
        more = to.let("i64", f"add {at}, {by}")
        to.add_line(f"store {more}, {index}")
        to.add_line(f"br {to.let('i1', f'icmp slt {more}, {end.name}')}, label %{head}, label %{done}")
        to.lines.append(f"{done}:")


class FusedPart(FusedLoops):
    """A function for a part of the rows of a fused operation, block by block, with scratch memory on the stack.

    Parameters
    ----------
    layout : FusedLayout
    fused : Fused
    """

    def __init__(self, layout: FusedLayout, fused: Fused) -> None:
        super().__init__(Writer(), layout, Value("%arguments", "ptr"), fused)
        self.scratch: int = 0  # bytes

    def write_function(self, name: str) -> str | None:
        """Return the function, of type `Compute`; None if its scratch memory exceeds the limit for a stack."""
        to = self.to
        begin, end = self._first_row("%part"), self._first_row(to.let("i32", "add i32 %part, 1").name)
        data = {i: self._address_of_all_rows(i) for i in (*range(self.first), *self.results)}
        with self._write_loop(begin, end, self.fused.block) as at:
            for i, all_rows in data.items():
                row = self._multiply_count(at, max(self.widths[i], 0))
                self.places[i] = to.let("ptr", f"getelementptr {self.type}, {all_rows}, {row}")
            left = to.let("i64", f"sub {end}, {at.name}")
            self.rows = to.call_intrinsic("i64", "smin", left, _as_constant(self.fused.block))
            self.write()
        if self.scratch > MOST_SCRATCH:
            return None
        head = f"define internal void @{name}(ptr noundef %arguments, i32 noundef %part, i32 noundef %parts)"
        # probe-stack touches each page of the frame, so that an overflow hits the guard page
        return "\n".join(
            [f'{head} nounwind "probe-stack"="inline-asm" {{', "entry:", *to.early, *to.lines, "  ret void", "}"]
        )

    def _first_row(self, part: str) -> Value:
        """Return the first row of a part, by the same division as `_run_part` in ``kernels/cpu/fused.pyx``."""
        number, parts = (self.to.let("i64", f"sext i32 {name} to i64") for name in (part, "%parts"))
        return self.to.let("i64", f"sdiv {self._multiply_count(number, self.fused.rows)}, {parts.name}")

    def _address_of_all_rows(self, i: int) -> Value:
        return super()._register_address(i)

    def _look_up(self, registers: Sequence[int]) -> None:
        pass  # addresses of inputs are known, and only written registers need scratch memory

    def _register_address(self, i: int) -> Value:
        """Return the address of a register's elements for the rows of a block."""
        if i not in self.places:
            count = self.fused.block * abs(self.widths[i])
            self.scratch += count * size_of(self.type)
            with self.to.up_front():
                self.places[i] = self.to.let("ptr", f"alloca [{count} x {self.type}], align {VECTOR_BYTES}")
        return self.places[i]
