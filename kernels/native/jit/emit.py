"""The steps of a run as LLVM's intermediate representation.

One function walks over the steps as `_walk` in ``run.pyx`` does, and may take over from it, or hand over to it,
wherever steps are suspended. Elements in cells that no kernel sees as an array are values of the function while it
runs. Few elements at once, and products of a few, are computed in line; all else is called as the steps say. All
addresses are read from the steps, none is part of the code.

No flag lets LLVM reorder, contract or ignore anything of floating-point numbers.

See docs/design/0026-compiled-loops.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..run import Status, StepCode, Verdict
from .listed import CONSTANT, Layout, ListedStep, Product
from .rules import rule_of
from .types import Value, element_type, like, size_of, vector_of, zero
from .writer import Writer

FEW = 64  # elements that are computed in line
LANES = 16  # of these, at most, at once
TINY = 64  # multiplications of a product in line; larger ones are BLAS's


def emit(steps: Sequence[ListedStep], layout: Layout) -> str:
    """Return a module with a function `run` for steps, of type `Code` in ``run.pxd``."""
    return _Emitter(steps, layout).module()


class _Emitter(Writer):
    def __init__(self, steps: Sequence[ListedStep], layout: Layout) -> None:
        super().__init__()
        self.steps = steps
        self.layout = layout
        self.cells = self._types_of_cells()
        self.early: list[str] = []  # instructions in front of all steps
        self.known: dict[tuple[int, int, str], Value] = {}  # what these load, by step, field and type
        self.resumes = sorted(
            {s.target for s in steps if s.code == StepCode.GO_BACK}
            | {i for i, s in enumerate(steps) if s.code in (StepCode.PUSH_ROW, StepCode.CALL)}
        )

    def module(self) -> str:
        """Write the function."""
        leaders = self._leaders()
        begin = self._entry()
        for i, step in enumerate(self.steps):
            if i in leaders:
                if i and not self._is_closed():
                    self.add(f"br label %s{i}")
                self.lines.append(f"s{i}:")
            self._step(i, step)
        self._exit()
        lines = [*self.early, f"  {begin}", *self.lines]
        declared = (f"declare {each}" for each in sorted(self.intrinsics))
        head = "define i32 @run(ptr noundef %steps, ptr noundef %cells, ptr noundef %execution) nounwind {"
        return "\n".join([*declared, head, *lines, "}", ""])

    def _types_of_cells(self) -> dict[int, str]:
        """Return the types of the elements in cells; cells that elements are copied between have one type."""
        types: dict[int, str] = {}
        for step in self.steps:
            for cell, type_ in zip(step.cells, _types_of_operands(step), strict=False):
                if cell >= 0 and type_:
                    types.setdefault(cell, type_)
        copies = [s.cells[:2] for s in self.steps if s.code == StepCode.COPY_8 and min(s.cells[:2]) >= 0]
        for _ in range(2):
            for target, source in copies:
                if target in types or source in types:
                    known = types.get(target) or types[source]
                    types.setdefault(target, known)
                    types.setdefault(source, known)
            copies.reverse()
        every = sorted({cell for step in self.steps for cell in step.cells if cell >= 0})
        return {cell: types.get(cell, "i64") for cell in every}

    def _leaders(self) -> set[int]:
        """Return the steps that others go on at."""
        found = {0, *self.resumes}
        for i, step in enumerate(self.steps):
            if step.code in (StepCode.GO, StepCode.GO_BACK, StepCode.GO_UNLESS):
                found |= {step.target, i + 1}
            elif step.code == StepCode.GO_TO:
                found |= {*step.targets, i + 1}
        return found

    def _is_closed(self) -> bool:
        return self.lines[-1].lstrip().startswith(("br ", "switch ", "ret "))

    # Memory

    def field(self, i: int, offset: int, type_: str = "ptr") -> Value:
        """Return a field of a step that no step changes."""
        key = i, offset, type_
        if key not in self.known:
            with self.up_front():
                self.known[key] = self.let(type_, f"load {type_}, {self.place(i, offset)}")
        return self.known[key]

    @contextmanager
    def up_front(self) -> Iterator[None]:
        """Write in front of all steps."""
        self.lines, self.early = self.early, self.lines
        yield
        self.lines, self.early = self.early, self.lines

    def place(self, i: int, offset: int) -> Value:
        """Return where a field of a step is."""
        return self.let("ptr", f"getelementptr i8, ptr %steps, i64 {i * self.layout.step + offset}")

    def operand(self, i: int, k: int) -> Value:
        """Return the address of an operand that is no value of the function."""
        return self.field(i, self.layout.operands + 8 * k)

    def read(self, i: int, k: int, type_: str) -> Value:
        """Return the element that an operand is."""
        cell = self.steps[i].cells[k]
        if cell == CONSTANT:
            return self._constant(i, k, type_)
        if cell < 0:
            return self.let(type_, f"load {type_}, {self.operand(i, k)}, align {size_of(type_)}")
        held = self.cells[cell]
        value = self.let(held, f"load {held}, ptr %cell{cell}")
        return value if held == type_ else self.from_bits(self.to_bits(value), type_)

    def _constant(self, i: int, k: int, type_: str) -> Value:
        key = i, -k - 1, type_
        if key not in self.known:
            pointer = self.operand(i, k)
            with self.up_front():
                self.known[key] = self.let(type_, f"load {type_}, {pointer}, align {size_of(type_)}")
        return self.known[key]

    def write(self, i: int, k: int, value: Value) -> None:
        """Make an element the one that an operand is."""
        cell = self.steps[i].cells[k]
        if cell < 0:
            self.add(f"store {value}, ptr {self.operand(i, k).name}, align {size_of(value.type)}")
            return
        if self.cells[cell] != value.type:
            value = self.from_bits(self.to_bits(value), self.cells[cell])
        self.add(f"store {value}, ptr %cell{cell}")

    def spill(self, step: ListedStep) -> None:
        """Put the elements that a step sees where it looks for them."""
        for cell in _cells(step):
            self.add(f"store {self._held(cell)}, ptr {self._home(cell).name}")

    def fill(self, step: ListedStep) -> None:
        """Take the elements that a step may have changed."""
        for cell in _cells(step):
            self._take(cell)

    def _held(self, cell: int) -> Value:
        type_ = self.cells[cell]
        return self.to_bits(self.let(type_, f"load {type_}, ptr %cell{cell}"))

    def _take(self, cell: int) -> None:
        bits = self.let("i64", f"load i64, ptr {self._home(cell).name}")
        self.add(f"store {self.from_bits(bits, self.cells[cell])}, ptr %cell{cell}")

    def _home(self, cell: int) -> Value:
        return self.let("ptr", f"getelementptr i64, ptr %cells, i64 {cell}")

    # The frame

    def _counted(self) -> Iterator[int]:
        """Yield the steps that count how often they go."""
        yield from (i for i, s in enumerate(self.steps) if s.code in (StepCode.GO_BACK, StepCode.GO_UNLESS))

    def _entry(self) -> str:
        """Write what is in front of all steps but for the jump to the first of them, which is returned."""
        self.lines.append("entry:")
        for cell, type_ in self.cells.items():
            self.add(f"%cell{cell} = alloca {type_}")
        for i in self._counted():
            self.add(f"%count{i} = alloca i64")
            self.add(f"store i64 0, ptr %count{i}")
        for name, type_ in (("left", "i64"), ("at", "i32"), ("status", "i32")):
            self.add(f"%{name} = alloca {type_}")
        for cell in self.cells:
            self._take(cell)
        left = self._execution(self.layout.left, "i64")
        self.add(f"store {left}, ptr %left")
        at = self._execution(self.layout.at, "i32")
        targets = " ".join(f"i32 {i}, label %s{i}" for i in self.resumes)
        self.lines, self.early = self.early, self.lines
        return f"switch {at}, label %s0 [{targets}]"

    def _execution(self, offset: int, type_: str) -> Value:
        place = self.let("ptr", f"getelementptr i8, ptr %execution, i64 {offset}")
        return self.let(type_, f"load {type_}, {place}")

    def _exit(self) -> None:
        """Put back what the function holds, and say how it ends."""
        self.lines.append("exit:")
        for cell in self.cells:
            self.add(f"store {self._held(cell)}, ptr {self._home(cell).name}")
        for i in self._counted():
            place = self.place(i, self.layout.amount)
            old, more = self.let("i64", f"load i64, {place}"), self.let("i64", f"load i64, ptr %count{i}")
            self.add(f"store {self.let('i64', f'add i64 {old.name}, {more.name}')}, {place}")
        at, status = self.let("i32", "load i32, ptr %at"), self.let("i32", "load i32, ptr %status")
        place = self.let("ptr", f"getelementptr i8, ptr %execution, i64 {self.layout.at}")
        self.add(f"store {at}, {place}")
        self.add(f"ret {status}")

    def _leave(self, status: Status, at: int) -> None:
        """End with a status; `at` is the step to go on with."""
        self.add(f"store i32 {int(status)}, ptr %status")
        self.add(f"store i32 {at}, ptr %at")
        self.add("br label %exit")

    def _leave_if(self, condition: Value, status: Status, at: int) -> None:
        """End if a condition holds."""
        self.count += 1
        leaves, stays = f"leave{self.count}", f"stay{self.count}"
        self.add(f"br {condition}, label %{leaves}, label %{stays}")
        self.lines.append(f"{leaves}:")
        self._leave(status, at)
        self.lines.append(f"{stays}:")

    # Steps

    def _step(self, i: int, step: ListedStep) -> None:
        code = step.code
        if code == StepCode.APPLY:
            self._apply(i, step)
        elif code in (StepCode.WORK, StepCode.WORK_TO):
            self._work(i, step)
        elif code == StepCode.COPY_8:
            self._copy_element(i, step)
        elif code == StepCode.COPY:
            self.intrinsics.add("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            pointers = f"{self.operand(i, 0)}, {self.operand(i, 1)}"
            self.add(f"call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {step.amount}, i1 false)")
        elif code == StepCode.ADD_ONE:
            self.write(i, 0, self.let("i64", f"add i64 {self.read(i, 0, 'i64').name}, 1"))
        elif code in (StepCode.PUSH_ROW, StepCode.CALL):
            self._act(i, step)
        elif code in (StepCode.GUARD_DIVISOR, StepCode.GUARD_EXPONENT):
            self._guard(i, step)
        elif code == StepCode.END:
            self._leave(Status.DONE, i)
        else:
            self._go(i, step)

    def _go(self, i: int, step: ListedStep) -> None:
        """Go on at another step."""
        if step.code == StepCode.GO:
            self.add(f"br label %s{step.target}")
        elif step.code == StepCode.GO_UNLESS:
            holds = self._is_true(self.read(i, 0, "i8"))
            self.add(f"br {holds}, label %s{i + 1}, label %ends{i}")
            self.lines.append(f"ends{i}:")
            self._add_to(f"%count{i}", 1)
            self.add(f"br label %s{step.target}")
        elif step.code == StepCode.GO_BACK:
            self._add_to(f"%count{i}", 1)
            left = self._add_to("%left", -1)
            is_over = self.let("i1", f"icmp sle i64 {left.name}, 0")
            self._leave_if(is_over, Status.SUSPENDED, step.target)
            self.add(f"br label %s{step.target}")
        else:
            value = self.read(i, 0, "i8" if step.amount == 1 else "i32")
            targets = " ".join(f"{value.type} {k}, label %s{t}" for k, t in enumerate(step.targets[:-1]))
            self.add(f"switch {value}, label %s{step.targets[-1]} [{targets}]")

    def _add_to(self, name: str, number: int) -> Value:
        value = self.let("i64", f"load i64, ptr {name}")
        value = self.let("i64", f"add i64 {value.name}, {number}")
        self.add(f"store {value}, ptr {name}")
        return value

    def _is_true(self, value: Value) -> Value:
        return self.let(like("i1", value.type), f"icmp ne {value}, {zero(value.type)}")

    def _copy_element(self, i: int, step: ListedStep) -> None:
        target, source = step.cells[:2]
        type_ = self.cells[target] if target >= 0 else self.cells[source] if source >= 0 else "i64"
        value = self.read(i, 1, type_)
        if target < 0:  # all eight bytes
            value = self.to_bits(value)
        self.write(i, 0, value)

    def _guard(self, i: int, step: ListedStep) -> None:
        """Give up where an inner loop would raise."""
        if step.amount != 1:
            self._act(i, step)
            return
        value = self.read(i, 0, f"i{8 * step.strides[0]}")
        test = "eq" if step.code == StepCode.GUARD_DIVISOR else "slt"
        self._leave_if(self.let("i1", f"icmp {test} {value}, 0"), Status.GAVE_UP, i)

    def _act(self, i: int, step: ListedStep) -> None:
        """Call what a step does."""
        act, place = self.field(i, self.layout.act), self.place(i, 0)
        self.spill(step)
        verdict = self.let("i32", f"call i32 {act.name}({place})")
        self.fill(step)
        self._leave_if(self._equals(verdict, Verdict.NO), Status.GAVE_UP, i)
        if step.code in (StepCode.PUSH_ROW, StepCode.CALL):
            self._leave_if(self._equals(verdict, Verdict.LATER), Status.NO_ROOM, i)

    def _equals(self, value: Value, number: int) -> Value:
        return self.let("i1", f"icmp eq {value}, {int(number)}")

    def _work(self, i: int, step: ListedStep) -> None:
        """Call what a kernel has left, or multiply small matrices."""
        if step.product is not None and self._product(i, step.product):
            return
        compute, arguments = self.field(i, self.layout.compute), self.field(i, self.layout.arguments)
        self.add(f"call void {compute.name}({arguments}, i32 0, i32 1)")
        declined = self.let("ptr", f"getelementptr i8, {arguments}, i64 {self.layout.declined}")
        declined = self.let("i64", f"load i64, {declined}")
        self._leave_if(self.let("i1", f"icmp ne {declined}, 0"), Status.GAVE_UP, i)
        if step.code == StepCode.WORK_TO:
            place = self.let("ptr", f"getelementptr i8, {arguments}, i64 {self.layout.result}")
            bits = self.let("i64", f"load i64, {place}")
            cell = step.cells[0]
            self.write(i, 0, bits if cell < 0 else self.from_bits(bits, self.cells[cell]))

    # Elements

    def _apply(self, i: int, step: ListedStep) -> None:
        """Compute a few elements, or call the inner loop."""
        types = [element_type(dtype) for dtype in step.dtypes]
        rule = rule_of(step)
        if rule is None or not all(types) or step.amount > FEW or not _are_in_order(step):
            self._call_loop(i, step)
            return
        signed = step.dtypes[0].kind == "i"
        at = 0
        while at < step.amount:
            lanes = min(LANES, 1 << (step.amount - at).bit_length() - 1)
            values = [self._load(i, k, type_, at, lanes) for k, type_ in enumerate(types[:-1])]
            made = rule(self, values, vector_of(types[-1], lanes), signed)
            if made is None:
                self._call_loop(i, step)
                return
            self._store(i, len(types) - 1, made, at)
            at += lanes

    def _call_loop(self, i: int, step: ListedStep) -> None:
        layout = self.layout
        loop, data = self.field(i, layout.loop), self.field(i, layout.data)
        places = [self.place(i, offset) for offset in (layout.operands, layout.amount, layout.strides)]
        self.spill(step)
        self.add(f"call void {loop.name}({', '.join(map(str, [*places, data]))})")
        self.fill(step)

    def _load(self, i: int, k: int, type_: str, at: int, lanes: int) -> Value:
        """Return elements of an operand, from number `at` on; one without a stride is the same for all."""
        step = self.steps[i]
        if step.cells[k] >= 0 or step.strides[k] == 0 or step.amount == 1:
            value = self.read(i, k, type_)
            return self.splat(value, lanes)
        return self.load(self.operand(i, k), type_, at, lanes)

    def _store(self, i: int, k: int, value: Value, at: int) -> None:
        if self.steps[i].amount == 1:
            self.write(i, k, value)
        else:
            self.store(self.operand(i, k), value, at)

    # Products

    def _product(self, i: int, product: Product) -> bool:
        """Multiply small matrices as `_small` in ``kernels/cpu/linear.pyx`` does: term by term, in order."""
        rows, columns, inner = product.rows, product.columns, product.inner
        if product.continues or rows * columns * inner > TINY:
            return False
        type_ = self._product_type(i)
        arguments = self.field(i, self.layout.arguments)
        a, b, target = (self._matrix(arguments, offset) for offset in self._places(product))
        left = self.load(a, type_, 0, rows * inner)
        right = self.load(b, type_, 0, inner * columns)
        total = target
        if product.copies:
            total = self._matrix(arguments, self.layout.product_total)
        for r in range(rows):
            sums = Value(zero(vector_of(type_, columns)), vector_of(type_, columns))
            if product.adds:
                sums = self.load(total, type_, r * columns, columns)
            for k in range(inner):
                at = k * rows + r if product.transposed_a else r * inner + k
                row = [c * inner + k if product.transposed_b else k * columns + c for c in range(columns)]
                x, y = self.pick(left, [at] * columns), self.pick(right, row)
                term = self.let(sums.type, f"fmul {x}, {y.name}")
                sums = self.let(sums.type, f"fadd {sums}, {term.name}")
            self.store(target, sums, r * columns)
        return True

    def _places(self, product: Product) -> tuple[int, int, int]:
        return self.layout.product_a, self.layout.product_b, self.layout.product_data

    def _product_type(self, i: int) -> str:
        return element_type(self.steps[i].dtypes[-1])

    def _matrix(self, arguments: Value, offset: int) -> Value:
        """Return where a matrix of a product lies."""
        place = self.let("ptr", f"getelementptr i8, {arguments}, i64 {offset}")
        return self.let("ptr", f"load ptr, {place}")


def _types_of_operands(step: ListedStep) -> list[str]:
    """Return the types of a step's operands as far as the step tells."""
    if step.code == StepCode.APPLY:
        return [element_type(dtype) for dtype in step.dtypes]
    if step.code == StepCode.ADD_ONE:
        return ["i64"]
    if step.code == StepCode.GO_UNLESS:
        return ["i8"]
    if step.code == StepCode.GO_TO:
        return ["i8" if step.amount == 1 else "i32"]
    return []


def _cells(step: ListedStep) -> list[int]:
    """Return the cells that a step sees."""
    return sorted({cell for cell in step.cells if cell >= 0})


def _are_in_order(step: ListedStep) -> bool:
    """Whether each operand's elements lie side by side, or it is one element for all; the result's lie side by side."""
    if step.amount == 1:
        return True
    sizes = [dtype.itemsize for dtype in step.dtypes]
    strides = step.strides[: len(sizes)]
    return strides[-1] == sizes[-1] and all(s in (0, size) for s, size in zip(strides, sizes, strict=True))
