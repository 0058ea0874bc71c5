"""Programs of partial runs: feeds arrive and results leave while the step runs (rules 124 and 125).

Each feed becomes a PartialFeed, which waits for its value. Each fetched tensor goes to a PartialFetch, which hands over
the value. After each PartialFetch and each target come a ControlTrigger, live even after a dead operation, and a
PartialEnd: so the caller learns of a dead value as soon as its deadness is known.
"""

from __future__ import annotations

from collections import defaultdict

from ..ir.builder import Builder, append
from ..ir.operation import Operation
from ..ir.program import Program, copy_program, copy_with_targets
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ir.topological import uses
from ..ir.traits import Effect, Role
from .order_effects import add_order

Needs = tuple[int, ...]  # indices of feeds, in order


def to_partial_run(program: Program) -> Program:
    """Return a program without feeds and fetches, for a partial run.

    Parameters
    ----------
    program : Program
        Of the user's graph, which is not changed.

    Returns
    -------
    Program
        Results are numbered, the fetches first and then the targets. The attribute `needs` of each PartialEnd holds
        the indices of the feeds before the result. A Cond, a While or a hand-made loop depends on all its
        inputs: its iterations go no further than their window until all inputs of the loop have arrived.
    """
    copy, targets = copy_with_targets(program)
    add_order(copy)
    needs = _feeds_needed(copy, targets)
    ends = [_partial_fetch(tensor, key, needs[key]) for key, tensor in enumerate(copy.fetches)]
    ends += [_partial_end(copy, op, key, needs[key]) for key, op in enumerate(targets, len(ends))]
    return copy_program(Program(copy.graph, (), (), [*ends, *copy.targets]), _partial_feed)


def is_result(op: Operation) -> bool:
    """Return True for the operations by which a partial run hands over its results."""
    return not op.outputs and "key" in op.attrs and op.definition.effects is Effect.SHOWS


def _feeds_needed(program: Program, targets: list[Operation | None]) -> list[Needs]:
    """Return the indices of the feeds before each fetch, and then before each target."""
    enters = defaultdict(list)
    for op in program.graph.root.operations:
        if op.role is Role.ENTER:
            enters[op.attrs["frame_name"]].append(op)
    results = [*(t.op for t in program.fetches), *targets]
    return [_feeds_of(op, enters) for op in results]


def _feeds_of(start: Operation | None, enters: dict[str, list[Operation]]) -> Needs:
    """Return the indices of the feeds before an operation, directly or through others."""
    work = [] if start is None else [start]
    seen: set[Operation] = set()
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            work += uses(op)
            # A loop stops at its window until all of its Enters have arrived, so each needs the feeds of the others.
            work += enters[op.attrs["frame_name"]] if op.role is Role.ENTER else []
    return tuple(sorted(op.attrs["index"] for op in seen if op.role is Role.FEED))


def _partial_fetch(tensor: Tensor, key: int, needs: Needs) -> Operation:
    fetch = Builder(tensor.graph.root, tensor.op).emit("PartialFetch", tensor, key=key)
    return _append_end(fetch, key, needs)


def _partial_end(program: Program, op: Operation | None, key: int, needs: Needs) -> Operation:
    """Return the end of a target; None stands for a target removed because its outputs are fed, which ends at once."""
    if op is not None:
        return _append_end(op, key, needs)
    graph = program.graph
    return append(graph.root, "PartialEnd", graph.unique_name("PartialEnd"), (), {"key": key, "needs": needs})


def _append_end(op: Operation, key: int, needs: Needs) -> Operation:
    build = Builder(op.graph.root, op)
    trigger = build.emit("ControlTrigger", controls=[op])
    return build.emit("PartialEnd", controls=[trigger], key=key, needs=needs)


def _partial_feed(op: Operation, inputs: list[Tensor], region: Region) -> list[Tensor] | None:
    """Return the output of the PartialFeed that replaces a Feed; None for other operations, which stay."""
    if op.role is not Role.FEED:
        return None
    name = region.graph.unique_name(op.name)
    # Without the key by which effects of fed variables are ordered: `add_order` has used it.
    attrs = {key: op.attrs[key] for key in ("index", "dtype")}
    feed = append(region, "PartialFeed", name, (), attrs, device=op.device, source=op.source)
    feed.outputs[0].shape = op.outputs[0].shape
    return feed.outputs
