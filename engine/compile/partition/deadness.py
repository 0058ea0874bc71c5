"""Which messages are dead together, so that one speaks for all (rules 132 to 137, as far as they are needed here).

A value is alive if all conditions of its set hold: a predicate came alive with a certain value, a loop is alive in
this iteration, or a symbol for what is not analysed. Values with equal sets are alive and dead together. That all
variables of a loop are alive together is assumed first; for a frame where it does not come out, each variable gets a
symbol of its own and the analysis is done again.

A condition is a tuple: ("choice", predicate, side, sides), ("loop", frame), ("enter", conditions of the value that
entered) or ("symbol", operation). Equal sets mean equal deadness; unequal sets mean nothing, so every rule here may be
too careful, and none may be too clever. See docs/design/0009-devices.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.frames import Frames
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import LEAVES_FRAME, SWITCHES, Role

Value = Tensor | Operation
Conditions = frozenset[Any]


def dead_leaders(
    operations: Sequence[Operation], frames: Frames, channels: Sequence[tuple[Value, Any, Any]]
) -> list[int]:
    """Return for each channel (value, source, destination) the number of the one that speaks for it when dead.

    Channels speak for each other if they join the same devices in the same frame, under the same conditions, and
    these are more than that the loop goes on. The leader is the one that needs the fewest operations in a row: what
    it needs can not wait for those it leads.
    """
    conditions = analyse(operations, frames)
    depths = _depths(operations, frames)
    rank = [(depths[_op(value)], number) for number, (value, _, _) in enumerate(channels)]
    groups: dict[Any, list[int]] = {}
    for number, (value, source, destination) in enumerate(channels):
        frame, found = frames.of_output(_op(value)), conditions[value]
        goes_on = set(_predicates(frames, frame))
        if any(_is_choice(c) and c[1] not in goes_on for c in found):
            groups.setdefault((frame, source, destination, found), []).append(number)
    leading = list(range(len(channels)))
    for members in groups.values():
        first = min(members, key=rank.__getitem__)
        for number in members:
            leading[number] = first
    return leading


def analyse(operations: Sequence[Operation], frames: Frames) -> dict[Value, Conditions]:
    """Return the conditions of each operation and tensor; `operations` are in order."""
    apart: set[str] = set()
    while True:
        analysis = _Analysis(frames, apart)
        for op in operations:
            analysis.visit(op)
        found = {name for name in frames.infos if name and name not in apart and not analysis.holds(name)}
        if not found:
            return analysis.of
        apart |= found


class _Analysis:
    """One walk over the operations; the variables of the frames in `apart` are not taken to be alive together.

    Attributes
    ----------
    of : dict of Tensor or Operation to frozenset
        Conditions of what was visited.
    starts : dict of str to frozenset
        By frame, the conditions under which the variable visited first enters; `holds` compares the others with it.
    merges : dict of str to list of Operation
        By frame, the Merges of its variables.
    """

    def __init__(self, frames: Frames, apart: set[str]) -> None:
        self.frames = frames
        self.apart = apart
        self.of: dict[Value, Conditions] = {}
        self.starts: dict[str, Conditions] = {}
        self.merges: dict[str, list[Operation]] = {}

    def visit(self, op: Operation) -> None:
        if op.role in SWITCHES:
            found = self.inputs(op)
            for tensor in op.outputs:
                self.of[tensor] = found | {("choice", _origin(op.inputs[1]), tensor.index, len(op.outputs))}
        else:
            found = self.conditions(op)
            self.of.update(dict.fromkeys(op.outputs, found))
        self.of[op] = found

    def inputs(self, op: Operation) -> Conditions:
        """Return the conditions under which all inputs are alive."""
        sources: list[Value] = [*op.inputs, *op.control_inputs]
        return self.simple(frozenset().union(*(self.of[source] for source in sources)))

    def simple(self, found: Conditions) -> Conditions:
        """Leave out ("enter", conditions) of an invariant where a loop in the set is alive only under these conditions.

        In a body, `x * c` with a variable x and an invariant c has ("loop", frame) from x and ("enter", s) from c. The
        loop is alive only if its variables entered, that is under `starts[frame]`. If s is a part of these, c entered
        whenever the loop is alive, and the product is alive exactly if x is. Without this rule every message that
        depends on an invariant would be a group of its own, and in most loops that is all of them.

        Only whole "enter" conditions go: what is in s besides `starts[frame]` could make c dead in a live loop.
        """
        known = [self.starts[c[1]] for c in found if c[0] == "loop"]
        return frozenset(c for c in found if c[0] != "enter" or not any(c[1] <= start for start in known))

    def conditions(self, op: Operation) -> Conditions:
        if op.role is Role.ENTER:
            return frozenset([("enter", self.inputs(op))])
        if op.role is Role.MERGE:
            return self.merge(op)
        if op.role in LEAVES_FRAME:
            return self.leave(op)
        if op.role is Role.CONTROL_TRIGGER:
            return frozenset()
        # A slot of a branch that did not run reads as dead: when that is, only the forward step knows.
        unsure = op.role is Role.SERIES_READ and op.attrs["maybe"]
        return self.inputs(op) | ({("symbol", op)} if unsure else frozenset())

    def merge(self, op: Operation) -> Conditions:
        frame = self.frames.of[op]
        if not any(t.op.role is Role.NEXT_ITERATION for t in op.inputs):
            # The Merge of a cond: alive whatever was chosen, if every branch is there under the same other conditions.
            found = _rejoined([self.of[t] for t in op.inputs])
            return frozenset([("symbol", op)]) if found is None else found
        self.merges.setdefault(frame, []).append(op)
        # Recorded before the back edge is visited: operations of the body need it, and NextIterations come after them.
        self.starts.setdefault(frame, self.start(op))
        return frozenset([("symbol", op) if frame in self.apart else ("loop", frame)])

    def start(self, op: Operation) -> Conditions:
        """Return under which conditions a loop variable enters."""
        return frozenset().union(*(self.inputs(t.op) for t in op.inputs if t.op.role is Role.ENTER))

    def leave(self, op: Operation) -> Conditions:
        """Return when a result of a loop is alive: when its variables entered, if it leaves as the loop ends."""
        frame = self.frames.of[op]
        live = frozenset([("loop", frame)])
        ends = live | {("choice", p, 0, 2) for p in _predicates(self.frames, frame)}
        if frame in self.starts and self.inputs(op) == ends and op.role is Role.EXIT:
            return self.starts[frame]
        return frozenset([("symbol", op)])

    def holds(self, frame: str) -> bool:
        """Whether all variables of a frame enter under the same conditions, and go on as its predicate says."""
        (predicate,) = _predicates(self.frames, frame) or (None,)
        goes_on = frozenset([("loop", frame), ("choice", predicate, 1, 2)])
        return all(
            self.start(merge) == self.starts[frame]
            and all(self.of[t] == goes_on for t in merge.inputs if t.op.role is Role.NEXT_ITERATION)
            for merge in self.merges.get(frame, ())
        )


def _rejoined(branches: Sequence[Conditions]) -> Conditions | None:
    """Return the conditions of a Merge of all branches of one choice, None if it is something else."""
    count = len(branches)
    for choice in (c for c in branches[0] if _is_choice(c) and c[3] == count):
        sides = [[c for c in found if _is_choice(c) and c[1] is choice[1] and c[3] == count] for found in branches]
        rest = {found.difference(side) for found, side in zip(branches, sides, strict=True)}
        if len(rest) == 1 and sorted(c[2] for side in sides for c in side) == list(range(count)):
            return rest.pop()
    return None


def _is_choice(condition: Any) -> bool:
    return bool(condition[0] == "choice")


def _predicates(frames: Frames, frame: str) -> list[Tensor]:
    return [_origin(op.outputs[0]) for op in frames.infos[frame].loop_conds]


def _origin(predicate: Tensor) -> Tensor:
    """Follow a predicate back through what only passes it on."""
    while predicate.op.type in ("Identity", "LoopCond"):
        predicate = predicate.op.inputs[0]
    return predicate


def _depths(operations: Sequence[Operation], frames: Frames) -> dict[Operation, int]:
    """Return how many operations in a row each one waits for, within an iteration.

    What leaves a loop waits for all that is in it: a dead Exit is sent when the frame has ended.
    """
    ends: dict[str, int] = {}
    depths: dict[Operation, int] = {}
    for _ in frames.infos:  # as many times as there can be loops one after the other, and once more for the root
        depths = _depths_after(operations, frames, ends)
        found = dict.fromkeys(frames.infos, 0)
        for op, depth in depths.items():
            if op.role not in LEAVES_FRAME:
                found[frames.of[op]] = max(found[frames.of[op]], depth)
        for name in reversed(frames.infos):  # inner frames before those around them
            around = frames.infos[name].parent
            found[around] = max(found[around], found[name])
        if found == ends:
            break
        ends = found
    return depths


def _depths_after(operations: Sequence[Operation], frames: Frames, ends: dict[str, int]) -> dict[Operation, int]:
    """Return the depths, given those at which the frames end."""
    depths: dict[Operation, int] = {}
    for op in operations:
        sources = (*(t.op for t in op.inputs), *op.control_inputs)
        ended = ends.get(frames.of[op], 0) if op.role in LEAVES_FRAME else 0
        depths[op] = 1 + max((depths[s] for s in sources if s in depths), default=0)
        depths[op] = max(depths[op], 1 + ended)
    return depths


def _op(value: Value) -> Operation:
    return value if isinstance(value, Operation) else value.op
