"""Dead leaders: of channels dead together, a single reporter for all. See docs/design/0009-devices.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...deadness.analysis import analyse
from ...deadness.predicates import Form, Predicate
from ...deadness.rules import Value, origin
from ...ir.frames import ROOT, Frames
from ...ir.operation import Operation
from ...ir.traits import LEAVES_FRAME


def dead_leaders(
    operations: Sequence[Operation], frames: Frames, channels: Sequence[tuple[Value, Any, Any]]
) -> list[int]:
    """Return for each channel (value, source, destination) the number of the channel reporting its deadness.

    Channels are grouped if they join the same devices in the same frame, under the same predicate, and the predicate
    depends on more than loop conditions. The leader has the shortest chain of operations before it, so it cannot
    wait for a channel led by itself.
    """
    predicates = analyse(operations, frames)
    depths = _longest_chains(operations, frames)
    rank = [(depths[_operation_of(value)], number) for number, (value, _, _) in enumerate(channels)]
    groups: dict[Any, list[int]] = {}
    for number, (value, source, destination) in enumerate(channels):
        frame, predicate = frames.of_output(_operation_of(value)), predicates[value]
        if _is_chosen(predicate, frames, frame):
            groups.setdefault((frame, source, destination, predicate), []).append(number)
    leading = list(range(len(channels)))
    for members in groups.values():
        # Ties go to the lower number.
        first = min(members, key=rank.__getitem__)
        for number in members:
            leading[number] = first
    return leading


def _is_chosen(predicate: Predicate, frames: Frames, frame: str) -> bool:
    """Return True if a predicate depends on more than the conditions of this loop and of outer loops."""
    around = [frames.infos[frame]]
    while around[-1].name != ROOT:
        around.append(frames.infos[around[-1].parent])
    go_on = {origin(op.outputs[0]) for info in around for op in info.loop_conds}
    symbols = [p.leaf for p in predicate.walk(False) if p.form is Form.SYMBOL]
    return any(what != "alive" and tensor not in go_on for what, tensor in symbols)


def _longest_chains(operations: Sequence[Operation], frames: Frames) -> dict[Operation, int]:
    """Return the longest chain of operations before each operation, within an iteration.

    An operation leaving a loop waits for the whole loop: a dead Exit is sent when the frame has ended.
    """
    ends: dict[str, int] = {}
    depths: dict[Operation, int] = {}
    for _ in frames.infos:  # a fixed point: the longest possible chain of loops, and once more for the root
        depths = _depths_after(operations, frames, ends)
        deepest = dict.fromkeys(frames.infos, 0)
        for op, depth in depths.items():
            if op.role not in LEAVES_FRAME:
                deepest[frames.of[op]] = max(deepest[frames.of[op]], depth)
        for name in reversed(frames.infos):  # inner frames before outer ones
            around = frames.infos[name].parent
            deepest[around] = max(deepest[around], deepest[name])
        if deepest == ends:
            break
        ends = deepest
    return depths


def _depths_after(operations: Sequence[Operation], frames: Frames, ends: dict[str, int]) -> dict[Operation, int]:
    """Return the depths, given the depths `ends` at which the frames end."""
    depths: dict[Operation, int] = {}
    for op in operations:
        sources = (*(t.op for t in op.inputs), *op.control_inputs)
        ended = ends.get(frames.of[op], 0) if op.role in LEAVES_FRAME else 0
        depths[op] = 1 + max((depths[s] for s in sources if s in depths), default=0)
        depths[op] = max(depths[op], 1 + ended)
    return depths


def _operation_of(value: Value) -> Operation:
    return value if isinstance(value, Operation) else value.op
