"""Read fed rows, and multiply them, in blocks of many iterations, where all at once would be too many.

A loop under swap reads its inputs from the host's memory. One copy for many rows costs less than one for each, and so
does one product, of all rows of a block with the part of the weights that they meet. The loop carries the block on from
iteration to iteration; the iteration that needs another one reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..base import dtypes
from ..base.settings import Settings
from ..base.shapes import SCALAR, Shape
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rewrite import Program, copy_program
from ..ir.structured import add_variable, extras
from ..ir.tensor import Tensor
from .inputs import is_row_read, multiplies_input, recomputes
from .substitute import substitute
from .swapped import LOOKS_AT
from .writer import Writer

_ROWS = 1024  # of a matrix, beyond which its product is hardly faster for more
_SMALL = 1 << 14  # bytes of a row below which a copy for each is hardly slower


@dataclass(frozen=True)
class _Rows:
    """What a loop reads from an array that was fed, by a counter."""

    read: Operation
    products: list[Operation]
    is_cut: bool  # whether the row itself comes from the block, or its products only

    @property
    def unstack(self) -> Operation:
        return self.read.inputs[2].op

    def count(self, most: int) -> int:
        """Return how many rows are a block."""
        length, *dims = self.unstack.inputs[1].shape.as_tuple()
        height = dims[0] if len(dims) > 1 else 1
        widest = max(_bytes(t) for t in (*self.read.outputs, *(p.outputs[0] for p in self.products)))
        return int(self.unstack.attrs["block"] or min(length, -(-_ROWS // height), most // widest))


def read_in_blocks(program: Program, settings: Settings) -> Program:
    """Return the program with rows of feeds read and multiplied in blocks; the given one is used up."""
    moved: dict[Tensor, Tensor] = {}
    pinned = {control for op in program.graph.root.walk() for control in op.control_inputs} | set(program.targets)
    for loop in [op for op in program.graph.root.walk() if op.type == "While"]:
        groups: dict[tuple[Tensor, int], list[_Rows]] = {}
        for rows in _found(loop, pinned, settings.block_bytes):
            count = rows.unstack.attrs["block"] = rows.count(settings.block_bytes)
            groups.setdefault((rows.read.inputs[1], count), []).append(rows)
        for (counter, count), group in groups.items():
            moved |= _Blocks(loop, counter, count).write(group)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _found(loop: Operation, pinned: set[Operation], most: int) -> Iterator[_Rows]:
    """Yield what a loop reads by a counter from what was fed, as far as blocks are worth it."""
    body = loop.regions[1]
    saved = {e.value for e in extras(loop)}
    products = [] if recomputes(loop) else [op for op in body.operations if multiplies_input(op)]
    for read in body.operations:
        row = read.outputs[0] if read.type == "TensorArrayRead" else None
        if row is None or not is_row_read(row, body) or not _counts(read.inputs[1], body):
            continue
        fed = read.inputs[2].op.inputs[1]
        lent = loop.attrs["swap_memory"] and _is_only_unstacked(fed) and _bytes(row) >= _SMALL
        uses = [p for p in products if p.inputs[0].op.inputs[0] is row]
        rows = _Rows(read, uses, lent and row not in saved and read not in pinned)
        if fed.op.type == "Feed" and (rows.is_cut or uses) and rows.count(most) > 1:
            yield rows


def _counts(index: Tensor, body: Region) -> bool:
    """Whether a loop variable goes up by one in each iteration."""
    if index not in body.params:
        return False
    after = body.results[body.params.index(index)].op
    steps = [t.op for t in after.inputs if t is not index]
    return after.type == "Add" and len(steps) == 1 and steps[0].type == "Const" and bool(steps[0].attrs["value"] == 1)


def _is_only_unstacked(feed: Tensor) -> bool:
    """Whether a feed may stay in the host's memory but for the rows that are read."""
    return all(use.type in LOOKS_AT or use.type == "TensorArrayUnstack" for use in feed._consumers)


def _bytes(tensor: Tensor) -> int:
    assert tensor.dtype.numpy is not None
    return int(np.prod(tensor.shape.as_tuple(), dtype=np.int64)) * tensor.dtype.numpy.itemsize


class _Blocks:
    """Writes what reads blocks into a loop, which carries them.

    Parameters
    ----------
    loop : Operation
    counter : Tensor
        The row that is read.
    count : int
        Rows of a block.
    """

    def __init__(self, loop: Operation, counter: Tensor, count: int) -> None:
        self.loop, self.counter, self.count = loop, counter, count
        self.body = loop.regions[1]
        self.fresh, self.passed = (Region(loop.graph, self.body, f"{which} branch") for which in ("true", "false"))

    def write(self, found: list[_Rows]) -> dict[Tensor, Tensor]:
        """Return what stands for what was read or multiplied row by row."""
        like, dtype = found[0].read, self.counter.dtype
        inside = Writer(self.body, like, "block")
        start = Writer(self.loop.region, like, "block").constant(-1, dtype)
        before = self._variable(start, SCALAR, like)
        number = inside.emit("FloorDiv", [self.counter, inside.constant(self.count, dtype)], [], dtype=dtype)
        fresh = inside.emit("NotEqual", [number, before], [], dtype=dtypes.bool_)
        olds = [(rows, old) for rows in found for old in self._read(rows)]
        made = self.fresh.results
        chosen = Operation(
            self.body, "Cond", self.body.graph.unique_name(f"{like.name}/block"), [fresh],
            [(t.dtype, t.shape) for t in made], regions=(self.passed, self.fresh), attrs={"extras": [], "block": True},
            device=like.device, source=like.source,
        )  # fmt: skip
        self.body.results += [number, *chosen.outputs]
        return {old: self._row(rows, old, block) for (rows, old), block in zip(olds, chosen.outputs, strict=True)}

    def _read(self, rows: _Rows) -> Iterator[Tensor]:
        """Read a block, where another is wanted, and multiply it; yield what rows of each result stand for."""
        read, (row,) = rows.read, rows.read.outputs
        shape = Shape([None]) + row.shape
        attrs = {"dtype": row.dtype, "element_shape": row.shape, "count": self.count}
        block = Writer(self.fresh, read, "block").emit("TensorArrayReadBlock", read.inputs, shape, attrs)
        if rows.is_cut:
            yield self._carry(block, row)
        for product in rows.products:
            yield self._carry(self._multiplied(block, product), product.outputs[0])

    def _multiplied(self, block: Tensor, product: Operation) -> Tensor:
        """Multiply all rows of a block with the rows of a matrix that they meet."""
        fresh, (height, width) = Writer(self.fresh, product), product.inputs[0].op.inputs[0].shape.as_tuple()
        columns = product.outputs[0].shape.as_tuple()[1]
        upper = Writer(self.loop.region, product).rows(product.inputs[1], 0, width)
        flat = fresh.reshape(block, [-1, width])
        made = fresh.emit("MatMul", [flat, upper], [None, columns], dict(product.attrs))
        return fresh.reshape(made, [-1, height, columns])

    def _carry(self, made: Tensor, old: Tensor) -> Tensor:
        """Have the loop carry what is made of a block."""
        none = np.zeros((0, *old.shape.as_tuple()), made.dtype.numpy)
        start = Writer(self.loop.region, old.op, "block").constant(none, made.dtype)
        self.passed.results.append(self._variable(start, made.shape, old.op))
        self.fresh.results.append(made)
        return old

    def _variable(self, start: Tensor, shape: Shape, like: Operation) -> Tensor:
        """Give the loop a variable, of which reports do not speak."""
        variable = add_variable(self.loop, start, shape, f"{like.name}/block")
        variable.op.attrs["block"] = True
        return variable

    def _row(self, rows: _Rows, old: Tensor, block: Tensor) -> Tensor:
        """Return what stands for a row, or for a product of one and the loop's state."""
        handle, index, flow = rows.read.inputs
        attrs = {"count": self.count, "reads": old.op is rows.read}
        inside = Writer(self.body, old.op, "block")
        row = inside.emit("TensorArrayRowOf", [handle, index, flow, block], old.shape, attrs)
        if old.op is rows.read:
            return row
        fed, state = old.op.inputs[0].op.inputs
        lower = Writer(self.loop.region, old.op).rows(old.op.inputs[1], fed.shape.as_tuple()[1], None)
        rest = inside.emit("MatMul", [state, lower], old.shape, dict(old.op.attrs))
        return inside.emit("Add", [row, rest], old.shape)
