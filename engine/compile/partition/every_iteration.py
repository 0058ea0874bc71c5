"""Values existing in every iteration of their frame: only these can be received.

A Recv waits in every iteration. The output of an Enter exists in iteration 0 alone, that of a NextIteration in all
others; only a Merge of both exists in all. ``while_loop`` uses either for such a Merge alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...base.errors import GraphError
from ...ir.operation import Operation
from ...ir.traits import LEAVES_FRAME, Role


def check_every_iteration(operations: Sequence[Operation], sent: Iterable[Operation]) -> None:
    """Refuse operations among `sent` whose results do not exist in every iteration; `operations` are in order.

    Raises
    ------
    GraphError
        Naming the operation.
    """
    rare = _not_in_all(operations)
    for op in sent:
        if op in rare:
            raise GraphError(
                f"{op.name} does not run in every iteration of its loop, and is used on another device",
                wanted="a value that depends on a Merge of the loop, not on its Enter or NextIteration alone",
                operation=op,
                hint="place what uses it on the same device",
            )


def _not_in_all(operations: Sequence[Operation]) -> set[Operation]:
    """Return the operations, of a list in order, whose results are missing in some iteration."""
    rare: set[Operation] = set()
    for op in operations:
        sources = [t.op for t in op.inputs]
        if op.role is Role.ENTER:
            is_rare = not op.attrs["is_constant"]
        elif op.role is Role.MERGE:
            # A Merge with a NextIteration exists in all iterations, whether or not its back edge has been visited.
            is_rare = all(s in rare and s.role is not Role.NEXT_ITERATION for s in sources)
        elif op.role in LEAVES_FRAME:
            is_rare = False
        else:
            is_rare = op.role is Role.NEXT_ITERATION or any(s in rare for s in (*sources, *op.control_inputs))
        if is_rare:
            rare.add(op)
    return rare
