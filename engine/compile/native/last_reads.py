"""The last reads of the registers of a native program."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.native.program import Code, Instruction


def mark_last_reads(
    instructions: Sequence[Instruction],
    around: Sequence[int],
    loops: Sequence[int],
    kept: set[int],
    homes: set[int],
) -> None:
    """Mark each input of an instruction whose value may be overwritten there.

    A value may be overwritten if no later instruction reads the value and each iteration of the loops around writes the
    register anew. A loop variable is written at the end of the loop's body, so its reads after the loop do not matter
    inside the body; they do for the predicate, after which the loop may end.
    """
    read: set[int] = set(kept)
    behind: dict[int, set[int]] = {}  # by loop, its variables that are read after it
    for i in reversed(range(len(instructions))):
        instruction = instructions[i]
        if instruction.code is Code.JUMP and instruction.targets[0] <= i:
            # The end of a loop, after MOVEs to its variables.
            behind[instruction.targets[0]] = {r for r in homes & read if loops[r] == instruction.targets[0]}
            read -= behind[instruction.targets[0]]
        elif instruction.code is Code.UNLESS:
            read |= behind[around[i]]
        instruction.last = tuple(r not in read and loops[r] == around[i] for r in instruction.inputs)
        read.update(instruction.inputs)
