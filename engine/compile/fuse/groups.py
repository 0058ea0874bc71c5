"""Fuse elementwise operations: connected operations become a single operation, `Fused`, which runs in one pass.

The operations of a set share their kind: rows, dtype and device. No path between two of them leaves the set
(`engine/ir/connected.py`), so a fused operation never waits for its own results.

The operations of a set are alive and dead together: otherwise live results would die with dead ones. Operations with
late inputs are excluded, so fusing does not change the overlap of work. In a partial run, operations waiting for
different feeds are in different sets.

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
from ...ir.connected import ConnectedSets
from ...ir.operation import Operation
from ...ir.own_kernels import HasOwnKernel, has_no_own_kernel
from ...ir.program import Program, copy_program
from ...ir.region import Region
from ...ir.rules.shapes import ShapeOnly
from ...ir.structured import is_structured
from ...ir.substitute import count_noninput_uses, substitute
from ...ir.tensor import Tensor
from ...ir.topological import Captured, captures
from ...ir.traits import Effect, Role
from ...ops.internal import fused as _operation  # noqa: F401  declares Fused
from ...ops.support.fusing import has_rows, is_comparison
from .rules import FusedProgram, can_fuse, computes, operands, write

_OF_FRAMES = frozenset({Role.ENTER, Role.EXIT, Role.NEXT_ITERATION})
MOST_STEPS = 64  # operations of a set: each may need 8 or 16 KB of scratch in the C kernel, which should stay in cache


def fuse_elementwise(program: Program, has_own_kernel: HasOwnKernel = has_no_own_kernel) -> Program:
    """Return the program with connected elementwise operations fused; `program` is used up.

    Operations with registered kernels are left for these.
    """
    # Other operations wait for these by control inputs. If one were fused, they would wait for the whole set.
    pinned = {c for op in program.graph.root.walk() for c in op.control_inputs} | set(program.targets)
    pinned |= set(_find_own(program, has_own_kernel))
    regions = [program.graph.root, *(r for op in program.graph.root.walk() for r in op.regions)]
    kept = count_noninput_uses(program)
    moved: dict[Tensor, Tensor] = {}
    captured: Captured = {}
    apart = dying_apart(program)
    groups = [group for region in regions for group in _Groups(region, pinned, captured, apart).find_sets()]
    fused = {op for group in groups for op in group}
    for group in groups:
        _replace_group(group, kept, fused, moved)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _find_own(program: Program, has_own_kernel: HasOwnKernel) -> Iterator[Operation]:
    """Yield the operations with registered kernels; of a comparison also the users, whose steps would include it."""
    for op in program.graph.root.walk():
        if has_own_kernel(op):
            yield op
            yield from (user for tensor in op.outputs for user in tensor._consumers if is_comparison(op))


class _Groups(ConnectedSets):
    """The fusible sets of operations of a region."""

    def __init__(
        self, region: Region, pinned: set[Operation], captured: Captured, apart: dict[Operation, Predicate]
    ) -> None:
        self.apart = apart
        self.arrivals = _feeds_before(region.operations, captured)
        members = {op for op in region.operations if op not in pinned and can_fuse(op)}
        super().__init__(region.operations, members - self._find_unsure_operations(region), captured)

    def find_sets(self) -> Iterator[list[Operation]]:
        """Yield the sets, each in the order of the region."""
        for group in self.sets():
            for start in range(0, len(group), MOST_STEPS):  # in order, so that parts wait in one direction only
                part = group[start : start + MOST_STEPS]
                if _num_computed(part) > 1 and _knows_rows(part):
                    yield part

    def kind(self, op: Operation) -> Any:
        return _fusion_kind(op)

    def key(self, op: Operation) -> Any:
        return self.apart.get(op), self.arrivals.get(op)

    def reads(self, op: Operation) -> Iterable[Operation]:
        return (t.op for t in operands(op))

    def sources(self, op: Operation) -> Iterable[Operation]:
        """Return the operations that `op` will wait for: of a member only the producers of operands of its steps."""
        return {t.op for t in operands(op)} if op in self.members else _iterate_sources(op, self.captured)

    def _find_unsure_operations(self, region: Region) -> set[Operation]:
        """Return the operations after slow operations, and the operations of hand-made loops."""
        unsure: set[Operation] = set()
        for op in region.operations:
            # A block of a loop's inputs is waited for once in many iterations, and all computations of the loop use its
            # rows: if these were unsure, nothing in the loop would be fused.
            if op.notes.block:
                continue
            # An inner loop takes long, and operations independent of it may run meanwhile. At the root this rule would
            # exclude all operations after a loop: its loss, and the updates of the optimizer.
            slow = is_structured(op) and region.parent is not None
            python = Effect.PYTHON in op.definition.effects
            if op.role in _OF_FRAMES or closes_loop(op) or python or slow or any(t.op in unsure for t in op.inputs):
                unsure.add(op)
        return unsure


def _num_computed(group: list[Operation]) -> int:
    """Return the number of computing operations in a group, including comparisons without users outside."""
    inside = set(group)
    masks = {t.op for op in group for t in op.inputs if is_comparison(t.op)}
    return sum(map(computes, group)) + sum(inside.issuperset(mask.outputs[0]._consumers) for mask in masks)


def _fusion_kind(op: Operation) -> Any:
    """Return the properties shared by the operations of a set."""
    output = op.outputs[0]
    return output.dtype, output.shape.dims[:-1], _requested_place(op)


def _feeds_before(operations: list[Operation], captured: Captured) -> dict[Operation, frozenset[Operation]]:
    """Return for each operation the feeds of a partial run before the operation; empty in other steps.

    An operation after a feed of the second part must not delay results of the first part. Along a path the set of
    feeds only grows, so sets that differ in their feeds wait for each other in a single direction.
    """
    arrivals: dict[Operation, frozenset[Operation]] = {}
    if not any(op.role is Role.PARTIAL_FEED for op in operations):
        return arrivals
    for op in operations:
        before = {arrival for source in _iterate_sources(op, captured) for arrival in arrivals.get(source, ())}
        arrivals[op] = frozenset(before | ({op} if op.role is Role.PARTIAL_FEED else set()))
    return arrivals


def _requested_place(op: Operation) -> Any:
    return op.device, op.attrs.get("colocate")


def _iterate_sources(op: Operation, captured: Captured) -> Iterator[Operation]:
    """Yield the operations before an operation, or before operations in its regions."""
    yield from (t.op for t in op.inputs)
    forwarded = op.notes.forwarded  # assignments already ordered by data, however operations are fused
    yield from (control for control in op.control_inputs if control.name not in forwarded)
    if op.regions:
        yield from captures(op, captured)


def _knows_rows(group: list[Operation]) -> bool:
    """Return True if the rows of a group are known statically, or equal the rows of an input."""
    results = {t for op in group for t in op.outputs}
    shape = group[0].outputs[0].shape
    return shape.is_fully_known or any(
        has_rows(t.shape, shape) for op in group for t in operands(op) if t not in results
    )


def _replace_group(
    group: list[Operation], kept: Container[Tensor], fused: set[Operation], moved: dict[Tensor, Tensor]
) -> None:
    """Append a Fused to the region and record the tensors replaced by its outputs."""
    inside = set(group)
    steps = FusedProgram()
    for op in group:
        write(op, steps)
    outputs = [t for op in group for t in op.outputs]
    results = [t for t in outputs if t in kept or not inside.issuperset(_users_after_fusion(t, kept, fused))]
    moved.update(zip(results, _emit_fused(group[-1], steps, results).outputs, strict=True))


def _users_after_fusion(tensor: Tensor, kept: Container[Tensor], fused: set[Operation]) -> Iterator[Operation]:
    """Yield the users of a tensor once all sets are fused, when comparisons and shapes may have become steps."""
    for op in tensor._consumers:
        later = [c for t in op.outputs for c in t._consumers]
        compares = is_comparison(op)
        goes = (compares or op.definition.has(ShapeOnly)) and op.outputs[0] not in kept and fused.issuperset(later)
        if not goes:
            yield op
        elif compares:  # becomes a step of its users, which then read the tensor
            yield from later


def _emit_fused(like: Operation, program: FusedProgram, wanted: list[Tensor]) -> Operation:
    """Append a Fused of the given steps, whose outputs take the shapes of `wanted`."""
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
    fused = Builder(like.region, like, "fused").emit("Fused", *program.inputs, **attrs)
    # The shapes inferred for a Fused may be less specific.
    for tensor, old in zip(fused.outputs, wanted, strict=True):
        tensor.shape = old.shape
    return fused
