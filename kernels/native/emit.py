"""The steps of a run as LLVM's intermediate representation.

One function walks over the steps as `_walk` in ``run.pyx`` does, and may take over from it, or hand over to it, wherever
steps are suspended. Elements in cells that no kernel sees as an array are values of the function while it runs. Few
elements at once, and products of a few, are computed in line; all else is called as the steps say. All addresses are
read from the steps, none is part of the code.

Results are those of the inner loops to the last bit: no flag lets LLVM reorder, contract or ignore anything.

See docs/design/0026-compiled-loops.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .run import Status, StepCode, Verdict

FEW = 64  # elements that are computed in line
LANES = 16  # of these, at most, at once
TINY = 64  # multiplications of a product in line; larger ones are BLAS's


class Layout(NamedTuple):
    """Where fields of structs lie, in bytes, and the size of a step."""

    step: int
    operands: int
    strides: int
    count: int
    loop: int
    data: int
    compute: int
    act: int
    arguments: int
    at: int
    left: int
    declined: int
    result: int
    product_a: int
    product_b: int
    product_data: int
    product_total: int


@dataclass(frozen=True, slots=True)
class Product:
    """A product of matrices that a step computes: as `Product` in ``kernels/cpu/linear.pxd``, without addresses.

    Attributes
    ----------
    rows, columns, inner : int
    transposed_a, transposed_b : bool
        Whether a factor is stored with its rows as columns.
    adds : bool
        Whether the product is added to what is there.
    copies : bool
        Whether a total is copied there first.
    continues : bool
        Whether the factors go on elsewhere.
    """

    rows: int
    columns: int
    inner: int
    transposed_a: bool
    transposed_b: bool
    adds: bool
    copies: bool
    continues: bool


@dataclass(frozen=True, slots=True)
class ListedStep:
    """What code for a step depends on.

    Attributes
    ----------
    code : StepCode
    target, targets : int, tuple of int
        Steps.
    count : int
        Elements, or bytes; as `StepCode` says.
    strides : tuple of int
        Bytes, by operand.
    cells : tuple of int
        By operand, the number of the cell that it is, or -1.
    name : str
        Of an inner loop: the ufunc, or the operation.
    dtypes : tuple of numpy.dtype
        Of an inner loop's operands.
    product : Product or None
    """

    code: StepCode
    target: int
    targets: tuple[int, ...]
    count: int
    strides: tuple[int, ...]
    cells: tuple[int, ...]
    name: str = ""
    dtypes: tuple[np.dtype[Any], ...] = ()
    product: Product | None = None


def emit(steps: Sequence[ListedStep], layout: Layout) -> str:
    """Return a module with a function `run` for steps, of type `Code` in ``run.pxd``."""
    return _Emitter(steps, layout).module()


class _Value(NamedTuple):
    """What an instruction takes: a name or a literal, and its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def _element_type(dtype: np.dtype[Any]) -> str:
    """Return LLVM's type for an element, or an empty string."""
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    return {"float32": "float", "float64": "double", "bool": "i8"}.get(dtype.name, "")


def _kind(type_: str) -> str:
    return "f" if type_ in ("float", "double") else "i"


class _Emitter:
    def __init__(self, steps: Sequence[ListedStep], layout: Layout) -> None:
        self.steps = steps
        self.layout = layout
        self.lines: list[str] = []
        self.intrinsics: set[str] = set()
        self.count = 0
        self.cells = self._types_of_cells()
        self.resumes = sorted(
            {s.target for s in steps if s.code == StepCode.GO_BACK}
            | {i for i, s in enumerate(steps) if s.code in (StepCode.PUSH_ROW, StepCode.CALL)}
        )

    def module(self) -> str:
        """Write the function."""
        leaders = self._leaders()
        self._entry()
        for i, step in enumerate(self.steps):
            if i in leaders:
                if not self._is_closed():
                    self.add(f"br label %s{i}")
                self.lines.append(f"s{i}:")
            self._step(i, step)
        self._exit()
        declared = (f"declare {each}" for each in sorted(self.intrinsics))
        head = "define i32 @run(ptr noundef %steps, ptr noundef %cells, ptr noundef %execution) nounwind {"
        return "\n".join([*declared, head, *self.lines, "}", "!0 = !{}", ""])

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

    # Writing

    def add(self, line: str) -> None:
        """Write an instruction."""
        self.lines.append("  " + line)

    def let(self, type_: str, text: str) -> _Value:
        """Write an instruction with a result."""
        self.count += 1
        name = f"%v{self.count}"
        self.add(f"{name} = {text}")
        return _Value(name, type_)

    def call(self, type_: str, name: str, *values: _Value, more: str = "") -> _Value:
        """Call an intrinsic function of vectors or elements of a type."""
        suffix = _suffix(type_)
        arguments = ", ".join(map(str, values)) + more
        declared = ", ".join([v.type for v in values] + ["i1"] * bool(more))
        self.intrinsics.add(f"{type_} @llvm.{name}.{suffix}({declared})")
        return self.let(type_, f"call {type_} @llvm.{name}.{suffix}({arguments})")

    def _is_closed(self) -> bool:
        return self.lines[-1].lstrip().startswith(("br ", "switch ", "ret "))

    # Memory

    def field(self, i: int, offset: int, type_: str = "ptr") -> _Value:
        """Load a field of a step that no step changes."""
        place = self.place(i, offset)
        return self.let(type_, f"load {type_}, ptr {place.name}, !invariant.load !0")

    def place(self, i: int, offset: int) -> _Value:
        """Return where a field of a step is."""
        return self.let("ptr", f"getelementptr i8, ptr %steps, i64 {i * self.layout.step + offset}")

    def operand(self, i: int, k: int) -> _Value:
        """Return the address of an operand that is no value of the function."""
        return self.field(i, self.layout.operands + 8 * k)

    def read(self, i: int, k: int, type_: str) -> _Value:
        """Return the element that an operand is."""
        cell = self.steps[i].cells[k]
        if cell < 0:
            return self.let(type_, f"load {type_}, ptr {self.operand(i, k).name}, align {_size(type_)}")
        held = self.cells[cell]
        value = self.let(held, f"load {held}, ptr %cell{cell}")
        return value if held == type_ else self.from_bits(self.to_bits(value), type_)

    def write(self, i: int, k: int, value: _Value) -> None:
        """Make an element the one that an operand is."""
        cell = self.steps[i].cells[k]
        if cell < 0:
            self.add(f"store {value}, ptr {self.operand(i, k).name}, align {_size(value.type)}")
            return
        if self.cells[cell] != value.type:
            value = self.from_bits(self.to_bits(value), self.cells[cell])
        self.add(f"store {value}, ptr %cell{cell}")

    def to_bits(self, value: _Value) -> _Value:
        """Return the eight bytes that a cell holds for an element."""
        if _kind(value.type) == "f":
            bits = f"i{8 * _size(value.type)}"
            value = self.let(bits, f"bitcast {value} to {bits}")
        return value if value.type == "i64" else self.let("i64", f"zext {value} to i64")

    def from_bits(self, value: _Value, type_: str) -> _Value:
        """Return the element that eight bytes of a cell hold."""
        bits = f"i{8 * _size(type_)}"
        if bits != "i64":
            value = self.let(bits, f"trunc {value} to {bits}")
        return value if bits == type_ else self.let(type_, f"bitcast {value} to {type_}")

    def spill(self, step: ListedStep) -> None:
        """Put the elements that a step sees where it looks for them."""
        for cell in _cells(step):
            self.add(f"store {self._held(cell)}, ptr {self._home(cell).name}")

    def fill(self, step: ListedStep) -> None:
        """Take the elements that a step may have changed."""
        for cell in _cells(step):
            self._take(cell)

    def _held(self, cell: int) -> _Value:
        type_ = self.cells[cell]
        return self.to_bits(self.let(type_, f"load {type_}, ptr %cell{cell}"))

    def _take(self, cell: int) -> None:
        bits = self.let("i64", f"load i64, ptr {self._home(cell).name}")
        self.add(f"store {self.from_bits(bits, self.cells[cell])}, ptr %cell{cell}")

    def _home(self, cell: int) -> _Value:
        return self.let("ptr", f"getelementptr i64, ptr %cells, i64 {cell}")

    # The frame

    def _counted(self) -> Iterator[int]:
        """Yield the steps that count how often they go."""
        yield from (i for i, s in enumerate(self.steps) if s.code in (StepCode.GO_BACK, StepCode.GO_UNLESS))

    def _entry(self) -> None:
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
        self.add(f"switch {at}, label %s0 [{targets}]")

    def _execution(self, offset: int, type_: str) -> _Value:
        place = self.let("ptr", f"getelementptr i8, ptr %execution, i64 {offset}")
        return self.let(type_, f"load {type_}, ptr {place.name}")

    def _exit(self) -> None:
        """Put back what the function holds, and say how it ends."""
        self.lines.append("exit:")
        for cell in self.cells:
            self.add(f"store {self._held(cell)}, ptr {self._home(cell).name}")
        for i in self._counted():
            place = self.place(i, self.layout.count)
            old, more = self.let("i64", f"load i64, ptr {place.name}"), self.let("i64", f"load i64, ptr %count{i}")
            self.add(f"store {self.let('i64', f'add i64 {old.name}, {more.name}')}, ptr {place.name}")
        at, status = self.let("i32", "load i32, ptr %at"), self.let("i32", "load i32, ptr %status")
        place = self.let("ptr", f"getelementptr i8, ptr %execution, i64 {self.layout.at}")
        self.add(f"store {at}, ptr {place.name}")
        self.add(f"ret {status}")

    def _leave(self, status: Status, at: int) -> None:
        """End with a status; `at` is the step to go on with."""
        self.add(f"store i32 {int(status)}, ptr %status")
        self.add(f"store i32 {at}, ptr %at")
        self.add("br label %exit")

    def _leave_if(self, condition: _Value, status: Status, at: int) -> None:
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
            self.add(f"call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {step.count}, i1 false)")
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
            value = self.read(i, 0, "i8" if step.count == 1 else "i32")
            targets = " ".join(f"{value.type} {k}, label %s{t}" for k, t in enumerate(step.targets[:-1]))
            self.add(f"switch {value}, label %s{step.targets[-1]} [{targets}]")

    def _add_to(self, name: str, number: int) -> _Value:
        value = self.let("i64", f"load i64, ptr {name}")
        value = self.let("i64", f"add i64 {value.name}, {number}")
        self.add(f"store {value}, ptr {name}")
        return value

    def _is_true(self, value: _Value) -> _Value:
        return self.let(_like("i1", value.type), f"icmp ne {value}, {_zero(value.type)}")

    def _copy_element(self, i: int, step: ListedStep) -> None:
        target, source = step.cells[:2]
        type_ = self.cells[target] if target >= 0 else self.cells[source] if source >= 0 else "i64"
        value = self.read(i, 1, type_)
        if target < 0:  # all eight bytes
            value = self.to_bits(value)
        self.write(i, 0, value)

    def _guard(self, i: int, step: ListedStep) -> None:
        """Give up where an inner loop would raise."""
        if step.count != 1:
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

    def _equals(self, value: _Value, number: int) -> _Value:
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
        types = [_element_type(dtype) for dtype in step.dtypes]
        rule = _rule_of(step)
        if rule is None or not all(types) or step.count > FEW or not _are_in_order(step):
            self._call_loop(i, step)
            return
        signed = step.dtypes[0].kind == "i"
        at = 0
        while at < step.count:
            lanes = min(LANES, 1 << (step.count - at).bit_length() - 1)
            values = [self._load(i, k, type_, at, lanes) for k, type_ in enumerate(types[:-1])]
            made = rule(self, values, _vector(types[-1], lanes), signed)
            if made is None:
                self._call_loop(i, step)
                return
            self._store(i, len(types) - 1, made, at)
            at += lanes

    def _call_loop(self, i: int, step: ListedStep) -> None:
        layout = self.layout
        loop, data = self.field(i, layout.loop), self.field(i, layout.data)
        places = [self.place(i, offset) for offset in (layout.operands, layout.count, layout.strides)]
        self.spill(step)
        self.add(f"call void {loop.name}({', '.join(map(str, [*places, data]))})")
        self.fill(step)

    def _load(self, i: int, k: int, type_: str, at: int, lanes: int) -> _Value:
        """Return elements of an operand, from number `at` on; one without a stride is the same for all."""
        step = self.steps[i]
        if step.cells[k] >= 0 or step.strides[k] == 0 or step.count == 1:
            value = self.read(i, k, type_)
            return self.splat(value, lanes)
        return self.load(self.operand(i, k), type_, at, lanes)

    def _store(self, i: int, k: int, value: _Value, at: int) -> None:
        if self.steps[i].count == 1:
            self.write(i, k, value)
        else:
            self.store(self.operand(i, k), value, at)

    def load(self, pointer: _Value, type_: str, at: int, lanes: int) -> _Value:
        """Load elements that lie side by side."""
        place = self.let("ptr", f"getelementptr {type_}, {pointer}, i64 {at}")
        vector = _vector(type_, lanes)
        return self.let(vector, f"load {vector}, {place}, align {_size(type_)}")

    def store(self, pointer: _Value, value: _Value, at: int) -> None:
        """Store elements side by side."""
        element = _element(value.type)
        place = self.let("ptr", f"getelementptr {element}, {pointer}, i64 {at}")
        self.add(f"store {value}, {place}, align {_size(element)}")

    def splat(self, value: _Value, lanes: int) -> _Value:
        """Return an element as often as there are lanes."""
        if lanes == 1:
            return value
        vector = _vector(value.type, lanes)
        one = self.let(vector, f"insertelement {vector} poison, {value}, i64 0")
        return self.pick(one, [0] * lanes)

    def pick(self, value: _Value, lanes: Sequence[int]) -> _Value:
        """Return some lanes of a vector; one alone as an element."""
        if "x" not in value.type:
            return self.splat(value, len(lanes))
        if len(lanes) == 1:
            return self.let(_element(value.type), f"extractelement {value}, i64 {lanes[0]}")
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {value}, {value.type} poison, <{len(lanes)} x i32> <{mask}>"
        return self.let(_vector(_element(value.type), len(lanes)), text)

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
            sums = _Value(_zero(_vector(type_, columns)), _vector(type_, columns))
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
        return _element_type(self.steps[i].dtypes[-1])

    def _matrix(self, arguments: _Value, offset: int) -> _Value:
        place = self.let("ptr", f"getelementptr i8, {arguments}, i64 {offset}")
        return self.let("ptr", f"load ptr, {place}, !invariant.load !0")


def _types_of_operands(step: ListedStep) -> list[str]:
    """Return the types of a step's operands as far as the step tells."""
    if step.code == StepCode.APPLY:
        return [_element_type(dtype) for dtype in step.dtypes]
    if step.code == StepCode.ADD_ONE:
        return ["i64"]
    if step.code == StepCode.GO_UNLESS:
        return ["i8"]
    if step.code == StepCode.GO_TO:
        return ["i8" if step.count == 1 else "i32"]
    return []


def _cells(step: ListedStep) -> list[int]:
    """Return the cells that a step sees."""
    return sorted({cell for cell in step.cells if cell >= 0})


def _are_in_order(step: ListedStep) -> bool:
    """Whether each operand's elements lie side by side, or it is one element for all; the result's lie side by side."""
    if step.count == 1:
        return True
    sizes = [dtype.itemsize for dtype in step.dtypes]
    strides = step.strides[: len(sizes)]
    return strides[-1] == sizes[-1] and all(s in (0, size) for s, size in zip(strides, sizes, strict=True))


# Types


def _vector(type_: str, lanes: int) -> str:
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"


def _element(type_: str) -> str:
    """Return the type of the elements of a vector, or of one."""
    return type_.rstrip(">").rpartition(" ")[2]


def _like(type_: str, vector: str) -> str:
    """Return a type of as many lanes as another."""
    return vector.replace(_element(vector), type_)


def _size(type_: str) -> int:
    """Return the bytes of an element."""
    return {"float": 4, "double": 8}.get(type_) or int(type_[1:]) // 8


def _zero(type_: str) -> str:
    if "x" in type_:
        return "zeroinitializer"
    return "0.0" if _kind(type_) == "f" else "0"


def _suffix(type_: str) -> str:
    """Return a type as the names of intrinsic functions have it."""
    element = {"float": "f32", "double": "f64"}.get(_element(type_), _element(type_))
    return f"v{type_[1:].split(' ')[0]}{element}" if "x" in type_ else element


# What inner loops compute. A rule returns None where it says nothing of such elements.

_Rule = Callable[[_Emitter, Sequence[_Value], str, bool], "_Value | None"]


def _binary(floats: str | None = None, integers: str | None = None) -> _Rule:
    def rule(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
        text = floats if _kind(_element(type_)) == "f" else integers
        if text is None or values[0].type != type_:
            return None
        return to.let(type_, f"{text} {values[0]}, {values[1].name}")

    return rule


def _compare(floats: str, signed_test: str, unsigned_test: str) -> _Rule:
    def rule(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value:
        test = f"icmp {signed_test if signed else unsigned_test}"
        if _kind(_element(values[0].type)) == "f":
            test = f"fcmp {floats}"
        truth = to.let(_like("i1", type_), f"{test} {values[0]}, {values[1].name}")
        return to.let(type_, f"zext {truth} to {type_}")

    return rule


def _of_floats(name: str) -> _Rule:
    def rule(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
        return to.call(type_, name, *values) if _kind(_element(type_)) == "f" else None

    return rule


def _extreme(name: str) -> _Rule:
    """Of integers; which of two zeros or NaNs it is the inner loops know."""

    def rule(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
        return to.call(type_, ("s" if signed else "u") + name, *values) if _kind(_element(type_)) == "i" else None

    return rule


def _negative(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value:
    if _kind(_element(type_)) == "f":
        return to.let(type_, f"fneg {values[0]}")
    return to.let(type_, f"sub {type_} {_zero(type_)}, {values[0].name}")


def _absolute(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
    if _kind(_element(type_)) == "f":
        return to.call(type_, "fabs", *values)
    return to.call(type_, "abs", *values, more=", i1 false") if signed else None


def _square(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
    return _binary("fmul", "mul")(to, [values[0], values[0]], type_, signed)


def _squared_difference(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
    difference = _binary("fsub")(to, values, type_, signed)
    return difference and _square(to, [difference], type_, signed)


def _logical(text: str) -> _Rule:
    """Of truth values."""

    def rule(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
        if any(v.type != type_ for v in values):
            return None
        truths = [to.let(_like("i1", v.type), f"icmp ne {v}, {_zero(v.type)}") for v in values]
        truth = to.let(truths[0].type, f"{text} {truths[0]}, {truths[-1].name}")
        return to.let(type_, f"zext {truth} to {type_}")

    return rule


def _logical_not(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
    if values[0].type != type_:
        return None
    truth = to.let(_like("i1", type_), f"icmp eq {values[0]}, {_zero(type_)}")
    return to.let(type_, f"zext {truth} to {type_}")


def _is_nan(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
    return _compare("uno", "", "")(to, [values[0], values[0]], type_, signed) if _is_float(values) else None


def _where(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value:
    truth = to.let(_like("i1", values[0].type), f"icmp ne {values[0]}, {_zero(values[0].type)}")
    return to.let(type_, f"select {truth}, {values[1]}, {values[2]}")


def _is_float(values: Sequence[_Value]) -> bool:
    return _kind(_element(values[0].type)) == "f"


def _cast(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
    """From integers and truth values, and between floating-point types."""
    (value,) = values
    source, target = _element(value.type), _element(type_)
    if source == target:
        return value
    if _kind(source) == "f":
        if _kind(target) == "i":
            return None  # C does not say which one it is of a number that is too large
        return to.let(type_, f"{'fpext' if target == 'double' else 'fptrunc'} {value} to {type_}")
    if _kind(target) == "f":
        return to.let(type_, f"{'sitofp' if signed else 'uitofp'} {value} to {type_}")
    how = "trunc" if _size(target) < _size(source) else "sext" if signed else "zext"
    return to.let(type_, f"{how} {value} to {type_}")


def _floor(gives_rest: bool) -> _Rule:
    """Divide integers, none of which is zero, to the floor."""

    def rule(to: _Emitter, values: Sequence[_Value], type_: str, signed: bool) -> _Value | None:
        if _is_float(values):
            return None
        if not signed:
            return _binary(None, "urem" if gives_rest else "udiv")(to, values, type_, signed)
        return _floor_signed(to, *values, type_, gives_rest)

    return rule


def _floor_signed(to: _Emitter, x: _Value, y: _Value, type_: str, gives_rest: bool) -> _Value:
    truth, zero = _like("i1", type_), _zero(type_)
    one = to.splat(_Value("1", _element(type_)), _lanes(type_))
    minus_one = to.let(type_, f"sub {type_} {zero}, {one.name}")
    by_minus_one = to.let(truth, f"icmp eq {y}, {minus_one.name}")  # the processor traps where that overflows
    divisor = to.let(type_, f"select {by_minus_one}, {one}, {y}")
    rest = to.let(type_, f"srem {x}, {divisor.name}")
    left = to.let(truth, f"icmp ne {rest}, {zero}")
    sign = to.let(truth, f"icmp slt {to.let(type_, f'xor {rest}, {y.name}')}, {zero}")
    adjusts = to.let(truth, f"and {left}, {sign.name}")
    if gives_rest:
        adjusted = to.let(type_, f"add {rest}, {y.name}")
        rest = to.let(type_, f"select {adjusts}, {adjusted}, {rest}")
        return to.let(type_, f"select {by_minus_one}, {type_} {zero}, {rest}")
    quotient = to.let(type_, f"sdiv {x}, {divisor.name}")
    less = to.let(type_, f"sub {quotient}, {one.name}")
    quotient = to.let(type_, f"select {adjusts}, {less}, {quotient}")
    negated = to.let(type_, f"sub {type_} {zero}, {x.name}")
    return to.let(type_, f"select {by_minus_one}, {negated}, {quotient}")


def _lanes(type_: str) -> int:
    return int(type_[1:].split(" ")[0]) if "x" in type_ else 1


_RULES: dict[str, _Rule] = {
    "add": _binary("fadd", "add"),
    "subtract": _binary("fsub", "sub"),
    "multiply": _binary("fmul", "mul"),
    "divide": _binary("fdiv"),
    "bitwise_and": _binary(None, "and"),
    "bitwise_or": _binary(None, "or"),
    "bitwise_xor": _binary(None, "xor"),
    "negative": _negative,
    "absolute": _absolute,
    "square": _square,
    "sqrt": _of_floats("sqrt"),
    "floor": _of_floats("floor"),
    "ceil": _of_floats("ceil"),
    "trunc": _of_floats("trunc"),
    "rint": _of_floats("rint"),
    "maximum": _extreme("max"),
    "minimum": _extreme("min"),
    "equal": _compare("oeq", "eq", "eq"),
    "not_equal": _compare("une", "ne", "ne"),
    "less": _compare("olt", "slt", "ult"),
    "less_equal": _compare("ole", "sle", "ule"),
    "greater": _compare("ogt", "sgt", "ugt"),
    "greater_equal": _compare("oge", "sge", "uge"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "logical_not": _logical_not,
    "isnan": _is_nan,
    "Where": _where,
    "Cast": _cast,
    "FloorDiv": _floor(gives_rest=False),
    "FloorMod": _floor(gives_rest=True),
    "SquaredDifference": _squared_difference,
}
_OF_TRUTH_VALUES = frozenset(name for name in _RULES if name.startswith(("logical_", "bitwise_", "equal", "not_equal")))
_OF_MIXED = frozenset(("Where", "Cast"))


def _rule_of(step: ListedStep) -> _Rule | None:
    """Return what computes the elements of an inner loop, or None where that is the loop itself."""
    inputs = step.dtypes[:-1]
    if step.name not in _OF_MIXED:
        if len(set(inputs)) != 1 or (inputs[0] == bool and step.name not in _OF_TRUTH_VALUES):
            return None
    return _RULES.get(step.name)
