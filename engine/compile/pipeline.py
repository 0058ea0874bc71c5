"""The pipeline: from a user's graph to the StepPlan for executors, a row for each pass.

`PIPELINE` alone defines the order, together with the places of registered passes (`passes.py`). A row is skipped if
its setting is off or the target has no use for the pass. After each row the program is checked against the table of
legal operations at its stage (`engine/ir/verify.py`) if the setting `check_passes` is on, and printed if the setting
`dump` names the row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..base.collector import pause_collections
from ..base.errors import GraphError
from ..deadness.regions import loops_are_regular
from ..ir.loop_dependence import note_carried
from ..ir.own_kernels import HasOwnKernel
from ..ir.processes import require_here
from ..ir.program import Program
from ..ir.verify import check
from .devices import partition_step, place_step
from .fuse.epilogues import add_epilogues
from .fuse.forward_assignments import forward_assignments
from .fuse.groups import fuse_elementwise
from .fuse.pooled_masks import mask_before_spreading
from .loops.accumulate import accumulate_products
from .loops.fission import lift_products
from .loops.input_blocks import compute_in_blocks
from .loops.mark_swappable import mark_swapped, set_swap_memory
from .loops.merge_matmul import merge_products
from .loops.part_sums import add_parts
from .loops.release import release_saved
from .loops.slice_matmul import narrow_products
from .loops.split_matmul import split_products
from .loops.weight_gradients import batch_products
from .lower.lowering import lower
from .mark_fetched import mark_fetched
from .native.cluster import cluster
from .native.wrap import run_natively
from .native_targets import (
    has_clusters,
    has_programs,
    keeps_products,
    lifting_rules,
    may_lift,
    rules_of,
    rules_of_only_device,
)
from .order_effects import order_effects
from .partial_run import to_partial_run
from .partition import partitioned as _partitioned
from .partition.partitioned import Partitioned
from .passes import Pass, with_registered
from .simplify.broadcast_sums import drop_sums
from .simplify.cse import merge_duplicates
from .simplify.fold import fold_constants
from .simplify.hoist_invariants import hoist_invariants
from .simplify.loop_invariants import capture_unchanged
from .simplify.prune import prune, require_feeds
from .simplify.specialize import specialize
from .step_plan import StepPlan, plan_step
from .target import Target
from .transfers import insert_transfers

DEFAULT = Target()


def _make_structured_row(name: str, run: Callable[[Program], Program], switch: str | None = None) -> Pass:
    """Return the row of a pass on regions, independent of the target."""
    return Pass(name, lambda program, _: run(program), "structured", switch)


def _unless_own(
    name: str,
    run: Callable[[Program, HasOwnKernel], Program],
    switch: str,
    when: Callable[[Target], bool] | None = None,
) -> Pass:
    """Return the row of a pass that gives operations other kernels, except operations with registered kernels."""
    return Pass(name, lambda program, target: run(program, target.has_own_kernel), "structured", switch, when)


def _about_loops(name: str, run: Callable[[Program, Target], Program], switch: str = "") -> Pass:
    """Return the row of a pass on loops, with a switch of the pass's name or of another."""
    return Pass(name, run, "structured", switch or name, about_loops=True)


def _add_native_loops(program: Program, target: Target) -> Program:
    """Add native programs for loops, by the code generators of their devices."""
    return run_natively(program, target.settings.switches, rules_of(target))


def _split_products(program: Program, target: Target) -> Program:
    """Split products of which a part can leave its loop, by the sizes that switches allow without a memory limit."""
    switches = target.settings.switches
    return split_products(program, max(switches.hoist_bytes, switches.block_bytes // 2), keeps_products(target))


def _require_here(program: Program, target: Target) -> Program:
    """Return the program; GraphError if an operation asks for a device of another machine."""
    require_here(program.graph.root.walk(), [device.spec for device in target.devices])
    return program


PIPELINE: tuple[Pass, ...] = (
    # Copy the needed part of the user's graph into a program.
    Pass("partial_run", lambda p, _: to_partial_run(p), "structured", when=lambda target: target.partial_run),
    _make_structured_row("prune", prune),
    _make_structured_row("require_feeds", require_feeds),
    Pass("require_here", _require_here, "structured", when=lambda target: bool(target.devices)),
    # A partial run orders its effects itself, before its fetches become operations.
    Pass("order", lambda p, _: order_effects(p), "structured", when=lambda target: not target.partial_run),
    Pass("specialize", lambda p, t: specialize(p, t.shapes or ()), "structured", when=lambda t: t.shapes is not None),
    Pass("swap_memory", lambda p, t: set_swap_memory(p, t.swap), "structured", when=lambda t: t.swap is not None),
    # Compute less.
    Pass(
        "fold", lambda p, t: fold_constants(p, t.settings.switches.fold_bytes, t.has_own_kernel), "structured", "fold"
    ),
    _about_loops("merge", lambda p, _: merge_duplicates(p)),
    _about_loops("loop_invariants", lambda p, _: capture_unchanged(p)),
    _about_loops("hoist", lambda p, _: hoist_invariants(p)),
    # Loops: compute outside of iterations, or for many iterations at a time.
    _about_loops("merge_products", lambda p, _: merge_products(p)),
    # Splitting changes the bits of products, so it asks for no limit of the target; lifting changes none.
    Pass("split_products", _split_products, "structured", when=may_lift, about_loops=True),
    _about_loops("lift_products", lambda p, t: lift_products(p, t.hoist_bytes, lifting_rules(t)), "hoist_bytes"),
    _about_loops("block", lambda p, t: compute_in_blocks(p, t.block_bytes, lifting_rules(t)), "block_bytes"),
    _about_loops("narrow", lambda p, _: narrow_products(p)),
    _about_loops("batch", lambda p, t: batch_products(p, t.has_own_kernel)),
    # Gradients of slices and rows, before products are added to the same sums.
    _about_loops("add_parts", lambda p, t: add_parts(p, t.has_own_kernel), "accumulate"),
    _about_loops("accumulate", lambda p, t: accumulate_products(p, t.has_own_kernel)),
    _make_structured_row("note_carried", note_carried),
    # Fewer, larger operations.
    _make_structured_row("broadcast_sums", drop_sums, "broadcast_sums"),
    _make_structured_row("forward_assignments", forward_assignments, "forward_assignments"),
    # Before `fuse`: masks and epilogues look for single operations.
    _make_structured_row("pooled_masks", mask_before_spreading, "fuse"),
    _unless_own("epilogues", add_epilogues, "fuse", has_clusters),
    _unless_own("fuse", fuse_elementwise, "fuse"),
    # Saved values: how long they live, and whether they may leave the device.
    _make_structured_row("release", release_saved, "release"),
    _make_structured_row("mark_swappable", mark_swapped),
    _make_structured_row("mark_fetched", mark_fetched),
    # Native programs for loops, each on one device, and for other connected operations.
    Pass("straight", _add_native_loops, "structured", "straight", has_programs, about_loops=True),
    Pass(
        "cluster",
        lambda p, t: cluster(p, t.settings.switches, rules_of_only_device(t)),
        "structured",
        "cluster",
        has_clusters,
    ),
    # Primitives, on devices.
    Pass("lower", lambda p, _: lower(p), "lowered"),
    Pass("place", place_step, "lowered"),
    Pass("partition", partition_step, "partitioned"),
    Pass("transfers", insert_transfers, "partitioned", when=lambda t: any(d.backend for d in t.devices)),
    Pass("plan", plan_step, "planned"),
)


def compile_step(program: Program, target: Target = DEFAULT) -> StepPlan:
    """Compile the operations needed for a program's fetches and targets.

    Parameters
    ----------
    program : Program
        Of the user's graph, which stays unchanged.
    target : Target, optional
        By default one CPU with the default settings.

    Returns
    -------
    StepPlan

    Raises
    ------
    GraphError
        If a needed placeholder is not fed, a static check fails (rules 52 to 55), or there is no device
        for an operation.
    """
    result: StepPlan = compile_until("plan", program, target)
    return result


def compile_until(name: str, program: Program, target: Target = DEFAULT) -> Any:
    """Return the form of a program after a row of the pipeline, for texts and tests.

    Parameters
    ----------
    name : str
        Name of the last row to run.
    program : Program
        Of the user's graph, which stays unchanged.
    target : Target, optional

    Returns
    -------
    Program, Placed, Partitioned or StepPlan

    Raises
    ------
    GraphError
        If there is no such row, or as :func:`compile_step`.
    """
    # One list for the whole compilation: a registration meanwhile is for the next.
    rows = with_registered(PIPELINE)
    dumped = _dumped_rows(target.settings.switches.dump, rows)
    last = _index_of_row(name, rows)
    form: Any = program
    regular: bool | None = None  # not known yet
    with pause_collections():
        for row in rows[: last + 1]:
            # Found once, at the first row that asks; later rows rely on it.
            is_on = row.is_on(target)
            if is_on and row.about_loops:
                regular = loops_are_regular(form) if regular is None else regular
                is_on = regular
            if is_on:
                before, form = form, row.run(form, target)
                if target.settings.switches.check_passes:
                    _check_programs(form, row.stage)
                if row.name in dumped:
                    print(f"# after {row.name} ({row.stage})", _text_of_form(form), sep="\n", file=sys.stderr)
                _let_go(before, form, program)
    return form


def _let_go(before: Any, form: Any, program: Program) -> None:
    """Free a program replaced by the next form; the user's graph stays intact."""
    # Graph, operations and tensors refer to each other: without this they would wait for the garbage collector.
    if isinstance(form, Program) and before.graph is not form.graph and before.graph is not program.graph:
        before.graph.dismantle()


def _dumped_rows(dump: str, rows: Sequence[Pass]) -> set[str]:
    """Return the names of the rows selected by a setting ``dump``."""
    names = [name.strip() for name in dump.split(",") if name.strip()]
    if "all" in names:
        return {row.name for row in rows}
    return {rows[_index_of_row(name, rows)].name for name in names}


def _index_of_row(name: str, rows: Sequence[Pass]) -> int:
    for i, row in enumerate(rows):
        if row.name == name:
            return i
    raise GraphError("no such pass", wanted=", ".join(row.name for row in rows), got=name, hint="name one of these")


def _programs_of(form: Any) -> list[Program]:
    """Return the programs in a form of the step; none for a StepPlan."""
    if isinstance(form, Program):
        return [form]
    if isinstance(form, Partitioned):
        return list(form.programs.values())
    return [] if isinstance(form, StepPlan) else [form.program]


def _check_programs(form: object, stage: str) -> None:
    for program in _programs_of(form):
        check(program.graph, stage)


def _text_of_form(form: object) -> str:
    if isinstance(form, Partitioned):
        return _partitioned.to_text(form)
    if isinstance(form, StepPlan):
        return "\n".join(device.plan.to_text() for device in form.devices)
    from ..ir.text import to_text  # only for users and tests that read a stage

    return "\n".join(to_text(program.graph) for program in _programs_of(form))
