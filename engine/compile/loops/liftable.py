"""Liftable operations of a loop: computed from counters, rows of arrays and values from outside alone.

Some operations of a body have the same operands in all iterations, or operands predictable before the loop runs: a
counter, or the row of an array selected by a counter. Operations with a batch rule can be computed for many iterations
at once. Lifting pays for products of matrices, with the operations they need, and for further operations with smaller
results to read in iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.builder import Builder, clone_operation
from ...ir.loops import Loop
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.rules.batching import Batch, Batched, taken_row
from ...ir.rules.kernels import ReadsValues
from ...ir.structured import is_structured
from ...ir.tensor import Tensor
from ...ir.topological import topological_order
from ...ir.traits import Effect
from .products import WORTH, is_equal_in_blocks, is_fast_in_loop, is_matmul, is_product, nbytes, work

IsNative = Callable[[Operation], bool]
TakesRow = Callable[[Operation, Tensor, Tensor], bool]


@dataclass(frozen=True, slots=True)
class LiftingRules:
    """Rules for products, by target.

    Attributes
    ----------
    is_native : callable
        ``is_native(op)`` is True if a loop will become a native program.
    keeps_bits : bool
        True if a product stays in its loop unless its bits are the same for any number of rows at once.
    """

    is_native: IsNative = lambda loop: False
    keeps_bits: bool = False


class Liftable:
    """Operations of a loop's region, computable for many iterations at once.

    Parameters
    ----------
    loop : Loop
    region : Region
        The loop's body or its predicate.
    takes_row : callable
        ``takes_row(op, rows, index)`` is True if `op`, which takes another row of an outside array in each iteration,
        can read rows for many iterations at once.
    may_fail : bool
        True if fallible operations may be computed for iterations that perhaps never run.
    takes_counters : bool
        True if the values of counters are available for many iterations at once.
    rules : LiftingRules, optional

    Attributes
    ----------
    varies : dict of Tensor to bool
        For each tensor of these operations, and each counter, True if the value differs between iterations.
    operations : list of Operation
        In topological order.
    rows : dict of Operation to (Tensor, Tensor)
        Reads of a row of an array: the array and the row number.
    """

    def __init__(
        self,
        loop: Loop,
        region: Region,
        takes_row: TakesRow,
        may_fail: bool = True,
        takes_counters: bool = True,
        rules: LiftingRules = LiftingRules(),
    ) -> None:
        self.loop = loop
        self._rules = rules
        self.may_fail = may_fail
        self.takes_counters = takes_counters
        self.varies: dict[Tensor, bool] = {}
        self.operations: list[Operation] = []
        self.rows: dict[Operation, tuple[Tensor, Tensor]] = {}
        self._emits: dict[Operation, Batched] = {}
        self._takes_row = takes_row
        # A loop variable that never changes has step 0, and counts as invariant.
        self.varies.update((t, step != 0) for t in region.params if (step := loop.step(t)) is not None)
        for op in topological_order([op for op in region.operations if not op.is_param]):
            # A control input orders an operation within its iteration, an order lost for many iterations at once.
            varies = None if op.control_inputs or is_structured(op) else self._operands_vary(op)
            if varies is not None:
                self.operations.append(op)
                self.varies.update(dict.fromkeys(op.outputs, varies))

    def kind(self, tensor: Tensor) -> bool | None:
        """Return True if a tensor differs between iterations, False if not; None if its value depends on the loop."""
        return False if self.loop.is_outside(tensor) else self.varies.get(tensor)

    def is_worth(self, op: Operation) -> bool:
        """Return True for a product worth lifting."""
        if not is_product(op) or work(op) < WORTH:
            return False
        kinds = [self.kind(t) for t in op.inputs]
        # If both factors vary, no weights stay in a cache: a product in the loop is fast with one varying factor only.
        return all(kinds) or not any(self._is_fast(op, side) for side in (0, 1) if kinds[side])

    def _is_fast(self, op: Operation, side: int) -> bool:
        """Return True if a product of which only this factor varies is as fast inside the loop."""
        return is_fast_in_loop(op, side) and self._stays_native

    @cached_property
    def _stays_native(self) -> bool:
        return self._rules.is_native(self.loop.op)

    def _operands_vary(self, op: Operation) -> bool | None:
        """Return True if operands differ between iterations, False if not; None if the operation cannot be lifted."""
        # Rows come first: they need no batch rule, because `emit` has all rows read by its caller.
        if self._is_row(op):
            return True
        kinds = [self.kind(t) for t in op.inputs]
        # Operands that are counters themselves, not rows selected by one: their values must be available.
        counts = any(t.op.is_param and kind for t, kind in zip(op.inputs, kinds, strict=True))
        if None in kinds or not self._is_pure(op) or (counts and not self.takes_counters):
            return None
        # Invariant, so computed once and without a batch rule.
        if not any(kinds):
            return False
        if self._may_change_bits(op):
            return None
        batch = op.rule(Batch)
        emit = None if batch is None else batch.rule(op, [bool(kind) for kind in kinds])
        if emit is None:
            return None
        self._emits[op] = emit
        return True

    def _may_change_bits(self, op: Operation) -> bool:
        """Return True for a product whose rows may have other bits if computed for many iterations at once."""
        return self._rules.keeps_bits and is_matmul(op) and not (is_product(op) and is_equal_in_blocks(op))

    def _is_row(self, op: Operation) -> bool:
        """Return True for a row readable for many iterations at once, and record array and number."""
        row = taken_row(op)
        if row is None or not (self.loop.is_outside(row[0]) and self.kind(row[1]) and self._takes_row(op, *row)):
            return False
        self.rows[op] = row
        return True

    def _is_pure(self, op: Operation) -> bool:
        """Return True if computing an operation for iterations that perhaps never run has no visible effect."""
        definition = op.definition
        values = all(t.dtype.is_value for t in (*op.inputs, *op.outputs))
        # An operation that reads values may fail by them, as a Gather by an index out of range.
        safe = self.may_fail or not definition.has(ReadsValues)
        return values and safe and definition.kernel is not None and definition.effects is Effect.NONE

    def emit(
        self,
        operations: Iterable[Operation],
        region: Region,
        counters: Mapping[Tensor, Tensor],
        row: Callable[[Operation, Tensor, Tensor], Tensor],
    ) -> dict[Tensor, Tensor]:
        """Emit operations for many iterations at once.

        Parameters
        ----------
        operations : iterable of Operation
            In topological order, with all operations before them.
        region : Region
            Region to append to.
        counters : mapping of Tensor to Tensor
            The values of each counter for these iterations.
        row : callable
            ``row(op, rows, indices)`` emits the rows with these numbers.

        Returns
        -------
        dict of Tensor to Tensor
            The replacements of tensors of these operations; varying ones have the iterations as first dimension.
        """
        known = dict(counters)
        for op in operations:
            # Tensors from outside of the loop are not in `known`, and stand for themselves.
            operands = [known.get(t, t) for t in op.inputs]
            if op in self.rows:
                rows, index = self.rows[op]
                outputs: Sequence[Tensor] = [row(op, rows, known.get(index, index))]
            elif op in self._emits:
                outputs = self._emits[op](Builder(region, op), operands)
            else:
                # Invariant: computed once, without a dimension of iterations.
                outputs = clone_operation(op, region, operands).outputs
            known.update(zip(op.outputs, outputs, strict=True))
        return known


@dataclass(frozen=True, slots=True)
class Choice:
    """The operations worth computing for many iterations at once.

    Attributes
    ----------
    operations : list of Operation
        With all operations they need, in topological order.
    results : list of Tensor
        The results of these operations used by iterations.
    """

    operations: list[Operation]
    results: list[Tensor]


def choose_products(
    liftable: Liftable,
    kept: Mapping[Tensor, int],
    most: int,
    products: bool = True,
    rows: Collection[Operation] = (),
) -> Choice | None:
    """Return the products worth lifting, with accompanying operations; None if there are none.

    Parameters
    ----------
    liftable : Liftable
    kept : mapping of Tensor to int
        Tensors with other uses than by operations.
    most : int
        Most bytes per iteration of the results read by iterations.
    products : bool
        False to choose no products, only `rows`.
    rows : collection of Operation
        Operations whose row is read from a block as well; all others read their row as before.
    """
    chosen = _Chosen(liftable, kept, rows)
    worthwhile = [op for op in liftable.operations if products and liftable.is_worth(op)]
    for op in [*rows, *worthwhile]:
        chosen.add(op, most)
    # Each improvement reduces the bytes of the results, so this ends.
    while any(chosen.improve(op) for t in chosen.results() for op in t._consumers):
        pass
    results = chosen.results()
    return Choice([op for op in liftable.operations if op in chosen.operations], results) if results else None


class _Chosen:
    """Operations chosen to be lifted; `add` and `improve` only ever grow the choice."""

    def __init__(self, liftable: Liftable, kept: Mapping[Tensor, int], rows: Collection[Operation]) -> None:
        self.liftable = liftable
        self.kept = kept
        self.rows = rows
        self.operations: set[Operation] = set()
        self._can = set(liftable.operations)

    def results(self) -> list[Tensor]:
        """Return the chosen results used by iterations, without rows and scalars, which are as cheap as before."""
        operations = [op for op in self.liftable.operations if op in self.operations]
        producers = [op for op in operations if op not in self.liftable.rows or op in self.rows]
        return [t for op in producers for t in op.outputs if t.rank != 0 and self._is_used(t)]

    def _is_used(self, tensor: Tensor) -> bool:
        return tensor in self.kept or any(op not in self.operations for op in tensor._consumers)

    def add(self, op: Operation, most: int) -> None:
        """Choose an operation with all its sources, unless the results of an iteration exceed `most` bytes."""
        # All or nothing: sources without the operation that needs them would only add results to read.
        before = set(self.operations)
        work = [op]
        while work:
            top = work.pop()
            if top not in self.operations:
                self.operations.add(top)
                work += [t.op for t in top.inputs if t.op in self._can]
        if sum(map(nbytes, self.results())) > most:
            self.operations = before

    def improve(self, op: Operation) -> bool:
        """Choose an operation if the results of an iteration then take fewer bytes; return True if so."""
        if op in self.operations or op not in self._can:
            return False
        before, size = set(self.operations), sum(map(nbytes, self.results()))
        # Strictly fewer bytes: with equal bytes `choose_products` might not end.
        self.add(op, size - 1)
        return self.operations != before
