"""Matrix products in kernels of native programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..program import Code, Computation, Instruction
from .emitting import emits_code, emits_operations
from .values import NotWritten, Value, c_type, row_strides

if TYPE_CHECKING:
    from .writer import Writer

MOST_MULTIPLICATIONS = 1 << 21  # of a product: larger products are faster on all blocks of a device


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor of a product.

    Attributes
    ----------
    value : Value
    size, along, inner : int
        Size of the dimension shared with the result; strides along that dimension and along the inner one, in elements.
    """

    value: Value
    size: int
    along: int
    inner: int


@emits_code(Code.ADD_PRODUCT)
def _emit_add_product(w: Writer, i: int, each: Instruction) -> None:
    """Add a product of matrices, the first transposed, to a sum."""
    if each.inputs[0] not in w.values:
        raise NotWritten("a sum of products is not on the device")
    total, a, b = (w.value(r) for r in each.inputs)
    w.made.cost += 100
    _multiply_matrices(w, total, _make_operand(a, along=1), _make_operand(b, along=1), f" + {total.code}[i]")


@emits_operations("MatMul", kinds="iuf")
def _emit_matmul(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    _write_product(w, computation, values, each)


@emits_operations("MatMulAdd", kinds="f")
def _emit_matmul_add(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    _write_product(w, computation, values, each)


def _write_product(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Multiply matrices, and add further inputs."""
    left = _make_operand(values[0], along=int(computation.attrs["transpose_a"]))
    right = _make_operand(values[1], along=1 - int(computation.attrs["transpose_b"]))
    made = w.make(each.outputs[0], (left.size, right.size))
    if any(added.shape != made.shape for added in values[2:]):
        raise NotWritten(f"{computation.name} adds what has another shape")
    for added in values[2:]:
        w.note_access(added)
    _multiply_matrices(w, made, left, right, "".join(f" + {added.at('i')}" for added in values[2:]))


def _make_operand(value: Value, along: int) -> Operand:
    """Return a factor, whose dimension `along` belongs to the result."""
    if len(value.shape) != 2:
        raise NotWritten("a product is of batches of matrices")
    strides = row_strides(value.shape)
    return Operand(value, value.shape[along], strides[along], strides[1 - along])


def _multiply_matrices(w: Writer, made: Value, a: Operand, b: Operand, end: str) -> None:
    """Multiply matrices, each thread for elements of its own; `end` is C to add to an element."""
    inner = a.value.size // max(1, a.size)
    if (a.size, b.size) != made.shape or a.size * inner != a.value.size or inner * b.size != b.value.size:
        raise NotWritten(f"shapes {list(a.value.shape)} and {list(b.value.shape)} cannot be multiplied")
    if made.size * inner > MOST_MULTIPLICATIONS:
        raise NotWritten(f"a product has {a.size} x {inner} x {b.size} multiplications")
    # each element of the result reads a row and a column, mostly of other threads
    w.note_access(a.value, each_own=False)
    w.note_access(b.value, each_own=False)
    w.note_access(made, written=True)
    if not made.size:
        return
    layout = f"{made.size}, {b.size}, {inner}, {a.along}, {a.inner}, {b.along}, {b.inner}"
    ending = f"[&]({c_type(made.dtype)} total, int i) {{ return total{end}; }}"
    w.add_line(f"multiply<{layout}>({a.value.code}, {b.value.code}, {made.code}, {ending});")
    w.note_elements(made.size, cost=inner)
