"""A program in parts: its feeds come, and its results go, while it runs (rules 124 and 125).

Each feed becomes a PartFeed, which waits for its value. Each fetched tensor goes to a PartFetch, which hands its value
over. Behind that, and behind each target, comes a PartEnd by way of a ControlTrigger, which is live whatever it
follows: so a dead value is noticed as soon as it is known to be dead.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .operation import Operation
from .order import uses
from .region import Region
from .rewrite import Program, copy_program, copy_with_targets
from .tensor import Tensor

Needs = tuple[frozenset[int], ...]


def in_parts(program: Program) -> tuple[Program, Needs]:
    """Return a program in parts, and which feeds each of its results needs.

    Parameters
    ----------
    program : Program
        Of the user's graph, which is not changed.

    Returns
    -------
    program : Program
        Without feeds and fetches. Results are numbered, the fetches first and then the targets.
    needs : tuple of frozenset of int
        Indices of feeds, for each result. A Cond, a While or a loop made by hand needs all that goes into it: its
        iterations go no further than their window until all that enters the loop is there.
    """
    copy, targets = copy_with_targets(program)
    needs = _feeds_needed(copy, targets)
    ends = [_part_fetch(tensor, key) for key, tensor in enumerate(copy.fetches)]
    ends += [_part_end(copy, op, key) for key, op in enumerate(targets, len(ends))]
    return copy_program(Program(copy.graph, (), (), [*ends, *copy.targets]), _part_feed), needs


def _feeds_needed(program: Program, targets: list[Operation | None]) -> Needs:
    enters = defaultdict(list)
    for op in program.graph.root.operations:
        if op.type == "Enter":
            enters[op.attrs["frame_name"]].append(op)
    wanted = [*(t.op for t in program.fetches), *targets]
    return tuple(_feeds_of(op, enters) for op in wanted)


def _feeds_of(start: Operation | None, enters: dict[str, list[Operation]]) -> frozenset[int]:
    work = [] if start is None else [start]
    seen: set[Operation] = set()
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            work += uses(op)
            work += enters[op.attrs["frame_name"]] if op.type == "Enter" else []
    return frozenset(op.attrs["index"] for op in seen if op.type == "Feed")


def _part_fetch(tensor: Tensor, key: int) -> Operation:
    fetch = _emit(tensor.op, "PartFetch", inputs=[tensor], key=key)
    return _follow(fetch, fetch, key)


def _part_end(program: Program, op: Operation | None, key: int) -> Operation:
    """Return the end of a target; of one that does not run since all its outputs are fed, it waits for nothing."""
    if op is not None:
        return _follow(op, op, key)
    graph = program.graph
    return Operation(graph.root, "PartEnd", graph.unique_name("PartEnd"), (), (), attrs={"key": key})


def _follow(op: Operation, like: Operation, key: int) -> Operation:
    trigger = _emit(like, "ControlTrigger", controls=[op])
    return _emit(like, "PartEnd", controls=[trigger], key=key)


def _emit(like: Operation, type: str, *, inputs: Any = (), controls: Any = (), **attrs: Any) -> Operation:
    graph = like.graph
    return Operation(
        graph.root,
        type,
        graph.unique_name(f"{like.name}/{type}"),
        inputs,
        (),
        control_inputs=controls,
        attrs=attrs,
        device=like.device,
        source=like.source,
    )


def _part_feed(op: Operation, inputs: list[Tensor], region: Region) -> list[Tensor] | None:
    if op.type != "Feed":
        return None
    outputs = [(t.dtype, t.shape) for t in op.outputs]
    name = region.graph.unique_name(op.name)
    feed = Operation(region, "PartFeed", name, (), outputs, attrs=dict(op.attrs), device=op.device, source=op.source)
    return feed.outputs
