"""What a graph's operations share by name, made before a step asks for it."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np

from ...ir.graph import Graph
from ...ir.traits import Effect
from .context import Resources, StepContext


class _NoStep(NamedTuple):
    """The context of a kernel that runs for no step."""

    step: StepContext
    operation: str
    frame_id: int = 0
    iteration: int = 0


def make_shared(graph: Graph, resources: Resources, names: Container[str]) -> None:
    """Make the resources of some names that a graph has handles of, where that does nothing else.

    So what is restored is held against what it is for. An async source is not made: it would begin to give elements.

    Parameters
    ----------
    graph : Graph
    resources : Resources
        Of a session.
    names : container of str

    Raises
    ------
    OpError
        If handles of one name disagree (rule 130).
    """
    step = StepContext(0, graph.seed, resources)
    for op in graph.root.walk():
        definition = op.definition
        only_makes = definition.outlives_step and definition.effects is Effect.READS
        if only_makes and op.attrs["shared_name"] in names:
            assert definition.kernel is not None
            definition.kernel(np, _NoStep(step, op.name), **op.own_attrs)
