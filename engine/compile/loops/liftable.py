"""What a loop computes from counters, rows of arrays and what is outside alone: this can be done for many iterations.

Of the operations of a body some have the same operands in all iterations, or operands of which is known beforehand what
they will be: a counter, the row of an array that a counter names. Those that have a batch rule can be done for many
iterations at once. Products of matrices are worth it, with all that they need, and whatever makes what is handed to the
iterations smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.builder import Builder, copied
from ...ir.definition import Batched
from ...ir.loops import Loop
from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.structured import is_structured
from ...ir.tensor import Tensor
from ...ir.topological import topological_order
from ...ir.traits import Effect
from .products import WORTH, is_fast_in_loop, is_product, nbytes, work

IsNative = Callable[[Operation], bool]
TakesRow = Callable[[Operation, Tensor, Tensor], bool]


class Liftable:
    """The operations of a region of a loop that can be done for many iterations at once.

    Parameters
    ----------
    loop : Loop
    region : Region
        Its body or its predicate.
    takes_row : callable
        ``takes_row(op, rows, index)`` says of what takes a row of an array outside of the loop, another one in each
        iteration, whether this can be had for many iterations at once.
    may_fail : bool
        Whether what may fail can be done for iterations that perhaps never are.
    takes_counters : bool
        Whether the values of counters can be had for many iterations at once.
    is_native : callable
        Whether a loop is going to be a native program.

    Attributes
    ----------
    varies : dict of Tensor to bool
        For each tensor of these operations, and each counter, whether it differs from iteration to iteration.
    operations : list of Operation
        In topological order.
    rows : dict of Operation to (Tensor, Tensor)
        Those that take a row of an array: the array and the number.
    """

    def __init__(
        self,
        loop: Loop,
        region: Region,
        takes_row: TakesRow,
        may_fail: bool = True,
        takes_counters: bool = True,
        is_native: IsNative = lambda loop: False,
    ) -> None:
        self.loop = loop
        self._is_native = is_native
        self.may_fail = may_fail
        self.takes_counters = takes_counters
        self.varies: dict[Tensor, bool] = {}
        self.operations: list[Operation] = []
        self.rows: dict[Operation, tuple[Tensor, Tensor]] = {}
        self._emits: dict[Operation, Batched] = {}
        self._takes_row = takes_row
        self.varies.update((t, step != 0) for t in region.params if (step := loop.step(t)) is not None)
        for op in topological_order([op for op in region.operations if not op.is_param]):
            varies = None if op.control_inputs or is_structured(op) else self._varies(op)
            if varies is not None:
                self.operations.append(op)
                self.varies.update(dict.fromkeys(op.outputs, varies))

    def kind(self, tensor: Tensor) -> bool | None:
        """Return whether a tensor differs from iteration to iteration; None if it can not be had beforehand."""
        return False if self.loop.is_outside(tensor) else self.varies.get(tensor)

    def is_worth(self, op: Operation) -> bool:
        """Whether an operation is a product, and to lift it saves anything."""
        if not is_product(op) or work(op) < WORTH:
            return False
        kinds = [self.kind(t) for t in op.inputs]
        return all(kinds) or not any(self._is_fast(op, side) for side in (0, 1) if kinds[side])

    def kind_if_worth(self, op: Operation, side: int, part: Tensor, multiplications: int) -> bool | None:
        """Return the kind of a part of a product's factor; None if it is no better multiplied in front of the loop."""
        varies = self.kind(part)
        return None if multiplications < WORTH or (varies and self._is_fast(op, side)) else varies

    def _is_fast(self, op: Operation, side: int) -> bool:
        """Whether a product of which only this factor varies is as fast in the loop."""
        return is_fast_in_loop(op, side) and self._stays_native

    @cached_property
    def _stays_native(self) -> bool:
        return self._is_native(self.loop.op)

    def _varies(self, op: Operation) -> bool | None:
        """Return whether an operation has other operands in each iteration; None if it can not be lifted."""
        if self._is_row(op):
            return True
        kinds = [self.kind(t) for t in op.inputs]
        counts = any(t.op.is_param and kind for t, kind in zip(op.inputs, kinds, strict=True))
        if None in kinds or not self._is_pure(op) or (counts and not self.takes_counters):
            return None
        if not any(kinds):
            return False
        emit = None if op.definition.batch is None else op.definition.batch(op, [bool(kind) for kind in kinds])
        if emit is None:
            return None
        self._emits[op] = emit
        return True

    def _is_row(self, op: Operation) -> bool:
        """Whether an operation takes a row that can be had for many iterations, which is then noted."""
        row = None if op.definition.row is None else op.definition.row(op)
        if row is None or not (self.loop.is_outside(row[0]) and self.kind(row[1]) and self._takes_row(op, *row)):
            return False
        self.rows[op] = row
        return True

    def _is_pure(self, op: Operation) -> bool:
        """Whether to do an operation for iterations that perhaps never are changes nothing but what is computed."""
        definition = op.definition
        values = all(t.dtype.is_value for t in (*op.inputs, *op.outputs))
        safe = self.may_fail or not definition.reads_values
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
            In topological order, with all that they need.
        region : Region
            Where to.
        counters : mapping of Tensor to Tensor
            The values of each counter.
        row : callable
            ``row(op, rows, indices)`` emits the rows of these numbers.

        Returns
        -------
        dict of Tensor to Tensor
            What stands for the tensors of these operations; those that vary have the iterations as first dimension.
        """
        known = dict(counters)
        for op in operations:
            operands = [known.get(t, t) for t in op.inputs]
            if op in self.rows:
                rows, index = self.rows[op]
                outputs: Sequence[Tensor] = [row(op, rows, known.get(index, index))]
            elif op in self._emits:
                outputs = self._emits[op](Builder(region, op), operands)
            else:
                outputs = copied(op, region, operands).outputs
            known.update(zip(op.outputs, outputs, strict=True))
        return known


@dataclass(frozen=True, slots=True)
class Choice:
    """What is worth being done for many iterations at once.

    Attributes
    ----------
    operations : list of Operation
        With all that they need, in topological order.
    results : list of Tensor
        Those of their results that the iterations still use.
    """

    operations: list[Operation]
    results: list[Tensor]


def choose(
    liftable: Liftable,
    kept: Mapping[Tensor, int],
    most: int,
    products: bool = True,
    rows: Collection[Operation] = (),
) -> Choice | None:
    """Return the products among what can be lifted, with what goes with them.

    Parameters
    ----------
    liftable : Liftable
    kept : mapping of Tensor to int
        The tensors that something else than an operation uses.
    most : int
        Bytes that what is handed to one iteration may have at most.
    products : bool
        Whether products are wanted.
    rows : collection of Operation
        What takes a row that is handed to iterations too; others take theirs as before.
    """
    chosen = _Chosen(liftable, kept, rows)
    wanted = [op for op in liftable.operations if products and liftable.is_worth(op)]
    for op in [*rows, *wanted]:
        chosen.add(op, most)
    while any(chosen.improve(op) for t in chosen.results() for op in t._consumers):
        pass
    results = chosen.results()
    return Choice([op for op in liftable.operations if op in chosen.operations], results) if results else None


class _Chosen:
    def __init__(self, liftable: Liftable, kept: Mapping[Tensor, int], rows: Collection[Operation]) -> None:
        self.liftable = liftable
        self.kept = kept
        self.rows = rows
        self.operations: set[Operation] = set()
        self._can = set(liftable.operations)

    def results(self) -> list[Tensor]:
        """Return what iterations use of what is chosen; rows and scalars they have in their own way as cheaply."""
        found = [op for op in self.liftable.operations if op in self.operations]
        made = [op for op in found if op not in self.liftable.rows or op in self.rows]
        return [t for op in made for t in op.outputs if t.rank != 0 and self._is_used(t)]

    def _is_used(self, tensor: Tensor) -> bool:
        return tensor in self.kept or any(op not in self.operations for op in tensor._consumers)

    def add(self, op: Operation, most: int) -> None:
        """Choose an operation and all that it needs, if what iterations use does not become too large."""
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
        """Choose an operation if iterations then use less."""
        if op in self.operations or op not in self._can:
            return False
        before, size = set(self.operations), sum(map(nbytes, self.results()))
        self.add(op, size - 1)
        return self.operations != before
