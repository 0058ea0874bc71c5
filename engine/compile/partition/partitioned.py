"""Results of partition: a program for each device, and the channels between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...base.device_names import DeviceSpec
from ...base.dtypes import DType
from ...base.wording import by_reason, sentences
from ...ir.operation import Operation
from ...ir.program import Program
from ...kernels.native.program import NativeProgram


@dataclass(frozen=True, slots=True)
class Channel:
    """An edge between two devices: a Send on one, a Recv on the other, a message for each iteration of its frame.

    Attributes
    ----------
    number : int
        Also the attribute `channel` of its Send and its Recv.
    name : str
        Name of the tensor carried; ``^operation`` for a control edge.
    source, destination : DeviceSpec
    dtype : DType
        bool for a control edge.
    is_control : bool
        True if messages are empty: each reports the completion of an operation.
    frame : str
        Static name of the frame in which Send and Recv are; "" for the root.
    dead_leader : int
        The channel reporting deadness for this channel, possibly the channel itself.
    """

    number: int
    name: str
    source: DeviceSpec
    destination: DeviceSpec
    dtype: DType
    is_control: bool
    frame: str
    dead_leader: int

    @property
    def is_dead_silent(self) -> bool:
        """True if the channel sends nothing when dead."""
        return self.dead_leader != self.number


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A program cut by device.

    Attributes
    ----------
    programs : mapping of DeviceSpec to Program
        For each device with operations; the devices in the order of their first operations.
    channels : sequence of Channel
        By number.
    feeds, fetches : sequence of (DeviceSpec, int)
        Each feed and fetch of the whole program: a device, and the position in the device's program.
    whole : Program
        The program before partition.
    """

    programs: Mapping[DeviceSpec, Program]
    channels: Sequence[Channel]
    feeds: Sequence[tuple[DeviceSpec, int]]
    fetches: Sequence[tuple[DeviceSpec, int]]
    whole: Program


def to_text(partitioned: Partitioned) -> str:
    """Return the programs and channels as text; :func:`tagloom.ir.text.parse` reads each program.

    Comments print the native programs, and the reasons why loops and operations have none.
    """
    from ...ir import text  # only for users and tests that read it

    lines = []
    for device, program in partitioned.programs.items():
        lines += [f"# {device}", text.to_text(program.graph)]
        lines += [f"# {line}".rstrip() for op in program.graph.root.operations for line in _describe_native(op)]
    lines += [f"# not in a cluster: {sentence}" for sentence in sentences(by_reason(partitioned.whole.not_clustered))]
    return "\n".join([*lines, *map(_describe_channel, partitioned.channels)]) + "\n"


def _describe_native(op: Operation) -> list[str]:
    """Return the lines of an operation's native program, or the reason why the loop of a LoopCond has none."""
    if op.type == "Native":
        return str(NativeProgram.from_attribute(op.attrs["program"])).splitlines()
    origin = op.origin
    if origin is None or origin.not_native is None:
        return []
    return [f"loop {origin.operation}: no native program: {origin.not_native}"]


def _describe_channel(channel: Channel) -> str:
    words = [
        f"# channel {channel.number}: {channel.name} {channel.dtype}",
        f"{channel.source} to {channel.destination}",
    ]
    words += [f"in frame {channel.frame}"] if channel.frame else []
    words += [f"led by {channel.dead_leader}"] if channel.is_dead_silent else []
    return ", ".join(words)
