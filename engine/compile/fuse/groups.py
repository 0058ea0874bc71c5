"""Fuse elementwise operations: connected operations that can run at one go become one operation, `Fused`.

The operations of a set share their kind: rows, dtype and device. Each operation has a level, which grows along every
way that leaves a set (`_Groups._levels`), so a connected set of one kind and level waits for nothing that it makes.

The operations of a set are alive and dead together: else what is alive would die with what is not. Operations that
may be late are left alone, so that fusing does not change what overlaps. In a partial run, operations that wait for
different feeds are not put into one set.

See docs/design/0005-loops-made-fast.md, 2, and docs/design/0024-deadness.md.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

import numpy as np

from ...deadness.predicates import Predicate
from ...deadness.regions import dying_apart
from ...deadness.rules import closes_loop
from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import is_structured
from ...ir.substitute import returned, substitute
from ...ir.tensor import Tensor
from ...ir.topological import Captured, captures
from ...ir.traits import Effect, Role
from ...ops.internal import fused as _operation  # noqa: F401  declares Fused
from ...ops.support.fusing import has_rows, is_comparison
from .rules import FusedProgram, can_fuse, computes, operands, write

_OF_FRAMES = frozenset({Role.ENTER, Role.EXIT, Role.NEXT_ITERATION})
MOST_STEPS = 64  # operations of a set: each may need 8 or 16 KB of scratch in the C kernel, which should stay in cache


def fuse_elementwise(program: Program) -> Program:
    """Return the program with connected elementwise operations fused; the given one is used up."""
    # Others wait for these operations and not for their results. Were one fused, they would wait for the whole set.
    pinned = {c for op in program.graph.root.walk() for c in op.control_inputs} | set(program.targets)
    regions = [program.graph.root, *(r for op in program.graph.root.walk() for r in op.regions)]
    kept = returned(program)
    moved: dict[Tensor, Tensor] = {}
    captured: Captured = {}
    apart = dying_apart(program)
    groups = [group for region in regions for group in _Groups(region, pinned, captured, apart).found()]
    fused = {op for group in groups for op in group}
    for group in groups:
        _replace(group, kept, fused, moved)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


class _Groups:
    """The sets of operations of one region that can be fused."""

    def __init__(
        self, region: Region, pinned: set[Operation], captured: Captured, apart: dict[Operation, Predicate]
    ) -> None:
        self.captured = captured
        self.apart = apart
        self.operations = region.operations
        self.members = {op for op in region.operations if op not in pinned and can_fuse(op)}
        self.members -= self._unsure(region)
        self.levels = self._levels()
        self.arrivals = _arrivals(region.operations, captured)
        self.leader: dict[Operation, Operation] = {}

    def found(self) -> Iterator[list[Operation]]:
        """Yield the sets, each in the order of the region."""
        for op in self.operations:
            if op in self.members:
                self._connect(op)
        sets: dict[Operation, list[Operation]] = {}
        for op in self.operations:
            if op in self.members:
                sets.setdefault(self._find(op), []).append(op)
        for group in sets.values():
            for start in range(0, len(group), MOST_STEPS):  # in the region's order, so that parts wait one way only
                part = group[start : start + MOST_STEPS]
                if sum(map(computes, part)) > 1 and _knows_rows(part):
                    yield part

    def _unsure(self, region: Region) -> set[Operation]:
        """Return the operations that wait for something slow, or belong to a loop that was made by hand."""
        found: set[Operation] = set()
        for op in region.operations:
            # A block of a loop's inputs is waited for once in many iterations, and its rows are all that the loop
            # computes with: were they unsure, nothing in the loop would be fused.
            if op.attrs.get("block"):
                continue
            # A loop in a loop takes long, and what does not wait for it may run meanwhile. At the root the same rule
            # would leave all alone that is behind a loop: its loss, and the updates of the optimizer.
            slow = is_structured(op) and region.parent is not None
            python = Effect.PYTHON in op.definition.effects
            if op.role in _OF_FRAMES or closes_loop(op) or python or slow or any(t.op in found for t in op.inputs):
                found.add(op)
        return found

    def _levels(self) -> dict[Operation, int]:
        """Return a level for each operation, such that no way between two of one kind and level leaves them.

        The invariant of both passes: ``level(op) >= level(source) + rise(source, op)`` for every source of every
        operation. Levels never fall along a way, and entering an operation that is no member, or a member of another
        kind, raises them. So a way from a set that comes back to it would have to come back to a lower level: there is
        none, and the set can run at one go.

        The first pass, in the region's order, gives the lowest levels: how early each operation could run. By these a
        product with a number that only feeds the last layer would be in the first level, apart from what reads it.
        The second pass, from the last operation to the first, raises members to the level of the members that read
        them. It keeps the invariant: the readers of an operation have their final level when its turn comes,
        ``highest`` is what all of them allow, and raising an operation takes nothing from its own sources. What is
        behind the back edges of hand-made loops, where a source comes after its reader, is no member.
        """
        levels: dict[Operation, int] = {}
        for op in self.operations:
            least = [levels.get(source, 0) + self._rise(source, op) for source in self._sources(op)]
            levels[op] = max(least, default=int(op not in self.members))
        last = max(levels.values(), default=0)
        highest: dict[Operation, int] = {}
        read_by_members: set[Operation] = set()
        for op in reversed(self.operations):
            # A member that no member reads is the end of its set, and stays with what it reads.
            if op in read_by_members:
                levels[op] = highest[op]
            # An assignment that nothing waits for must not hold back what it reads: a moment of Adam is read by the
            # update, which may be levels above.
            elif op not in highest and op not in self.members:
                levels[op] = last
            for source in self._sources(op):
                bound = levels[op] - self._rise(source, op)
                highest[source] = min(highest.get(source, bound), bound)
                if op in self.members and source in self.members:
                    read_by_members.add(source)
        return levels

    def _rise(self, source: Operation, op: Operation) -> bool:
        """Whether an operation is a level above one it waits for: it is no member, or a member of another kind."""
        return op not in self.members or (source in self.members and _kind(source) != _kind(op))

    def _sources(self, op: Operation) -> Iterable[Operation]:
        """Return what an operation will wait for: a member not for masks and shapes, which its steps do not read."""
        return {t.op for t in operands(op)} if op in self.members else _sources(op, self.captured)

    def _connect(self, op: Operation) -> None:
        for source in {t.op for t in operands(op)} & self.members:
            if self._key(source) == self._key(op):
                self.leader[self._find(source)] = self._find(op)

    def _find(self, op: Operation) -> Operation:
        """Return the leader of a set; each look shortens the way to it (path halving), so that chains stay cheap."""
        leader = self.leader
        while (above := leader.get(op, op)) is not op:
            leader[op] = op = leader.get(above, above)
        return op

    def _key(self, op: Operation) -> Any:
        return self.levels[op], _kind(op), self.apart.get(op), self.arrivals.get(op)


def _kind(op: Operation) -> Any:
    """Return what operations of one set have in common."""
    output = op.outputs[0]
    return output.dtype, output.shape.dims[:-1], _place(op)


def _arrivals(operations: list[Operation], captured: Captured) -> dict[Operation, frozenset[Operation]]:
    """Return for each operation the feeds of a partial run that it waits for; nothing in a step that is no such run.

    What needs a feed of the second part must not hold back what the first part alone can give. Along a way these feeds
    only become more, so sets that differ in them wait for each other one way only.
    """
    found: dict[Operation, frozenset[Operation]] = {}
    if not any(op.role is Role.PARTIAL_FEED for op in operations):
        return found
    for op in operations:
        before = {arrival for source in _sources(op, captured) for arrival in found.get(source, ())}
        found[op] = frozenset(before | ({op} if op.role is Role.PARTIAL_FEED else set()))
    return found


def _place(op: Operation) -> Any:
    return op.device, op.attrs.get("colocate")


def _sources(op: Operation, captured: Captured) -> Iterator[Operation]:
    """Yield the operations that an operation, or what is in its regions, waits for."""
    yield from (t.op for t in op.inputs)
    forwarded = op.attrs.get("forwarded", ())  # assignments whose values it comes behind whatever is fused
    yield from (control for control in op.control_inputs if control.name not in forwarded)
    if op.regions:
        yield from captures(op, captured)


def _knows_rows(group: list[Operation]) -> bool:
    """Whether the rows of a group are known, or come with an input."""
    made = {t for op in group for t in op.outputs}
    shape = group[0].outputs[0].shape
    return shape.is_fully_known or any(has_rows(t.shape, shape) for op in group for t in operands(op) if t not in made)


def _replace(
    group: list[Operation], kept: Container[Tensor], fused: set[Operation], moved: dict[Tensor, Tensor]
) -> None:
    """Append a Fused to the region and note what its outputs stand for."""
    inside = set(group)
    steps = FusedProgram()
    for op in group:
        write(op, steps)
    outputs = [t for op in group for t in op.outputs]
    wanted = [t for t in outputs if t in kept or not inside.issuperset(_users(t, kept, fused))]
    moved.update(zip(wanted, _emit(group[-1], steps, wanted).outputs, strict=True))


def _users(tensor: Tensor, kept: Container[Tensor], fused: set[Operation]) -> Iterator[Operation]:
    """Yield the operations that use a tensor once all sets are fused: comparisons and shapes may be gone by then."""
    for op in tensor._consumers:
        later = [c for t in op.outputs for c in t._consumers]
        compares = is_comparison(op)
        goes = (compares or op.definition.shape_only) and op.outputs[0] not in kept and fused.issuperset(later)
        if not goes:
            yield op
        elif compares:  # a step of those that read it, which read the tensor now
            yield from later


def _emit(like: Operation, program: FusedProgram, wanted: list[Tensor]) -> Operation:
    registers = program.finish()
    shape = wanted[0].shape
    attrs: dict[str, Any] = {
        "num": len(wanted),
        "steps": tuple((name, tuple(registers[t] for t in used), columns) for name, used, columns, _ in program.steps),
        "constants": tuple(np.asarray(t.op.attrs["value"]) for t in program.constants),
        "results": tuple(registers[t] for t in wanted),
        "has_rows": tuple(has_rows(t.shape, shape) for t in program.inputs),
        "batch_dims": shape.dims[:-1],
        "last_dims": tuple(t.shape.dims[-1] for t in wanted),
    }
    made = Builder(like.region, like, "fused").emit("Fused", *program.inputs, **attrs)
    for tensor, old in zip(made.outputs, wanted, strict=True):
        tensor.shape = old.shape
    return made
