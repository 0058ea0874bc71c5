"""Clusters: connected operations that only compute become one native program, without a token for each value.

The operations of a cluster are alive and dead together, and wait for the same sources (`waiting.py`), so that nothing
is delayed and nothing dies that did not before. Others wait for results alone: what has control inputs, or is one, is
left out. A Cond whose branches only compute is an operation like others.

See docs/design/0029-clusters.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.settings import Settings
from ...deadness.predicates import Predicate
from ...deadness.regions import Liveness
from ...ir.builder import copied
from ...ir.connected import ConnectedSets
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.region import Region
from ...ir.substitute import returned, substitute, substitute_in
from ...ir.tensor import Tensor
from ...ir.topological import Captured, topological_order
from ...ir.traits import Role
from .candidates import Candidates
from .choice import choose, is_choice, move_into
from .eligible import NotNative
from .translate import translate_cluster
from .waiting import Waiting

MOST = 150  # operations of a cluster: LLVM compiles no more steps
MOST_MOVED = 0.5  # values that a cluster takes and gives, for each operation: to copy one costs what two tokens do
FEWEST = 8  # that compute: fewer cost less than a program whose inputs and results are copied
_MOST_ROUNDS = 4  # in which operations of a region are left out since what they look at is in no cluster with them
_TOO_FEW = f"is one of fewer than {FEWEST} that belong together"
_UNEVEN = "waits for what only one of its branches uses"
_TOO_LITTLE = "is one of some that compute too little for what they take and give"


def cluster(program: Program, settings: Settings) -> Program:
    """Put native programs in front of clusters; the program is changed.

    Its `not_clustered` says of operations that are in none why.
    """
    # Where saved values may be elsewhere, who reads them may have to wait.
    if not any(op.attrs.get("swap_memory") for op in program.graph.root.walk()):
        _Clusters(program, settings).run()
    return program


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A cluster, which of its results are wanted, and the Cond that gives them now."""

    operations: list[Operation]
    results: list[Tensor]
    cond: Operation


class _Clusters:
    def __init__(self, program: Program, settings: Settings) -> None:
        self.program = program
        self.settings = settings
        self.captured: Captured = {}
        liveness = Liveness(program)
        self.apart = liveness.apart
        self.kept = returned(program)
        pinned = {c for op in program.graph.root.walk() for c in op.control_inputs} | set(program.targets)
        self.pinned = pinned
        self.candidates = Candidates(settings, liveness, pinned)
        self.waiting = Waiting(self.captured, self.candidates.found.__contains__)

    def run(self) -> None:
        """Find the clusters of all regions, then put programs in front of them."""
        root = self.program.graph.root
        self.candidates.note(root)
        self.waiting.region(root)
        chosen = [found for group in list(self._region(root)) for found in self._choose(group)]
        reasons = self.candidates.reasons
        reasons.update(dict.fromkeys(self.waiting.uneven, _UNEVEN))
        self.program.not_clustered = {f"{op.name} ({op.type})": reason for op, reason in reasons.items()}
        pairs = [pair for each in chosen for pair in zip(each.results, each.cond.outputs, strict=True)]
        substitute(self.program, dict(pairs))
        for each in chosen:
            self._move(each)
        self._tidy({each.cond.region for each in chosen}, {op for each in chosen for op in each.operations})

    def _region(self, region: Region) -> Iterator[list[Operation]]:
        """Yield the clusters of a region, and of those of its operations that are in none; its sources are known."""
        clustered: set[Operation] = set()
        for group in self._sets(region):
            clustered.update(group)
            yield group
        for op in region.operations:
            if op.regions and op not in clustered and not is_choice(op):
                for inner in op.regions:
                    self.candidates.note(inner)
                self.waiting.inside(op)
                for inner in op.regions:
                    yield from self._region(inner)

    def _sets(self, region: Region) -> list[list[Operation]]:
        """Return the sets of a region, once no operation is left in one that looks at what the others do not know."""
        for _ in range(_MOST_ROUNDS):
            members = self.candidates.found.intersection(region.operations) - self.waiting.uneven
            groups = _Sets(region, members, self.captured, self.waiting, self.apart).parts()
            looking = [op for group in groups for op in self._looking(group)]
            if not looking:
                break
            for op in looking:
                self.candidates.drop(op, "looks at a value that may be another one each time")
            self.waiting.region(region)
        return [group for group in groups if self._is_large_enough(group) and self.candidates.found.issuperset(group)]

    def _looking(self, group: Iterable[Operation]) -> Iterator[Operation]:
        """Yield the operations of a set that look at values which do not only depend on shapes."""
        known: set[Operation] = set()
        for op in group:
            inside = [op, *(inner for region in op.regions for inner in region.walk())]
            reads = [source for each in inside for source in self.candidates.reads(each)]
            if not all(source.is_constant or source in known for source in reads):
                yield op
            elif op.definition.shape_only or (not op.regions and _are_known(op.inputs, known)):
                known.add(op)

    def _is_large_enough(self, group: list[Operation]) -> bool:
        if sum(map(_weight, group)) >= FEWEST:
            return True
        self.candidates.reasons.update(dict.fromkeys(group, _TOO_FEW))
        return False

    def _choose(self, group: list[Operation]) -> Iterator[_Chosen]:
        """Yield a cluster with the choice between it and a program, if there is a program."""
        results = self._wanted(group)
        try:
            program, inputs = translate_cluster(group, results, self.settings, self.candidates.computations)
        except NotNative as reason:
            self.candidates.reasons.update(dict.fromkeys(group, f"belongs to {reason}"))
            return
        moved = len(inputs) + len(results)
        if not inputs or not results or moved > MOST_MOVED * sum(map(_weight, group)):
            self.candidates.reasons.update(dict.fromkeys(group, _TOO_LITTLE))
            return
        cond = choose(group[-1], program.name, results, program, inputs, dead_silent=True)
        yield _Chosen(group, results, cond)

    def _wanted(self, group: Sequence[Operation]) -> list[Tensor]:
        """Return the results of a set that are used outside of it."""
        inside = {*group, *(inner for op in group for region in op.regions for inner in region.walk())}
        own = Counter(t for op in inside for region in op.regions for t in region.results)
        outputs = [t for op in group for t in op.outputs]
        return [t for t in outputs if self.kept[t] > own[t] or not inside.issuperset(t._consumers)]

    def _move(self, each: _Chosen) -> None:
        """Make the operations of a cluster what is done if its program does not run, and give them constants there."""
        branch = each.cond.regions[0]
        move_into(each.operations, each.results, branch)
        substitute_in(branch, dict(zip(each.cond.outputs, each.results, strict=True)))
        constants = {
            tensor: copied(tensor.op, branch, ()).outputs[0]
            for tensor in dict.fromkeys(t for op in list(branch.walk()) for t in _used(op))
            if tensor.op.is_constant and not tensor.op.control_inputs and not branch.encloses(tensor.region)
        }
        substitute_in(branch, constants)
        branch.operations = topological_order(branch.operations)

    def _tidy(self, regions: set[Region], moved: set[Operation]) -> None:
        """Have the operations of regions in order, without those that are elsewhere, and constants for these alone."""
        for region in regions:
            left = [op for op in region.operations if op not in moved and not self._is_unused(op)]
            region.operations = topological_order(left)

    def _is_unused(self, op: Operation) -> bool:
        if not op.is_constant or op in self.pinned:
            return False
        return not op.outputs[0]._consumers and not self.kept[op.outputs[0]]


class _Sets(ConnectedSets):
    """The sets of operations of one region that become clusters."""

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

    def parts(self) -> list[list[Operation]]:
        """Return the sets, cut where they are too large, in the region's order, so that parts wait one way only."""
        found: list[list[Operation]] = []
        for group in self.sets():
            size = MOST + 1
            for op in group:
                if size + _weight(op) > MOST:
                    found.append([])
                    size = 0
                found[-1].append(op)
                size += _weight(op)
        return found

    def kind(self, op: Operation) -> Any:
        return op.device, op.attrs.get("colocate")

    def key(self, op: Operation) -> Any:
        return self.waiting.of[op], self.apart.get(op)

    def reads(self, op: Operation) -> Iterable[Operation]:
        return (t.op for t in op.inputs) if not op.regions else self.sources(op)


def _are_known(tensors: Iterable[Tensor], known: Container[Operation]) -> bool:
    return all(t.op.is_constant or t.op in known for t in tensors)


def _used(op: Operation) -> list[Tensor]:
    """Return the tensors that an operation uses, or its regions give."""
    return [*op.inputs, *(t for region in op.regions for t in region.results)]


def _weight(op: Operation) -> int:
    """Return for how many operations that compute one stands."""
    inside = (inner for region in op.regions for inner in region.walk())
    return int(op.role is not Role.IDENTITY) + sum(inner.role is not Role.CONST for inner in inside)
