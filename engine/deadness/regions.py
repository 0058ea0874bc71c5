"""Deadness analysis of a program before lowering, for passes that need operations alive and dead together.

A region lives and dies as a whole, so most programs need no analysis. But a value left dead by a `switch` in user code
may be used anywhere, in a branch or in a loop, and its consumers are dead while the operations around them are alive.
Operations to be fused must have the same predicate; otherwise live ones would die with dead ones.

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
from .rules import Value, closes_loop, is_unsure, predicate_of_side


def dying_apart(program: Program) -> dict[Operation, Predicate]:
    """Return the operations, except Merges, that may be dead though their region runs; and when each runs.

    All others of a region are alive and dead together.
    """
    return Liveness(program).apart


class Liveness:
    """Predicates of a program's operations and tensors before lowering.

    Attributes
    ----------
    apart : dict of Operation to Predicate
        The result of :func:`dying_apart`.
    """

    def __init__(self, program: Program) -> None:
        operations = program.graph.root.walk()
        # Without these operations nothing dies, and `_walk` None stands for "always alive" at no cost.
        may_die = any(op.role in FLOW or op.is_cond or is_unsure(op) for op in operations)
        self._walk = _walk(program) if may_die else None
        self.apart: dict[Operation, Predicate] = {}
        if self._walk is not None:
            runs = self._walk.runs
            self.apart = {op: predicate for op, predicate in runs.items() if self._walk.may_differ(op)}

    def is_alive_with(self, tensor: Tensor, op: Operation) -> bool:
        """Return True if a tensor is alive whenever `op`, a possible consumer, runs."""
        return self._walk is None or self._walk.implies(self._walk.runs[op], tensor)

    def is_alive_in(self, region: Region, tensor: Tensor) -> bool:
        """Return True if a tensor is alive whenever `region`, in which it may be used, runs."""
        return self._walk is None or self._walk.implies(self._walk.contexts[region], tensor)


def loops_are_regular(program: Program) -> bool:
    """Return True if all operations of each loop are alive whenever their iteration is.

    Only a `switch` in user code breaks this, within a loop or by a dead value used in a loop. Where variables of a loop
    die separately, passes may not take an unchanged variable for its initial value, nor move constants out of the loop.
    """
    operations = list(program.graph.root.walk())
    if not any(op.role in FLOW for op in operations):
        return True
    walk = _walk(program)
    regions = [region for op in operations if op.is_while for region in op.regions]
    inside = [op for region in regions for op in region.walk() if not op.is_param]
    return not walk.apart and not any(op.role in FLOW or walk.may_differ(op) for op in inside)


def _walk(program: Program) -> _Walk:
    """Return the first walk whose assumption about Whiles holds."""
    apart: set[Operation] = set()
    while True:
        walk = _Walk(apart)
        walk.walk_region(program.graph.root, walk.predicates.true)
        if walk.apart == apart:
            return walk
        apart = walk.apart


class _Walk:
    """A walk over all regions.

    Attributes
    ----------
    of : dict of Tensor or Operation to Predicate
        When a tensor is alive; when the control dependents of an operation run.
    contexts : dict of Region to Predicate
        When a branch runs, or an iteration.
    runs : dict of Operation to Predicate
        When an operation runs, which implies the context of its region.
    apart : set of Operation
        Whiles whose variables are not alive together. The walk assumes the opposite of all others and adds a While
        that refutes the assumption.
    """

    def __init__(self, apart: set[Operation]) -> None:
        self.predicates = Predicates()
        self.of: dict[Value, Predicate] = {}
        self.contexts: dict[Region, Predicate] = {}
        self.runs: dict[Operation, Predicate] = {}
        self.apart = set(apart)

    def walk_region(self, region: Region, context: Predicate) -> None:
        """Walk over the operations of a region, which runs when `context` holds."""
        self.contexts[region] = context
        for op in topological_order([op for op in region.operations if not op.is_param]):
            self._visit_operation(op, context)

    def _alive_in(self, region: Region, value: Value) -> Predicate:
        """Return when a value is alive and `region`, in which it is used, runs."""
        context, predicate = self.contexts[region], self.of[value]
        return predicate if predicate is context else self.predicates.all_of([context, predicate])

    def _visit_operation(self, op: Operation, context: Predicate) -> None:
        """Record when an operation runs and when its results are alive."""
        if op.role is Role.MERGE:
            self._visit_merge(op)
            return
        values: list[Value] = [*op.inputs, *op.control_inputs]
        inputs = self.runs[op] = self.predicates.all_of([context, *(self.of[value] for value in values)])
        if op.is_while:
            self._visit_while(op, inputs, context)
        elif op.is_cond:
            self._visit_cond(op, inputs)
        elif op.role in SWITCHES:
            self._visit_switch(op, inputs)
        elif op.role is Role.CONTROL_TRIGGER:
            self._set_predicate(op, context)
        elif op.role is Role.EXIT or is_unsure(op):
            self._set_predicate(op, self._and_symbol(inputs, op))
        else:
            self._set_predicate(op, inputs)

    def may_differ(self, op: Operation) -> bool:
        """Return True if an operation may be dead though its region runs."""
        return self.runs[op] is not self.contexts[op.region]

    def implies(self, predicate: Predicate, tensor: Tensor) -> bool:
        """Return True if a tensor is alive whenever `predicate` holds."""
        return self.predicates.all_of([predicate, self.of[tensor]]) is predicate

    def _set_predicate(self, op: Operation, predicate: Predicate) -> None:
        self.of.update(dict.fromkeys([op, *op.outputs], predicate))

    def _and_symbol(self, predicate: Predicate, value: Value | Region) -> Predicate:
        return self.predicates.all_of([predicate, self.predicates.symbol("alive", value)])

    def _visit_merge(self, op: Operation) -> None:
        if closes_loop(op):  # a loop of primitives built by the user: its back edges are not analysed before lowering
            self._set_predicate(op, self.predicates.symbol("alive", op))
        else:
            self._set_predicate(op, self.predicates.any_of([self._alive_in(op.region, t) for t in op.inputs]))

    def _visit_switch(self, op: Operation, inputs: Predicate) -> None:
        self.of[op] = inputs
        for tensor in op.outputs:
            taken = predicate_of_side(self.predicates, op.inputs[1], tensor.index, len(op.outputs))
            self.of[tensor] = self.predicates.all_of([inputs, taken])

    def _visit_cond(self, op: Operation, inputs: Predicate) -> None:
        """Walk over the branches of a Cond; a result is alive if any branch's result is."""
        for side, region in enumerate(op.regions):
            taken = predicate_of_side(self.predicates, op.inputs[0], side, len(op.regions))
            self.walk_region(region, self.predicates.all_of([inputs, taken]))
        first = num_results(op)
        for k, tensor in enumerate(op.outputs[:first]):
            self.of[tensor] = self.predicates.any_of([self._alive_in(r, r.results[k]) for r in op.regions])
        for extra, tensor in zip(saved_outputs(op), op.outputs[first:], strict=True):
            assert extra.value is not None
            # A saved value belongs to a single branch, so unlike a result it is dead if another branch runs.
            self.of[tensor] = self._alive_in(op.regions[extra.branch], extra.value)
        self.of[op] = self.predicates.all_of([inputs, *(self.of[tensor] for tensor in op.outputs[:first])])

    def _visit_while(self, op: Operation, inputs: Predicate, context: Predicate) -> None:
        """Walk over condition and body of a While, under the assumption about its variables."""
        together = op not in self.apart
        begun = inputs if together else context
        for region in op.regions:
            # How often the region runs is unknown here, hence a symbol; each apart variable has a further symbol.
            runs = self._and_symbol(begun, region)
            for param in region.params:
                self._set_predicate(param.op, runs if together else self._and_symbol(runs, param))
            self.walk_region(region, runs)
        if together and not self._variables_share_predicate(op):
            self.apart.add(op)
        values: list[Value] = [op, *op.outputs]
        for value in values:
            self.of[value] = inputs if together else self._and_symbol(context, value)

    def _variables_share_predicate(self, op: Operation) -> bool:
        """Return True if all variables of a While start, and continue, under the same predicate."""
        starts = {self._alive_in(op.region, init) for init in op.inputs}
        return len(starts) <= 1 and all(self._are_alive(region, region.results) for region in op.regions)

    def _are_alive(self, region: Region, tensors: Sequence[Tensor]) -> bool:
        """Return True if all `tensors` are alive whenever `region` runs."""
        return all(self._alive_in(region, tensor) is self.contexts[region] for tensor in tensors)
