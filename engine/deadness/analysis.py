"""Deadness analysis: a predicate for each value of a lowered program (rules 132 to 138).

The operations are walked in order, and each output's predicate is made of those of the inputs. A Merge that closes a
loop is met before what comes back to it: a walk takes a symbol for it, or the recurrence with the step that the walk
before has found, a step being what must hold in an iteration for there to be another. Walks are repeated until one
finds exactly the steps that it assumed; then they hold by induction over the iterations. Inner loops are settled
before those around them, whose steps may depend on what leaves the inner ones.

See docs/design/0024-deadness.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.frames import ROOT, Frames
from ..ir.operation import Operation
from ..ir.traits import LEAVES_FRAME, SWITCHES, Role
from .predicates import Form, Predicate, Predicates
from .rules import Value, chosen, closes_loop, is_back_edge, is_unsure

Steps = dict[Operation, Predicate]


def analyse(operations: Sequence[Operation], frames: Frames) -> dict[Value, Predicate]:
    """Return the predicate of each operation and tensor; `operations` are in order.

    An operation's own predicate says when what waits for it runs. Of a Switch that is another thing than when an
    output is alive.
    """
    return _Analysis(operations, frames).run()


class _Analysis:
    """What the walks have found of the loops.

    Attributes
    ----------
    merges : dict of str to list of Operation
        By frame, the Merges that close its loop.
    steps : dict of str to dict
        By frame, the steps that the next walk assumes; a Merge without one has a symbol.
    apart : set of str
        Frames in which each Merge has a symbol of its own. In the others it is one for all (rule 137).
    settled : set of str
        Frames of which a walk has found the steps when all loops inside were settled.
    """

    def __init__(self, operations: Sequence[Operation], frames: Frames) -> None:
        self.operations = operations
        self.frames = frames
        self.predicates = Predicates()
        self.merges: dict[str, list[Operation]] = {}
        for op in operations:
            if closes_loop(op):
                self.merges.setdefault(frames.of[op], []).append(op)
        self.steps: dict[str, Steps] = {frame: {} for frame in self.merges}
        self.apart: set[str] = set()
        self.settled: set[str] = set()

    def run(self) -> dict[Value, Predicate]:
        # A level of nesting takes two walks, or three if a frame's Merges are not alive together. What has not come to
        # rest by then gets symbols, after which a frame changes no more.
        walks = 3 * (1 + len(self.merges))
        while True:
            walk = _Walk(self)
            for op in self.operations:
                walk.visit(op)
            walks -= 1
            changed = [self._settle(frame, walk, walks > 0) for frame in self._ripe()]
            if not any(changed):
                return walk.of

    def _ripe(self) -> list[str]:
        """Return the frames in which all loops are settled."""
        waiting = {self.frames.infos[frame].parent for frame in self.merges.keys() - self.settled}
        return [frame for frame in self.merges if frame not in waiting]

    def _settle(self, frame: str, walk: _Walk, may_change: bool) -> bool:
        """Note what a walk has found of a frame; return whether that is another thing than it assumed."""
        merges, before = self.merges[frame], self.steps[frame]
        found = {merge: step for merge in merges if (step := walk.step(merge)) is not None}
        if frame in self.settled and not may_change:
            found = {merge: step for merge, step in found.items() if before.get(merge) is step}
        pairs = {(walk.start(merge), found.get(merge)) for merge in merges}
        together = len(pairs) == 1 and len(found) == len(merges)
        if not together and frame not in self.apart:
            self.apart.add(frame)
            self.settled.discard(frame)
            self.steps[frame] = {}
            return True
        new = frame not in self.settled
        self.settled.add(frame)
        self.steps[frame] = found
        return new or found != before


class _Walk:
    """One walk over the operations."""

    def __init__(self, analysis: _Analysis) -> None:
        self.analysis = analysis
        self.frames = analysis.frames
        self.predicates = analysis.predicates
        self.of: dict[Value, Predicate] = {}

    def visit(self, op: Operation) -> None:
        inputs = self._inputs(op)
        if op.role in SWITCHES:
            self.of[op] = inputs
            for tensor in op.outputs:
                taken = chosen(self.predicates, op.inputs[1], tensor.index, len(op.outputs))
                self.of[tensor] = self.predicates.all_of([inputs, taken])
        else:
            found = self.of[op] = self._outputs(op, inputs)
            self.of.update(dict.fromkeys(op.outputs, found))

    def _inputs(self, op: Operation) -> Predicate:
        """Return when all inputs are alive; those of a Merge are not looked at here."""
        sources: list[Value] = [] if op.role is Role.MERGE else [*op.inputs, *op.control_inputs]
        return self.predicates.all_of([self.of[source] for source in sources])

    def _outputs(self, op: Operation, inputs: Predicate) -> Predicate:
        if op.role is Role.MERGE:
            return self._merge(op)
        if op.role is Role.CONTROL_TRIGGER:
            return self.predicates.true
        if op.role in LEAVES_FRAME:
            return self._leave(op, inputs)
        return self.predicates.all_of([inputs, self._symbol(op)]) if is_unsure(op) else inputs

    def _symbol(self, value: Value) -> Predicate:
        return self.predicates.symbol("alive", value)

    def _merge(self, op: Operation) -> Predicate:
        if not closes_loop(op):
            return self.predicates.any_of([self.of[t] for t in op.inputs])
        frame = self.frames.of[op]
        step = self.analysis.steps[frame].get(op)
        if step is not None:
            return self.predicates.recurrence(self.start(op), step, self._path(frame))
        return self._symbol(op if frame in self.analysis.apart else self.analysis.merges[frame][0])

    def _path(self, frame: str) -> tuple[str, ...]:
        """Return the names of a frame and of those around it."""
        names = []
        while frame != ROOT:
            names.append(frame)
            frame = self.frames.infos[frame].parent
        return tuple(names)

    def start(self, merge: Operation) -> Predicate:
        """Return when a loop's Merge gets its first value."""
        return self.predicates.any_of([self.of[t] for t in merge.inputs if not is_back_edge(t)])

    def step(self, merge: Operation) -> Predicate | None:
        """Return what must hold for a Merge to get another value; None if that is not all (rule 135)."""
        own = self.of[merge]
        back = self.predicates.any_of([self.of[t] for t in merge.inputs if is_back_edge(t)])
        parts = back.parts(Form.AND)
        if own not in parts:
            return None
        # What the start is the AND of comes from outside of the loop, and holds in all of its iterations or in none.
        known = {own, *self.start(merge).parts(Form.AND)}
        step = self.predicates.all_of([part for part in parts if part not in known])
        return None if step.mentions(own) else step

    def _leave(self, op: Operation, inputs: Predicate) -> Predicate:
        """Return when a result of a loop is alive: when it began, if it leaves as the loop ends (rule 136)."""
        if op.role is Role.EXIT:
            for part in inputs.parts(Form.AND):
                if part.form is Form.RECURRENCE and part.leaf == self._path(self.frames.of[op]):
                    start, step = part.operands
                    if inputs is self.predicates.all_of([part, self.predicates.negation(step)]):
                        return start
        return self._symbol(op)
