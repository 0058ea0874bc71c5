"""The pipeline: from a user's graph to a Plan. The only module that knows the order of the passes."""

from __future__ import annotations

from collections.abc import Sequence

from .base.settings import DEFAULTS, Settings
from .ir.graph import Graph
from .ir.legality import check
from .ir.operation import Operation
from .ir.rewrite import Program, copy_program
from .ir.tensor import Tensor
from .lower.lowering import lower
from .optimize.batch import batch_products
from .optimize.fold import fold_constants
from .optimize.fuse import fuse_elementwise
from .optimize.merge import merge_duplicates
from .plan.build import build_plan
from .plan.plan import Plan


def compile_plan(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    settings: Settings = DEFAULTS,
) -> Plan:
    """Compile what `fetches` and `targets` need, with values given for `feeds`.

    Parameters
    ----------
    graph : Graph
        Not changed.
    feeds : sequence of Tensor
        Tensors whose values are given; what makes them is left out (rule 60).
    fetches : sequence of Tensor
    targets : sequence of Operation
        Operations to run for their effect.

    Returns
    -------
    Plan
    """
    return build_plan(lowered(graph, feeds, fetches, targets, settings))


def pruned(
    graph: Graph, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation] = ()
) -> Program:
    """Return the part of the graph that is needed, the first pass."""
    return copy_program(Program(graph, list(feeds), list(fetches), list(targets)))


def lowered(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    settings: Settings = DEFAULTS,
) -> Program:
    """Return the program as primitives, the last form before a Plan."""
    return _legal(lower(optimized(graph, feeds, fetches, targets, settings)), "lowered", settings)


def optimized(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    settings: Settings = DEFAULTS,
) -> Program:
    """Return the program with all passes done that keep its regions."""
    program = _legal(pruned(graph, feeds, fetches, targets), "structured", settings)
    if settings.fold:
        program = _legal(fold_constants(program, settings), "structured", settings)
    if settings.merge:
        program = _legal(merge_duplicates(program), "structured", settings)
    if settings.batch:
        program = _legal(batch_products(program), "structured", settings)
    if settings.fuse:
        program = _legal(fuse_elementwise(program), "structured", settings)
    return program


def _legal(program: Program, stage: str, settings: Settings) -> Program:
    if settings.check_passes:
        check(program.graph, stage)
    return program
