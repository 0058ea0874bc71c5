"""Cut a placed program: each edge between devices becomes a Send and a Recv (rules 115 to 119).

A Send and its Recv belong to the frame in which the value lives. Operations free to compute twice are copied to
each device, not sent: constants, and invariants of loops, which so enter each device's loop from outside instead of
crossing in every iteration; and Switches of either, whose predicate crosses instead of their data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.device_names import DeviceSpec
from ...base.errors import GraphError
from ...base.shapes import SCALAR
from ...ir.builder import Edges
from ...ir.frames import ROOT, Frames, assign_frames
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.program import Program, needed
from ...ir.tensor import Tensor
from ...ir.topological import topological_order
from ...ir.traits import SWITCHES, Role
from ...ops.internal import send_recv as transfer  # noqa: F401  (declares Send and Recv)
from .control_loops import ControlLoops, Site
from .dead_leaders import dead_leaders
from .every_iteration import check_every_iteration
from .partitioned import Channel, Partitioned

Value = Tensor | Operation
_EMPTY = {"value": np.asarray(False)}


def partition(
    program: Program, placement: Mapping[Operation, DeviceSpec], coalesce_dead_signals: bool = True
) -> Partitioned:
    """Cut a program by device.

    Parameters
    ----------
    program : Program
        Lowered; not changed.
    placement : mapping of Operation to DeviceSpec
        The result of :func:`tagloom.compile.place.place`.
    coalesce_dead_signals : bool, optional
        Let a single channel report deadness for all values dead together.

    Returns
    -------
    Partitioned

    Raises
    ------
    GraphError
        If a loop on several devices has no LoopCond, if a handle or a back edge crosses devices, or if a value that
        does not exist in every iteration crosses.
    """
    operations = topological_order(needed(program))
    return Cutter(program, operations, placement, assign_frames(operations)).run(coalesce_dead_signals)


class Part:
    """Program of a device, under construction."""

    def __init__(self, seed: int) -> None:
        self.graph: Graph = Graph(seed)
        self.feeds: list[Tensor] = []
        self.fetches: list[Tensor] = []
        self.targets: list[Operation] = []

    def program(self) -> Program:
        return Program(self.graph, self.feeds, self.fetches, self.targets)


class Cutter:
    """Copies operations to their devices, in order, and makes channels where edges cross.

    Attributes
    ----------
    copies : dict of (Operation, DeviceSpec) to Operation
        Copies of the program's operations by device.
    ends : dict of (Tensor or Operation, DeviceSpec) to (Operation, Operation)
        Send and Recv of each value and destination, an operation standing for its completion; in the order of the
        channels' numbers.
    inhabited : dict of str to set of DeviceSpec
        Devices with operations in a frame.
    back_edges : list
        Merges whose input from a NextIteration is connected at the end.
    """

    def __init__(
        self,
        program: Program,
        operations: Sequence[Operation],
        placement: Mapping[Operation, DeviceSpec],
        frames: Frames,
    ) -> None:
        self.source = program
        self.operations = operations
        self.placement = placement
        self.frames = frames
        self.parts: dict[DeviceSpec, Part] = {}
        self.names: set[str] = {op.name for op in operations}
        self.copies: dict[tuple[Operation, DeviceSpec], Operation] = {}
        self.ends: dict[tuple[Value, DeviceSpec], tuple[Operation, Operation]] = {}
        self.inhabited: dict[str, set[DeviceSpec]] = {}
        self.back_edges: list[tuple[Operation, int, Tensor, DeviceSpec]] = []
        self.controls: ControlLoops = ControlLoops(self)

    def run(self, coalesce_dead_signals: bool) -> Partitioned:
        for op in self.operations:
            if not is_rematerializable(op):
                self.copy(op, self.placement[op])
        feeds = [self.append_feed(t) for t in self.source.feeds]
        fetches = [self.append_copy(t, self.part(self.placement[t.op]).fetches) for t in self.source.fetches]
        for target in self.source.targets:
            device = self.placement[target]
            self.part(device).targets.append(self.copy(target, device))
        for merge, index, tensor, device in self.back_edges:
            merge.update_input(index, self.tensor(tensor, device))
        # After all copies, when it is known which devices take part in each frame.
        self.controls.close()
        check_every_iteration(self.operations, [op_of(value) for value, _ in self.ends])
        channels = self.make_channels(self.find_dead_leaders() if coalesce_dead_signals else range(len(self.ends)))
        programs = {device: part.program() for device, part in self.parts.items()}
        return Partitioned(programs, channels, feeds, fetches, self.source)

    def part(self, device: DeviceSpec) -> Part:
        if device not in self.parts:
            self.parts[device] = Part(self.source.graph.seed)
        return self.parts[device]

    def append_copy(self, tensor: Tensor, tensors: list[Tensor]) -> tuple[DeviceSpec, int]:
        """Append the copy of a feed or a fetch to a list of its device; return the device and the position."""
        device = self.placement[tensor.op]
        tensors.append(self.tensor(tensor, device))
        return device, len(tensors) - 1

    def append_feed(self, tensor: Tensor) -> tuple[DeviceSpec, int]:
        """Append a feed to its device's program, where its index is the position among the device's feeds."""
        device, index = self.append_copy(tensor, self.part(self.placement[tensor.op]).feeds)
        self.copies[tensor.op, device].attrs["index"] = index
        return device, index

    # ---- operations

    def emit(
        self,
        site: Site,
        type: str,
        name: str,
        edges: Edges,
        like: Operation | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operation:
        """Append an operation to a site's program, with the source of `like`, and its name for a copy of `like`."""
        graph = self.part(site.device).graph
        # Copies keep their names, which new operations must not take.
        if like is None or name != like.name:
            while (name := graph.unique_name(name)) in self.names:
                pass
        self.inhabited.setdefault(site.frame, set()).add(site.device)
        return Operation(
            graph.root,
            type,
            name,
            edges.inputs,
            edges.outputs,
            control_inputs=edges.controls,
            attrs=dict(attrs or {}),
            source=like.source if like else None,
            origin=like.origin if like and type == like.type else None,
        )

    def copy(self, op: Operation, device: DeviceSpec) -> Operation:
        """Return the copy of an operation on a device."""
        if (op, device) not in self.copies:
            # A NextIteration is copied after its Merge; until then the Merge's first other input stands in its place.
            late = [i for i, t in enumerate(op.inputs) if self.is_back_edge(op, t)]
            early = [t for i, t in enumerate(op.inputs) if i not in late]
            inputs = [self.tensor(early[0] if i in late else t, device) for i, t in enumerate(op.inputs)]
            controls = [self.signal(c, device) for c in op.control_inputs]
            outputs = [(t.dtype, t.shape) for t in op.outputs]
            site, edges = Site(device, self.frames.of[op]), Edges(inputs, outputs, controls)
            copy = self.emit(site, op.type, op.name, edges, op, op.attrs)
            self.back_edges += [(copy, i, op.inputs[i], device) for i in late]
            self.copies[op, device] = copy
        return self.copies[op, device]

    def is_back_edge(self, op: Operation, tensor: Tensor) -> bool:
        """Return True for an input from a NextIteration without a copy yet; GraphError if the edge crosses devices."""
        if op.role is not Role.MERGE or tensor.op.role is not Role.NEXT_ITERATION:
            return False
        if self.placement[op] != self.placement[tensor.op]:
            raise GraphError(
                "a back edge crosses devices",
                wanted=f"{tensor.op.name} on {self.placement[op]}",
                got=self.placement[tensor.op],
                operation=op,
                hint="place NextIteration with the Merge it leads to",
            )
        return (tensor.op, self.placement[op]) not in self.copies

    # ---- edges

    def tensor(self, tensor: Tensor, device: DeviceSpec) -> Tensor:
        """Return the counterpart of `tensor` on a device."""
        op = tensor.op
        if is_rematerializable(op) or self.placement[op] == device:
            return self.copy(op, device).outputs[tensor.index]
        if op.role is Role.LOOP_COND:
            return self.controls.predicate(self.frames.of[op], device).outputs[0]
        return self.receive(tensor, device).outputs[0]

    def signal(self, op: Operation, device: DeviceSpec) -> Operation:
        """Return the counterpart of `op` for control inputs on a device."""
        if is_rematerializable(op) or self.placement[op] == device:
            return self.copy(op, device)
        if op.role is Role.LOOP_COND:
            return self.controls.predicate(self.frames.of[op], device)
        return self.receive(op, device)

    def receive(self, value: Value, device: DeviceSpec) -> Operation:
        """Return the Recv, on a device, of a tensor or of the empty message sent when an operation has run."""
        if (value, device) not in self.ends:
            self.ends[value, device] = self.cut(value, device)
        return self.ends[value, device][1]

    def cut(self, value: Value, device: DeviceSpec) -> tuple[Operation, Operation]:
        """Emit the Send and the Recv of a value; the Recv waits for its device's control loop."""
        op = op_of(value)
        frame = self.frames.of_output(op)
        sent = self.emit_message(value, frame)
        # In the root a Recv starts with the step; in a loop the control loop starts it in every iteration.
        controls = [self.controls.merge(frame, device, op)] if frame != ROOT else []
        attrs: dict[str, Any] = {"channel": len(self.ends), "dead_silent": False}
        send = self.emit(Site(self.placement[op], frame), "Send", f"{op.name}/Send", Edges([sent], ()), op, attrs)
        self.part(self.placement[op]).targets.append(send)
        attrs |= {"dtype": sent.dtype, "shape": sent.shape}
        edges = Edges((), [(sent.dtype, sent.shape)], controls)
        return send, self.emit(Site(device, frame), "Recv", f"{op.name}/Recv", edges, op, attrs)

    def emit_message(self, value: Value, frame: str) -> Tensor:
        """Return the tensor to send; for a control edge an empty value made once the operation has run."""
        op = op_of(value)
        home = self.placement[op]
        if isinstance(value, Operation):
            edges = Edges((), [(dtypes.bool_, SCALAR)], [self.copy(op, home)])
            done = self.emit(Site(home, frame), "Const", f"{op.name}/done", edges, op, _EMPTY)
            return done.outputs[0]
        if not value.dtype.is_value:
            raise GraphError(
                "a handle crosses devices",
                wanted="its users on one device",
                got=value,
                operation=op,
                hint="place what uses a handle with the operation that makes it",
            )
        return self.copy(op, home).outputs[value.index]

    def find_dead_leaders(self) -> list[int]:
        """Return the number of the dead leader of each channel, the channel itself if it has no other."""
        return dead_leaders(self.operations, self.frames, [(v, self.placement[op_of(v)], d) for v, d in self.ends])

    def make_channels(self, leaders: Sequence[int]) -> list[Channel]:
        """Return the channels by number; make the channels led by another one silent when dead."""
        ends = list(self.ends.values())
        for number, dead_leader in enumerate(leaders):
            if dead_leader != number:
                send, recv = ends[number]
                recv.control_inputs = [ends[dead_leader][1]]  # the leader's Recv, which the control loop starts
                send.attrs["dead_silent"] = recv.attrs["dead_silent"] = True
        return [self.make_channel(*key, number, leaders[number]) for number, key in enumerate(self.ends)]

    def make_channel(self, value: Value, device: DeviceSpec, number: int, dead_leader: int) -> Channel:
        op, is_control = op_of(value), isinstance(value, Operation)
        dtype = self.ends[value, device][1].outputs[0].dtype
        name = f"^{op.name}" if is_control else value.name
        return Channel(
            number, name, self.placement[op], device, dtype, is_control, self.frames.of_output(op), dead_leader
        )


def op_of(value: Value) -> Operation:
    """Return the producer of a tensor, or the operation itself."""
    return value if isinstance(value, Operation) else value.op


def is_rematerializable(op: Operation) -> bool:
    """Return True if users' devices copy the operation: a constant, a loop's invariant, a Switch of either."""
    while op.role in SWITCHES and not op.control_inputs:
        op = op.inputs[0].op
    return op.is_constant and not op.control_inputs or op.role is Role.ENTER and bool(op.attrs["is_constant"])
