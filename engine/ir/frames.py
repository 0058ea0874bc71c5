"""Static checks of a lowered graph: the frame of every operation, and no cycles except loops (rules 52 to 55)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..base.errors import GraphError
from .operation import Operation
from .tensor import Tensor
from .topological import topological_order
from .traits import LEAVES_FRAME, Role

ROOT = ""


@dataclass
class FrameInfo:
    """A loop: its static name, the frame around it, its window, its Enters and its LoopConds."""

    name: str
    parent: str
    parallel_iterations: int | str = 1
    enters: list[Operation] = field(default_factory=list)
    loop_conds: list[Operation] = field(default_factory=list)


@dataclass
class Frames:
    """The frame in which each operation's inputs arrive, and all frames, outermost first."""

    of: dict[Operation, str]
    infos: dict[str, FrameInfo]

    def of_output(self, op: Operation) -> str:
        """Return the frame in which the operation's outputs arrive."""
        if op.role is Role.ENTER:
            name: str = op.attrs["frame_name"]
            return name
        return self.infos[self.of[op]].parent if op.role in LEAVES_FRAME else self.of[op]


def assign_frames(operations: Sequence[Operation]) -> Frames:
    """Find every operation's frame from the Enters and Exits along its inputs.

    Raises
    ------
    GraphError
        If an operation has inputs from two frames, an Exit stands outside any loop, the Enters of a frame have
        different parents, a frame has two LoopConds, or there is a cycle other than a loop.
    """
    frames = Frames({}, {ROOT: FrameInfo(ROOT, ROOT)})
    # In topological order the sources have frames already, except along back edges. Any source may decide, since all
    # must agree; their agreement is checked once all frames are known.
    for op in topological_order(operations):
        sources = [(t, t.op) for t in op.inputs if t.op in frames.of] + [
            (c, c) for c in op.control_inputs if c in frames.of
        ]
        frames.of[op] = frames.of_output(sources[0][1]) if sources else ROOT
        _note_operation(frames, op)
    for op in operations:
        _check_inputs(frames, op)
    return frames


def _note_operation(frames: Frames, op: Operation) -> None:
    """Record an Enter or a LoopCond in its frame; GraphError for an Exit at the root and for a second LoopCond."""
    here = frames.of[op]
    if op.role is Role.ENTER:
        _note_enter(frames, op, here)
    elif op.role in LEAVES_FRAME and here == ROOT:
        raise GraphError(
            "an Exit stands outside any loop: no corresponding Enter",
            operation=op,
            hint="bring its input into a frame with enter first",
        )
    elif op.role is Role.LOOP_COND:
        frames.infos[here].loop_conds.append(op)
        if len(frames.infos[here].loop_conds) > 1:
            raise GraphError(
                f"frame '{here}' has more than one LoopCond",
                operation=op,
                hint="give each loop a frame of its own, or combine the predicates with logical_and",
            )


def _note_enter(frames: Frames, op: Operation, here: str) -> None:
    """Record an Enter in the named frame, which all Enters of this name must enter from the same parent."""
    name = op.attrs["frame_name"]
    if not name:
        raise GraphError("an Enter has an empty frame name", operation=op, hint="give every loop its own name")
    # The first Enter of a name defines the frame, and the others must agree.
    info = frames.infos.setdefault(name, FrameInfo(name, here, op.attrs["parallel_iterations"]))
    if info.parent != here:
        raise GraphError(
            f"frame '{name}' has mismatched parent frames",
            wanted=info.parent or "the root frame",
            got=here or "the root frame",
            operation=op,
            hint="give each loop a frame name of its own",
        )
    info.enters.append(op)


def _check_inputs(frames: Frames, op: Operation) -> None:
    """Refuse an operation with inputs from different frames; back edges are checked too, since all frames are known."""
    here = frames.of[op]
    sources: list[tuple[Tensor | Operation, Operation]] = [(t, t.op) for t in op.inputs]
    sources += [(c, c) for c in op.control_inputs]
    for value, source in sources:
        if frames.of_output(source) != here:
            raise GraphError(
                f"{op.name} has inputs from different frames",
                wanted=f"inputs of frame '{here or 'root'}'",
                got=f"{value.name} of frame '{frames.of_output(source) or 'root'}'",
                operation=op,
                hint="bring the value in with enter, or out with exit",
            )
