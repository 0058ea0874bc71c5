"""Clusters: connected pure operations become a native program, without a token for each value.

The operations of a cluster are alive and dead together, and wait for the same sources (`waiting.py`), so no result is
delayed and none is newly dead. Other operations wait only for results: operations with control inputs, or named in
control inputs, are left out. A Cond whose branches only compute counts as an operation.

See docs/design/0029-clusters.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.settings import Switches
from ...deadness.predicates import Predicate
from ...deadness.regions import Liveness
from ...ir.builder import clone_operation
from ...ir.connected import ConnectedSets
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region
from ...ir.rules.shapes import ShapeOnly
from ...ir.substitute import count_noninput_uses, substitute, substitute_in
from ...ir.tensor import Tensor
from ...ir.topological import Captured, topological_order
from ...ir.traits import Role
from .candidates import Candidates
from .choice import append_choice, is_choice, move_into
from .eligible import NotNative
from .rules import ON_CPU, Rules
from .translate import translate_cluster
from .waiting import Waiting

MOST = 150  # operations of a cluster: LLVM compiles no more steps
MOST_MOVED = 0.5  # inputs and results of a cluster, per operation: copying a value costs as much as two tokens
FEWEST = 8  # computing operations: fewer cost less than copying the inputs and results of a program
_MOST_ROUNDS = 4  # rounds of dropping operations of a region whose steps depend on values unknown to their cluster
_TOO_FEW = f"is one of fewer than {FEWEST} that belong together"
_UNEVEN = "waits for what only one of its branches uses"
_TOO_LITTLE = "is one of some that compute too little for what they take and give"


def cluster(program: Program, switches: Switches, rules: Rules = ON_CPU) -> Program:
    """Add native programs for clusters; `program` is changed.

    Its `not_clustered` records why operations are in no cluster.
    """
    # Where saved values may be elsewhere, reads of them may have to wait.
    if not any(op.attrs.get("swap_memory") for op in program.graph.root.walk()):
        _Clusters(program, switches, rules).run()
    return program


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A cluster, its results with outside uses, and the Cond now returning these."""

    operations: list[Operation]
    results: list[Tensor]
    cond: Operation


class _Clusters:
    """Clusters of a program, from the search to the rewritten regions."""

    def __init__(self, program: Program, switches: Switches, rules: Rules) -> None:
        self.program = program
        self.switches = switches
        self.captured: Captured = {}
        liveness = Liveness(program)
        self.apart = liveness.apart
        self.kept = count_noninput_uses(program)
        pinned = {c for op in program.graph.root.walk() for c in op.control_inputs} | set(program.targets)
        self.pinned = pinned
        self.candidates = Candidates(switches, liveness, pinned, rules)
        self.waiting = Waiting(self.captured, self.candidates.found.__contains__)

    def run(self) -> None:
        """Find the clusters of all regions, then add programs for them."""
        root = self.program.graph.root
        self.candidates.note(root)
        self.waiting.region(root)
        chosen = [choice for group in list(self._find_clusters(root)) for choice in self._choose_cluster(group)]
        reasons = self.candidates.reasons
        reasons.update(dict.fromkeys(self.waiting.uneven, _UNEVEN))
        self.program.not_clustered = {f"{op.name} ({op.type})": reason for op, reason in reasons.items()}
        # Operations move only now: finding clusters needs them in place.
        pairs = [pair for choice in chosen for pair in zip(choice.results, choice.cond.outputs, strict=True)]
        substitute(self.program, dict(pairs))
        for choice in chosen:
            self._move_into_branch(choice)
        self._tidy_regions(
            {choice.cond.region for choice in chosen}, {op for choice in chosen for op in choice.operations}
        )

    def _find_clusters(self, region: Region) -> Iterator[list[Operation]]:
        """Yield the clusters of a region and of inner regions; the sources of the region's operations are known."""
        clustered: set[Operation] = set()
        for group in self._find_sets(region):
            clustered.update(group)
            yield group
        for op in region.operations:
            # Within a cluster, and within a choice of native programs, there is nothing left to cluster.
            if op.regions and op not in clustered and not is_choice(op):
                for inner in op.regions:
                    self.candidates.note(inner)
                self.waiting.inside(op)
                for inner in op.regions:
                    yield from self._find_clusters(inner)

    def _find_sets(self, region: Region) -> list[list[Operation]]:
        """Return the sets of a region, without operations whose steps depend on values unknown to their set."""
        for _ in range(_MOST_ROUNDS):
            members = self.candidates.found.intersection(region.operations) - self.waiting.uneven
            groups = _Sets(region, members, self.captured, self.waiting, self.apart).cut_sets()
            looking = [op for group in groups for op in self._find_value_readers(group)]
            if not looking:
                break
            # Dropping an operation makes it a source, which changes the sources of others: another round.
            for op in looking:
                self.candidates.drop(op, "looks at a value that may be another one each time")
            self.waiting.region(region)
        return [group for group in groups if self._is_large_enough(group) and self.candidates.found.issuperset(group)]

    def _find_value_readers(self, group: Iterable[Operation]) -> Iterator[Operation]:
        """Yield the operations of a set whose steps depend on values other than shapes and constants."""
        # Shapes are fixed for the run of a program, and so are values computed from shapes and constants.
        known: set[Operation] = set()
        for op in group:
            inside = [op, *(inner for region in op.regions for inner in region.walk())]
            reads = [source for member in inside for source in self.candidates.reads(member)]
            if not all(source.is_constant or source in known for source in reads):
                yield op
            elif op.definition.has(ShapeOnly) or (not op.regions and _are_known(op.inputs, known)):
                known.add(op)

    def _is_large_enough(self, group: list[Operation]) -> bool:
        if sum(map(_computing_weight, group)) >= FEWEST:
            return True
        self.candidates.reasons.update(dict.fromkeys(group, _TOO_FEW))
        return False

    def _choose_cluster(self, group: list[Operation]) -> Iterator[_Chosen]:
        """Yield the cluster with its Cond, if the operations can be a program worth running; else record the reason."""
        results = self._results_used_outside(group)
        try:
            program, inputs = translate_cluster(group, results, self.switches, self.candidates.computations)
        except NotNative as reason:
            self.candidates.reasons.update(dict.fromkeys(group, f"belongs to {reason}"))
            return
        moved = len(inputs) + len(results)
        if not inputs or not results or moved > MOST_MOVED * sum(map(_computing_weight, group)):
            self.candidates.reasons.update(dict.fromkeys(group, _TOO_LITTLE))
            return
        cond = append_choice(group[-1], program.name, results, program, inputs, dead_silent=True)
        yield _Chosen(group, results, cond)

    def _results_used_outside(self, group: Sequence[Operation]) -> list[Tensor]:
        """Return the results of a set with uses outside of the set."""
        inside = {*group, *(inner for op in group for region in op.regions for inner in region.walk())}
        # Results of regions within the set are uses inside of it, not outside.
        inner_uses = Counter(t for op in inside for region in op.regions for t in region.results)
        outputs = [t for op in group for t in op.outputs]
        return [t for t in outputs if self.kept[t] > inner_uses[t] or not inside.issuperset(t._consumers)]

    def _move_into_branch(self, each: _Chosen) -> None:
        """Move the operations of a cluster into the branch without the program, with copies of constants."""
        branch = each.cond.regions[0]
        move_into(each.operations, each.results, branch)
        substitute_in(branch, dict(zip(each.cond.outputs, each.results, strict=True)))
        # A constant captured from outside would cost a Switch each; a copy in the branch costs nothing.
        constants = {
            tensor: clone_operation(tensor.op, branch, ()).outputs[0]
            for tensor in dict.fromkeys(t for op in list(branch.walk()) for t in _used_tensors(op))
            if tensor.op.is_constant and not tensor.op.control_inputs and not branch.encloses(tensor.region)
        }
        substitute_in(branch, constants)
        branch.operations = topological_order(branch.operations)

    def _tidy_regions(self, regions: set[Region], moved: set[Operation]) -> None:
        """Sort the operations of regions, and remove moved operations and constants without further use."""
        for region in regions:
            remaining = [op for op in region.operations if op not in moved and not self._is_unused(op)]
            region.operations = topological_order(remaining)

    def _is_unused(self, op: Operation) -> bool:
        if not op.is_constant or op in self.pinned:
            return False
        return not op.outputs[0]._consumers and not self.kept[op.outputs[0]]


class _Sets(ConnectedSets):
    """The sets of operations of a region to become clusters."""

    def __init__(
        self,
        region: Region,
        members: set[Operation],
        captured: Captured,
        waiting: Waiting,
        apart: dict[Operation, Predicate],
    ) -> None:
        self.waiting = waiting
        self.apart = apart
        super().__init__(region.operations, members, captured)

    def cut_sets(self) -> list[list[Operation]]:
        """Return the sets, cut to MOST operations in the region's order, so that parts wait in a single direction."""
        parts: list[list[Operation]] = []
        for group in self.sets():
            size = MOST + 1
            for op in group:
                if size + _computing_weight(op) > MOST:
                    parts.append([])
                    size = 0
                parts[-1].append(op)
                size += _computing_weight(op)
        return parts

    def kind(self, op: Operation) -> Any:
        return op.device, op.attrs.get("colocate")

    def key(self, op: Operation) -> Any:
        return self.waiting.of[op], self.apart.get(op)

    def reads(self, op: Operation) -> Iterable[Operation]:
        return (t.op for t in op.inputs) if not op.regions else self.sources(op)


def _are_known(tensors: Iterable[Tensor], known: Container[Operation]) -> bool:
    return all(t.op.is_constant or t.op in known for t in tensors)


def _used_tensors(op: Operation) -> list[Tensor]:
    """Return the inputs of an operation and the results of its regions."""
    return [*op.inputs, *(t for region in op.regions for t in region.results)]


def _computing_weight(op: Operation) -> int:
    """Return the weight of an operation: the number of computing operations, including operations in its regions."""
    inside = (inner for region in op.regions for inner in region.walk())
    return int(op.role is not Role.IDENTITY) + sum(inner.role is not Role.CONST for inner in inside)
