"""The pipeline: from a user's graph to a Plan. The only module that knows the order of the passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from .optimize.hoist import hoist_constants
from .optimize.inputs import hoist_products
from .optimize.merge import merge_duplicates
from .optimize.narrow import narrow_products
from .plan.build import build_plan
from .plan.plan import Plan

Pass = Callable[[Program, Settings], Program]
PASSES: tuple[tuple[str, Pass], ...] = (  # by the setting that turns each off, in this order
    ("fold", fold_constants),
    ("merge", lambda program, _: merge_duplicates(program)),
    ("hoist", lambda program, _: hoist_constants(program)),
    ("hoist_bytes", hoist_products),
    ("narrow", lambda program, _: narrow_products(program)),
    ("batch", lambda program, _: batch_products(program)),
    ("fuse", lambda program, _: fuse_elementwise(program)),
)


def compile_plan(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    settings: Settings = DEFAULTS,
    watched: Sequence[Tensor] = (),
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
    watched : sequence of Tensor
        Tensors whose values are shown as they are computed, where their branch or loop is needed.

    Returns
    -------
    Plan
    """
    return build_plan(lowered(graph, feeds, fetches, targets, settings, watched))


def pruned(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    watched: Sequence[Tensor] = (),
) -> Program:
    """Return the part of the graph that is needed, the first pass."""
    return copy_program(Program(graph, list(feeds), list(fetches), list(targets)), watched=watched)


def lowered(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    settings: Settings = DEFAULTS,
    watched: Sequence[Tensor] = (),
) -> Program:
    """Return the program as primitives, the last form before a Plan."""
    return _legal(lower(optimized(graph, feeds, fetches, targets, settings, watched)), "lowered", settings)


def optimized(
    graph: Graph,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    targets: Sequence[Operation] = (),
    settings: Settings = DEFAULTS,
    watched: Sequence[Tensor] = (),
) -> Program:
    """Return the program with all passes done that keep its regions."""
    program = _legal(pruned(graph, feeds, fetches, targets, watched), "structured", settings)
    for setting, transform in PASSES:
        if getattr(settings, setting):
            program = _legal(transform(program, settings), "structured", settings)
    return program


def _legal(program: Program, stage: str, settings: Settings) -> Program:
    if settings.check_passes:
        check(program.graph, stage)
    return program
