"""Compute in blocks, for many iterations at once, the operations independent of earlier iterations.

If a loop's length is data, or all iterations at once would take too much memory, the loop carries a block of rows, with
the results computed from them, from iteration to iteration; an iteration past the end of the block computes the next
block. A counted loop has blocks of about a thousand rows, and none beyond its last iteration. In a loop without a
known end the first block is for one iteration, the second for two: at most as many rows are wasted as were used.

A loop under swap reads rows of its feeds from the host's memory. A copy of many rows costs less than many copies of a
row, so there the rows themselves come in blocks as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.builder import Builder
from ...ir.definition import Ufunc
from ...ir.indexing import DYNAMIC
from ...ir.loops import Loop, is_counted, known_start
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.rules.batching import taken_row
from ...ir.structured import add_variable
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from ...ir.traits import Role
from .fission import new_counter, recomputes, row_of
from .liftable import Choice, Liftable, LiftingRules, choose_products
from .mark_swappable import is_unstacked_only
from .products import nbytes

_ROWS = 1024  # rows of a matrix beyond which a product is hardly faster for more
_SMALL = 1 << 14  # bytes of a row below which a copy of each row is hardly slower than one of a block


def compute_in_blocks(program: Program, block_bytes: int, rules: LiftingRules) -> Program:
    """Return the program with rows read and multiplied in blocks; `program` is used up.

    Parameters
    ----------
    program : Program
    block_bytes : int
        Most bytes of all blocks of a loop together.
    rules : LiftingRules
    """
    changed = False
    for op in reversed([op for op in program.graph.root.walk() if op.is_while]):  # inner loops first
        if op.attrs["swap_memory"]:
            changed |= _HostBlocks(program, Loop(op), rules).run(block_bytes)
        elif not recomputes(op):
            changed |= _Blocks(program, Loop(op), rules).run(block_bytes)
    return copy_program(program) if changed else program


class _Blocks:
    """A loop, with operations moved into blocks of iterations.

    Parameters
    ----------
    program : Program
    loop : Loop
    rules : LiftingRules
    """

    def __init__(self, program: Program, loop: Loop, rules: LiftingRules) -> None:
        self.program = program
        self.loop = loop
        self.rules = rules
        self.is_counted = is_counted(loop.op)

    def run(self, most: int) -> bool:
        """Compute the worthwhile operations in blocks; return True if there are any."""
        liftable = self._make_liftable()
        kept = count_noninput_uses(self.program, self.loop.body)
        choice = self._choose_operations(liftable, kept, most)
        if choice is None or not any(liftable.varies[t] for t in choice.results):
            return False
        count = min(_rows_per_block(liftable, choice), most // max(self._bytes_per_iteration(liftable, choice), 1))
        if count > 1:
            self._write_blocks(liftable, choice, count)
        return count > 1

    def _make_liftable(self) -> Liftable:
        return Liftable(self.loop, self.loop.body, self._takes_row, may_fail=self.is_counted, rules=self.rules)

    def _takes_row(self, op: Operation, rows: Tensor, index: Tensor) -> bool:
        """Return True if the row number starts in range and grows by 1 per iteration."""
        first = self.loop.values(index, 1)
        return first is not None and first[0] >= 0 and self.loop.slope(index) == 1

    def _choose_operations(self, liftable: Liftable, kept: Counter[Tensor], most: int) -> Choice | None:
        # Half, since a block has at least two iterations.
        return choose_products(liftable, kept, most // 2)

    def _bytes_per_iteration(self, liftable: Liftable, choice: Choice) -> int:
        """Return the bytes of a block per iteration."""
        return sum(nbytes(t) for t in choice.results if liftable.varies[t])

    def _provide_counter(self, like: Operation) -> Tensor:
        """Return an int32 variable growing by 1 per iteration, a new variable if the loop has none."""
        counters = [p for p in self.loop.body.params if self.loop.step(p) == 1 and p.dtype is dtypes.int32]
        return counters[0] if counters else new_counter(self.loop, like)

    def _write_blocks(self, liftable: Liftable, choice: Choice, count: int) -> None:
        """Add blocks to the loop's variables, and replace the chosen results by rows of the blocks."""
        loop, like = self.loop, choice.results[0].op
        counter = self._provide_counter(like)
        inside = Builder(loop.body, like, "block")
        start = loop.start(counter)
        # The block serves begin <= counter < end. Initially begin == end, so the first iteration makes a block.
        begin, end = (self._add_variable(start, SCALAR, like) for _ in range(2))
        fresh, passed = (Region(loop.op.graph, loop.body, f"{which} branch") for which in ("true", "false"))
        olds = [
            self._add_variable(self._empty_block(liftable, t), _block_shape(liftable, t), t.op) for t in choice.results
        ]
        first, size, lifted = self._make_block(liftable, choice, count, fresh, (counter, begin, end))
        stop = Builder(fresh, like, "block").tensor("Add", first, size)
        fresh.results = [first, stop, *(lifted[t] for t in choice.results)]
        passed.results = [begin, end, *olds]
        is_behind = inside.tensor("GreaterEqual", counter, end)
        cond = inside.cond(is_behind, [passed, fresh], [SCALAR, SCALAR, *(t.shape for t in olds)])
        cond.note(block=count)
        loop.body.results[-len(cond.outputs) :] = cond.outputs
        blocks = dict(zip(choice.results, cond.outputs[2:], strict=True))
        number = inside.tensor("Sub", counter, cond.outputs[0])
        moved = {t: block for t, block in blocks.items() if not liftable.varies[t]}
        varying = {t: block for t, block in blocks.items() if liftable.varies[t]}
        substitute(self.program, moved | self._take_rows(liftable, choice, varying, number, count))

    def _make_block(
        self,
        liftable: Liftable,
        choice: Choice,
        count: int,
        fresh: Region,
        now: tuple[Tensor, Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, dict[Tensor, Tensor]]:
        """Emit a block; return its first iteration, its number of iterations, and the replacements of tensors."""
        counter, begin, end = now
        build = Builder(fresh, choice.results[0].op, "block")
        size = (
            self._count_iterations_left(build, count) if self.is_counted else _next_block_size(build, begin, end, count)
        )
        for op in choice.operations:
            if op in liftable.rows:
                rows, index = liftable.rows[op]
                size = build.tensor("Minimum", size, _rows_left(build, rows, index))
        # At least 1, even if no row is left: then the iteration's own read fails, as without blocks.
        size = build.tensor("Maximum", size, build.constant(1, dtypes.int32))
        counters = {t: self._counter_range(build, t, size) for t in liftable.varies if t.op.is_param}

        def slice_rows(op: Operation, rows: Tensor, _: Tensor) -> Tensor:
            inner = Builder(fresh, op, "rows")
            index = liftable.rows[op][1]
            stop = inner.tensor("Add", index, _cast_to(inner, size, index.dtype))
            return inner.tensor("StridedSlice", rows, index, stop, spec=(slice(DYNAMIC, DYNAMIC, None),))

        return counter, size, liftable.emit(choice.operations, fresh, counters, slice_rows)

    def _count_iterations_left(self, build: Builder, count: int) -> Tensor:
        """Return the number of iterations left, at most `count`, by the predicate for the next counters."""
        liftable = Liftable(self.loop, self.loop.cond, lambda op, rows, index: False)
        (going_on,) = self.loop.cond.results
        # The predicate cannot be computed in advance, or is the same in all iterations.
        if liftable.kind(going_on) is None or not liftable.kind(going_on):
            return build.constant(count, dtypes.int32)
        most = build.constant(count, dtypes.int32)
        params = self.loop.cond.params
        now = dict(zip(params, self.loop.body.params, strict=True))
        counters = {t: self._counter_range(build, now[t], most) for t in liftable.varies if t.op.is_param}
        answers = liftable.emit(liftable.operations, build.region, counters, lambda *_: going_on)[going_on]
        # The product drops to 0 at the first iteration that will not run, so the sum counts those before.
        still = build.tensor("Cumprod", _cast_to(build, answers, dtypes.int32), axis=0)
        return build.tensor("Sum", still, axis=(0,))

    def _counter_range(self, build: Builder, param: Tensor, size: Tensor) -> Tensor:
        """Return the next `size` values of a counter; an unchanging variable itself."""
        step = self.loop.step(param)
        if not step:
            return param
        amount = build.constant(step, param.dtype)
        far = build.tensor("Mul", _cast_to(build, size, param.dtype), amount)
        return build.tensor("Range", param, build.tensor("Add", param, far), amount)

    def _take_rows(
        self,
        liftable: Liftable,
        choice: Choice,
        blocks: Mapping[Tensor, Tensor],
        number: Tensor,
        count: int,
    ) -> dict[Tensor, Tensor]:
        """Return the chosen results as rows of blocks; the iteration's own reads stay, and fail as before."""
        reads = [op for op in choice.operations if op in liftable.rows]
        return {t: row_of(self.loop, t, block, number, reads) for t, block in blocks.items()}

    def _empty_block(self, liftable: Liftable, old: Tensor) -> Tensor:
        """Return an empty block, the initial value of a block's variable."""
        lead = (0,) if liftable.varies[old] else ()
        none = np.zeros((*lead, *old.shape.as_tuple()), old.dtype.numpy)
        return Builder(self.loop.op.region, old.op, "block").constant(none, old.dtype)

    def _add_variable(self, start: Tensor, shape: Shape, like: Operation) -> Tensor:
        """Add a variable to the loop, with a mark to hide the variable from reports."""
        variable = add_variable(self.loop.op, start, shape, f"{like.name}/block")
        variable.op.note(block=True)
        self.loop.body.results.append(variable)  # a placeholder, until `_write_blocks` has the next value
        return variable


class _HostBlocks(_Blocks):
    """A loop under swap, whose feeds stay in the host's memory in blocks that begin at multiples of their size."""

    def _takes_row(self, op: Operation, rows: Tensor, index: Tensor) -> bool:
        """Return True if an operation reads an element of a feed by a counter from 0 or above."""
        fed = rows.op.role is Role.FEED and bool(op.definition.effects)
        if not (fed and index.op.is_param and index.dtype is dtypes.int32 and self.loop.step(index) == 1):
            return False
        start = known_start(self.loop.start(index))
        return start is not None and start >= 0

    def _make_liftable(self) -> Liftable:
        rules = LiftingRules(keeps_bits=self.rules.keeps_bits)  # loops under swap are not native
        return Liftable(self.loop, self.loop.body, self._takes_row, takes_counters=False, rules=rules)

    def _choose_operations(self, liftable: Liftable, kept: Counter[Tensor], most: int) -> Choice | None:
        """Return products and large rows of feeds to read in blocks, None unless a single counter reads all rows."""
        products = not recomputes(self.loop.op)
        alone = choose_products(liftable, kept, most // 2, products)
        multiplied = set() if alone is None else set(alone.operations)
        rows = [op for op in liftable.rows if self._is_cut(op, kept, multiplied)]
        choice = choose_products(liftable, kept, most // 2, products, rows)
        counters = {liftable.rows[op][1] for op in choice.operations if op in liftable.rows} if choice else set()
        # All blocks are made by a single Cond, so all rows must have the same number.
        return choice if len(counters) == 1 else None

    def _is_cut(self, op: Operation, kept: Mapping[Tensor, int], multiplied: set[Operation]) -> bool:
        """Return True if a row comes from the block: large, with uses besides block results, and without views."""
        row, rest = op.outputs[0], [user for user in op.outputs[0]._consumers if user not in multiplied]
        waited_for = any(op in other.control_inputs for other in self.loop.body.walk())
        used = row not in kept and not waited_for and all(map(_makes_new, row._consumers))
        fed = taken_row(op)
        return fed is not None and bool(rest) and used and is_unstacked_only(fed[0]) and nbytes(row) >= _SMALL

    def _bytes_per_iteration(self, liftable: Liftable, choice: Choice) -> int:
        rows = [op.outputs[0] for op in choice.operations if op in liftable.rows]
        return sum(nbytes(t) for t in dict.fromkeys([*choice.results, *rows]) if liftable.varies[t])

    def _provide_counter(self, like: Operation) -> Tensor:
        # One counter, as `_choose_operations` refuses others; set by `_write_blocks` before this hook is called.
        (counter,) = self._counters
        return counter

    def _write_blocks(self, liftable: Liftable, choice: Choice, count: int) -> None:
        self._counters = {liftable.rows[op][1] for op in choice.operations if op in liftable.rows}
        super()._write_blocks(liftable, choice, count)

    def _make_block(
        self,
        liftable: Liftable,
        choice: Choice,
        count: int,
        fresh: Region,
        now: tuple[Tensor, Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, dict[Tensor, Tensor]]:
        """Emit a block at a multiple of `count`, by reads of whole blocks of the TensorArrays."""
        counter, _, _ = now
        build = Builder(fresh, choice.results[0].op, "block")
        size = build.constant(count, dtypes.int32)
        first = build.tensor("Mul", build.tensor("FloorDiv", counter, size), size)

        def read_block(op: Operation, rows: Tensor, _: Tensor) -> Tensor:
            unstack = op.inputs[2].op
            # Tells the unstack to cut the feed into blocks of this size, so that reading one is a single copy.
            unstack.attrs["blocks"] = tuple(dict.fromkeys((*unstack.attrs["blocks"], count)))
            (row,) = op.outputs
            block = Builder(fresh, op, "block")
            return block.tensor(
                "TensorArrayReadBlock", *op.inputs, dtype=row.dtype, element_shape=row.shape, count=count
            )

        return first, size, liftable.emit(choice.operations, fresh, {}, read_block)

    def _take_rows(
        self,
        liftable: Liftable,
        choice: Choice,
        blocks: Mapping[Tensor, Tensor],
        number: Tensor,
        count: int,
    ) -> dict[Tensor, Tensor]:
        """Return each result as a row, by way of its array; the first counts as the read of an unread array."""
        is_read = {op: self._reads_on(op, choice, blocks) for op in choice.operations if op in liftable.rows}
        rows = {}
        for old, block in blocks.items():
            read = next(op for op in self._source_reads(liftable, old.op))
            inputs = [*read.inputs, block]
            inside = Builder(self.loop.body, old.op, "row")
            rows[old] = inside.tensor(
                "TensorArrayRowOf", *inputs, known_shape=old.shape, count=count, reads=not is_read[read]
            )
            is_read[read] = True
        return rows

    def _reads_on(self, read: Operation, choice: Choice, blocks: Mapping[Tensor, Tensor]) -> bool:
        """Return True if the loop still reads single elements of an array."""
        return read.outputs[0] not in blocks and any(u not in choice.operations for u in read.outputs[0]._consumers)

    def _source_reads(self, liftable: Liftable, op: Operation) -> list[Operation]:
        """Return the reads from which an operation's result is computed."""
        if op in liftable.rows:
            return [op]
        varying = [t.op for t in op.inputs if liftable.kind(t) and not t.op.is_param]
        return list(dict.fromkeys(read for source in varying for read in self._source_reads(liftable, source)))


def _makes_new(op: Operation) -> bool:
    """Return True if no result is a view of an input: a saved view would keep the whole block in memory."""
    return isinstance(op.definition.kernel, Ufunc) or op.type in ("Concat", "MatMul")


def _rows_per_block(liftable: Liftable, choice: Choice) -> int:
    """Return the iterations per block for matrices of enough rows, limited by the arrays' lengths."""
    heights = [t.shape.as_tuple()[0] if t.rank and t.rank > 1 else 1 for t in choice.results]
    lengths = [liftable.rows[op][0].shape[0] for op in choice.operations if op in liftable.rows]
    enough = max(-(-_ROWS // max(n, 1)) for n in heights)
    return int(min([enough, *(n for n in lengths if n is not None)]))


def _block_shape(liftable: Liftable, old: Tensor) -> Shape:
    return (Shape([None]) if liftable.varies[old] else SCALAR) + old.shape


def _cast_to(build: Builder, tensor: Tensor, dtype: dtypes.DType) -> Tensor:
    return tensor if tensor.dtype is dtype else build.tensor("Cast", tensor, dtype=dtype)


def _next_block_size(build: Builder, begin: Tensor, end: Tensor, count: int) -> Tensor:
    """Return twice the number of iterations of the last block, at most `count`."""
    last = build.tensor("Sub", end, begin)
    return build.tensor("Minimum", build.tensor("Add", last, last), build.constant(count, dtypes.int32))


def _rows_left(build: Builder, rows: Tensor, index: Tensor) -> Tensor:
    """Return the number of rows from an index to the end."""
    length = rows.shape[0]
    if length is not None:
        total = build.constant(length, dtypes.int32)
    else:
        total = build.tensor("StridedSlice", build.tensor("Shape", rows), spec=(0,))
    return build.tensor("Sub", total, _cast_to(build, index, dtypes.int32))
