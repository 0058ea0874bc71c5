"""The pipeline: from a user's graph to a Plan. The only module that knows the order of the passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .base.devices import DeviceSpec
from .base.settings import DEFAULTS, Settings
from .ir.legality import check
from .ir.rewrite import Program, copy_program
from .lower.lowering import lower
from .optimize.accumulate import accumulate_products
from .optimize.batch import batch_products
from .optimize.blocks import read_in_blocks
from .optimize.fold import fold_constants
from .optimize.fuse import fuse_elementwise
from .optimize.hoist import hoist_constants
from .optimize.inputs import hoist_products
from .optimize.merge import merge_duplicates
from .optimize.narrow import narrow_products
from .optimize.release import release_saved
from .optimize.swapped import mark_swapped
from .optimize.unchanged import capture_unchanged
from .partition.cut import partition
from .partition.partitioned import Partitioned
from .place.placement import place
from .plan.build import build_plan
from .plan.plan import Plan

Pass = Callable[[Program, Settings], Program]
PASSES: tuple[tuple[str, Pass], ...] = (  # by the setting that turns each off, in this order
    ("fold", fold_constants),
    ("merge", lambda program, _: merge_duplicates(program)),
    ("hoist", lambda program, _: hoist_constants(capture_unchanged(program))),
    ("hoist_bytes", hoist_products),
    ("block_bytes", read_in_blocks),
    ("narrow", lambda program, _: narrow_products(program)),
    ("batch", lambda program, _: batch_products(program)),
    ("accumulate", lambda program, _: accumulate_products(program)),
    ("fuse", lambda program, _: fuse_elementwise(program)),
    ("release", lambda program, _: release_saved(program)),
)


def compile_plan(program: Program, settings: Settings = DEFAULTS) -> Plan:
    """Compile what a program's fetches and targets need.

    Parameters
    ----------
    program : Program
        Of the user's graph, which is not changed.
    settings : Settings, optional
        Which passes run, and how.

    Returns
    -------
    Plan

    Raises
    ------
    GraphError
        If a static check fails (rules 52 to 55).
    """
    return build_plan(lowered(program, settings))


def lowered(program: Program, settings: Settings = DEFAULTS) -> Program:
    """Return the program as primitives, the last form before a Plan."""
    return _legal(lower(mark_swapped(optimized(program, settings))), "lowered", settings)


def divided(
    program: Program, devices: Sequence[DeviceSpec], soft: bool = False, settings: Settings = DEFAULTS
) -> Partitioned:
    """Return a lowered program placed on devices and cut up for them.

    Parameters
    ----------
    program : Program
        As `lowered` gives it; used up.
    devices : sequence of DeviceSpec
        Their full names, the default one first.
    soft : bool, optional
        Place operations elsewhere if what they ask for is not there or contradicts itself.
    settings : Settings, optional
        Whether dead messages speak for each other, and whether the result is checked.

    Raises
    ------
    GraphError
        If there is no device for an operation, naming the constraints that contradict each other.
    """
    found = partition(program, place(program, devices, soft), settings.coalesce_dead_signals)
    for part in found.programs.values():
        _legal(part, "partitioned", settings)
    return found


def optimized(program: Program, settings: Settings = DEFAULTS) -> Program:
    """Return the program with all passes done that keep its regions."""
    program = _legal(pruned(program), "structured", settings)
    for setting, transform in PASSES:
        if getattr(settings, setting):
            program = _legal(transform(program, settings), "structured", settings)
    return program


def pruned(program: Program) -> Program:
    """Return the part of the graph that is needed, the first pass."""
    return copy_program(program)


def _legal(program: Program, stage: str, settings: Settings) -> Program:
    if settings.check_passes:
        check(program.graph, stage)
    return program
