"""Lower Cond and While to Switch, Merge, Enter, Exit and NextIteration (docs/semantics.md, rules 64 to 82).

A scope represents a region during lowering. Looking up a tensor of an outer region captures the tensor: by a Switch for
each tensor and Cond, by a constant Enter for each tensor and loop. An operation without inputs from its branch or
iteration would run even when these do not, so the scope's pivot becomes its control input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.shapes import SCALAR
from ...ir.builder import Edges
from ...ir.graph import Graph
from ...ir.operation import Operation, Origin
from ...ir.program import Program
from ...ir.region import Region
from ...ir.structured import num_results, saved_outputs
from ...ir.tensor import Tensor
from ...ir.traits import Role

# What a scope binds to a lowered tensor: a tensor of a region, an operation whose completion another frame waits for,
# or, in a branch, the Cond itself, for its switched predicate.
Key = Any


def lower(program: Program) -> Program:
    """Return the program without regions: every operation in the root region."""
    lowering = _Lowering(Graph(program.graph.seed))
    # Operations keep their names, and hand-made loops their frames; names made here must avoid both.
    for op in program.graph.root.walk():
        lowering.names.add(op.name)
        if op.role is Role.ENTER:
            lowering.frame_names.add(op.attrs["frame_name"])
    root = _Scope(lowering, None)
    lowering.lower_region(program.graph.root, root)
    lowering.close_cycles()
    return Program(
        lowering.graph,
        [root.lookup(t) for t in program.feeds],
        [root.lookup(t) for t in program.fetches],
        [op for target in program.targets for op in lowering.ops[target]],
        not_clustered=program.not_clustered,
    )


class _Scope:
    """The root region, and the methods common to all scopes.

    Attributes
    ----------
    env : dict of object to Tensor
        Lowered tensors, by Key.
    """

    def __init__(self, lowering: _Lowering, parent: _Scope | None) -> None:
        self.lowering = lowering
        self.parent = parent
        self.env: dict[Key, Tensor] = {}

    def lookup(self, key: Key) -> Tensor:
        """Return the lowered tensor of `key` in this scope."""
        if key not in self.env:
            assert self.parent is not None, f"{key} is not in scope"
            # Outer scopes capture first: a value from outside of two loops enters both frames, one after the other.
            self.env[key] = self.capture(key, self.parent.lookup(key))
        return self.env[key]

    def capture(self, key: Key, outer: Tensor) -> Tensor:
        """Return the tensor in this scope that has the value of `outer`, a tensor of the parent."""
        return outer

    def needs_pivot(self, inputs: Sequence[Tensor]) -> bool:
        """Return True if an operation with these inputs would run even when this scope does not."""
        return False

    def pivot(self) -> Operation:
        raise AssertionError("the root needs no pivot")

    def emit(
        self,
        type: str,
        name: str,
        edges: Edges,
        like: Operation | None = None,
        origin: Origin | None = None,
        **attrs: Any,
    ) -> Operation:
        """Append a lowered operation to this scope."""
        controls = list(edges.controls)
        if self.needs_pivot(edges.inputs):
            controls.append(self.pivot())
        # An operation of the program keeps its name; only operations added by lowering get new names.
        if like is None or name != like.name:
            name = self.lowering.new_name(name)
        return Operation(
            self.lowering.graph.root,
            type,
            name,
            edges.inputs,
            edges.outputs,
            control_inputs=controls,
            attrs=attrs,
            device=like.device if like else "",
            source=like.source if like else None,
            origin=origin,
        )

    def frame_scope(self) -> _Scope | None:
        """Return the innermost loop around this scope, None outside of loops."""
        return self.parent.frame_scope() if self.parent else None

    def is_invariant(self, tensor: Tensor) -> bool:
        """Return True for a lowered tensor that is a constant Enter of the innermost loop around this scope."""
        loop = self.frame_scope()
        return isinstance(loop, _LoopScope) and tensor in loop.invariants


class _BranchScope(_Scope):
    """A branch of a Cond.

    Parameters
    ----------
    parent : _Scope
    op : Operation
        The Cond.
    pred : Tensor
        The lowered predicate.
    index : int
        Number of the branch, and of its outputs of Switches.
    shared : dict of object to list of Tensor
        Outputs of the Switches of captured tensors, for all branches of the Cond.
    """

    def __init__(
        self, parent: _Scope, op: Operation, pred: Tensor, index: int, shared: dict[Key, list[Tensor]]
    ) -> None:
        super().__init__(parent.lowering, parent)
        self.op = op
        self.pred = pred
        self.index = index
        self.shared = shared
        self._pivot: Operation | None = None

    def capture(self, key: Key, outer: Tensor) -> Tensor:
        # Shared by the branches, since one Switch has an output for each.
        if key not in self.shared:
            self.shared[key] = self._emit_switch(outer)
        return self.shared[key][self.index]

    def _emit_switch(self, data: Tensor) -> list[Tensor]:
        """Emit the Switch of a captured value, whose outputs go to the branches, in the scope around the Cond."""
        assert self.parent is not None
        count = len(self.op.regions)
        outputs = [(data.dtype, data.shape)] * count
        # A bool chooses between two branches, an integer between any number of them.
        is_cond = self.pred.dtype is dtypes.bool_
        type, attrs = "Switch" if is_cond else "SwitchN", dict[str, Any]({} if is_cond else {"num": count})
        if self.op.attrs.get("dead_silent"):
            attrs["dead_silent"] = True
        name, origin = f"{self.op.name}/Switch", Origin(self.op.name, "capture")
        edges = Edges([data, self.pred], outputs)
        return self.parent.emit(type, name, edges, like=self.op, origin=origin, **attrs).outputs

    def needs_pivot(self, inputs: Sequence[Tensor]) -> bool:
        # Any input is dead in a branch not taken: it came through a Switch, or depends on one or on the pivot.
        return not inputs

    def pivot(self) -> Operation:
        if self._pivot is None:
            # The predicate switched by itself: alive exactly in the branch taken.
            live = self.capture(self.op, self.pred)
            name, origin = f"{self.op.name}/pivot", Origin(self.op.name, "pivot")
            edges = Edges([live], [(live.dtype, live.shape)])
            self._pivot = self.emit("Identity", name, edges, like=self.op, origin=origin)
            self._pivot.device = ""  # no constraint: placement puts it where its data is
        return self._pivot


class _LoopScope(_Scope):
    """Frame and invariants, which the predicate and the body of a While share."""

    def __init__(self, parent: _Scope, op: Operation) -> None:
        super().__init__(parent.lowering, parent)
        self.op = op
        self.name = parent.lowering.new_frame_name(op.name)
        self.invariants: set[Tensor] = set()

    def enter(self, outer: Tensor, origin: Origin) -> Tensor:
        """Emit an Enter: constant for a capture, otherwise for the loop variable's initial value."""
        assert self.parent is not None
        # An invariant has no control inputs of its own: the loop's variables already delay the first iteration.
        constant = origin.role == "capture"
        controls = () if constant else self.lowering.lower_controls(self.op, self.parent)
        tensor = self.parent.emit(
            "Enter",
            f"{self.op.name}/Enter",
            Edges([outer], [(outer.dtype, outer.shape)], controls),
            like=self.op,
            origin=origin,
            frame_name=self.name,
            is_constant=constant,
            parallel_iterations=self.op.attrs["parallel_iterations"],
        ).outputs[0]
        if constant:
            self.invariants.add(tensor)
        return tensor

    def capture(self, key: Key, outer: Tensor) -> Tensor:
        return self.enter(outer, Origin(self.op.name, "capture"))

    def frame_scope(self) -> _Scope:
        return self


class _LoopRegion(_Scope):
    """The predicate or the body of a While."""

    def __init__(self, parent: _LoopScope, pivot: Operation | None = None) -> None:
        super().__init__(parent.lowering, parent)
        self._pivot = pivot

    def needs_pivot(self, inputs: Sequence[Tensor]) -> bool:
        # Invariants alone do not tell whether an iteration runs: they are alive even when the predicate ends the loop.
        return all(self.is_invariant(t) for t in inputs)

    def pivot(self) -> Operation:
        assert self._pivot is not None
        return self._pivot


class _Lowering:
    """Lowering of a program to primitives.

    Attributes
    ----------
    ops : dict of Operation to list of Operation
        The lowered operations for which control inputs wait.
    scopes : dict of Operation to _Scope
        The scope in which each operation was lowered.
    cycles : list
        Inputs of hand-made Merges from operations lowered later: (Merge, input index, scope, tensor).
    frame_names : set of str
        Names of frames in use.
    names : set of str
        Names of the program's operations, which keep them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops: dict[Operation, list[Operation]] = {}
        self.scopes: dict[Operation, _Scope] = {}
        self.cycles: list[tuple[Operation, int, _Scope, Tensor]] = []
        self.frame_names: set[str] = set()
        self.names: set[str] = set()

    def new_name(self, name: str) -> str:
        """Return a name for an operation added by lowering."""
        while (candidate := self.graph.unique_name(name)) in self.names:
            pass
        return candidate

    def new_frame_name(self, name: str) -> str:
        """Return a frame name for a loop, different from the names of all other loops, also hand-made ones."""
        while name in self.frame_names:
            name += "_"
        self.frame_names.add(name)
        return name

    def lower_region(self, region: Region, scope: _Scope) -> None:
        for op in region.operations:
            if op.is_param:
                continue
            self.scopes[op] = scope
            if op.is_cond:
                self.lower_cond(op, scope)
            elif op.is_while:
                self.lower_loop(op, scope)
            else:
                self.lower_plain(op, scope)

    def lower_plain(self, op: Operation, scope: _Scope) -> None:
        # A back edge has no lowered tensor yet; another input takes its place until `close_cycles`.
        late = [i for i, t in enumerate(op.inputs) if op.role is Role.MERGE and self._is_back_edge(op, i, scope)]
        stand_in = next((t for i, t in enumerate(op.inputs) if i not in late), None)
        inputs = [scope.lookup(stand_in if i in late else t) for i, t in enumerate(op.inputs)]
        outputs = [(t.dtype, t.shape) for t in op.outputs]
        controls = self.lower_controls(op, scope)
        lowered = scope.emit(op.type, op.name, Edges(inputs, outputs, controls), like=op, **op.attrs)
        self.cycles += [(lowered, i, scope, op.inputs[i]) for i in late]
        self.ops[op] = [lowered]
        scope.env.update(zip(op.outputs, lowered.outputs, strict=True))

    def _is_back_edge(self, op: Operation, index: int, scope: _Scope) -> bool:
        """Return True if an input comes from an operation of the same region that has not been lowered yet."""
        return op.inputs[index].region is op.region and op.inputs[index] not in scope.env

    def close_cycles(self) -> None:
        """Connect the back edges of hand-made loops, now that all operations are lowered."""
        for merge, index, scope, tensor in self.cycles:
            merge.update_input(index, scope.lookup(tensor))

    def lower_controls(self, op: Operation, scope: _Scope) -> list[Operation]:
        """Return the lowered control inputs; signals from outside of the loop of `scope` come as invariants."""
        controls: list[Operation] = []
        for control in op.control_inputs:
            home = self.scopes[control]
            if home.frame_scope() is scope.frame_scope():
                controls += self.ops[control]
            else:
                # A control edge joins instances of one tag, so a signal from another frame enters this one as a value.
                controls.append(self._capture_signal(control, home, scope))
        return controls

    def _capture_signal(self, control: Operation, home: _Scope, scope: _Scope) -> Operation:
        """Return an operation whose result tells a scope in another frame that `control` is done (rule 75)."""
        # One token in the scope of the operation serves all loops that wait for the operation.
        if control not in home.env:
            token = home.emit(
                "Const",
                f"{control.name}/done",
                Edges((), [(dtypes.bool_, SCALAR)], self.ops[control]),
                like=control,
                value=np.asarray(True),
            )
            home.env[control] = token.outputs[0]
        return scope.lookup(control).op

    def lower_cond(self, op: Operation, scope: _Scope) -> None:
        """Lower a Cond: branches whose inputs come through Switches, and a Merge for each result."""
        pred = scope.lookup(op.inputs[0])
        controls = self.lower_controls(op, scope)
        # One Identity with the control inputs, before the predicate, delays all Switches, whenever they are captured.
        if controls:
            edges = Edges([pred], [(pred.dtype, pred.shape)], controls)
            waiting = scope.emit("Identity", f"{op.name}/pred", edges, like=op)
            waiting.device = ""
            pred = waiting.outputs[0]
        shared: dict[Key, list[Tensor]] = {}
        branches = [_BranchScope(scope, op, pred, i, shared) for i in range(len(op.regions))]
        for branch, region in zip(branches, op.regions, strict=True):
            self.lower_region(region, branch)
        merges = []
        for i, output in enumerate(op.outputs[: num_results(op)]):
            inputs = [b.lookup(r.results[i]) for b, r in zip(branches, op.regions, strict=True)]
            outputs = [(output.dtype, output.shape), (dtypes.int32, SCALAR)]
            origin = Origin(op.name, "result", i)
            merge = scope.emit("Merge", f"{op.name}/Merge", Edges(inputs, outputs), like=op, origin=origin)
            scope.env[output] = merge.outputs[0]
            merges.append(merge)
        for extra, output in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
            # A saved value has no Merge: it is alive only if its branch ran, and its reads know this.
            scope.env[output] = branches[extra.branch].lookup(extra.value)
        self.ops[op] = merges

    def lower_loop(self, op: Operation, scope: _Scope) -> None:
        """Lower a While to Enter, Merge, LoopCond, Switch, NextIteration and Exit for each loop variable."""
        # Enter, Merge, predicate, Switch, body, NextIteration, Exit: each needs the tensors of those before it.
        loop = _LoopScope(scope, op)
        count = num_results(op)
        inits = [scope.lookup(t) for t in op.inputs] or [self._spare_variable(op, scope)]
        origins = _variable_origins(op)
        enters = [loop.enter(t, origin) for t, origin in zip(inits, origins, strict=True)]
        # A Merge takes its Enter twice until the NextIteration exists.
        merges = [self._emit_merge(op, t, origin) for t, origin in zip(enters, origins, strict=True)]
        # A Merge is alive whenever the predicate runs, also in the last iteration, which has no body.
        pred = _LoopRegion(loop, merges[0])
        self._bind_params(pred, op.regions[0].params, [m.outputs[0] for m in merges])
        self.lower_region(op.regions[0], pred)
        goes_on = pred.lookup(op.regions[0].results[0])
        edges = Edges([goes_on], [(dtypes.bool_, SCALAR)])
        origin = Origin(op.name, "predicate", not_native=op.notes.not_native)
        cond = pred.emit("LoopCond", f"{op.name}/LoopCond", edges, like=op, origin=origin).outputs[0]
        switches = [
            self._emit_switch(op, m.outputs[0], cond, origin) for m, origin in zip(merges, origins, strict=True)
        ]
        # Output 1 of a Switch is alive while the loop goes on, output 0 when it ends.
        body = _LoopRegion(loop, self._emit_pivot(op, switches[0].outputs[1]))
        self._bind_params(body, op.regions[1].params, [s.outputs[1] for s in switches])
        self.lower_region(op.regions[1], body)
        # A spare variable keeps its value in every iteration.
        results = [body.lookup(t) for t in op.regions[1].results] or [switches[0].outputs[1]]
        for merge, result, origin in zip(merges, results, origins, strict=True):
            merge.update_input(1, self._emit_next_iteration(op, body, result, origin))
        # A spare variable has no Exit, since the While has no result for it.
        exits = [self._emit_exit(op, i, s.outputs[0], t) for i, (s, t) in enumerate(zip(switches, op.outputs[:count]))]
        scope.env.update(zip(op.outputs[:count], [e.outputs[0] for e in exits], strict=False))
        self.ops[op] = exits
        for slot, (extra, output) in enumerate(zip(saved_outputs(op), op.outputs[count:], strict=True)):
            scope.env[output] = self._emit_saved_output(op, body, cond, slot, extra)

    def _bind_params(self, scope: _Scope, params: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Bind the loop variables of a region to their values in an iteration, for data and for control inputs."""
        # Not strict: a loop without variables has a spare value, but no parameter.
        for param, value in zip(params, values, strict=False):
            scope.env[param] = value
            self.scopes[param.op], self.ops[param.op] = scope, [value.op]

    def _spare_variable(self, op: Operation, scope: _Scope) -> Tensor:
        """Return the initial value of a variable for a loop without any: its regions need a Merge and a Switch."""
        edges = Edges((), [(dtypes.bool_, SCALAR)])
        return scope.emit("Const", f"{op.name}/dummy", edges, like=op, value=np.asarray(True)).outputs[0]

    def _emit_primitive(
        self, op: Operation, type: str, inputs: Sequence[Tensor], outputs: Any, origin: Origin, **attrs: Any
    ) -> Operation:
        """Append a primitive of a loop outside of any scope, so without a control input from a pivot."""
        return Operation(
            self.graph.root,
            type,
            self.new_name(f"{op.name}/{type}"),
            inputs,
            outputs,
            attrs=attrs,
            device=op.device,
            source=op.source,
            origin=origin,
        )

    def _emit_merge(self, op: Operation, enter: Tensor, origin: Origin) -> Operation:
        return self._emit_primitive(
            op, "Merge", [enter, enter], [(enter.dtype, enter.shape), (dtypes.int32, SCALAR)], origin
        )

    def _emit_switch(self, op: Operation, value: Tensor, cond: Tensor, origin: Origin) -> Operation:
        return self._emit_primitive(op, "Switch", [value, cond], [(value.dtype, value.shape)] * 2, origin)

    def _emit_pivot(self, op: Operation, value: Tensor) -> Operation:
        pivot = self._emit_primitive(op, "Identity", [value], [(value.dtype, value.shape)], Origin(op.name, "pivot"))
        pivot.device = ""
        return pivot

    def _emit_exit(self, op: Operation, index: int, value: Tensor, output: Tensor) -> Operation:
        return self._emit_primitive(
            op, "Exit", [value], [(output.dtype, output.shape)], Origin(op.name, "result", index)
        )

    def _emit_next_iteration(self, op: Operation, body: _Scope, value: Tensor, origin: Origin) -> Tensor:
        edges = Edges([value], [(value.dtype, value.shape)])
        return body.emit("NextIteration", f"{op.name}/NextIteration", edges, like=op, origin=origin).outputs[0]

    def _emit_saved_output(self, op: Operation, body: _Scope, cond: Tensor, slot: int, extra: Any) -> Tensor:
        """Emit the trip count, or SeriesPush and SeriesExit, of a saved output; return the lowered output."""
        origin = Origin(op.name, "saved", slot)
        if extra.kind == "trip":
            return self._emit_primitive(op, "TripCount", [cond], [(dtypes.int64, SCALAR)], origin).outputs[0]
        inputs = [body.lookup(t) for t in (extra.value, extra.index) if t is not None]
        flow = [(dtypes.float32, SCALAR)]
        attrs: dict[str, Any] = {"series": slot}
        if op.attrs.get("swap_memory"):
            attrs["swappable"] = True
        if op.notes.host_backed:
            attrs["host_backed"] = True
        push = body.emit("SeriesPush", f"{op.name}/SeriesPush", Edges(inputs, flow), like=op, origin=origin, **attrs)
        out = [(dtypes.series, SCALAR)]
        return self._emit_primitive(op, "SeriesExit", [push.outputs[0]], out, origin, series=slot).outputs[0]


def _variable_origins(op: Operation) -> list[Origin]:
    """Return the origin of each loop variable's primitives; for a loop without variables the spare variable's."""
    params = [param.op for param in op.regions[1].params]
    origins = [
        Origin(op.name, "variable", i, param.notes.label or param.name, param.notes.carried)
        for i, param in enumerate(params)
    ]
    return origins or [Origin(op.name, "variable", 0)]
