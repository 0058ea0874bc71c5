"""Loop fission: compute before a loop, for all iterations at once, the operations independent of earlier iterations.

A loop of known length with a product of an input's row in each iteration becomes one product of all rows and a loop
reading rows of the product. Operations in between are moved as well: gathered embeddings, normalized inputs, masks
computed from a counter. Lifting neither computes results nor raises errors beyond the loop's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base import dtypes
from ...base.shapes import SCALAR
from ...ir.builder import Builder
from ...ir.indexing import DYNAMIC
from ...ir.loops import Loop, known_start
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.rules.batching import taken_row
from ...ir.structured import add_variable, saved_outputs
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from .liftable import Choice, Liftable, LiftingRules, choose_products


def lift_products(program: Program, most_bytes: int, rules: LiftingRules) -> Program:
    """Return the program with products of rows before their loops; `program` is used up.

    Parameters
    ----------
    program : Program
    most_bytes : int
        Most bytes of all rows read by a loop.
    rules : LiftingRules
    """
    changed = False
    for op in reversed([op for op in program.graph.root.walk() if op.is_while]):  # inner loops first
        # All rows at once would take the memory that swapping or recomputation saves.
        count = None if saves_memory(op) else Loop(op).trip_count()
        if count:
            changed |= _Fission(program, Loop(op), count, rules).run(most_bytes // count)
    return copy_program(program) if changed else program


def recomputes(loop: Operation) -> bool:
    """Return True if a loop runs again for its gradient."""
    return "checkpoint_every" in loop.attrs and bool(saved_outputs(loop))


def saves_memory(loop: Operation) -> bool:
    """Return True for a loop with swapping or recomputation, which should not have all rows in memory at once."""
    return bool(loop.attrs["swap_memory"]) or recomputes(loop)


class _Fission:
    """Fission of a loop: some of its operations move before the loop.

    Parameters
    ----------
    program : Program
    loop : Loop
    count : int
        Number of iterations.
    rules : LiftingRules
    """

    def __init__(self, program: Program, loop: Loop, count: int, rules: LiftingRules) -> None:
        self.program = program
        self.loop = loop
        self.count = count
        self.rules = rules

    def run(self, most: int) -> bool:
        """Lift operations worth lifting, with results of at most `most` bytes per iteration; return True if any."""
        liftable = self._make_liftable()
        choice = choose_products(liftable, count_noninput_uses(self.program, self.loop.body), most)
        if choice is not None:
            self._lift_operations(liftable, choice)
        return choice is not None

    def _make_liftable(self) -> Liftable:
        return Liftable(self.loop, self.loop.body, self._takes_row, rules=self.rules)

    def _takes_row(self, op: Operation, rows: Tensor, index: Tensor) -> bool:
        """Return True if all row numbers are valid and distinct."""
        numbers = self.loop.values(index, self.count)
        length = rows.shape[0]
        if numbers is None or length is None or numbers.min() < 0 or numbers.max() >= length:
            return False
        return len(np.unique(numbers)) == self.count

    def _lift_operations(self, liftable: Liftable, choice: Choice) -> None:
        """Emit the chosen operations before the loop, and replace their results in the body by rows."""
        outside = self.loop.op.region
        counters = {t: self._counter_values(t) for t, varies in liftable.varies.items() if t.op.is_param}
        lifted = liftable.emit(choice.operations, outside, counters, self._read_rows)
        varying = [t for t in choice.results if liftable.varies[t]]
        number = self._iteration_number(varying[0].op) if varying else None
        # A row is taken after the iteration's own reads with effects, as its result was before.
        reads = [op for op in choice.operations if op in liftable.rows and op.definition.effects]
        # Invariant results may be results of the body or be saved, and these have to be tensors of the body.
        same = [t for t in choice.results if not liftable.varies[t]]
        moved = {t: Builder(self.loop.body, t.op).tensor("Identity", lifted[t]) for t in same}
        if number is not None:
            moved |= {t: row_of(self.loop, t, lifted[t], number, reads) for t in varying}
        substitute(self.program, moved)

    def _counter_values(self, param: Tensor) -> Tensor:
        """Return all values of a counter; for an unchanging variable its initial value."""
        step, start = self.loop.step(param), self.loop.start(param)
        if not step:
            return start
        builder, values = Builder(self.loop.op.region, param.op), self.loop.values(param, self.count)
        if values is not None:
            return builder.constant(values, param.dtype)
        return builder.tensor("Add", start, builder.constant(step * np.arange(self.count), param.dtype))

    def _read_rows(self, op: Operation, rows: Tensor, indices: Tensor) -> Tensor:
        """Return the rows read, in the order of iterations: a slice if the numbers are evenly spaced."""
        row = taken_row(op)
        numbers = None if row is None else self.loop.values(row[1], self.count)
        assert numbers is not None, op  # checked when the operation was lifted
        builder = Builder(self.loop.op.region, op, "rows")
        first, last = int(numbers[0]), int(numbers[-1])
        step = int(numbers[1]) - first if self.count > 1 else 1
        if np.array_equal(numbers, first + step * np.arange(self.count)):
            stop = last + (1 if step > 0 else -1)
            spec = (slice(first, stop if stop >= 0 else None, step),)
            return rows if spec == (slice(0, rows.shape[0], 1),) else builder.tensor("StridedSlice", rows, spec=spec)
        return builder.tensor("Gather", rows, indices)

    def _iteration_number(self, like: Operation) -> Tensor:
        """Return the number of the iteration: a counter from 0, a counter minus its start, or a new loop variable."""
        for param in self.loop.body.params:
            start = known_start(self.loop.start(param)) if self.loop.step(param) == 1 else None
            if start is not None:
                inside = Builder(self.loop.body, like, "number")
                return inside.tensor("Sub", param, inside.constant(start, param.dtype)) if start else param
        return new_counter(self.loop, like)


def row_of(loop: Loop, old: Tensor, rows: Tensor, number: Tensor, reads: Sequence[Operation]) -> Tensor:
    """Return the row of a tensor's lifted values for this iteration, after `reads`, the reads of the original body."""
    inside = Builder(loop.body, old.op, "row")
    op = inside.emit("StridedSlice", rows, number, spec=(DYNAMIC,), controls=reads, known_shape=old.shape)
    return op.outputs[0]


def new_counter(loop: Loop, like: Operation) -> Tensor:
    """Add and return a variable for the number of a loop's iteration."""
    start = Builder(loop.op.region, like, "number").constant(0, dtypes.int32)
    counter = add_variable(loop.op, start, SCALAR, f"{like.name}/number")
    inside = Builder(loop.body, like, "number")
    loop.body.results.append(inside.tensor("Add", counter, inside.constant(1, dtypes.int32)))
    return counter
