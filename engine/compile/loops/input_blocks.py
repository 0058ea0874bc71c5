"""Do for a block of iterations at once what does not depend on the iterations before.

Where a loop's length is data, or all at once would be too much memory, a loop carries a block of rows, and what is
made of them, on from iteration to iteration; the iteration that finds itself behind the block makes the next one. A
loop that is counted has blocks of about a thousand rows and none that it does not need. In a loop that may end at any
time the first block is for one iteration, the second for two: at most as much is in vain as was of use.

A loop under swap reads rows of its feeds from the host's memory. One copy for many rows costs less than one for each,
so there the rows themselves come in blocks too.
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
from ...ir.structured import add_variable
from ...ir.substitute import returned, substitute
from ...ir.tensor import Tensor
from ...ir.traits import Role
from .fission import new_counter, recomputes, row_of
from .liftable import Choice, IsNative, Liftable, choose
from .mark_swappable import is_unstacked_only
from .products import nbytes
from .split_matmul import split_products

_ROWS = 1024  # of a matrix, beyond which its product is hardly faster for more
_SMALL = 1 << 14  # bytes of a row below which a copy for each is hardly slower


def compute_in_blocks(program: Program, block_bytes: int, is_native: IsNative) -> Program:
    """Return the program with rows read and multiplied in blocks; the given one is used up.

    Parameters
    ----------
    program : Program
    block_bytes : int
        Most bytes of all blocks of a loop together.
    is_native : callable
        Whether a loop is going to be a native program.
    """
    changed = False
    for op in reversed([op for op in program.graph.root.walk() if op.is_while]):  # inner loops first
        if op.attrs["swap_memory"]:
            changed |= _HostBlocks(program, Loop(op), is_native).run(block_bytes)
        elif not recomputes(op):
            changed |= _Blocks(program, Loop(op), is_native).run(block_bytes)
    return copy_program(program) if changed else program


class _Blocks:
    """One loop, and what of it is done in blocks.

    Parameters
    ----------
    program : Program
    loop : Loop
    is_native : callable
    """

    def __init__(self, program: Program, loop: Loop, is_native: IsNative) -> None:
        self.program = program
        self.loop = loop
        self.is_native = is_native
        self.is_counted = is_counted(loop.op)

    def run(self, most: int) -> bool:
        """Compute in blocks what is worth it; return whether there was anything."""
        liftable = self._liftable()
        if split_products(self.program, liftable, self.is_counted, lambda t: 2 * nbytes(t) <= most):
            liftable = self._liftable()
        kept = returned(self.program, self.loop.body)
        choice = self._choose(liftable, kept, most)
        if choice is None or not any(liftable.varies[t] for t in choice.results):
            return False
        count = min(_enough(liftable, choice), most // max(self._bytes(liftable, choice), 1))
        if count > 1:
            self._write(liftable, choice, count)
        return count > 1

    def _liftable(self) -> Liftable:
        may_fail, is_native = self.is_counted, self.is_native
        return Liftable(self.loop, self.loop.body, self._takes_row, may_fail=may_fail, is_native=is_native)

    def _takes_row(self, op: Operation, rows: Tensor, index: Tensor) -> bool:
        """Whether each iteration takes the row behind the one before, from one that is there."""
        first = self.loop.values(index, 1)
        return first is not None and first[0] >= 0 and self.loop.slope(index) == 1

    def _choose(self, liftable: Liftable, kept: Counter[Tensor], most: int) -> Choice | None:
        return choose(liftable, kept, most // 2)

    def _bytes(self, liftable: Liftable, choice: Choice) -> int:
        """Return the bytes that a block has for each iteration."""
        return sum(nbytes(t) for t in choice.results if liftable.varies[t])

    def _counter(self, like: Operation) -> Tensor:
        """Return a variable that goes up by one."""
        found = [p for p in self.loop.body.params if self.loop.step(p) == 1 and p.dtype is dtypes.int32]
        return found[0] if found else new_counter(self.loop, like)

    def _write(self, liftable: Liftable, choice: Choice, count: int) -> None:
        """Have the loop carry blocks, and its iterations take their rows out of them."""
        loop, like = self.loop, choice.results[0].op
        counter = self._counter(like)
        inside = Builder(loop.body, like, "block")
        start = loop.start(counter)
        begin, end = (self._variable(start, SCALAR, like) for _ in range(2))
        fresh, passed = (Region(loop.op.graph, loop.body, f"{which} branch") for which in ("true", "false"))
        olds = [self._variable(self._none(liftable, t), _shape(liftable, t), t.op) for t in choice.results]
        first, size, made = self._make(liftable, choice, count, fresh, (counter, begin, end))
        stop = Builder(fresh, like, "block").tensor("Add", first, size)
        fresh.results = [first, stop, *(made[t] for t in choice.results)]
        passed.results = [begin, end, *olds]
        is_behind = inside.tensor("GreaterEqual", counter, end)
        cond = inside.cond(is_behind, [passed, fresh], [SCALAR, SCALAR, *(t.shape for t in olds)], block=count)
        loop.body.results[-len(cond.outputs) :] = cond.outputs
        blocks = dict(zip(choice.results, cond.outputs[2:], strict=True))
        number = inside.tensor("Sub", counter, cond.outputs[0])
        moved = {t: block for t, block in blocks.items() if not liftable.varies[t]}
        varying = {t: block for t, block in blocks.items() if liftable.varies[t]}
        substitute(self.program, moved | self._take(liftable, choice, varying, number, count))

    def _make(
        self,
        liftable: Liftable,
        choice: Choice,
        count: int,
        fresh: Region,
        now: tuple[Tensor, Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, dict[Tensor, Tensor]]:
        """Make a block: return the first iteration that it is for, for how many it is, and what stands for what."""
        counter, begin, end = now
        build = Builder(fresh, choice.results[0].op, "block")
        size = self._counted(build, count) if self.is_counted else _grown(build, begin, end, count)
        for op in choice.operations:
            if op in liftable.rows:
                rows, index = liftable.rows[op]
                size = build.tensor("Minimum", size, _left(build, rows, index))
        size = build.tensor("Maximum", size, build.constant(1, dtypes.int32))
        counters = {t: self._range(build, t, size) for t in liftable.varies if t.op.is_param}

        def take(op: Operation, rows: Tensor, _: Tensor) -> Tensor:
            inner = Builder(fresh, op, "rows")
            index = liftable.rows[op][1]
            stop = inner.tensor("Add", index, _as(inner, size, index.dtype))
            return inner.tensor("StridedSlice", rows, index, stop, spec=(slice(DYNAMIC, DYNAMIC, None),))

        return counter, size, liftable.emit(choice.operations, fresh, counters, take)

    def _counted(self, build: Builder, count: int) -> Tensor:
        """Return how many iterations are left, `count` at most: as many as the predicate says for the next counters."""
        liftable = Liftable(self.loop, self.loop.cond, lambda op, rows, index: False)
        (going_on,) = self.loop.cond.results
        if liftable.kind(going_on) is None or not liftable.kind(going_on):
            return build.constant(count, dtypes.int32)
        most = build.constant(count, dtypes.int32)
        params = self.loop.cond.params
        now = dict(zip(params, self.loop.body.params, strict=True))
        counters = {t: self._range(build, now[t], most) for t in liftable.varies if t.op.is_param}
        answers = liftable.emit(liftable.operations, build.region, counters, lambda *_: going_on)[going_on]
        still = build.tensor("Cumprod", _as(build, answers, dtypes.int32), axis=0)
        return build.tensor("Sum", still, axis=(0,))

    def _range(self, build: Builder, param: Tensor, size: Tensor) -> Tensor:
        """Return the values of a counter from now on; of a variable that stays as it is, the one."""
        step = self.loop.step(param)
        if not step:
            return param
        amount = build.constant(step, param.dtype)
        far = build.tensor("Mul", _as(build, size, param.dtype), amount)
        return build.tensor("Range", param, build.tensor("Add", param, far), amount)

    def _take(
        self,
        liftable: Liftable,
        choice: Choice,
        blocks: Mapping[Tensor, Tensor],
        number: Tensor,
        count: int,
    ) -> dict[Tensor, Tensor]:
        """Return what stands for the results in an iteration; what it reads it reads as before, and fails as before."""
        reads = [op for op in choice.operations if op in liftable.rows]
        return {t: row_of(self.loop, t, block, number, reads) for t, block in blocks.items()}

    def _none(self, liftable: Liftable, old: Tensor) -> Tensor:
        """Return what the loop carries before there is a block."""
        lead = (0,) if liftable.varies[old] else ()
        none = np.zeros((*lead, *old.shape.as_tuple()), old.dtype.numpy)
        return Builder(self.loop.op.region, old.op, "block").constant(none, old.dtype)

    def _variable(self, start: Tensor, shape: Shape, like: Operation) -> Tensor:
        """Give the loop a variable, of which reports do not speak."""
        variable = add_variable(self.loop.op, start, shape, f"{like.name}/block")
        variable.op.attrs["block"] = True
        self.loop.body.results.append(variable)  # until there is what it becomes
        return variable


class _HostBlocks(_Blocks):
    """A loop under swap, whose feeds stay in the host's memory: blocks begin where these are cut, at multiples."""

    def _takes_row(self, op: Operation, rows: Tensor, index: Tensor) -> bool:
        """Whether an operation reads a feed by a counter."""
        fed = rows.op.role is Role.FEED and bool(op.definition.effects)
        if not (fed and index.op.is_param and index.dtype is dtypes.int32 and self.loop.step(index) == 1):
            return False
        start = known_start(self.loop.start(index))
        return start is not None and start >= 0

    def _liftable(self) -> Liftable:
        return Liftable(self.loop, self.loop.body, self._takes_row, takes_counters=False)

    def _choose(self, liftable: Liftable, kept: Counter[Tensor], most: int) -> Choice | None:
        products = not recomputes(self.loop.op)
        alone = choose(liftable, kept, most // 2, products)
        multiplied = set() if alone is None else set(alone.operations)
        rows = [op for op in liftable.rows if self._is_cut(op, kept, multiplied)]
        choice = choose(liftable, kept, most // 2, products, rows)
        counters = {liftable.rows[op][1] for op in choice.operations if op in liftable.rows} if choice else set()
        return choice if len(counters) == 1 else None

    def _is_cut(self, op: Operation, kept: Mapping[Tensor, int], multiplied: set[Operation]) -> bool:
        """Whether a row comes from the block: it is large, used besides what is made of blocks, and by no view."""
        row, rest = op.outputs[0], [user for user in op.outputs[0]._consumers if user not in multiplied]
        waited_for = any(op in other.control_inputs for other in self.loop.body.walk())
        used = row not in kept and not waited_for and all(map(_makes_new, row._consumers))
        fed = op.definition.row(op)  # type: ignore[misc]
        return bool(rest) and used and is_unstacked_only(fed[0]) and nbytes(row) >= _SMALL  # type: ignore[index]

    def _bytes(self, liftable: Liftable, choice: Choice) -> int:
        rows = [op.outputs[0] for op in choice.operations if op in liftable.rows]
        return sum(nbytes(t) for t in dict.fromkeys([*choice.results, *rows]) if liftable.varies[t])

    def _counter(self, like: Operation) -> Tensor:
        (counter,) = self._counters
        return counter

    def _write(self, liftable: Liftable, choice: Choice, count: int) -> None:
        self._counters = {liftable.rows[op][1] for op in choice.operations if op in liftable.rows}
        super()._write(liftable, choice, count)

    def _make(
        self,
        liftable: Liftable,
        choice: Choice,
        count: int,
        fresh: Region,
        now: tuple[Tensor, Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, dict[Tensor, Tensor]]:
        counter, _, _ = now
        build = Builder(fresh, choice.results[0].op, "block")
        size = build.constant(count, dtypes.int32)
        first = build.tensor("Mul", build.tensor("FloorDiv", counter, size), size)

        def take(op: Operation, rows: Tensor, _: Tensor) -> Tensor:
            unstack = op.inputs[2].op
            unstack.attrs["blocks"] = tuple(dict.fromkeys((*unstack.attrs["blocks"], count)))
            (row,) = op.outputs
            block = Builder(fresh, op, "block")
            return block.tensor(
                "TensorArrayReadBlock", *op.inputs, dtype=row.dtype, element_shape=row.shape, count=count
            )

        return first, size, liftable.emit(choice.operations, fresh, {}, take)

    def _take(
        self,
        liftable: Liftable,
        choice: Choice,
        blocks: Mapping[Tensor, Tensor],
        number: Tensor,
        count: int,
    ) -> dict[Tensor, Tensor]:
        """Take each result by the array that it is made of; an array that nothing else reads has then been read."""
        left = {op: self._reads_on(op, choice, blocks) for op in choice.operations if op in liftable.rows}
        found = {}
        for old, block in blocks.items():
            read = next(op for op in self._sources(liftable, old.op))
            inputs = [*read.inputs, block]
            inside = Builder(self.loop.body, old.op, "row")
            found[old] = inside.tensor(
                "TensorArrayRowOf", *inputs, known_shape=old.shape, count=count, reads=not left[read]
            )
            left[read] = True
        return found

    def _reads_on(self, read: Operation, choice: Choice, blocks: Mapping[Tensor, Tensor]) -> bool:
        """Whether the loop goes on reading elements by themselves."""
        return read.outputs[0] not in blocks and any(u not in choice.operations for u in read.outputs[0]._consumers)

    def _sources(self, liftable: Liftable, op: Operation) -> list[Operation]:
        """Return the reads that an operation's result is made of."""
        if op in liftable.rows:
            return [op]
        varying = [t.op for t in op.inputs if liftable.kind(t) and not t.op.is_param]
        return list(dict.fromkeys(read for each in varying for read in self._sources(liftable, each)))


def _makes_new(op: Operation) -> bool:
    """Whether no result of an operation is a view of its input, which would keep a block in memory if it were saved."""
    return isinstance(op.definition.kernel, Ufunc) or op.type in ("Concat", "MatMul")


def _enough(liftable: Liftable, choice: Choice) -> int:
    """Return for how many iterations a block has all the rows that make it worth it, or that there are."""
    heights = [t.shape.as_tuple()[0] if t.rank and t.rank > 1 else 1 for t in choice.results]
    lengths = [liftable.rows[op][0].shape[0] for op in choice.operations if op in liftable.rows]
    enough = max(-(-_ROWS // max(n, 1)) for n in heights)
    return int(min([enough, *(n for n in lengths if n is not None)]))


def _shape(liftable: Liftable, old: Tensor) -> Shape:
    return (Shape([None]) if liftable.varies[old] else SCALAR) + old.shape


def _as(build: Builder, tensor: Tensor, dtype: dtypes.DType) -> Tensor:
    return tensor if tensor.dtype is dtype else build.tensor("Cast", tensor, dtype=dtype)


def _grown(build: Builder, begin: Tensor, end: Tensor, count: int) -> Tensor:
    """Return twice the size of the last block, `count` at most."""
    last = build.tensor("Sub", end, begin)
    return build.tensor("Minimum", build.tensor("Add", last, last), build.constant(count, dtypes.int32))


def _left(build: Builder, rows: Tensor, index: Tensor) -> Tensor:
    """Return how many rows there are from an index on."""
    length = rows.shape[0]
    if length is not None:
        total = build.constant(length, dtypes.int32)
    else:
        total = build.tensor("StridedSlice", build.tensor("Shape", rows), spec=(0,))
    return build.tensor("Sub", total, _as(build, index, dtypes.int32))
