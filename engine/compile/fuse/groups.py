"""Fuse elementwise operations: what is connected and can run at one go becomes one operation.

The bounds of a set are what its operations share: rows, dtype and device. Each operation gets a level: how many others
lie on the longest way to it that are not elementwise or not of the same kind. Between two of one level and kind there
is nothing else, so a connected set of them waits for nothing that itself makes.

Left alone is what may be dead or late, so that fusing changes neither which values are dead nor what overlaps. In a
program in parts, what waits for other feeds is not joined.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

import numpy as np

from ...ir.builder import Builder
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.structured import is_structured
from ...ir.substitute import returned, substitute
from ...ir.tensor import Tensor
from ...ir.traits import FLOW, Effect, Role
from ...ops.internal import fused as _operation  # noqa: F401  declares Fused
from .rules import COMPARISONS, MOVES, FusedProgram, can_fuse, is_full, operands, write

MOST_STEPS = 64


def fuse_elementwise(program: Program) -> Program:
    """Return the program with connected elementwise operations fused; the given one is used up."""
    pinned = {c for op in program.graph.root.walk() for c in op.control_inputs} | set(program.targets)
    regions = [program.graph.root, *(r for op in program.graph.root.walk() for r in op.regions)]
    kept = returned(program)
    moved: dict[Tensor, Tensor] = {}
    groups = [group for region in regions for group in _Groups(region, pinned).found()]
    fused = {op for group in groups for op in group}
    for group in groups:
        _replace(group, kept, fused, moved)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


class _Groups:
    """The sets of operations of one region that can be fused."""

    def __init__(self, region: Region, pinned: set[Operation]) -> None:
        self.operations = region.operations
        self.members = {op for op in region.operations if op not in pinned and can_fuse(op)}
        self.members -= self._unsure(region)
        self.levels = self._levels()
        self.arrivals = _arrivals(region.operations)
        self.leader: dict[Operation, Operation] = {}

    def found(self) -> Iterator[list[Operation]]:
        """Yield the sets, each in the order of the region."""
        for op in self.operations:
            if op in self.members:
                self._join(op)
        sets: dict[Operation, list[Operation]] = {}
        for op in self.operations:
            if op in self.members:
                sets.setdefault(self._find(op), []).append(op)
        for group in sets.values():
            for start in range(0, len(group), MOST_STEPS):
                part = group[start : start + MOST_STEPS]
                if sum(op.type not in MOVES for op in part) > 1 and _knows_rows(part):
                    yield part

    def _unsure(self, region: Region) -> set[Operation]:
        """Return the operations that may be dead while their region runs, or wait for something slow."""
        found: set[Operation] = set()
        for op in region.operations:
            if op.attrs.get("block"):  # read for all that the loop does
                continue
            slow = is_structured(op) and region.parent is not None
            maybe = op.role is Role.SERIES_READ and op.attrs["maybe"]
            unsure = op.role in FLOW or Effect.PYTHON in op.definition.effects
            if unsure or slow or maybe or op.is_cond or any(t.op in found for t in op.inputs):
                found.add(op)
        return found

    def _levels(self) -> dict[Operation, int]:
        levels: dict[Operation, int] = {}
        for op in self.operations:
            least = [levels.get(source, 0) + self._step(source, op) for source in self._sources(op)]
            levels[op] = max(least, default=int(op not in self.members))
        last = max(levels.values(), default=0)
        highest: dict[Operation, int] = {}
        read_by_members: set[Operation] = set()
        for op in reversed(self.operations):  # to the level of those that read it, if the others allow
            if op in read_by_members:
                levels[op] = max(levels[op], highest[op])
            elif op not in highest and op not in self.members:  # nothing waits for it
                levels[op] = last
            for source in self._sources(op):
                bound = levels[op] - self._step(source, op)
                highest[source] = min(highest.get(source, bound), bound)
                if op in self.members and source in self.members:
                    read_by_members.add(source)
        return levels

    def _step(self, source: Operation, op: Operation) -> bool:
        """Whether an operation is a level above one it waits for: it is not elementwise, or not of the same kind."""
        return op not in self.members or (source in self.members and _kind(source) != _kind(op))

    def _sources(self, op: Operation) -> Iterable[Operation]:
        return {t.op for t in operands(op)} if op in self.members else _sources(op)

    def _join(self, op: Operation) -> None:
        for source in {t.op for t in operands(op)} & self.members:
            if self._key(source) == self._key(op):
                self.leader[self._find(source)] = self._find(op)

    def _find(self, op: Operation) -> Operation:
        while op in self.leader and self.leader[op] is not op:
            op = self.leader[op]
        return op

    def _key(self, op: Operation) -> Any:
        return self.levels[op], _kind(op), self.arrivals.get(op)


def _kind(op: Operation) -> Any:
    """Return what operations of one set have in common."""
    output = op.outputs[0]
    return output.dtype, output.shape.dims[:-1], _place(op)


def _arrivals(operations: list[Operation]) -> dict[Operation, frozenset[Operation]]:
    """Return for each operation what it waits for that comes while the step runs; nothing if none does."""
    found: dict[Operation, frozenset[Operation]] = {}
    if not any(op.role is Role.PARTIAL_FEED for op in operations):
        return found
    for op in operations:
        before = {arrival for source in _sources(op) for arrival in found.get(source, ())}
        found[op] = frozenset(before | ({op} if op.role is Role.PARTIAL_FEED else set()))
    return found


def _place(op: Operation) -> Any:
    return op.device, op.attrs.get("colocate")


def _sources(op: Operation) -> Iterator[Operation]:
    """Yield the operations that an operation, or what is in its regions, waits for."""
    yield from (t.op for t in op.inputs)
    forwarded = op.attrs.get("forwarded", ())  # assignments whose values it comes behind whatever is fused
    yield from (control for control in op.control_inputs if control.name not in forwarded)
    for region in op.regions:
        yield from (t.op for t in region.results)
        for inner in region.operations:
            yield from _sources(inner)


def _knows_rows(group: list[Operation]) -> bool:
    """Whether the rows of a group are known, or come with an input."""
    made = {t for op in group for t in op.outputs}
    shape = group[0].outputs[0].shape
    return shape.is_fully_known or any(is_full(t.shape, shape) for op in group for t in operands(op) if t not in made)


def _replace(
    group: list[Operation], kept: Container[Tensor], fused: set[Operation], moved: dict[Tensor, Tensor]
) -> None:
    """Append a Fused to the region and note what its outputs stand for."""
    inside = set(group)
    code = FusedProgram()
    for op in group:
        write(op, code)
    outputs = [t for op in group for t in op.outputs]
    wanted = [t for t in outputs if t in kept or not inside.issuperset(_users(t, kept, fused))]
    moved.update(zip(wanted, _emit(group[-1], code, wanted).outputs, strict=True))


def _users(tensor: Tensor, kept: Container[Tensor], fused: set[Operation]) -> Iterator[Operation]:
    """Yield the operations that use a tensor once all sets are fused: comparisons and shapes may be gone by then."""
    for op in tensor._consumers:
        later = [c for t in op.outputs for c in t._consumers]
        if op.type not in COMPARISONS | {"Shape"} or op.outputs[0] in kept or not fused.issuperset(later):
            yield op
        elif op.type in COMPARISONS:
            yield from later


def _emit(like: Operation, code: FusedProgram, wanted: list[Tensor]) -> Operation:
    registers = code.finish()
    shape = wanted[0].shape
    attrs: dict[str, Any] = {
        "num": len(wanted),
        "steps": tuple((name, tuple(registers[t] for t in used), detail) for name, used, detail, _ in code.steps),
        "constants": tuple(np.asarray(t.op.attrs["value"]) for t in code.constants),
        "results": tuple(registers[t] for t in wanted),
        "full": tuple(is_full(t.shape, shape) for t in code.inputs),
        "lead": shape.dims[:-1],
        "widths": tuple(t.shape.dims[-1] for t in wanted),
    }
    made = Builder(like.region, like, "fused").emit("Fused", *code.inputs, **attrs)
    for tensor, old in zip(made.outputs, wanted, strict=True):
        tensor.shape = old.shape
    return made
