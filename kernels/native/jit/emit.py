"""The steps of a run in LLVM's intermediate representation.

The function runs the steps as `_walk` in ``run.pyx`` does, and each can take over from the other wherever steps are
suspended. Memory that all steps access as a whole, and no deferred work accesses, becomes a value of the function.
Inline are operations on few elements, small products, and fused operations (these also in functions of their own); all
else is called through the steps. All addresses are read from the steps, none is part of the code.

No flag permits LLVM to reorder, contract or ignore floating-point operations.

See docs/design/0026-compiled-loops.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, sleep

from .fused import FusedLoops, FusedPart, can_be_loops
from .held import writes_to
from .listed import Fused, Layout, ListedStep, Status, StepCode, Verdict
from .memory import Memory
from .products import SmallProduct
from .rules import rule_of
from .types import Value, element_of, element_type, lanes_of, size_of, vector_of, with_lanes_of, zero_of

FEW = 64  # most elements computed inline
LANES = 16  # most lanes of a vector, except for values of the function
LONGEST = 0.001  # approximate seconds between pauses without Python's lock
PAUSE = 0.00001  # seconds: long enough for another thread to wake up
_COUNTING = (StepCode.GO_BACK, StepCode.GO_UNLESS)
_ACTING = (StepCode.PUSH_ROW, StepCode.READ_ROW, StepCode.ADD_ROWS, StepCode.CALL)


def emit_module(steps: Sequence[ListedStep], layout: Layout) -> str:
    """Return a module with a function `run` for steps, of type `Code` in ``run.pxd``."""
    return _Emitter(steps, layout).write_module()


class _Emitter(Memory):
    def __init__(self, steps: Sequence[ListedStep], layout: Layout) -> None:
        super().__init__(steps, layout)
        self.written: set[int] = {number for step in steps for number in writes_to(step)}
        self.functions: list[str] = []  # functions called by `run`, or by a team of threads
        self.counting = [i for i, step in enumerate(steps) if step.code in _COUNTING]
        self.resumes = sorted(
            {s.target for s in steps if s.code == StepCode.GO_BACK}
            | {i for i, s in enumerate(steps) if s.code in _ACTING}
        )

    def write_module(self) -> str:
        """Write the function and return the module.

        Pauses release Python's lock, which other threads may be waiting for.
        """
        leaders = self._find_leaders()
        begin = self._write_entry()
        held_since = perf_counter()
        for i, step in enumerate(self.steps):
            if perf_counter() - held_since > LONGEST:
                sleep(PAUSE)
                held_since = perf_counter()
            if i in leaders:
                if i and not self._is_closed():
                    self.add_line(f"br label %s{i}")
                self.lines.append(f"s{i}:")
            self._write_step(i, step)
        self._write_exit()
        lines = [*self.early, f"  {begin}", *self.lines]
        declared = (f"declare {each}" for each in sorted(self.intrinsics))
        head = "define i32 @run(ptr noundef %steps, ptr noundef %cells, ptr noundef %execution) nounwind {"
        return "\n".join([*declared, *self.functions, head, *lines, "}", ""])

    def _find_leaders(self) -> set[int]:
        """Return the first steps of basic blocks: targets of jumps, steps after jumps, and points of resumption."""
        found = {0, *self.resumes}
        for i, step in enumerate(self.steps):
            if step.code in (StepCode.GO, StepCode.GO_BACK, StepCode.GO_UNLESS):
                found |= {step.target, i + 1}
            elif step.code == StepCode.GO_TO:
                found |= {*step.targets, i + 1}
        return found

    def _is_closed(self) -> bool:
        return self.lines[-1].lstrip().startswith(("br ", "switch ", "ret "))

    # The frame

    def _write_entry(self) -> str:
        """Write the code before the first step, and return the final jump to the step where the run resumes."""
        self.early.append("entry:")
        with self.up_front():
            for held in self.values.values():
                self.add_line(f"{held.name} = alloca {held.type}")
            for i in self.counting:
                self.add_line(f"%count{i} = alloca i64")
                self.add_line(f"store i64 0, ptr %count{i}")
            for name, type_ in (("left", "i64"), ("at", "i32"), ("status", "i32")):
                self.add_line(f"%{name} = alloca {type_}")
            for held in self.values.values():
                self.load_held(held)
            left = self._load_execution(self.layout.left, "i64")
            self.add_line(f"store {left}, ptr %left")
            at = self._load_execution(self.layout.at, "i32")
        targets = " ".join(f"i32 {i}, label %s{i}" for i in self.resumes)
        return f"switch {at}, label %s0 [{targets}]"

    def _load_execution(self, offset: int, type_: str) -> Value:
        place = self.let("ptr", f"getelementptr i8, ptr %execution, i64 {offset}")
        return self.let(type_, f"load {type_}, {place}")

    def _write_exit(self) -> None:
        """Write held values, counters and position back to memory, and return the status."""
        self.lines.append("exit:")
        for number, held in self.values.items():
            if number in self.written:
                self.store_held(held)
        for i in self.counting:
            place = self.field_address(i, self.layout.amount)
            old, more = self.let("i64", f"load i64, {place}"), self.let("i64", f"load i64, ptr %count{i}")
            self.add_line(f"store {self.let('i64', f'add {old}, {more.name}')}, {place}")
        at, status = self.let("i32", "load i32, ptr %at"), self.let("i32", "load i32, ptr %status")
        place = self.let("ptr", f"getelementptr i8, ptr %execution, i64 {self.layout.at}")
        self.add_line(f"store {at}, {place}")
        self.add_line(f"ret {status}")

    def _leave_with(self, status: Status, at: int) -> None:
        """End the function with a status; `at` is the step to resume at."""
        self.add_line(f"store i32 {int(status)}, ptr %status")
        self.add_line(f"store i32 {at}, ptr %at")
        self.add_line("br label %exit")

    def _leave_if(self, condition: Value, status: Status, at: int) -> None:
        """End the function if a condition holds."""
        leaves, stays = self.new_label("leave"), self.new_label("stay")
        self.add_line(f"br {condition}, label %{leaves}, label %{stays}")
        self.lines.append(f"{leaves}:")
        self._leave_with(status, at)
        self.lines.append(f"{stays}:")

    # Steps

    def _write_step(self, i: int, step: ListedStep) -> None:
        """Write a step."""
        code = step.code
        if code == StepCode.APPLY:
            self._write_loop(i, step)
        elif code in (StepCode.WORK, StepCode.WORK_TO):
            self._write_work(i, step)
        elif code in (StepCode.COPY, StepCode.COPY_8):
            self._copy_operand(i, step)
        elif code == StepCode.ADD_ONE:
            self.write_operand(i, 0, self.let("i64", f"add {self.read_operand(i, 0, 'i64')}, 1"))
        elif code == StepCode.PUSH_ROW:
            self._push_row(i, step)
        elif code == StepCode.READ_ROW:
            self._read_row(i, step)
        elif code == StepCode.ADD_ROWS:
            self._add_rows(i, step)
        elif code == StepCode.CALL:
            self._call_step(i, step)
        elif code in (StepCode.GUARD_DIVISOR, StepCode.GUARD_EXPONENT):
            self._write_guard(i, step)
        elif code == StepCode.END:
            self._leave_with(Status.DONE, i)
        else:
            self._write_jump(i, step)

    def _write_jump(self, i: int, step: ListedStep) -> None:
        """Continue at another step."""
        if step.code == StepCode.GO:
            self.add_line(f"br label %s{step.target}")
        elif step.code == StepCode.GO_UNLESS:
            holds = self._is_true(self.read_operand(i, 0, "i8"))
            self.add_line(f"br {holds}, label %s{i + 1}, label %ends{i}")
            self.lines.append(f"ends{i}:")
            self._add_to(f"%count{i}", 1)
            self.add_line(f"br label %s{step.target}")
        elif step.code == StepCode.GO_BACK:
            self._add_to(f"%count{i}", 1)
            # the budget of iterations: a long loop must yield to its event loop
            left = self._add_to("%left", -1)
            self._leave_if(self.let("i1", f"icmp sle {left}, 0"), Status.SUSPENDED, step.target)
            self.add_line(f"br label %s{step.target}")
        else:
            value = self.read_operand(i, 0, "i8" if step.amount == 1 else "i32")
            targets = " ".join(f"{value.type} {k}, label %s{t}" for k, t in enumerate(step.targets[:-1]))
            self.add_line(f"switch {value}, label %s{step.targets[-1]} [{targets}]")

    def _add_to(self, name: str, number: int) -> Value:
        value = self.let("i64", f"load i64, ptr {name}")
        value = self.let("i64", f"add {value}, {number}")
        self.add_line(f"store {value}, ptr {name}")
        return value

    def _is_true(self, value: Value) -> Value:
        return self.let(with_lanes_of("i1", value.type), f"icmp ne {value}, {zero_of(value.type)}")

    def _copy_operand(self, i: int, step: ListedStep) -> None:
        """Copy an operand: between held values, by up to eight bytes, or by memcpy."""
        target, source = self.held_value(i, 0), self.held_value(i, 1)
        if target is not None and source is not None and target.in_cell == source.in_cell:
            self.write_operand(i, 0, self.convert(self.read_operand(i, 1, source.type), target.type, target.in_cell))
        elif step.amount <= 8:
            self._copy_bits(i, f"i{8 * step.amount}")
        elif target is not None or source is not None:
            type_ = target.type if target is not None else f"<{step.amount} x i8>"
            self.write_operand(i, 0, self.read_operand(i, 1, type_))
        else:
            self._copy_bytes(self.operand_address(i, 0), self.operand_address(i, 1), step.amount)

    def _copy_bits(self, i: int, type_: str) -> None:
        """Copy up to eight bytes between cells, other held values, and memory of any alignment."""
        source, target = self.held_value(i, 1), self.held_value(i, 0)
        if source is None:
            bits = self.let(type_, f"load {type_}, {self.operand_address(i, 1)}, align 1")
        else:
            bits = self.convert(self.read_operand(i, 1, source.type), type_, source.in_cell)
        if target is None:
            self.add_line(f"store {bits}, {self.operand_address(i, 0)}, align 1")
        else:
            self.write_operand(i, 0, self.convert(bits, target.type, target.in_cell))

    def _write_guard(self, i: int, step: ListedStep) -> None:
        """Give up where an inner loop would raise."""
        if step.amount != 1:
            self._call_step(i, step)
            return
        value = self.read_operand(i, 0, f"i{8 * step.strides[0]}")
        test = "eq" if step.code == StepCode.GUARD_DIVISOR else "slt"
        self._leave_if(self.let("i1", f"icmp {test} {value}, 0"), Status.GAVE_UP, i)

    def _call_step(self, i: int, step: ListedStep) -> None:
        """Call an acting step, and leave according to its verdict."""
        act, place = self.load_field(i, self.layout.act), self.field_address(i, 0)
        # the called function reads and writes memory, not the values of this one
        self.spill_held(step)
        verdict = self.let("i32", f"call i32 {act.name}({place})")
        self.reload_held(step)
        self._leave_if(self._is_equal(verdict, Verdict.NO), Status.GAVE_UP, i)
        if step.code in _ACTING:
            self._leave_if(self._is_equal(verdict, Verdict.LATER), Status.NO_ROOM, i)

    def _is_equal(self, value: Value, number: int) -> Value:
        return self.let("i1", f"icmp eq {value}, {int(number)}")

    def _write_work(self, i: int, step: ListedStep) -> None:
        """Run a kernel's deferred work, inline for small products and fused operations."""
        if step.product is not None and step.product.is_small:
            SmallProduct(self, i, step.product, self.written).write()
            return
        if step.fused is not None and can_be_loops(step.fused):
            self._write_fused(i, step.fused)
            return
        arguments = self._call_work(i)
        declined = self.let("ptr", f"getelementptr i8, {arguments}, i64 {self.layout.declined}")
        declined = self.let("i64", f"load i64, {declined}")
        self._leave_if(self.let("i1", f"icmp ne {declined}, 0"), Status.GAVE_UP, i)
        if step.code == StepCode.WORK_TO:
            place = self.let("ptr", f"getelementptr i8, {arguments}, i64 {self.layout.result}")
            bits = self.let("i64", f"load i64, {place}")
            held = self.held_value(i, 0)
            self.write_operand(i, 0, bits if held is None else self.convert(bits, held.type, held.in_cell))

    def _call_work(self, i: int) -> Value:
        """Call a kernel's deferred work; return the address of its arguments."""
        compute, arguments = self.load_field(i, self.layout.compute), self.load_field(i, self.layout.arguments)
        self.add_line(f"call void {compute.name}({arguments}, i32 0, i32 1)")
        return arguments

    def _write_fused(self, i: int, fused: Fused) -> None:
        """Write the loops of a fused operation; several blocks go to a function, shared by several threads."""
        arguments = self.load_field(i, self.layout.arguments)
        if fused.block == fused.rows:
            FusedLoops(self, self.layout.fused, arguments, fused).write()
            return
        part = FusedPart(self.layout.fused, fused)
        function = part.write_function(f"part{i}")
        if function is None:
            self._call_work(i)
            return
        self.functions.append(function)
        self.intrinsics |= part.to.intrinsics
        if not fused.is_shared:
            self.add_line(f"call void @part{i}({arguments}, i32 0, i32 1)")
            return
        size, given, place = self.layout.shared  # the team runs this function instead of the kernel's
        shared = self.add_local(f"[{size // 8} x i64]")
        self._copy_bytes(shared, arguments, given)
        self.add_line(f"store ptr @part{i}, {self.let('ptr', f'getelementptr i8, {shared}, i64 {place}')}")
        self.add_line(f"call void {self.load_field(i, self.layout.compute).name}({shared}, i32 0, i32 1)")

    # Rows

    @contextmanager
    def _call_unless(self, i: int, step: ListedStep, quick: Value) -> Iterator[None]:
        """Write the inline form of a step, and a call for the case that a condition does not hold."""
        inline, called, done = self.new_label("quick"), self.new_label("called"), self.new_label("done")
        self.add_line(f"br {quick}, label %{inline}, label %{called}")
        self.lines.append(f"{called}:")
        self._call_step(i, step)
        self.add_line(f"br label %{done}")
        self.lines.append(f"{inline}:")
        yield
        self.add_line(f"br label %{done}")
        self.lines.append(f"{done}:")

    def _load_at(self, pointer: Value, offset: int, type_: str) -> Value:
        """Load a field of a struct."""
        place = self.let("ptr", f"getelementptr i8, {pointer}, i64 {offset}")
        return self.let(type_, f"load {type_}, {place}")

    def _push_row(self, i: int, step: ListedStep) -> None:
        """Write a row to the current block of a series."""
        first, slots, data, written = self.layout.block
        writer, index = self.operand_address(i, 0), self.read_operand(i, 2, "i64")
        at = self.let("i64", f"sub {index}, {self._load_at(writer, first, 'i64').name}")
        is_in = self.let("i1", f"icmp ult {at}, {self._load_at(writer, slots, 'i64').name}")
        with self._call_unless(i, step, is_in):
            offset = self.let("i64", f"mul {at}, {step.amount}")
            row = self.let("ptr", f"getelementptr i8, {self._load_at(writer, data, 'ptr')}, {offset}")
            if step.num_places is None:
                self._copy_out(i, 1, row, step.amount)
            else:
                self._point_to(i, step.num_places, row)
            flag = self.let("ptr", f"getelementptr i8, {self._load_at(writer, written, 'ptr')}, {at}")
            self.add_line(f"store i8 1, {flag}")

    def _read_row(self, i: int, step: ListedStep) -> None:
        """Read a row of a series, if present."""
        rows, count, is_last = self.layout.reader
        reader, index = self.operand_address(i, 0), self.read_operand(i, 2, f"i{8 * step.sizes[2]}")
        if index.type != "i64":
            index = self.let("i64", f"sext {index} to i64")
        is_in = self.let("i1", f"icmp ult {index}, {self._load_at(reader, count, 'i64').name}")
        safe = self.let("i64", f"select {is_in}, {index}, i64 0")
        # without a branch: an index out of range reads a valid address, whose value is ignored
        none = self.let("ptr", f"select {is_in}, {self._load_at(reader, rows, 'ptr')}, {reader}")
        place = self.let("ptr", f"getelementptr ptr, {none}, {safe}")
        row = self.let("ptr", f"load ptr, {place}")
        is_there = self.let("i1", f"icmp ne {row}, null")
        with self._call_unless(i, step, self.let("i1", f"and {is_in}, {is_there.name}")):
            if step.num_places is None:
                self._copy_in(i, 1, row, step.amount)
            else:
                self._point_to(i, step.num_places, row)
            last = self.let("i1", f"icmp ne {self._load_at(reader, is_last, 'i32')}, 0")
            kept = self.let("ptr", f"select {last}, ptr null, {row}")
            self.add_line(f"store {kept}, {place}")

    def _point_to(self, i: int, num_places: int, row: Value) -> None:
        """Store a row's address, plus an offset, in all places that refer to the row."""
        size, at, offset = self.layout.place
        for k in range(num_places):
            address, shift = self._known_place(i, k * size + at, "ptr"), self._known_place(i, k * size + offset, "i64")
            place = self.let("ptr", f"getelementptr i8, {row}, {shift}")
            self.add_line(f"store {place}, {address}")

    def _known_place(self, i: int, offset: int, type_: str) -> Value:
        """Load a constant field of a step's places."""
        key = "place", i, offset, type_
        if key not in self.known:
            places = self.load_field(i, self.layout.places)
            with self.up_front():
                self.known[key] = self._load_at(places, offset, type_)
        return self.known[key]

    def _add_rows(self, i: int, step: ListedStep) -> None:
        """Append rows to both factors of a sum of products, until a product is due."""
        gathered, quick, *factors = self.layout.sum
        sum_ = self.operand_address(i, 0)
        rows = self._load_at(sum_, gathered, "i64")
        is_quick = self.let("i1", f"icmp sle {rows}, {self._load_at(sum_, quick, 'i64').name}")
        with self._call_unless(i, step, is_quick):
            for k, factor in enumerate(factors, 1):
                offset = self.let("i64", f"mul {rows}, {step.sizes[k] // step.amount}")
                place = self.let("ptr", f"getelementptr i8, {self._load_at(sum_, factor, 'ptr')}, {offset}")
                if k == len(factors) and step.num_places is not None:  # written in place already
                    self._point_to(
                        i, step.num_places, self.let("ptr", f"getelementptr i8, {place}, i64 {step.sizes[k]}")
                    )
                else:
                    self._copy_out(i, k, place, step.sizes[k])
            place = self.let("ptr", f"getelementptr i8, {sum_}, i64 {gathered}")
            self.add_line(f"store {self.let('i64', f'add {rows}, {step.amount}')}, {place}")

    def _copy_out(self, i: int, k: int, target: Value, size: int) -> None:
        """Copy an operand to an address."""
        held = self.held_value(i, k)
        if held is None:
            self._copy_bytes(target, self.operand_address(i, k), size)
            return
        type_ = f"i{8 * size}" if held.in_cell else held.type
        self.add_line(f"store {self.read_operand(i, k, type_)}, {target}, align {size_of(element_of(type_))}")

    def _copy_in(self, i: int, k: int, source: Value, size: int) -> None:
        """Copy bytes at an address to an operand."""
        held = self.held_value(i, k)
        if held is None:
            self._copy_bytes(self.operand_address(i, k), source, size)
            return
        type_ = f"i{8 * size}" if held.in_cell else held.type
        self.write_operand(i, k, self.let(type_, f"load {type_}, {source}, align {size_of(element_of(type_))}"))

    def _copy_bytes(self, target: Value, source: Value, size: int) -> None:
        self.intrinsics.add("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.add_line(f"call void @llvm.memcpy.p0.p0.i64({target}, {source}, i64 {size}, i1 false)")

    # Elements

    def _write_loop(self, i: int, step: ListedStep) -> None:
        """Compute few elements inline, or call the inner loop."""
        types = [element_type(dtype) for dtype in step.dtypes]
        rule = rule_of(step) if types and all(types) and step.amount <= FEW and _are_in_order(step) else None
        signed = bool(types) and step.dtypes[0].kind == "i"
        whole = any(held is not None and lanes_of(held.type) > 1 for held in map(self.held_value, [i] * 4, range(4)))
        at = 0
        while at < step.amount:
            lanes = step.amount if whole else min(LANES, 1 << (step.amount - at).bit_length() - 1)
            values = [self._load_operand(i, k, type_, at, lanes) for k, type_ in enumerate(types[:-1])] if rule else []
            made = rule(self, values, vector_of(types[-1], lanes), signed) if rule else None
            # on the first vector only: a rule covers all vectors or none
            if made is None:
                self._call_loop(i, step)
                return
            self._store_operand(i, len(types) - 1, made, at)
            at += lanes

    def _call_loop(self, i: int, step: ListedStep) -> None:
        layout = self.layout
        loop, data = self.load_field(i, layout.loop), self.load_field(i, layout.data)
        places = [self.field_address(i, offset) for offset in (layout.operands, layout.amount, layout.strides)]
        self.spill_held(step)
        self.add_line(f"call void {loop.name}({', '.join(map(str, [*places, data]))})")
        self.reload_held(step)

    def _load_operand(self, i: int, k: int, type_: str, at: int, lanes: int) -> Value:
        """Return elements of an operand, from number `at` on; stride 0 repeats a single element."""
        step = self.steps[i]
        if step.amount == 1 or step.strides[k] == 0:
            return self.splat(self.read_operand(i, k, type_), lanes)
        if self.held_value(i, k) is not None:
            return self.read_operand(i, k, vector_of(type_, lanes))
        return self.load(self.operand_address(i, k), type_, at, lanes)

    def _store_operand(self, i: int, k: int, value: Value, at: int) -> None:
        if self.steps[i].amount == 1 or self.held_value(i, k) is not None:
            self.write_operand(i, k, value)
        else:
            self.store(self.operand_address(i, k), value, at)


def _are_in_order(step: ListedStep) -> bool:
    """Return True if results are contiguous, and each operand is contiguous or a single repeated element."""
    if step.amount == 1:
        return True
    sizes = [dtype.itemsize for dtype in step.dtypes]
    strides = step.strides[: len(sizes)]
    return strides[-1] == sizes[-1] and all(s in (0, size) for s, size in zip(strides, sizes, strict=True))
