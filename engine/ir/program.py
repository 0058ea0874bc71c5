"""Copies of the needed part of a graph, rewritten on the way.

Every pass of ``engine/compile`` is a copy with another `transform`; the user's graph is never touched. Copying
prunes: unneeded operations, branch results, loop variables and saved values are left out (rule 57).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import GraphError
from .accesses import key_of
from .graph import Graph
from .operation import Operation
from .region import Region
from .structured import SavedOutput, is_structured, num_results, saved_outputs
from .tensor import Tensor
from .topological import Captured, topological_order

Transform = Callable[[Operation, list[Tensor], Region], "list[Tensor] | None"]


@dataclass
class Program:
    """A graph with the values fed and the values requested.

    Attributes
    ----------
    graph : Graph
    feeds : sequence of Tensor
        Fed tensors, in this order (rule 60); from the first copy on outputs of Feed operations.
    fetches : sequence of Tensor
        Requested values.
    targets : sequence of Operation
        Operations to run.
    watched : sequence of Tensor
        Tensors whose values are shown as they are computed, where their branch or loop is needed. The first copy
        adds a Watch for each to its targets.
    not_clustered : mapping of str to str
        Reasons why operations are in no native program, by name and type; set by the pass for such programs.
    """

    graph: Graph
    feeds: Sequence[Tensor]
    fetches: Sequence[Tensor]
    targets: Sequence[Operation] = ()
    watched: Sequence[Tensor] = ()
    not_clustered: Mapping[str, str] = field(default_factory=dict)


def copy_program(program: Program, transform: Transform | None = None) -> Program:
    """Return a copy of the needed part of a program; `transform` may replace the outputs of an operation."""
    return _Copier(program, transform).run()


def copy_with_targets(program: Program) -> tuple[Program, list[Operation | None]]:
    """Return a copy, and the copy of each target; None for a target whose outputs are all fed."""
    copier = _Copier(program, None)
    return copier.run(), [copier.ops.get(op) for op in program.targets]


def needed(program: Program) -> list[Operation]:
    """Return the operations of a lowered program needed by fetches, targets and feeds, in graph order."""
    found: set[Operation] = set()
    work = [t.op for t in program.fetches] + list(program.targets) + [t.op for t in program.feeds]
    while work:
        op = work.pop()
        if op not in found:
            found.add(op)
            work += [t.op for t in op.inputs] + op.control_inputs
    return [op for op in program.graph.root.operations if op in found]


class _Needs:
    """The needed operations of a program, and the needed results of Cond and While."""

    def __init__(self, fed: set[Tensor]) -> None:
        self.fed = fed
        self.operations: set[Operation] = set()
        self.tensors: set[Tensor] = set()
        self._work: list[Tensor | Operation] = []

    def add(self, items: Sequence[Tensor | Operation]) -> None:
        self._work.extend(items)
        # A worklist, not recursion: chains of operations are longer than Python's stack is deep.
        while self._work:
            item = self._work.pop()
            if isinstance(item, Operation):
                self._need_operation(item)
            elif item not in self.tensors:
                self.tensors.add(item)
                # The value of a fed tensor is needed, not the operation that computes it.
                if item not in self.fed:
                    self._need_tensor(item)

    def runs(self, tensor: Tensor) -> bool:
        """True if the branch or loop body around a tensor is needed; in the root, if the tensor is."""
        owner = tensor.region.owner
        return tensor in self.tensors if owner is None else owner in self.operations

    def _need_operation(self, op: Operation) -> None:
        if op not in self.operations:
            self._need_inputs(op)
        # Not only for new operations: one may be known for a single result, and a control input waits for all.
        if op.is_param:  # a control input of another operation: the loop variable has to exist
            self._work.extend(op.outputs)
        if is_structured(op):
            self._work.extend(op.outputs[: num_results(op)])

    def _need_inputs(self, op: Operation) -> None:
        """Add an operation without its results: a While needs its predicate, and inputs only by variable."""
        if op in self.operations:
            return
        self.operations.add(op)
        self._work.extend(op.control_inputs)
        self._work.extend(op.regions[0].results if op.is_while else op.inputs)

    def _need_tensor(self, tensor: Tensor) -> None:
        op = tensor.op
        self._need_inputs(op)
        if op.is_param:
            self._need_variable(tensor)
        elif is_structured(op):
            self._need_result(op, tensor.index)

    def _need_variable(self, tensor: Tensor) -> None:
        owner = tensor.region.owner
        if owner is not None and owner.is_while:
            self._work.append(owner.outputs[tensor.region.place_of(tensor)])

    def _need_result(self, op: Operation, index: int) -> None:
        """Add the sources of a result of a Cond or While: an ordinary result needs all branches, or the variable."""
        first = num_results(op)
        if index < first:
            # A needed variable needs its first and its next value, and its parameters in both regions.
            if op.is_while:
                body = op.regions[1]
                self._work += [op.inputs[index], body.results[index], body.params[index], op.regions[0].params[index]]
            else:
                self._work += [region.results[index] for region in op.regions]
            return
        extra = saved_outputs(op)[index - first]
        self._work += [t for t in (extra.value, extra.index) if t is not None]


class _Copier:
    def __init__(self, program: Program, transform: Transform | None) -> None:
        self.program = program
        self.transform = transform
        self.graph = Graph(program.graph.seed)
        self.env: dict[Tensor, Tensor] = {}
        self.ops: dict[Operation, Operation | None] = {}
        self.patches: list[tuple[Operation, int, Tensor]] = []
        self.needs = _Needs(set(program.feeds))
        self.captured: Captured = {}
        self.watched: list[Tensor] = []
        self.watches: list[Operation] = []

    def run(self) -> Program:
        # All feeds, even if no fetch needs them: a step passes a value for each.
        for i, tensor in enumerate(self.program.feeds):
            name, key = self.graph.unique_name(tensor.op.name), key_of(tensor.op)
            feed = Operation(
                self.graph.root,
                "Feed",
                name,
                (),
                [(tensor.dtype, tensor.shape)],
                attrs={"index": i, "dtype": tensor.dtype, **({} if key is None else {"key": key})},
                source=tensor.op.source,
                device=tensor.op.device,
            )
            self.env[tensor] = feed.outputs[0]
        self.needs.add([*self.program.fetches, *self.program.targets])
        # Only after fetches and targets: a watch alone makes nothing run.
        self.watched = [t for t in self.program.watched if self.needs.runs(t)]
        self.needs.add(self.watched)
        self.copy_region(self.program.graph.root, self.graph.root)
        # Back edges last: only now are their sources copied.
        for op, index, tensor in self.patches:
            op.update_input(index, self.env[tensor])
        return Program(
            self.graph,
            [self.env[t] for t in self.program.feeds],
            [self.env[t] for t in self.program.fetches],
            [copy for op in self.program.targets if (copy := self.ops.get(op)) is not None] + self.watches,
        )

    def copy_region(self, source: Region, target: Region) -> None:
        wanted = [op for op in source.operations if op in self.needs.operations and not op.is_param]
        for op in topological_order(wanted, self.captured):
            self.copy_operation(op, target)
        self.watches += [self.append_watch(t, target) for t in self.watched if t.region is source]

    def append_watch(self, tensor: Tensor, target: Region) -> Operation:
        name = self.graph.unique_name(f"{tensor.op.name}/Watch")
        attrs = {"key": tensor.name}
        return Operation(target, "Watch", name, [self.env[tensor]], (), attrs=attrs, source=tensor.op.source)

    def copy_operation(self, op: Operation, target: Region) -> None:
        if op.is_while:
            self.copy_loop(op, target)
        elif op.is_cond:
            self.copy_cond(op, target)
        else:
            self.copy_plain(op, target)

    def copy_plain(self, op: Operation, target: Region) -> None:
        # Needed all the same, by a control input or as a target, but never run: it has no copy.
        if op.outputs and all(t in self.needs.fed for t in op.outputs):
            self.ops[op] = None
            return
        # Inputs not copied yet are back edges of hand-made loops: stand-ins take their places until `run` patches them.
        late = [i for i, t in enumerate(op.inputs) if t not in self.env]
        inputs = [self.env[t] if t in self.env else self._stand_in(op, t) for t in op.inputs]
        replaced = self.transform(op, inputs, target) if self.transform and not late else None
        if replaced is None:
            copy = self.append(op, target, inputs, [(t.dtype, t.shape) for t in op.outputs])
            self.patches += [(copy, i, op.inputs[i]) for i in late]
            replaced = copy.outputs
            self.ops[op] = copy
        else:
            self.ops[op] = replaced[0].op if replaced else None
        self.bind(op.outputs, replaced)

    def _stand_in(self, op: Operation, tensor: Tensor) -> Tensor:
        """Return a placeholder for the input of a back edge, whose source is copied later; `run` patches the copy."""
        known = next((self.env[t] for t in op.inputs if t in self.env), None)
        if known is None:
            raise GraphError(
                "a Merge has no input from outside its loop",
                wanted="an Enter beside the NextIteration",
                got=tensor,
                operation=op,
                hint="merge([enter(...), enter(...)]), then update_input(1, next_iteration(...))",
            )
        return known

    def append(
        self, op: Operation, target: Region, inputs: Any, outputs: Any, regions: Any = (), **attrs: Any
    ) -> Operation:
        # An operation whose outputs are all fed has no copy, so nothing waits for it.
        controls = [copy for c in op.control_inputs if (copy := self.ops.get(c)) is not None]
        copy = Operation(
            target,
            op.type,
            self.graph.unique_name(op.name),
            inputs,
            outputs,
            control_inputs=controls,
            attrs={**op.attrs, **attrs},
            regions=regions,
            device=op.device,
            source=op.source,
            origin=op.origin,
        )
        copy.notes = op.notes
        return copy

    def bind(self, olds: Sequence[Tensor], news: Sequence[Tensor]) -> None:
        for old, new in zip(olds, news, strict=True):
            # A fed tensor is bound already, to its Feed.
            self.env.setdefault(old, new)

    def copy_cond(self, op: Operation, target: Region) -> None:
        first = num_results(op)
        kept = [i for i in range(first) if op.outputs[i] in self.needs.tensors]
        regions = []
        for region in op.regions:
            copy = Region(self.graph, target, region.role)
            self.copy_region(region, copy)
            copy.results = [self.env[region.results[i]] for i in kept]
            regions.append(copy)
        saved = [i for i in range(first, len(op.outputs)) if op.outputs[i] in self.needs.tensors]
        self.append_structured(op, target, [self.env[op.inputs[0]]], kept, saved, regions)

    def copy_loop(self, op: Operation, target: Region) -> None:
        first = num_results(op)
        kept = [i for i in range(first) if op.outputs[i] in self.needs.tensors]
        regions = []
        for region in op.regions:
            copy = Region(self.graph, target, region.role)
            for i in kept:
                param = region.params[i]
                self.env[param] = copied = copy.add_param(param.dtype, param.shape, param.op.name)
                self.ops[param.op] = copied.op
                # Notes of passes about a variable, such as `carried`, stay with it.
                copied.op.notes = param.op.notes
            self.copy_region(region, copy)
            # The predicate has a single result, which is always needed; the body has one for each variable.
            wanted = region.results if region is op.regions[0] else [region.results[i] for i in kept]
            copy.results = [self.env[t] for t in wanted]
            regions.append(copy)
        saved = [i for i in range(first, len(op.outputs)) if op.outputs[i] in self.needs.tensors]
        self.append_structured(op, target, [self.env[op.inputs[i]] for i in kept], kept, saved, regions)

    def append_structured(
        self,
        op: Operation,
        target: Region,
        inputs: list[Tensor],
        kept: list[int],
        saved: list[int],
        regions: list[Region],
    ) -> None:
        outputs = [op.outputs[i] for i in kept + saved]
        moved = [self._copy_saved_output(saved_outputs(op)[i - num_results(op)]) for i in saved]
        copy = self.append(op, target, inputs, [(t.dtype, t.shape) for t in outputs], regions, saved_outputs=moved)
        self.ops[op] = copy
        self.bind(outputs, copy.outputs)

    def _copy_saved_output(self, extra: SavedOutput) -> SavedOutput:
        value = None if extra.value is None else self.env[extra.value]
        index = None if extra.index is None else self.env[extra.index]
        return SavedOutput(extra.kind, value, index, extra.branch)
