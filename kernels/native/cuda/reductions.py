"""Reductions in kernels of native programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..program import Computation, Instruction
from .emitting import emits
from .values import NotWritten, Shape, Strided, Value, c_type, joint_shape, row_strides
from .written import threads_for

if TYPE_CHECKING:
    from .writer import Writer

MOST_READ = 1 << 18  # elements of an array that is reduced
_WARP = 32
_TOGETHER = 64  # elements from which on all threads reduce them to one


def lanes_for(rows: int, columns: int, are_neighbours: bool = True) -> int:
    """Return how many threads go along a row together, a power of two, where one block has all the rows.

    Those of a warp where the elements of a row are neighbours in memory, and more where there are threads to spare.
    """
    spare = threads_for(rows * columns) // (1 << max(0, rows - 1).bit_length())
    return max(1, min(1 << max(0, columns - 1).bit_length(), max(spare, _WARP if are_neighbours else 1)))


def _axes(computation: Computation, rank: int) -> list[int]:
    axis = computation.attrs["axis"]
    return list(range(rank)) if axis is None else sorted(a % rank for a in axis)


def _reduce(join: str, begin: str, *types: str, kinds: str) -> None:
    """Write reductions of some types; each begins with `begin` and joins elements by a struct."""

    def emit(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
        (x,) = values
        gone = _axes(computation, len(x.shape))
        kept = tuple(1 if a in gone else d for a, d in enumerate(x.shape))
        shape = kept if computation.attrs["keepdims"] else tuple(d for a, d in enumerate(x.shape) if a not in gone)
        if not x.size and computation.type in ("Max", "Min", "Mean"):
            raise NotWritten(f"{computation.name} reduces nothing")
        divided = f" / {x.size // math.prod(kept)}" if computation.type == "Mean" else ""
        reduce(w, each.outputs[0], x, kept, shape, join, begin, divided)

    emits(*types, kinds=kinds)(emit)


_reduce("Sum", "0", "Sum", kinds="iuf")
_reduce("Sum", "0", "Mean", kinds="f")
_reduce("Larger", "", "Max", kinds="iuf")
_reduce("Smaller", "", "Min", kinds="iuf")
_reduce("Both", "true", "All", kinds="b")
_reduce("Either", "false", "Any", kinds="b")


@emits("SumTo", kinds="iuf", shapes=(1,))
def _sum_to(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Sum over the dimensions along which a shape is broadcast."""
    x, shape = values[0], tuple(map(int, w.known(each.inputs[1]).reshape(-1)))
    if joint_shape([x.shape, shape]) != x.shape:
        raise NotWritten(f"{computation.name} sums to another shape")
    if x.shape == shape:
        w.alias(each.outputs[0], x, shape)
        return
    kept = (*[1] * (len(x.shape) - len(shape)), *shape)
    reduce(w, each.outputs[0], x, kept, shape, "Sum", "0", "")


def reduce(w: Writer, register: int, x: Value, kept: Shape, shape: Shape, join: str, begin: str, divided: str) -> None:
    """Join the elements of an array where another shape has 1.

    Parameters
    ----------
    w : Writer
    register : int
        Of the result.
    x : Value
    kept, shape : tuple of int
        That of `x` with 1 where it is reduced; that of the result.
    join, begin, divided : str
        C of what joins two, of what is begun with ("" for the first element), and what is done in the end.
    """
    if x.size > MOST_READ:
        raise NotWritten(f"{w.name_of(register)} is reduced from {x.size} elements")
    strides = row_strides(x.shape)
    inner = [(d, s) for d, k, s in zip(x.shape, kept, strides, strict=True) if k != d]
    outer = Strided(tuple(kept), tuple(0 if k != d else s for d, k, s in zip(x.shape, kept, strides, strict=True)))
    made, kind = w.make(register, shape), c_type(x.dtype)
    w.uses(x, each_own=False)
    count = math.prod(d for d, _ in inner)
    within = Strided(tuple(d for d, _ in inner), tuple(s for _, s in inner))
    if made.size == 1 and count >= _TOGETHER:
        w.uses(made, written=True)
        _reduce_together(w, made, x, within, join, begin, divided)
        return
    first = x.at(outer.index("i"))
    lines = [f"{kind} total = {begin or first};"]
    element = x.at(f"{outer.index('i')} + {within.index('k')}")
    lanes = 1 if made.is_element else lanes_for(made.size, count, are_neighbours=bool(inner) and inner[-1][1] == 1)
    if lanes > 1:
        w.uses(made, each_own=False, written=True)
        w.lines += [f"EACH_BY({lanes}u, i, {made.size}) {{", *lines]
        w.lines += [f"for (int k = threadIdx.x % {lanes}u; k < {count}; k += {lanes})"]
        w.lines += [f"    total = {join}::of(total, {element});"]
        w.lines += [f"total = over_row<{join}>(total, threadIdx.x % {lanes}u, {lanes}u);"]
        w.lines += [f"if (threadIdx.x % {lanes}u == 0)", f"    {made.code}[i] = total{divided};", "}"]
        w.note_elements(made.size * lanes, cost=count / lanes)
        return
    lines += [f"for (int k = {0 if begin else 1}; k < {count}; k++)", f"    total = {join}::of(total, {element});"]
    w.uses(made, written=True)
    if made.is_element:
        w.lines += ["{", *lines, f"{made.code} = total{divided};", "}"]
        w.note_elements(1, cost=count)
    else:
        w.each(made.size, [*lines, f"{made.code}[i] = total{divided};"], cost=count)


def _reduce_together(w: Writer, made: Value, x: Value, within: Strided, join: str, begin: str, divided: str) -> None:
    """Let all threads join elements to one."""
    kind, count = c_type(x.dtype), math.prod(within.shape)
    w.line("{")
    w.line(f"{kind} total = {begin or x.at('0')};")
    w.each(count, [f"total = {join}::of(total, {x.at(within.index('i'))});"])
    w.line(f"total = over_row<{join}>(total, threadIdx.x, blockDim.x){divided};")
    w.pending.clear()  # who reduces waits
    if made.is_element:
        w.line(f"{made.code} = total;")
    else:
        w.each(1, [f"{made.code}[0] = total;"])
        w.uses(made, written=True)
    w.line("}")
