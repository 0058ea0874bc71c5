"""Multiply all inputs of a recurrent loop at once in front of it.

A cell written as ``concat([xs.read(t), h], 1) @ w`` multiplies the input and the state in one product. The part of the
inputs does not depend on the state: all rows of `xs` times the upper rows of `w` are one large product, whose rows the
loop reads in place of the inputs.
"""

from __future__ import annotations

from ...base import dtypes
from ...base.shapes import Shape
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import saved_outputs
from ...ir.substitute import substitute
from ...ir.tensor import Tensor
from .writer import Writer

WORTH = 1 << 18  # multiplications in an iteration below which a read and an addition cost more


def hoist_products(program: Program, most_bytes: int) -> Program:
    """Return the program with products of unstacked inputs in front of their loops; the given one is used up."""
    moved: dict[Tensor, Tensor] = {}
    for op in list(program.graph.root.walk()):
        if multiplies_input(op) and not _saves_memory(op) and _bytes(op) <= most_bytes:
            moved[op.outputs[0]] = _hoist(op)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def multiplies_input(op: Operation) -> bool:
    """Whether an operation of a loop is ``concat([read, state], 1) @ w`` with all but the state from outside."""
    owner = op.region.owner
    if op.type != "MatMul" or owner is None or not owner.is_while:
        return False
    joined = op.inputs[0].op
    if joined.type != "Concat" or len(joined.inputs) != 2:
        return False
    if op.attrs["transpose_a"] or op.attrs["transpose_b"] or joined.attrs["axis"] not in (1, -1):
        return False
    if op.control_inputs or joined.control_inputs or not is_row_read(joined.inputs[0], op.region):
        return False
    known = all(t.shape.is_fully_known and t.rank == 2 for t in [*joined.inputs, *op.inputs])
    return known and not is_inside(op.inputs[1], op.region) and _work(op) >= WORTH


def recomputes(loop: Operation) -> bool:
    """Whether a loop runs again for its gradient."""
    return "checkpoint_every" in loop.attrs and bool(saved_outputs(loop))


def _saves_memory(op: Operation) -> bool:
    """Whether what the loop of an operation reads row by row need not be in memory at once."""
    owner = op.region.owner
    return owner is not None and (owner.attrs["swap_memory"] or recomputes(owner))


def is_row_read(tensor: Tensor, body: Region) -> bool:
    """Whether a tensor is an element of an array of numbers that was unstacked outside of a loop."""
    read = tensor.op
    if read.type != "TensorArrayRead" or read.region is not body or len(read.inputs) != 3 or read.control_inputs:
        return False
    handle, _, flow = read.inputs
    if is_inside(flow, body) or flow.op.type != "TensorArrayUnstack" or flow.op.inputs[0] is not handle:
        return False
    rows = flow.op.inputs[1]
    known = handle.op.type == "TensorArrayNew" and rows.shape.is_fully_known and len(rows.shape.as_tuple()) > 1
    return known and rows.dtype in (dtypes.float32, dtypes.float64) and rows.shape[1:] == tensor.shape


def is_inside(tensor: Tensor, body: Region) -> bool:
    """Whether a tensor is made in a loop's body."""
    return body.encloses(tensor.region)


def _work(op: Operation) -> int:
    batch, columns = op.outputs[0].shape.as_tuple()
    return int(batch * columns * op.inputs[0].op.inputs[0].shape.as_tuple()[1])


def _bytes(op: Operation) -> int:
    """Return how large the product of all inputs is."""
    dtype = op.outputs[0].dtype.numpy
    length = op.inputs[0].op.inputs[0].op.inputs[2].op.inputs[1].shape.as_tuple()[0]
    elements = op.outputs[0].shape.num_elements
    return 1 << 62 if elements is None or dtype is None else length * elements * dtype.itemsize


def _hoist(op: Operation) -> Tensor:
    owner, body = op.region.owner, op.region
    assert owner is not None
    read, state = op.inputs[0].op.inputs
    handle, index, flow = read.op.inputs
    rows, columns = flow.op.inputs[1], op.outputs[0].shape.as_tuple()[1]
    length, batch, units = rows.shape.as_tuple()
    outside = Writer(owner.region, op)
    flat = outside.reshape(rows, [length * batch, units])
    upper, lower = (outside.rows(op.inputs[1], *piece) for piece in ((0, units), (units, None)))
    product = outside.reshape(
        outside.emit("MatMul", [flat, upper], [length * batch, columns], dict(op.attrs)), [length, batch, columns]
    )
    shape = Shape([batch, columns])
    array = {**handle.op.attrs, "element_shape": shape, "array_name": handle.op.attrs["array_name"] or handle.op.name}
    made = Operation(
        owner.region,
        "TensorArrayNew",
        op.graph.unique_name(f"{handle.op.name}/products"),
        handle.op.inputs,
        [(t.dtype, t.shape) for t in handle.op.outputs],
        attrs=array,
        source=handle.op.source,
    )
    given = [made.outputs[0], product, made.outputs[1]]
    start = outside.emit("TensorArrayUnstack", given, [], dict(flow.op.attrs), dtype=flow.dtype)
    inside = Writer(body, op)
    attrs = {**read.op.attrs, "element_shape": shape}
    term = inside.emit("TensorArrayRead", [made.outputs[0], index, start], [batch, columns], attrs)
    rest = inside.emit("MatMul", [state, lower], [batch, columns], dict(op.attrs))
    return inside.emit("Add", [term, rest], [batch, columns])
