"""Explain a dead fetch: which Switch, with which predicate, sent the value elsewhere."""

from __future__ import annotations

from typing import Any

from ..base.errors import DeadFetchError
from ..base.tags import Kind
from ..plan.plan import Plan


def explain_dead_fetch(plan: Plan, k: int, outcomes: dict[int, Any]) -> DeadFetchError:
    """Return the error for fetch `k`, naming the Switch that left its value dead and the path from there.

    Parameters
    ----------
    plan : Plan
    k : int
        Index of the fetch.
    outcomes : dict
        Predicate of every Switch that fired in the root frame.
    """
    fetch = next(i for i, n in enumerate(plan.nodes) if n.kind is Kind.FETCH and n.index == k)
    path = _path_to_switch(plan, fetch, outcomes)
    fetched = plan.nodes[path[1]] if len(path) > 1 else plan.nodes[fetch]
    switch = plan.nodes[path[-1]]
    if switch.kind not in (Kind.SWITCH, Kind.SWITCH_N):
        reason = "a loop or branch that did not run"
    else:
        reason = f"the Switch {switch.name}, whose predicate was {outcomes[path[-1]]}"
        if switch.source is not None:
            reason += f", built at {switch.source}"
    return DeadFetchError(
        f"the fetched value of {fetched.name} is dead: it was never computed",
        wanted="a value that is computed whatever the predicates are",
        got=f"a value cut off by {reason}; path: {' <- '.join(plan.nodes[i].name for i in path[1:])}",
        operation=f"{fetched.name} ({fetched.type})",
        source=fetched.source,
        hint="merge both sides, as cond does, and fetch the result",
    )


def _path_to_switch(plan: Plan, start: int, outcomes: dict[int, Any]) -> list[int]:
    """Walk back from a dead node to a Switch that was live and sent its data the other way."""
    sources: dict[int, list[tuple[int, int]]] = {}
    for i, outputs in enumerate(plan.data_edges):
        for output, edges in enumerate(outputs):
            for target, _ in edges:
                sources.setdefault(target, []).append((i, output))
    for i, targets in enumerate(plan.control_edges):
        for target in targets:
            sources.setdefault(target, []).append((i, -1))
    came: dict[int, int] = {start: -1}
    work = [start]
    last = start
    for node in work:
        for source, output in sources.get(node, ()):
            if source in came:
                continue
            came[source] = node
            if _cuts(plan, source, output, outcomes):
                return _trail(came, source)
            last = source
            work.append(source)
    return _trail(came, last)


def _cuts(plan: Plan, source: int, output: int, outcomes: dict[int, Any]) -> bool:
    taken = outcomes.get(source)
    if taken is None or output < 0:
        return False
    count = len(plan.nodes[source].outputs)
    chosen = int(taken) if 0 <= int(taken) < count else count - 1
    return chosen != output


def _trail(came: dict[int, int], node: int) -> list[int]:
    path = [node]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    return path[::-1]
