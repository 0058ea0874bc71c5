"""Reductions in kernels of native programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..program import Computation, Instruction
from .emitting import emits_operations
from .values import NotWritten, Shape, Strided, Value, c_type, joint_shape, row_strides
from .written import threads_for

if TYPE_CHECKING:
    from .writer import Writer

MOST_READ = 1 << 18  # most elements of a reduced array
_WARP = 32
_TOGETHER = 64  # elements from which on all threads compute one result together


def lanes_for(rows: int, columns: int, are_neighbours: bool = True) -> int:
    """Return the number of threads for each row, a power of two, if a single block has all the rows.

    A warp's worth where the elements of a row are adjacent in memory, and more where threads are to spare.
    """
    spare = threads_for(rows * columns) // (1 << max(0, rows - 1).bit_length())
    return max(1, min(1 << max(0, columns - 1).bit_length(), max(spare, _WARP if are_neighbours else 1)))


def _reduced_axes(computation: Computation, rank: int) -> list[int]:
    axis = computation.attrs["axis"]
    return list(range(rank)) if axis is None else sorted(a % rank for a in axis)


def _register_reduction(join: str, begin: str, *types: str, kinds: str) -> None:
    """Register emitters of reductions, with an initial value in C and a struct for joining two elements."""

    def emit_reduction(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
        (x,) = values
        gone = _reduced_axes(computation, len(x.shape))
        kept = tuple(1 if a in gone else d for a, d in enumerate(x.shape))
        shape = kept if computation.attrs["keepdims"] else tuple(d for a, d in enumerate(x.shape) if a not in gone)
        if not x.size and computation.type in ("Max", "Min", "Mean"):
            raise NotWritten(f"{computation.name} reduces nothing")
        divided = f" / {x.size // math.prod(kept)}" if computation.type == "Mean" else ""
        write_reduction(w, each.outputs[0], x, kept, shape, Joining(join, begin, divided))

    emits_operations(*types, kinds=kinds)(emit_reduction)


_register_reduction("Sum", "0", "Sum", kinds="iuf")
_register_reduction("Sum", "0", "Mean", kinds="f")
_register_reduction("Larger", "", "Max", kinds="iuf")
_register_reduction("Smaller", "", "Min", kinds="iuf")
_register_reduction("Both", "true", "All", kinds="b")
_register_reduction("Either", "false", "Any", kinds="b")


@emits_operations("SumTo", kinds="iuf", shapes=(1,))
def _emit_sum_to(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Sum over the dimensions along which a shape is broadcast."""
    x, shape = values[0], tuple(map(int, w.known_value(each.inputs[1]).reshape(-1)))
    if joint_shape([x.shape, shape]) != x.shape:
        raise NotWritten(f"{computation.name} sums to another shape")
    if x.shape == shape:
        w.alias(each.outputs[0], x, shape)
        return
    kept = (*[1] * (len(x.shape) - len(shape)), *shape)
    write_reduction(w, each.outputs[0], x, kept, shape, Joining("Sum", "0"))


@dataclass(frozen=True, slots=True)
class Joining:
    """C expressions that join elements.

    Attributes
    ----------
    struct : str
        The struct for joining two elements.
    begin : str
        Initial value; "" for the first element.
    divided : str
        Final division.
    """

    struct: str
    begin: str
    divided: str = ""


def write_reduction(w: Writer, register: int, x: Value, kept: Shape, shape: Shape, joining: Joining) -> None:
    """Join the elements of an array along the dimensions where `kept` has 1.

    Parameters
    ----------
    w : Writer
    register : int
        Register of the result.
    x : Value
    kept, shape : tuple of int
        Shape of `x` with 1 in place of reduced dimensions; shape of the result.
    joining : Joining
    """
    if x.size > MOST_READ:
        raise NotWritten(f"{w.name_of(register)} is reduced from {x.size} elements")
    strides = row_strides(x.shape)
    inner = [(d, s) for d, k, s in zip(x.shape, kept, strides, strict=True) if k != d]
    outer = Strided(tuple(kept), tuple(0 if k != d else s for d, k, s in zip(x.shape, kept, strides, strict=True)))
    within = Strided(tuple(d for d, _ in inner), tuple(s for _, s in inner))
    w.note_access(x, each_own=False)
    _Reduction(w, w.make(register, shape), x, outer, within, joining).write()


@dataclass(frozen=True, slots=True)
class _Reduction:
    """A reduction while it is written; its sizes decide on the number of threads for each result."""

    w: Writer
    made: Value
    x: Value
    outer: Strided  # first elements of the results
    within: Strided  # offsets of a result's elements from the first
    joining: Joining

    def write(self) -> None:
        count, made = math.prod(self.within.shape), self.made
        if made.size == 1 and count >= _TOGETHER:
            self._join_by_all_threads(count)
        elif made.is_element:
            self._join_in_each_thread(count)
        elif (lanes := lanes_for(made.size, count, are_neighbours=self.within.strides[-1:] == (1,))) > 1:
            self._join_by_some_threads(count, lanes)
        else:
            self.w.note_access(made, written=True)
            self.w.add_loop(
                made.size,
                [*self._join_in_one_thread(count), f"{made.code}[i] = total{self.joining.divided};"],
                cost=count,
            )

    def _declare_total(self, index: str = "i") -> str:
        first = self.joining.begin or self.x.at(self.outer.index(index))
        return f"{c_type(self.x.dtype)} total = {first};"

    def _join_element(self) -> str:
        element = self.x.at(f"{self.outer.index('i')} + {self.within.index('k')}")
        return f"    total = {self.joining.struct}::of(total, {element});"

    def _join_in_one_thread(self, count: int) -> list[str]:
        """Return C for a thread that joins all elements of a result."""
        return [
            self._declare_total(),
            f"for (int k = {0 if self.joining.begin else 1}; k < {count}; k++)",
            self._join_element(),
        ]

    def _join_in_each_thread(self, count: int) -> None:
        """Compute an element redundantly in all threads."""
        self.w.lines += ["{", *self._join_in_one_thread(count), f"{self.made.code} = total{self.joining.divided};", "}"]
        self.w.note_elements(1, cost=count)

    def _join_by_some_threads(self, count: int, lanes: int) -> None:
        """Compute each result by some threads together."""
        w, lane = self.w, f"threadIdx.x % {lanes}u"
        w.note_access(self.made, each_own=False, written=True)
        # EACH_BY repeats the last result in spare threads, because over_row needs all lanes
        w.lines += [f"EACH_BY({lanes}u, i, {self.made.size}) {{", self._declare_total()]
        w.lines += [f"for (int k = {lane}; k < {count}; k += {lanes})", self._join_element()]
        w.lines += [f"total = over_row<{self.joining.struct}>(total, {lane}, {lanes}u);"]
        w.lines += [f"if ({lane} == 0)", f"    {self.made.code}[i] = total{self.joining.divided};", "}"]
        w.note_elements(self.x.size, cost=1)  # for as many threads

    def _join_by_all_threads(self, count: int) -> None:
        """Compute the only result by all threads together."""
        w, made = self.w, self.made
        w.note_access(made, written=True)
        w.add_line("{")
        w.add_line(self._declare_total("0"))
        w.add_loop(count, [f"total = {self.joining.struct}::of(total, {self.x.at(self.within.index('i'))});"])
        w.add_line(f"total = over_row<{self.joining.struct}>(total, threadIdx.x, blockDim.x){self.joining.divided};")
        w.pending.clear()  # over_row synchronizes the threads
        if made.is_element:
            w.add_line(f"{made.code} = total;")
        else:
            w.add_loop(1, [f"{made.code}[0] = total;"])
            w.note_access(made, written=True)
        w.add_line("}")
