"""Products of a few elements in line, on vectors over rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from .listed import Product
from .memory import Memory
from .types import Value, element_type, lanes_of, vector_of, zero

LANES = 16  # of sums that are computed at once, at most, or else those of a row


class SmallProduct:
    """A product, or what it is added to, as `_small` in ``kernels/cpu/linear.pyx`` computes it: term by term, in order.

    Parameters
    ----------
    to : Memory
        What it is written to.
    i : int
        The step that multiplies.
    product : Product
    written : set of int
        The values that steps write to.
    """

    def __init__(self, to: Memory, i: int, product: Product, written: AbstractSet[int]) -> None:
        self.to: Memory = to
        self.i: int = i
        self.product: Product = product
        self.written: AbstractSet[int] = written
        self.type: str = element_type(to.steps[i].dtypes[1])

    def write(self) -> None:
        """Write all of it."""
        product = self.product
        rows, columns, inner = product.rows, product.columns, product.inner
        left, right = self._matrix(0, rows * inner), self._matrix(1, inner * columns)
        total = self._matrix(3 if product.copies else 2, rows * columns) if product.adds else None
        together = rows if rows * columns <= LANES else 1
        made = []
        for first in range(0, rows, together):
            places = [(r, c) for r in range(first, first + together) for c in range(columns)]
            begin = None if total is None else self.to.pick(total, [r * columns + c for r, c in places])
            made.append(self._sum(places, left, right, begin))
        self._store(self.to.join(made))

    def _sum(self, places: Sequence[tuple[int, int]], left: Value, right: Value, sums: Value | None) -> Value:
        """Return the sums of products at some rows and columns, which begin with 0 or with other sums."""
        to, product = self.to, self.product
        type_ = vector_of(self.type, len(places))
        begins_with_zero = sums is None
        for k in range(product.inner):
            term = self._term(k, places, left, right)
            if begins_with_zero and k == product.inner - 1:
                # The zero only matters where all terms are -0; with the last one it is added while others are summed.
                term = to.let(type_, f"fadd {type_} {zero(type_)}, {term.name}")
            sums = term if sums is None else to.let(type_, f"fadd {sums}, {term.name}")
        assert sums is not None, "a product has terms"
        return sums

    def _term(self, k: int, places: Sequence[tuple[int, int]], left: Value, right: Value) -> Value:
        """Return products of elements: of column `k` of the left matrix and row `k` of the right one."""
        rows, columns, inner = self.product.rows, self.product.columns, self.product.inner
        x = [k * rows + r if self.product.transposed_a else r * inner + k for r, _ in places]
        y = [c * inner + k if self.product.transposed_b else k * columns + c for _, c in places]
        one, other = self._pick(0, left, x), self._pick(1, right, y)
        return self.to.let(one.type, f"fmul {one}, {other.name}")

    def _pick(self, k: int, matrix: Value, lanes: Sequence[int]) -> Value:
        """Return elements of a factor: of one that stays the same, they are picked once."""
        number = self.product.factors[k]
        if number not in self.to.values or number in self.written:
            return self.to.pick(matrix, lanes)
        key = "lanes", self.i, k, " ".join(map(str, lanes))
        if key not in self.to.known:
            with self.to.up_front():
                self.to.known[key] = self.to.pick(self._matrix(k, lanes_of(matrix.type)), lanes)
        return self.to.known[key]

    def _matrix(self, k: int, count: int) -> Value:
        """Return all elements of a matrix."""
        held, type_ = self.to.values.get(self.product.factors[k]), vector_of(self.type, count)
        if held is None:
            return self.to.load(self.to.factor(self.i, k), self.type, 0, count)
        return self.to.convert(self.to.let(held.type, f"load {held.type}, ptr {held.name}"), type_, held.in_cell)

    def _store(self, result: Value) -> None:
        held = self.to.values.get(self.product.factors[2])
        if held is not None:
            self.to.add(f"store {self.to.convert(result, held.type, held.in_cell)}, ptr {held.name}")
        else:
            self.to.store(self.to.factor(self.i, 2), result, 0)
