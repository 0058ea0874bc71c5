"""Deadness analysis of a lowered program: a predicate for each tensor and operation (rules 132 to 138).

A walk visits the operations in order and derives each output's predicate from the inputs'. A Merge that closes a loop
is visited before its back edges: it has a symbol, or a recurrence with the step found by the previous walk. The step is
the condition on an iteration for another to follow. Walks repeat until a walk finds exactly the steps it assumed;
then the steps hold by induction over the iterations. Inner loops settle before the loops around them, whose steps may
depend on results of the inner loops.

See docs/design/0024-deadness.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.frames import ROOT, Frames
from ..ir.operation import Operation
from ..ir.traits import LEAVES_FRAME, SWITCHES, Role
from .predicates import Form, Predicate, Predicates
from .rules import Value, closes_loop, is_back_edge, is_unsure, predicate_of_side

Steps = dict[Operation, Predicate]


def analyse(operations: Sequence[Operation], frames: Frames) -> dict[Value, Predicate]:
    """Return the predicate of each operation and tensor; `operations` are in order.

    An operation's own predicate tells when its control dependents run. For a Switch the outputs have other predicates.
    """
    return _Analysis(operations, frames).run()


class _Analysis:
    """Fixed-point iteration over the steps of a program's loops.

    Attributes
    ----------
    merges : dict of str to list of Operation
        By frame, the Merges that close its loop.
    steps : dict of str to dict
        By frame, the steps assumed by the next walk; a Merge without a step has a symbol.
    apart : set of str
        Frames in which each Merge has its own symbol; in other frames all Merges share a symbol (rule 137).
    settled : set of str
        Frames whose steps were found by a walk after all loops inside had settled.
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
            changed = [self._record_steps(frame, walk, walks > 0) for frame in self._find_settleable_frames()]
            if not any(changed):
                return walk.of

    def _find_settleable_frames(self) -> list[str]:
        """Return the frames whose inner loops are all settled."""
        waiting = {self.frames.infos[frame].parent for frame in self.merges.keys() - self.settled}
        return [frame for frame in self.merges if frame not in waiting]

    def _record_steps(self, frame: str, walk: _Walk, may_change: bool) -> bool:
        """Record the steps that a walk found for a frame; return True if another walk must follow."""
        merges, assumed = self.merges[frame], self.steps[frame]
        steps = {merge: step for merge in merges if (step := walk.find_step(merge)) is not None}
        if frame in self.settled and not may_change:  # from here on steps are only dropped: the walks end
            steps = {merge: step for merge, step in steps.items() if assumed.get(merge) is step}
        pairs = {(walk.find_start(merge), steps.get(merge)) for merge in merges}
        together = len(pairs) == 1 and len(steps) == len(merges)
        if not together and frame not in self.apart:
            self.apart.add(frame)
            self.settled.discard(frame)
            self.steps[frame] = {}
            return True
        new = frame not in self.settled
        self.settled.add(frame)
        self.steps[frame] = steps
        return new or steps != assumed


class _Walk:
    """A walk over the operations under the steps assumed by the analysis."""

    def __init__(self, analysis: _Analysis) -> None:
        self.analysis = analysis
        self.frames = analysis.frames
        self.predicates = analysis.predicates
        self.of: dict[Value, Predicate] = {}

    def visit(self, op: Operation) -> None:
        """Record the predicates of an operation and its outputs."""
        inputs = self._predicate_of_inputs(op)
        if op.role in SWITCHES:
            self.of[op] = inputs
            for tensor in op.outputs:
                taken = predicate_of_side(self.predicates, op.inputs[1], tensor.index, len(op.outputs))
                self.of[tensor] = self.predicates.all_of([inputs, taken])
        else:
            predicate = self.of[op] = self._predicate_of_outputs(op, inputs)
            self.of.update(dict.fromkeys(op.outputs, predicate))

    def _predicate_of_inputs(self, op: Operation) -> Predicate:
        """Return the AND of an operation's inputs; true for a Merge, whose inputs are an OR."""
        sources: list[Value] = [] if op.role is Role.MERGE else [*op.inputs, *op.control_inputs]
        return self.predicates.all_of([self.of[source] for source in sources])

    def _predicate_of_outputs(self, op: Operation, inputs: Predicate) -> Predicate:
        if op.role is Role.MERGE:
            return self._predicate_of_merge(op)
        if op.role is Role.CONTROL_TRIGGER:
            return self.predicates.true
        if op.role in LEAVES_FRAME:
            return self._predicate_of_result(op, inputs)
        return self.predicates.all_of([inputs, self._alive_symbol(op)]) if is_unsure(op) else inputs

    def _alive_symbol(self, value: Value) -> Predicate:
        return self.predicates.symbol("alive", value)

    def _predicate_of_merge(self, op: Operation) -> Predicate:
        """Return the predicate of a Merge: the OR of its inputs, or a loop's recurrence or symbol."""
        if not closes_loop(op):
            return self.predicates.any_of([self.of[t] for t in op.inputs])
        frame = self.frames.of[op]
        step = self.analysis.steps[frame].get(op)
        if step is not None:
            return self.predicates.recurrence(self.find_start(op), step, self._frame_path(frame))
        # With a shared symbol, a back edge that needs several variables still reads "symbol and step" (rule 135).
        return self._alive_symbol(op if frame in self.analysis.apart else self.analysis.merges[frame][0])

    def _frame_path(self, frame: str) -> tuple[str, ...]:
        """Return the names of a frame and the frames around it, innermost first."""
        names = []
        while frame != ROOT:
            names.append(frame)
            frame = self.frames.infos[frame].parent
        return tuple(names)

    def find_start(self, merge: Operation) -> Predicate:
        """Return when a loop's Merge receives its first value."""
        return self.predicates.any_of([self.of[t] for t in merge.inputs if not is_back_edge(t)])

    def find_step(self, merge: Operation) -> Predicate | None:
        """Return the condition for a Merge to receive another value; None without such a form (rule 135)."""
        symbol = self.of[merge]
        back = self.predicates.any_of([self.of[t] for t in merge.inputs if is_back_edge(t)])
        parts = back.parts(Form.AND)
        if symbol not in parts:
            return None
        # Parts of the start come from outside the loop, so they hold in all of its iterations or in none.
        known = {symbol, *self.find_start(merge).parts(Form.AND)}
        step = self.predicates.all_of([part for part in parts if part not in known])
        return None if step.mentions(symbol) else step

    def _predicate_of_result(self, op: Operation, inputs: Predicate) -> Predicate:
        """Return when a loop's result is alive: when the loop started, if it leaves as the step fails (rule 136)."""
        if op.role is Role.EXIT:
            for part in inputs.parts(Form.AND):
                if part.form is Form.RECURRENCE and part.leaf == self._frame_path(self.frames.of[op]):
                    start, step = part.operands
                    if inputs is self.predicates.all_of([part, self.predicates.negation(step)]):
                        return start
        return self._alive_symbol(op)
