"""Fuse elementwise operations: what is connected and can run at one go becomes one operation.

Each operation gets a level: how many other operations lie on the longest way to it. Between two elementwise
operations of one level there is nothing but elementwise operations, so a connected set of them waits for nothing that
itself makes. The bounds of a set are what the operations share: rows, dtype and device.

Left alone is what may be dead or late, so that fusing changes neither which values are dead nor what overlaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.shapes import SCALAR
from ..ir.definition import Ufunc
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rewrite import Program, copy_program
from ..ir.structured import extras, is_structured
from ..ir.tensor import Tensor
from ..ops import fused as _operation  # noqa: F401  declares Fused
from .substitute import substitute

MOST_STEPS = 64
_FLOATS = (dtypes.float32, dtypes.float64)
_UNSURE = frozenset({"Switch", "SwitchN", "Merge", "Enter", "Exit", "NextIteration", "PyFunction"})


def fuse_elementwise(program: Program) -> Program:
    """Return the program with connected elementwise operations fused; the given one is used up."""
    pinned = {c for op in program.graph.root.walk() for c in op.control_inputs} | set(program.targets)
    regions = [program.graph.root, *(r for op in program.graph.root.walk() for r in op.regions)]
    returned = {t for r in regions for t in r.results} | set(program.fetches)
    returned |= {t for op in program.graph.root.walk() if is_structured(op) for t in _saved(op)}
    moved: dict[Tensor, Tensor] = {}
    for region in regions:
        for group in _Groups(region, pinned).found():
            _replace(group, region, returned, moved)
    if not moved:
        return program
    substitute(program, moved)
    return copy_program(program)


def _saved(op: Operation) -> list[Tensor]:
    return [t for e in extras(op) for t in (e.value, e.index) if t is not None]


class _Groups:
    """The sets of operations of one region that can be fused."""

    def __init__(self, region: Region, pinned: set[Operation]) -> None:
        self.operations = region.operations
        self.members = {op for op in region.operations if op not in pinned and _is_elementwise(op)}
        self.members -= self._unsure(region)
        self.levels = self._levels()
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
                if sum(op.type not in _MOVES for op in part) > 1:
                    yield part

    def _unsure(self, region: Region) -> set[Operation]:
        """Return the operations that may be dead while their region runs, or wait for something slow."""
        found: set[Operation] = set()
        for op in region.operations:
            slow = is_structured(op) and region.parent is not None
            maybe = op.type == "SeriesRead" and op.attrs["maybe"]
            if op.type in _UNSURE or slow or maybe or op.type == "Cond" or any(t.op in found for t in op.inputs):
                found.add(op)
        return found

    def _levels(self) -> dict[Operation, int]:
        levels: dict[Operation, int] = {}
        for op in self.operations:
            below = max((levels.get(source, 0) for source in _sources(op)), default=0)
            levels[op] = below + (op not in self.members)
        highest: dict[Operation, int] = {}
        for op in reversed(self.operations):  # as late as those that use it allow
            if op in self.members and op in highest:
                levels[op] = max(levels[op], highest[op])
            bound = levels[op] - (op not in self.members)
            for source in _sources(op):
                highest[source] = min(highest.get(source, bound), bound)
        return levels

    def _join(self, op: Operation) -> None:
        for source in {t.op for t in op.inputs} & self.members:
            if self._key(source) == self._key(op):
                self.leader[self._find(source)] = self._find(op)

    def _find(self, op: Operation) -> Operation:
        while op in self.leader and self.leader[op] is not op:
            op = self.leader[op]
        return op

    def _key(self, op: Operation) -> Any:
        output = op.outputs[0]
        return self.levels[op], output.dtype, output.shape.as_tuple()[:-1], op.device


def _sources(op: Operation) -> Iterator[Operation]:
    """Yield the operations that an operation, or what is in its regions, waits for."""
    yield from (t.op for t in op.inputs)
    yield from op.control_inputs
    for region in op.regions:
        yield from (t.op for t in region.results)
        for inner in region.operations:
            yield from _sources(inner)


def _is_elementwise(op: Operation) -> bool:
    """Whether a step of a fused operation can do what `op` does."""
    if op.type not in _STEPS or op.control_inputs or any(t.dtype not in _FLOATS for t in op.outputs):
        return False
    shapes = [t.shape for t in op.outputs]
    if not all(s.is_fully_known and s.rank and s.num_elements for s in shapes):
        return False
    if op.type in _MOVES:
        return _moves_columns(op)
    return any(t.shape == shapes[0] for t in op.inputs) and all(_fits(t, op) for t in op.inputs)


def _fits(operand: Tensor, op: Operation) -> bool:
    """Whether an operand is whole, a scalar, or one row for all rows."""
    output = op.outputs[0]
    if operand.dtype is not output.dtype or not operand.shape.is_fully_known:
        return False
    dims = operand.shape.as_tuple()
    return operand.shape in (output.shape, SCALAR) or (
        dims[-1] == output.shape.as_tuple()[-1] and all(d == 1 for d in dims[:-1]) and op.type != "AddN"
    )


def _moves_columns(op: Operation) -> bool:
    """Whether a Concat, Split or SplitV works along the last dimension, by sizes that are known."""
    whole = op.inputs if op.type == "Concat" else op.inputs[:1]
    rank = op.outputs[0].rank
    if op.attrs["axis"] not in (-1, rank - 1 if rank else -1):
        return False
    return all(t.shape.is_fully_known and t.shape.num_elements for t in whole)


@dataclass
class _Code:
    """A program while it is written: tensors have registers."""

    inputs: list[Tensor] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)
    steps: list[tuple[str, list[Tensor], Any, Tensor]] = field(default_factory=list)

    def registers(self) -> dict[Tensor, int]:
        made = [made for *_, made in self.steps]
        return {t: i for i, t in enumerate([*self.inputs, *self.constants, *made])}


def _replace(group: list[Operation], region: Region, returned: set[Tensor], moved: dict[Tensor, Tensor]) -> None:
    """Append a Fused to the region and note what its outputs stand for."""
    inside = set(group)
    code = _Code()
    aliases: dict[Tensor, Tensor] = {}
    for op in group:
        _STEPS[op.type](op, code, aliases)
    made = {t for *_, t in code.steps}
    used = [t for _, operands, *_ in code.steps for t in operands if t not in made]
    code.constants = [t for t in dict.fromkeys(used) if _is_constant(t)]
    code.inputs = [t for t in dict.fromkeys(used) if not _is_constant(t)]
    wanted = [t for op in group for t in op.outputs if t in returned or not inside.issuperset(t._consumers)]
    moved.update(zip(wanted, _emit(group[-1], region, code, wanted).outputs, strict=True))


def _is_constant(tensor: Tensor) -> bool:
    return tensor.op.type == "Const" and tensor.shape == SCALAR and not tensor.op.control_inputs


def _emit(like: Operation, region: Region, code: _Code, wanted: list[Tensor]) -> Operation:
    registers = code.registers()
    attrs = {
        "num": len(wanted),
        "steps": tuple((name, tuple(registers[t] for t in used), detail) for name, used, detail, _ in code.steps),
        "constants": tuple(np.asarray(t.op.attrs["value"]) for t in code.constants),
        "results": tuple(registers[t] for t in wanted),
        "lead": wanted[0].shape.as_tuple()[:-1],
        "widths": tuple(t.shape.as_tuple()[-1] for t in wanted),
    }
    return Operation(
        region, "Fused", region.graph.unique_name(f"{like.name}/fused"), code.inputs,
        [(t.dtype, t.shape) for t in wanted], attrs=attrs, device=like.device, source=like.source,
    )  # fmt: skip


def _loop(op: Operation, code: _Code, _: Any) -> None:
    kernel = op.definition.kernel
    assert isinstance(kernel, Ufunc)
    code.steps.append((kernel.name, op.inputs, (), op.outputs[0]))


def _sigmoid(op: Operation, code: _Code, _: Any) -> None:
    code.steps.append(("sigmoid", op.inputs, (), op.outputs[0]))


def _join(op: Operation, code: _Code, _: Any) -> None:
    code.steps.append(("join", op.inputs, (), op.outputs[0]))


def _cut(op: Operation, code: _Code, _: Any) -> None:
    start = 0
    for piece in op.outputs:
        stop = start + piece.shape.as_tuple()[-1]
        code.steps.append(("cut", op.inputs[:1], (start, stop), piece))
        start = stop


_MOVES = frozenset({"Concat", "Split", "SplitV"})
_STEPS = {
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "RealDiv", "Neg", "Abs", "Square", "Sqrt", "Reciprocal", "Exp", "Log", "Tanh",
         "Maximum", "Minimum"), _loop,
    ),
    "Sigmoid": _sigmoid, "Concat": _join, "Split": _cut, "SplitV": _cut,
}  # fmt: skip
