"""Control loops: signals to start a device's Recvs once in each iteration of a loop on several devices (rule 118).

Without a control loop a device would stop after the first iteration, for lack of a path to the second. A control
loop is an Enter, a Merge, a Switch by the loop's predicate and a NextIteration, which carry no data. The control loop
of an inner frame is entered from the Merge of the outer frame's control loop, once in each outer iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.device_names import DeviceSpec
from ...base.errors import GraphError
from ...base.shapes import SCALAR
from ...ir.builder import Edges
from ...ir.frames import ROOT
from ...ir.operation import Operation

if TYPE_CHECKING:
    from .cut import Cutter

_SIGNAL = [(dtypes.bool_, SCALAR)]


class Site(NamedTuple):
    """Place of an operation: the device, and the frame."""

    device: DeviceSpec
    frame: str


class ControlLoops:
    """The control loops of a program under partition, by frame and device."""

    def __init__(self, cutter: Cutter) -> None:
        self.cutter = cutter
        self.merges: dict[tuple[str, DeviceSpec], Operation] = {}
        self.predicates: dict[tuple[str, DeviceSpec], Operation] = {}

    def merge(self, frame: str, device: DeviceSpec, because: Operation) -> Operation:
        """Return the Merge of a control loop, live once in each iteration of a frame on a device.

        Raises
        ------
        GraphError
            If the frame has no LoopCond, naming the operation `because` of which the control loop is needed.
        """
        if (frame, device) not in self.merges:
            if not self.cutter.frames.infos[frame].loop_conds:
                raise GraphError(
                    f"the loop '{frame}' is on several devices and has no LoopCond: it must have a pivot predicate",
                    wanted="one LoopCond",
                    operation=because,
                    hint="give its predicate to loop_cond, or keep it on one device",
                )
            self.merges[frame, device] = self.open(frame, device, because)
        return self.merges[frame, device]

    def open(self, frame: str, device: DeviceSpec, because: Operation) -> Operation:
        """Emit the Enter and the Merge of a control loop; `cycle` closes the loop by the Merge's second input."""
        emit, info = self.cutter.emit, self.cutter.frames.infos[frame]
        if info.parent == ROOT:
            name = f"{frame}/control/Const"
            start = emit(Site(device, ROOT), "Const", name, Edges((), _SIGNAL), attrs={"value": np.asarray(False)})
        else:
            start = self.merge(info.parent, device, because)
        attrs = {"frame_name": frame, "is_constant": False, "parallel_iterations": info.parallel_iterations}
        edges = Edges(start.outputs[:1], _SIGNAL)
        enter = emit(Site(device, info.parent), "Enter", f"{frame}/control/Enter", edges, attrs=attrs)
        # A Merge has a second output, the index of the live input.
        outputs = [*_SIGNAL, (dtypes.int32, SCALAR)]
        # The second input is a placeholder for NextIteration, which needs the Switch and so this Merge.
        return emit(Site(device, frame), "Merge", f"{frame}/control/Merge", Edges(enter.outputs * 2, outputs))

    def predicate(self, frame: str, device: DeviceSpec) -> Operation:
        """Return the LoopCond of a frame on a device: the loop's own, or a LoopCond on the received predicate."""
        if (frame, device) not in self.predicates:
            self.predicates[frame, device] = self.forward(frame, device)
        return self.predicates[frame, device]

    def forward(self, frame: str, device: DeviceSpec) -> Operation:
        cutter = self.cutter
        (loop_cond,) = cutter.frames.infos[frame].loop_conds
        if cutter.placement[loop_cond] == device:
            return cutter.copy(loop_cond, device)
        received = cutter.receive(loop_cond.outputs[0], device).outputs
        return cutter.emit(Site(device, frame), "LoopCond", f"{frame}/control/LoopCond", Edges(received, _SIGNAL))

    def close(self) -> None:
        """Open the missing control loops, and close all cycles.

        A device with Sends alone, or saved values alone, takes part in the loop as well.
        """
        for frame, devices in list(self.cutter.inhabited.items()):
            # Copies of the mappings: joining a device to a frame, or receiving a predicate, adds entries.
            if frame != ROOT and len(devices) > 1:
                self.join(frame, devices)
        for (frame, device), merge in list(self.merges.items()):
            self.cycle(frame, device, merge)

    def join(self, frame: str, devices: set[DeviceSpec]) -> None:
        cutter = self.cutter
        loop_conds = cutter.frames.infos[frame].loop_conds
        for device in [d for d in cutter.parts if d in devices]:
            if not loop_conds or cutter.placement[loop_conds[0]] != device:
                self.merge(frame, device, cutter.frames.infos[frame].enters[0])

    def cycle(self, frame: str, device: DeviceSpec, merge: Operation) -> None:
        """Emit the Switch and the NextIteration of a control loop, and close its cycle."""
        emit = self.cutter.emit
        predicate = self.predicate(frame, device).outputs[0]
        site = Site(device, frame)
        switch = emit(site, "Switch", f"{frame}/control/Switch", Edges([merge.outputs[0], predicate], _SIGNAL * 2))
        edges = Edges(switch.outputs[1:], _SIGNAL)
        again = emit(site, "NextIteration", f"{frame}/control/NextIteration", edges)
        merge.update_input(1, again.outputs[0])
        self.cutter.part(device).targets.append(again)
