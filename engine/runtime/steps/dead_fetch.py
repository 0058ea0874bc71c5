"""Explanations of dead fetches: the Switch, and its predicate, that sent the value elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.errors import DeadFetchError
from ...compile.liveness import liveness
from ...compile.plan.plan import Node, Plan
from ...kernels.core.table import Kind

if TYPE_CHECKING:
    from .compiled_step import CompiledStep


def explain_dead_fetch(step: CompiledStep, k: int, outcomes: dict[int, Any]) -> DeadFetchError:
    """Return the error for fetch `k`, naming the Switch that left its value dead and the path from there.

    Parameters
    ----------
    step : CompiledStep
    k : int
        Index of the fetch.
    outcomes : dict
        Predicate of every Switch that fired in the root frame, by the Switch's index in the plan.
    """
    plan, tensor = step.plan, step.tensors[k]
    path = _path_to_switch(plan, _fetch_node(plan, k), outcomes)
    return DeadFetchError(
        f"the fetched value of {tensor.name} is dead: it was never computed",
        wanted="a value that is computed whatever the predicates are",
        got=f"one that is alive if {liveness(tensor)}; {_explain_death(plan, path[-1], outcomes)}; "
        f"path: {' <- '.join(plan.nodes[i].name for i in path[1:])}",
        operation=tensor.op,
        hint="merge both sides, as cond does, and fetch the result",
    )


def _fetch_node(plan: Plan, k: int) -> int:
    return next(i for i, n in enumerate(plan.nodes) if k == (n.index if n.kind is Kind.FETCH else _part_key(n)))


def _part_key(node: Node) -> Any:
    return node.attrs["key"] if node.type == "PartialFetch" else None


def _explain_death(plan: Plan, i: int, outcomes: dict[int, Any]) -> str:
    """Return why the value is dead, in words: the predicate of node `i`, or a loop or branch that did not run."""
    node, taken = plan.nodes[i], outcomes.get(i)
    if taken is None:
        return "a value that comes from a loop or branch that did not run"
    reason = f"a value cut off by the Switch {node.name}, whose predicate was {taken}"
    return reason if node.source is None else f"{reason}, built at {node.source}"


def _path_to_switch(plan: Plan, start: int, outcomes: dict[int, Any]) -> list[int]:
    """Return the path back from a dead node to a live Switch that sent its data the other way, the Switch first."""
    # Breadth first: of several such Switches the nearest explains most.
    sources = _inputs_by_node(plan)
    came: dict[int, int] = {start: -1}
    work = [start]
    for node in work:
        for source, output in sources.get(node, ()):
            if source in came:
                continue
            came[source] = node
            if _cuts_off(plan, source, output, outcomes):
                return _trace_back(came, source)
            work.append(source)
    return _trace_back(came, work[-1])


def _inputs_by_node(plan: Plan) -> dict[int, list[tuple[int, int]]]:
    """Return the inputs of each node as pairs (node, output), or (node, -1) for a control edge."""
    sources: dict[int, list[tuple[int, int]]] = {}
    for i, outputs in enumerate(plan.data_edges):
        for output, edges in enumerate(outputs):
            for target, _ in edges:
                sources.setdefault(target, []).append((i, output))
    for i, targets in enumerate(plan.control_edges):
        for target in targets:
            sources.setdefault(target, []).append((i, -1))
    return sources


def _cuts_off(plan: Plan, source: int, output: int, outcomes: dict[int, Any]) -> bool:
    """Return True if a Switch was live and sent its data to another output."""
    taken = outcomes.get(source)
    if taken is None or output < 0:
        return False
    count = len(plan.nodes[source].outputs)
    # The executor sends the data of a SwitchN to its last output if the index is out of range.
    chosen = int(taken) if 0 <= int(taken) < count else count - 1
    return chosen != output


def _trace_back(came: dict[int, int], node: int) -> list[int]:
    path = [node]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    return path[::-1]
