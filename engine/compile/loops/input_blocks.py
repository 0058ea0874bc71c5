"""Read fed rows, and multiply them, in blocks of many iterations, where all at once would be too many.

A loop under swap reads its inputs from the host's memory. One copy for many rows costs less than one for each, and so
does one product, of all rows of a block with the part of the weights that they meet. The loop carries the block on from
iteration to iteration; the iteration that needs another one reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...base import dtypes
from ...base.shapes import SCALAR, Shape
from ...ir.definition import Ufunc
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import add_variable
from ...ir.substitute import returned, substitute
from ...ir.tensor import Tensor
from ...ir.traits import Role
from .input_projection import is_row_read, multiplies_input, recomputes
from .mark_swappable import is_unstacked_only
from .writer import Writer

_ROWS = 1024  # of a matrix, beyond which its product is hardly faster for more
_SMALL = 1 << 14  # bytes of a row below which a copy for each is hardly slower


@dataclass(frozen=True)
class _Rows:
    """What a loop reads from an array that was fed, by a counter."""

    read: Operation
    products: list[Operation]
    is_cut: bool  # whether the row itself comes from the block, or its products only
    is_alone: bool  # whether nothing but a product needs it, so that who has that has read it

    @property
    def row(self) -> Tensor:
        return self.read.outputs[0]

    @property
    def counter(self) -> Tensor:
        return self.read.inputs[1]

    @property
    def unstack(self) -> Operation:
        return self.read.inputs[2].op

    @property
    def length(self) -> int:
        return int(self.unstack.inputs[1].shape.as_tuple()[0])

    @property
    def height(self) -> int:
        """Of the matrix that a row is, or belongs to."""
        return int(self.row.shape.as_tuple()[0]) if len(self.row.shape.as_tuple()) > 1 else 1

    @property
    def carried(self) -> list[Tensor]:
        """What is cut out of blocks."""
        return [self.row] * self.is_cut + [product.outputs[0] for product in self.products]


def read_in_blocks(program: Program, block_bytes: int) -> Program:
    """Return the program with rows of feeds read and multiplied in blocks; the given one is used up."""
    moved: dict[Tensor, Tensor] = {}
    operations = list(program.graph.root.walk())
    kept = {*returned(program), *(t for op in operations for c in op.control_inputs for t in c.outputs)}
    for loop in [op for op in operations if op.is_while]:
        found = list(_found(loop, kept))
        count = _count(found, block_bytes)
        for counter in dict.fromkeys(rows.counter for rows in found if count > 1):
            moved |= _Blocks(loop, counter, count).write([rows for rows in found if rows.counter is counter])
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _count(found: list[_Rows], most: int) -> int:
    """Return how many iterations of a loop one block is for, if all its blocks together have at most so many bytes."""
    each = sum(_bytes(t) for rows in found for t in {rows.row, *rows.carried})
    enough = max((min(rows.length, -(-_ROWS // rows.height)) for rows in found), default=0)
    return min(enough, most // max(each, 1))


def _found(loop: Operation, kept: set[Tensor]) -> Iterator[_Rows]:
    """Yield what a loop reads by a counter from what was fed, as far as blocks are worth it."""
    body = loop.regions[1]
    products = [] if recomputes(loop) else [op for op in body.operations if multiplies_input(op)]
    for read in [op for op in body.operations if op.type == "TensorArrayRead" and _counts(op.inputs[1], body)]:
        row = read.outputs[0]
        if not is_row_read(row, body) or not _is_fed(read):
            continue
        uses = [p for p in products if p.inputs[0].op.inputs[0] is row]
        fed = loop.attrs["swap_memory"] and is_unstacked_only(read.inputs[2].op.inputs[1]) and _bytes(row) >= _SMALL
        alone = _is_needed_once(row, uses, kept)
        is_cut = fed and not alone and row not in kept and all(map(_makes_new, row._consumers))
        rows = _Rows(read, uses, is_cut, alone)
        if rows.carried:
            yield rows


def _is_fed(read: Operation) -> bool:
    """Whether the rows of a feed are all elements of the array that an operation reads."""
    handle, _, flow = read.inputs
    fed, size = flow.op.inputs[1], handle.op.inputs[0].op
    if fed.op.role is not Role.FEED or handle.op.attrs["dynamic_size"] or not size.is_constant:
        return False
    return bool(size.attrs["value"] == fed.shape.as_tuple()[0])


def _is_needed_once(row: Tensor, uses: list[Operation], kept: set[Tensor]) -> bool:
    """Whether a row is there for one product only."""
    joined = [op.inputs[0] for op in uses]
    once = len(uses) == 1 and list(row._consumers) == [joined[0].op] and list(joined[0]._consumers) == uses
    return once and row not in kept and joined[0] not in kept


def _makes_new(op: Operation) -> bool:
    """Whether no result of an operation is a view of its input, which would keep a block in memory if it were saved."""
    return isinstance(op.definition.kernel, Ufunc) or op.type in ("Concat", "MatMul")


def _counts(index: Tensor, body: Region) -> bool:
    """Whether a loop variable goes up by one in each iteration."""
    if index not in body.params:
        return False
    after = body.results[body.params.index(index)].op
    steps = [t.op for t in after.inputs if t is not index]
    return after.type == "Add" and len(steps) == 1 and steps[0].type == "Const" and bool(steps[0].attrs["value"] == 1)


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
            self.body,
            "Cond",
            self.body.graph.unique_name(f"{like.name}/block"),
            [fresh],
            [(t.dtype, t.shape) for t in made],
            regions=(self.passed, self.fresh),
            attrs={"saved_outputs": [], "block": True},
            device=like.device,
            source=like.source,
        )
        self.body.results += [number, *chosen.outputs]
        return {old: self._row(rows, old, block) for (rows, old), block in zip(olds, chosen.outputs, strict=True)}

    def _read(self, rows: _Rows) -> Iterator[Tensor]:
        """Read a block, where another is wanted, and multiply it; yield what rows of each result stand for."""
        read, (row,) = rows.read, rows.read.outputs
        shape = Shape([None]) + row.shape
        attrs = {"dtype": row.dtype, "element_shape": row.shape, "count": self.count}
        block = Writer(self.fresh, read, "block").emit("TensorArrayReadBlock", read.inputs, shape, attrs)
        cuts = rows.unstack.attrs["blocks"]
        rows.unstack.attrs["blocks"] = cuts if self.count in cuts else (*cuts, self.count)
        for old in rows.carried:
            yield self._carry(block if old is row else self._multiplied(block, old.op), old)

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
        attrs = {"count": self.count, "reads": old is rows.row or rows.is_alone}
        inside = Writer(self.body, old.op, "block")
        row = inside.emit("TensorArrayRowOf", [handle, index, flow, block], old.shape, attrs)
        if old is rows.row:
            return row
        fed, state = old.op.inputs[0].op.inputs
        lower = Writer(self.loop.region, old.op).rows(old.op.inputs[1], fed.shape.as_tuple()[1], None)
        rest = inside.emit("MatMul", [state, lower], old.shape, dict(old.op.attrs))
        return inside.emit("Add", [row, rest], old.shape)
