"""Queues used by steps, and feeds awaited by partial runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...base.tags import ROOT_PATH, instance_name
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.program import Program, copy_program
from ...ir.rules.placing import OutlivesStep
from ...ir.traits import Effect
from .compiled_step import CompiledStep
from .request import make_request


class Uses(NamedTuple):
    """The queues used by a step.

    Attributes
    ----------
    takes, puts : frozenset of str
        Shared names of the queues in which the step waits for elements, or for room.
    """

    takes: frozenset[str]
    puts: frozenset[str]


def uses_of(graph: Graph, fetches: Any) -> Uses:
    """Return the resources that fetches take from or put into, if they outlive steps and are filled by steps."""
    request = make_request(graph, fetches)
    # The copy has only the operations needed by the fetches; other operations of the graph never wait in this step.
    program = copy_program(Program(graph, [], request.tensors, request.targets))
    waiting = [
        op
        for op in program.graph.root.walk()
        if Effect.WAITS in op.definition.effects and op.inputs and _is_fed_by_steps(op.inputs[0].op)
    ]
    return Uses(
        frozenset(_name_of(op) for op in waiting if op.outputs),
        frozenset(_name_of(op) for op in waiting if not op.outputs),
    )


def _is_fed_by_steps(handle: Operation) -> bool:
    kept = handle.rule(OutlivesStep)
    return kept is not None and not kept.from_outside


def _name_of(op: Operation) -> str:
    handle = op.inputs[0].op
    return str(handle.attrs.get("shared_name", handle.name))


def serve_each_other(one: CompiledStep, other: CompiledStep) -> bool:
    """Return True if either step puts into a queue that the other step takes from."""
    first, second = (uses_of(step.graph, [*step.tensors, *step.targets]) for step in (one, other))
    return bool(first.puts & second.takes or first.takes & second.puts)


def instances_of_feeds(step: CompiledStep) -> set[str]:
    """Return the names of the instances in which a partial run waits for its feeds."""
    return {instance_name(node.name, ROOT_PATH, 0) for node in step.plan.nodes if node.type == "PartialFeed"}
