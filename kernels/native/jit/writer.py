"""A writer of instructions in LLVM's intermediate representation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .types import Value, element_of, intrinsic_suffix, is_float, lanes_of, size_of, vector_of


class Writer:
    """The lines of a function.

    Attributes
    ----------
    lines : list of str
    early : list of str
        Instructions before those in `lines`, executed once.
    intrinsics : set of str
        Declarations of the called intrinsic functions.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.early: list[str] = []
        self.intrinsics: set[str] = set()
        self.count: int = 0  # values and labels made, which have numbers in their names

    def add_line(self, line: str) -> None:
        """Write an instruction."""
        self.lines.append("  " + line)

    def let(self, type_: str, text: str) -> Value:
        """Write an instruction with a result of a type; return the result."""
        self.count += 1
        name = f"%v{self.count}"
        self.add_line(f"{name} = {text}")
        return Value(name, type_)

    def call_intrinsic(self, type_: str, name: str, *values: Value, more: str = "") -> Value:
        """Call an intrinsic function with a result of a type; return the result.

        `more` is the text of a further argument of type i1, with a comma before it.
        """
        ending = intrinsic_suffix(type_)
        arguments = ", ".join(map(str, values)) + more
        declared = ", ".join([v.type for v in values] + ["i1"] * bool(more))
        self.intrinsics.add(f"{type_} @llvm.{name}.{ending}({declared})")
        return self.let(type_, f"call {type_} @llvm.{name}.{ending}({arguments})")

    @contextmanager
    def up_front(self) -> Iterator[None]:
        """Write the instructions of the block to the start of the function."""
        lines, self.lines = self.lines, self.early
        yield
        self.lines = lines

    def add_local(self, type_: str) -> Value:
        """Return the address of a new local variable."""
        with self.up_front():
            return self.let("ptr", f"alloca {type_}")

    def add_local_array(self, type_: str, values: Sequence[Value]) -> Value:
        """Return the address of a new local array of values."""
        array = self.add_local(f"[{len(values)} x {type_}]")
        for k, value in enumerate(values):
            self.add_line(f"store {value}, {self.let('ptr', f'getelementptr {type_}, {array}, i64 {k}')}")
        return array

    def new_label(self, name: str) -> str:
        """Return the name of a new basic block."""
        self.count += 1
        return f"{name}{self.count}"

    def to_bits(self, value: Value) -> Value:
        """Return an element as an i64, as in a cell: the memory of a value without dimensions."""
        if is_float(value.type):
            bits = f"i{8 * size_of(value.type)}"
            value = self.let(bits, f"bitcast {value} to {bits}")
        return value if value.type == "i64" else self.let("i64", f"zext {value} to i64")

    def from_bits(self, value: Value, type_: str) -> Value:
        """Return the element of a type in an i64 from a cell; the inverse of `to_bits`."""
        bits = f"i{8 * size_of(type_)}"
        if bits != "i64":
            value = self.let(bits, f"trunc {value} to {bits}")
        return value if bits == type_ else self.let(type_, f"bitcast {value} to {type_}")

    def load(self, pointer: Value, type_: str, at: int, lanes: int) -> Value:
        """Load `lanes` adjacent elements, from element `at` on."""
        place = self.let("ptr", f"getelementptr {type_}, {pointer}, i64 {at}")
        vector = vector_of(type_, lanes)
        return self.let(vector, f"load {vector}, {place}, align {size_of(type_)}")

    def store(self, pointer: Value, value: Value, at: int) -> None:
        """Store an element, or a vector of adjacent elements, from element `at` on."""
        element = element_of(value.type)
        place = self.let("ptr", f"getelementptr {element}, {pointer}, i64 {at}")
        self.add_line(f"store {value}, {place}, align {size_of(element)}")

    def splat(self, value: Value, lanes: int) -> Value:
        """Return an element repeated for all lanes."""
        if lanes == 1:
            return value
        vector = vector_of(value.type, lanes)
        one = self.let(vector, f"insertelement {vector} poison, {value}, i64 0")
        return self.pick(one, [0] * lanes)

    def pick(self, value: Value, lanes: Sequence[int]) -> Value:
        """Return some lanes of a vector; a single lane as an element."""
        if "x" not in value.type:  # no vector, whose type is such as <4 x float>
            return self.splat(value, len(lanes))
        if len(lanes) == 1:
            return self.let(element_of(value.type), f"extractelement {value}, i64 {lanes[0]}")
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        text = f"shufflevector {value}, {value.type} poison, <{len(lanes)} x i32> <{mask}>"
        return self.let(vector_of(element_of(value.type), len(lanes)), text)

    def join(self, values: Sequence[Value]) -> Value:
        """Return the lanes of vectors, or elements, of equal type as a single vector."""
        whole, lanes = values[0], lanes_of(values[0].type)
        for number, value in enumerate(values[1:], 1):
            count, element = number * lanes, element_of(value.type)  # lanes in `whole` so far
            if lanes == 1:  # elements: the first one becomes a vector with room for all
                whole = whole if number > 1 else self._widen(whole, len(values))
                whole = self.let(whole.type, f"insertelement {whole}, {value}, i64 {number}")
                continue
            # shufflevector takes vectors of equal length; the padding is not selected
            wide = self.pick(value, [min(i, lanes - 1) for i in range(count)])
            mask = ", ".join(f"i32 {i}" for i in range(count + lanes))
            text = f"shufflevector {whole}, {wide}, <{count + lanes} x i32> <{mask}>"
            whole = self.let(vector_of(element, count + lanes), text)
        return whole

    def _widen(self, value: Value, lanes: int) -> Value:
        """Return a vector with an element as its first lane; the others are undefined."""
        vector = vector_of(value.type, lanes)
        return self.let(vector, f"insertelement {vector} poison, {value}, i64 0")
