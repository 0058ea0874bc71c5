"""Sources: the slow operations before each operation of a program.

A cluster waits for the union of its operations' inputs. To delay nothing, all operations of a cluster must wait for the
same sources: awaited operations, operations with effects, and long operations such as loops. A pure operation of
negligible time is no source, but forwards the sources of its inputs. An operation after a source also waits for the
earlier sources of this source, so the last sources of a path stand for the whole path.

In a loop a variable is a source of its own if its next value waits for a source: iterations would not overlap if
operations waiting for the variable held back others. Variables with equal sources share a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.operation import Operation
from ...ir.region import Region
from ...ir.rules.ordering import Ordered
from ...ir.topological import Captured, uses
from ...ir.traits import SWITCHES, Effect, Role

Sources = frozenset[Operation]
NOTHING: Sources = frozenset()
_HAND_ON = SWITCHES | {Role.CONST, Role.PLACEHOLDER, Role.FEED, Role.IDENTITY, Role.MAYBE_GET, Role.SERIES_READ}
_ACCESSES = Effect.READS | Effect.WRITES
_MOST = 16  # sources of an operation; one with more is itself a source, so that no set grows with the program


class Waiting:
    """The sources of the operations of a program.

    Parameters
    ----------
    captured : dict
        Outside tensors used in regions, filled in on demand.
    may_cluster : callable
        ``may_cluster(op)`` is True if an operation qualifies for a cluster by itself.

    Attributes
    ----------
    of : dict of Operation to frozenset of Operation
        The sources before an operation's results; a source waits for itself.
    uneven : set of Operation
        Conds whose branches wait for more than their predicate: sources, not members of clusters.
    """

    def __init__(self, captured: Captured, may_cluster: Callable[[Operation], bool]) -> None:
        self.of: dict[Operation, Sources] = {}
        self.uneven: set[Operation] = set()
        self._captured = captured
        self._may_cluster = may_cluster
        self._is_trial = False  # in a trial each loop variable is its own source, and no Cond is recorded as uneven
        self._behind: dict[Operation, Sources] = {}  # the earlier sources of each source

    def region(self, region: Region) -> None:
        """Find the sources of the operations of a region; the sources of outer regions are known."""
        for op in region.operations:
            if not op.is_param:
                self.of[op] = self._handed_on(op, self._sources_before(op))

    def inside(self, op: Operation) -> None:
        """Find the sources of the operations in the branches of a Cond, or in a loop."""
        if op.is_while:
            self._find_loop_sources(op)
        else:
            for region in op.regions:
                self.region(region)

    def _find_loop_sources(self, op: Operation) -> None:
        """Find late variables, in a trial with each variable as a source; then find the sources in earnest."""
        body = op.regions[1]
        inits = [self.of[t.op] for t in op.inputs]
        self._is_trial = True
        self._assume_sources(op, [frozenset([p.op]) for p in body.params])
        nexts = [self.of[t.op] for t in body.results]
        self._is_trial = False
        self._assume_sources(op, self._variable_sources([p.op for p in body.params], inits, nexts))

    def _assume_sources(self, op: Operation, variables: Sequence[Sources]) -> None:
        """Find the sources of the operations in a loop, assuming the variables' sources."""
        for region in op.regions:
            self.of.update(zip((p.op for p in region.params), variables, strict=True))
            self.region(region)

    def _variable_sources(self, params: list[Operation], inits: list[Sources], nexts: list[Sources]) -> list[Sources]:
        """Return the sources of a loop's variables, by the sources of their initial and next values."""
        late = _late_variables(params, inits, nexts)
        alike: dict[tuple[Sources, Sources], Sources] = {}
        return [
            alike.setdefault((init, next_sources), frozenset([param])) if param in late else init
            for param, init, next_sources in zip(params, inits, nexts, strict=True)
        ]

    def _sources_before(self, op: Operation) -> Sources:
        """Return the sources before an operation, without sources implied by others."""
        sets = {self.of.get(source, NOTHING) for source in uses(op, self._captured)}
        # The common case, without a comparison of all pairs.
        if len(sets) == 1:
            return sets.pop()
        sources = frozenset().union(*sets)
        return frozenset(s for s in sources if not any(s in self._behind.get(other, NOTHING) for other in sources))

    def _is_uneven(self, op: Operation, before: Sources) -> bool:
        is_choice = op.is_cond and self._may_cluster(op) and not self._is_trial
        return is_choice and before != self.of.get(op.inputs[0].op, NOTHING)

    def _handed_on(self, op: Operation, before: Sources) -> Sources:
        """Return the sources of an operation's results: itself for a source, otherwise the sources of its inputs."""
        if self._is_uneven(op, before):
            self.uneven.add(op)
        elif len(before) <= _MOST and (self._may_cluster(op) or _takes_no_time(op)):
            return before
        behind = before.union(*(self._behind.get(s, NOTHING) for s in before))
        # A large set is cut to the direct sources: `_sources_before` then keeps redundant sources, merely coarser.
        self._behind[op] = behind if len(behind) <= _MOST * _MOST else before
        return frozenset([op])


def _late_variables(params: list[Operation], inits: list[Sources], nexts: list[Sources]) -> set[Operation]:
    """Return the loop variables whose next values wait for more sources than their initial values."""
    begins = dict(zip(params, inits, strict=True))
    next_sets = {
        param: {begins[s] if s in begins else frozenset([s]) for s in sources}
        for param, sources in zip(params, nexts, strict=True)
    }
    late = {param for param, group in next_sets.items() if not all(s <= begins[param] for s in group)}
    waits_for = {param: begins.keys() & sources for param, sources in zip(params, nexts, strict=True)}
    # A variable computed from a late variable is late as well.
    while more := {param for param, group in waits_for.items() if param not in late and group & late}:
        late |= more
    return late


def _takes_no_time(op: Operation) -> bool:
    """Return True if an operation has its results as soon as its inputs, as reads and writes of state do."""
    if op.role is not Role.KERNEL:
        return op.role in _HAND_ON
    effects = op.definition.effects
    in_order = effects is not Effect.READS and op.definition.has(Ordered)
    return bool(effects) and not effects & ~_ACCESSES and not in_order and not op.control_inputs
