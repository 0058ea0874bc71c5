"""Deadness analysis of a program before it is lowered: which operations are surely alive and dead together.

A region lives and dies as a whole, so most of it needs no analysis. But a value that somebody's own `switch` left dead
may be used anywhere, in a branch as in a loop, and what uses it is dead while all around is alive. Operations that
become one must have one predicate: else what is alive would die with what is not.

See docs/design/0024-deadness.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.operation import Operation
from ..ir.program import Program
from ..ir.region import Region
from ..ir.structured import num_results, saved_outputs
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from ..ir.traits import FLOW, SWITCHES, Role
from .predicates import Predicate, Predicates
from .rules import Value, chosen, closes_loop, is_unsure


def dying_apart(program: Program) -> dict[Operation, Predicate]:
    """Return the operations that may be dead though their region runs, but for Merges, and when each runs.

    All others of a region are alive and dead together.
    """
    return Liveness(program).apart


class Liveness:
    """When operations and tensors of a program are alive.

    Attributes
    ----------
    apart : dict of Operation to Predicate
        As of :func:`dying_apart`.
    """

    def __init__(self, program: Program) -> None:
        operations = program.graph.root.walk()
        may_die = any(op.role in FLOW or op.is_cond or is_unsure(op) for op in operations)
        self._walk = _walk(program) if may_die else None
        self.apart: dict[Operation, Predicate] = {}
        if self._walk is not None:
            runs = self._walk.runs
            self.apart = {op: predicate for op, predicate in runs.items() if self._walk.may_differ(op)}

    def is_alive_with(self, tensor: Tensor, op: Operation) -> bool:
        """Whether a tensor is alive whenever an operation that may use it runs."""
        return self._walk is None or self._walk.implies(self._walk.runs[op], tensor)

    def is_alive_in(self, region: Region, tensor: Tensor) -> bool:
        """Whether a tensor is alive whenever a region runs that may use it."""
        return self._walk is None or self._walk.implies(self._walk.contexts[region], tensor)


def loops_are_regular(program: Program) -> bool:
    """Whether all that is in a loop is alive whenever its iteration is.

    So it is unless somebody's own `switch` leaves a value dead that a loop uses, or is in one. What passes know of
    loops, that a variable which does not change is its initial value, or that a constant may be computed in front, does
    not hold where variables of a loop die one by one.
    """
    operations = list(program.graph.root.walk())
    if not any(op.role in FLOW for op in operations):
        return True
    walk = _walk(program)
    regions = [region for op in operations if op.is_while for region in op.regions]
    inside = [op for region in regions for op in region.walk() if not op.is_param]
    return not walk.apart and not any(op.role in FLOW or walk.may_differ(op) for op in inside)


def _walk(program: Program) -> _Walk:
    """Return the walk that found what it had assumed."""
    apart: set[Operation] = set()
    while True:
        walk = _Walk(apart)
        walk.region(program.graph.root, walk.predicates.true)
        if walk.apart == apart:
            return walk
        apart = walk.apart


class _Walk:
    """One walk over all regions.

    Attributes
    ----------
    of : dict of Tensor or Operation to Predicate
        When a value is alive; of an operation, when what waits for it runs.
    contexts : dict of Region to Predicate
        When a branch runs, or an iteration.
    runs : dict of Operation to Predicate
        When an operation runs; in a region that says, besides, that this does.
    apart : set of Operation
        Whiles whose variables are not alive together. Of the others it is assumed, and they are added if it is not so.
    """

    def __init__(self, apart: set[Operation]) -> None:
        self.predicates = Predicates()
        self.of: dict[Value, Predicate] = {}
        self.contexts: dict[Region, Predicate] = {}
        self.runs: dict[Operation, Predicate] = {}
        self.apart = set(apart)

    def region(self, region: Region, context: Predicate) -> None:
        """Walk over what happens in a region when it runs."""
        self.contexts[region] = context
        for op in topological_order([op for op in region.operations if not op.is_param]):
            self._operation(op, context)

    def _here(self, region: Region, value: Value) -> Predicate:
        """Return when a value is alive and the region runs that uses it."""
        context, found = self.contexts[region], self.of[value]
        return found if found is context else self.predicates.all_of([context, found])

    def _operation(self, op: Operation, context: Predicate) -> None:
        if op.role is Role.MERGE:
            self._merge(op)
            return
        values: list[Value] = [*op.inputs, *op.control_inputs]
        inputs = self.runs[op] = self.predicates.all_of([context, *(self.of[value] for value in values)])
        if op.is_while:
            self._while(op, inputs, context)
        elif op.is_cond:
            self._cond(op, inputs)
        elif op.role in SWITCHES:
            self._branch(op, inputs)
        elif op.role is Role.CONTROL_TRIGGER:
            self._note(op, context)
        elif op.role is Role.EXIT or is_unsure(op):
            self._note(op, self._and_symbol(inputs, op))
        else:
            self._note(op, inputs)

    def may_differ(self, op: Operation) -> bool:
        """Whether an operation may be dead though its region runs."""
        return self.runs[op] is not self.contexts[op.region]

    def implies(self, predicate: Predicate, tensor: Tensor) -> bool:
        """Whether a tensor is alive whenever a predicate holds."""
        return self.predicates.all_of([predicate, self.of[tensor]]) is predicate

    def _note(self, op: Operation, predicate: Predicate) -> None:
        self.of.update(dict.fromkeys([op, *op.outputs], predicate))

    def _and_symbol(self, predicate: Predicate, value: Value | Region) -> Predicate:
        return self.predicates.all_of([predicate, self.predicates.symbol("alive", value)])

    def _merge(self, op: Operation) -> None:
        if closes_loop(op):  # made by hand, of which nothing is known here
            self._note(op, self.predicates.symbol("alive", op))
        else:
            self._note(op, self.predicates.any_of([self._here(op.region, t) for t in op.inputs]))

    def _branch(self, op: Operation, inputs: Predicate) -> None:
        self.of[op] = inputs
        for tensor in op.outputs:
            taken = chosen(self.predicates, op.inputs[1], tensor.index, len(op.outputs))
            self.of[tensor] = self.predicates.all_of([inputs, taken])

    def _cond(self, op: Operation, inputs: Predicate) -> None:
        for side, region in enumerate(op.regions):
            taken = chosen(self.predicates, op.inputs[0], side, len(op.regions))
            self.region(region, self.predicates.all_of([inputs, taken]))
        first = num_results(op)
        for k, tensor in enumerate(op.outputs[:first]):
            self.of[tensor] = self.predicates.any_of([self._here(r, r.results[k]) for r in op.regions])
        for extra, tensor in zip(saved_outputs(op), op.outputs[first:], strict=True):
            assert extra.value is not None
            self.of[tensor] = self._here(op.regions[extra.branch], extra.value)
        self.of[op] = self.predicates.all_of([inputs, *(self.of[tensor] for tensor in op.outputs[:first])])

    def _while(self, op: Operation, inputs: Predicate, context: Predicate) -> None:
        together = op not in self.apart
        begun = inputs if together else context
        for region in op.regions:
            runs = self._and_symbol(begun, region)
            for param in region.params:
                self._note(param.op, runs if together else self._and_symbol(runs, param))
            self.region(region, runs)
        if together and not self._goes_on_as_one(op):
            self.apart.add(op)
        values: list[Value] = [op, *op.outputs]
        for value in values:
            self.of[value] = inputs if together else self._and_symbol(context, value)

    def _goes_on_as_one(self, op: Operation) -> bool:
        """Whether all variables of a While begin, and get their next values, under one predicate."""
        starts = {self._here(op.region, init) for init in op.inputs}
        return len(starts) <= 1 and all(self._are_alive(region, region.results) for region in op.regions)

    def _are_alive(self, region: Region, tensors: Sequence[Tensor]) -> bool:
        """Whether tensors are alive whenever a region runs."""
        return all(self._here(region, tensor) is self.contexts[region] for tensor in tensors)
