"""Notes that passes leave on operations for later passes; see docs/design/0050-rules.md.

Attributes are part of an operation's meaning, and its type declares them. Notes are not: a program without its notes
computes the same, though perhaps more slowly or with poorer reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensor import Tensor


@dataclass(frozen=True, slots=True)
class PassNotes:
    """Notes of an operation, each None unless a pass has made the note.

    Attributes
    ----------
    label : str or None
        Name of a loop variable in traces and reports, noted where the loop is built.
    initial : Tensor or None
        Initial value of a loop variable: gradients of a loop under construction follow it.
    block : int or bool or None
        Iterations computed at once by a Cond, True for the variables that hold the block: made by `input_blocks`.
    carried : tuple of str or None
        Operations that make iterations wait for each other through a variable: from `loop_dependence`, for reports.
    forwarded : tuple of str
        Assignments before an effect, ordered by data already: from `forward_assignments`, for fusing.
    host_backed : bool
        Saved values of a loop may be in the host's memory: from `mark_swappable`, for lowering.
    not_native : str or None
        Reason why a loop has no native program: from `native/wrap`, for reports.
    is_segment : bool
        The loop has a few of the iterations that the loop around it has in all, one or more: from gradients with
        ``checkpoint_every``, for `hoist`.
    """

    label: str | None = None
    initial: Tensor | None = None
    block: int | bool | None = None
    carried: tuple[Any, ...] | None = None
    forwarded: tuple[str, ...] = ()
    host_backed: bool = False
    not_native: str | None = None
    is_segment: bool = False


NO_NOTES = PassNotes()
