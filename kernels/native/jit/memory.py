"""Memory of a function for steps: fields of steps, memory at their addresses, and the function's own values."""

from __future__ import annotations

from collections.abc import Sequence

from .held import Held, find_values
from .listed import CONSTANT, Layout, ListedStep
from .types import Value, element_of, size_of
from .writer import Writer


class Memory(Writer):
    """The memory that steps read and write.

    Parameters
    ----------
    steps : sequence of ListedStep
    layout : Layout

    Attributes
    ----------
    values : dict of int to Held
        Held values by number.
    """

    def __init__(self, steps: Sequence[ListedStep], layout: Layout) -> None:
        super().__init__()
        self.steps: Sequence[ListedStep] = steps
        self.layout: Layout = layout
        self.values: dict[int, Held] = find_values(steps)
        self.known: dict[tuple[str, int, int, str], Value] = {}  # loads at the start of the function, by field

    def load_field(self, i: int, offset: int, type_: str = "ptr") -> Value:
        """Return a constant field of a step."""
        key = "field", i, offset, type_
        if key not in self.known:
            # before all steps: loops then read no fields
            with self.up_front():
                self.known[key] = self.let(type_, f"load {type_}, {self.field_address(i, offset)}")
        return self.known[key]

    def field_address(self, i: int, offset: int) -> Value:
        """Return the address of a field of a step."""
        return self.let("ptr", f"getelementptr i8, ptr %steps, i64 {i * self.layout.step + offset}")

    def operand_address(self, i: int, k: int) -> Value:
        """Return the address of an operand."""
        # a row's place changes while the function runs: read it each time
        if self.steps[i].moving >> k & 1:
            return self.let("ptr", f"load ptr, {self.field_address(i, self.layout.operands + 8 * k)}")
        return self.load_field(i, self.layout.operands + 8 * k)

    def factor_address(self, i: int, k: int) -> Value:
        """Return the address of a matrix of a product."""
        key = "factor", i, k, "ptr"
        if key not in self.known:
            arguments = self.load_field(i, self.layout.arguments)
            with self.up_front():
                place = self.let("ptr", f"getelementptr i8, {arguments}, i64 {self.layout.factors[k]}")
                self.known[key] = self.let("ptr", f"load ptr, {place}")
        return self.known[key]

    def held_value(self, i: int, k: int) -> Held | None:
        """Return the held value of an operand, or None for other memory."""
        return self.values.get(self.steps[i].values[k])

    def read_operand(self, i: int, k: int, type_: str) -> Value:
        """Return an operand's element or elements."""
        held = self.held_value(i, k)
        if held is not None:
            return self.convert(self.let(held.type, f"load {held.type}, ptr {held.name}"), type_, held.in_cell)
        if self.steps[i].values[k] == CONSTANT:
            return self._load_constant(i, k, type_)
        return self.let(type_, f"load {type_}, {self.operand_address(i, k)}, align {size_of(element_of(type_))}")

    def _load_constant(self, i: int, k: int, type_: str) -> Value:
        key = "constant", i, k, type_
        if key not in self.known:
            pointer = self.operand_address(i, k)
            with self.up_front():
                self.known[key] = self.let(type_, f"load {type_}, {pointer}, align {size_of(element_of(type_))}")
        return self.known[key]

    def write_operand(self, i: int, k: int, value: Value) -> None:
        """Store an element, or elements, to an operand."""
        held = self.held_value(i, k)
        if held is not None:
            self.add_line(f"store {self.convert(value, held.type, held.in_cell)}, ptr {held.name}")
        else:
            self.add_line(f"store {value}, {self.operand_address(i, k)}, align {size_of(element_of(value.type))}")

    def convert(self, value: Value, type_: str, in_cell: bool) -> Value:
        """Return a value as another type with the same bytes."""
        if value.type == type_:
            return value
        if in_cell:
            return self.from_bits(self.to_bits(value), type_)
        return self.let(type_, f"bitcast {value} to {type_}")

    def spill_held(self, step: ListedStep) -> None:
        """Store the held values of a step to memory, before a call reads them."""
        for held in self._held_values(step):
            self.store_held(held)

    def reload_held(self, step: ListedStep) -> None:
        """Load the held values of a step from memory, after a call may have changed them."""
        for held in self._held_values(step):
            self.load_held(held)

    def _held_values(self, step: ListedStep) -> list[Held]:
        return [self.values[number] for number in sorted({n for n in step.values if n >= 0})]

    def store_held(self, held: Held) -> None:
        """Store a held value to its memory outside the function."""
        value = self.let(held.type, f"load {held.type}, ptr {held.name}")
        if held.in_cell:
            value = self.to_bits(value)
        self.add_line(f"store {value}, {self._outer_address(held)}, align {size_of(element_of(value.type))}")

    def load_held(self, held: Held) -> None:
        """Load a held value from its memory outside the function."""
        type_ = "i64" if held.in_cell else held.type
        value = self.let(type_, f"load {type_}, {self._outer_address(held)}, align {size_of(element_of(type_))}")
        if held.in_cell:
            value = self.from_bits(value, held.type)
        self.add_line(f"store {value}, ptr {held.name}")

    def _outer_address(self, held: Held) -> Value:
        """Return the address of a held value's memory outside the function."""
        return (
            self.factor_address(held.step, held.operand)
            if held.is_factor
            else self.operand_address(held.step, held.operand)
        )
