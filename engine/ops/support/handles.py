"""Creation of resources shared by name in a graph, before a step uses them."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np

from ...ir.graph import Graph
from ...ir.rules.placing import OutlivesStep
from ...ir.traits import Effect
from .context import Resources, StepContext


class _NoStep(NamedTuple):
    """Context of a kernel that runs outside a step."""

    step: StepContext
    operation: str
    frame_id: int = 0
    iteration: int = 0


def make_shared(graph: Graph, resources: Resources, names: Container[str]) -> None:
    """Make the resources of these names for which a graph has handles, where making has no other effect.

    So a restored state is checked against the graph's description. Async sources, which would begin to produce
    elements, are not made.

    Parameters
    ----------
    graph : Graph
    resources : Resources
        Resources of a session.
    names : container of str

    Raises
    ------
    OpError
        If handles of one name disagree (rule 130).
    """
    step = StepContext(0, graph.seed, resources)
    for op in graph.root.walk():
        definition = op.definition
        # Handles with further effects, as of async sources, would start something here.
        only_makes = definition.has(OutlivesStep) and definition.effects is Effect.READS
        if only_makes and op.attrs["shared_name"] in names:
            assert definition.kernel is not None
            definition.kernel(np, _NoStep(step, op.name), **op.own_attrs)
