"""Small products inline, as vectors over rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from .listed import Product
from .memory import Memory
from .types import Value, element_type, lanes_of, vector_of, zero_of

LANES = 16  # most elements of the result in one vector; a longer row is still a single vector


class SmallProduct:
    """A product, or a sum of product and total, computed as by `multiply_few` in ``kernels/cpu/product.h``.

    Parameters
    ----------
    to : Memory
        Writer of the function's code.
    i : int
        Number of the multiplying step.
    product : Product
        Its matrices have numbers in `factors`: 0 and 1 for the factors `a` and `b`, 2 for the result, 3 for a total.
    written : set of int
        Numbers of the values that some step writes; other values stay constant.
    """

    def __init__(self, to: Memory, i: int, product: Product, written: AbstractSet[int]) -> None:
        self.to: Memory = to
        self.i: int = i
        self.product: Product = product
        self.written: AbstractSet[int] = written
        self.type: str = element_type(to.steps[i].dtypes[1])

    def write(self) -> None:
        """Write the code of the product."""
        product = self.product
        rows, columns, inner = product.rows, product.columns, product.inner
        left, right = self._load_matrix(0, rows * inner), self._load_matrix(1, inner * columns)
        # added to: a total of its own, or what the result's memory holds
        total = self._load_matrix(3 if product.copies else 2, rows * columns) if product.adds else None
        # small products fill a single vector, larger ones a vector per row
        rows_together = rows if rows * columns <= LANES else 1
        parts = []
        for first in range(0, rows, rows_together):
            places = [(r, c) for r in range(first, first + rows_together) for c in range(columns)]
            if total is None:
                type_ = vector_of(self.type, len(places))
                begin = Value(zero_of(type_), type_)
            else:
                begin = self.to.pick(total, [r * columns + c for r, c in places])
            parts.append(self._write_sums(places, left, right, begin))
        self._store_result(self.to.join(parts))

    def _write_sums(self, places: Sequence[tuple[int, int]], left: Value, right: Value, sums: Value) -> Value:
        """Return the elements at some (row, column) places: initial sums, to which terms are added in order."""
        to, product = self.to, self.product
        for k in range(product.inner):
            a_lanes = [k * product.rows + r if product.transposed_a else r * product.inner + k for r, _ in places]
            b_lanes = [c * product.inner + k if product.transposed_b else k * product.columns + c for _, c in places]
            a, b = self._pick_elements(0, left, a_lanes), self._pick_elements(1, right, b_lanes)
            if product.is_fused:
                sums = to.call_intrinsic(sums.type, "fma", a, b, sums)
            else:
                term = to.let(sums.type, f"fmul {a}, {b.name}")
                sums = to.let(sums.type, f"fadd {sums}, {term.name}")
        return sums

    def _pick_elements(self, k: int, matrix: Value, lanes: Sequence[int]) -> Value:
        """Return elements of factor `k`, a loaded matrix; those of a constant factor are picked once, in front."""
        number = self.product.factors[k]
        # a factor is constant if the function holds its value and no step writes to it
        if number not in self.to.values or number in self.written:
            return self.to.pick(matrix, lanes)
        key = "lanes", self.i, k, " ".join(map(str, lanes))
        if key not in self.to.known:
            with self.to.up_front():
                self.to.known[key] = self.to.pick(self._load_matrix(k, lanes_of(matrix.type)), lanes)
        return self.to.known[key]

    def _load_matrix(self, k: int, count: int) -> Value:
        """Return all `count` elements of matrix `k`, from the function's own value or from memory."""
        held, type_ = self.to.values.get(self.product.factors[k]), vector_of(self.type, count)
        if held is None:
            return self.to.load(self.to.factor_address(self.i, k), self.type, 0, count)
        return self.to.convert(self.to.let(held.type, f"load {held.type}, ptr {held.name}"), type_, held.in_cell)

    def _store_result(self, result: Value) -> None:
        """Store the result, of all elements, in the function's own value or in memory."""
        held = self.to.values.get(self.product.factors[2])
        if held is not None:
            self.to.add_line(f"store {self.to.convert(result, held.type, held.in_cell)}, ptr {held.name}")
        else:
            self.to.store(self.to.factor_address(self.i, 2), result, 0)
