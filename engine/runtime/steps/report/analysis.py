"""Analysis of a step's counts for its report: the cause that limits each loop, messages, and moves of saved values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ....compile.plan.plan import Node, Plan
from ....ir.operation import Origin
from ....kernels.core.table import Kind
from ....swap.report import SwapReport, not_swapped, swap_report
from .report import ClusterReport, LoopReport, Report, Traffic

if TYPE_CHECKING:
    from ..compiled_step import CompiledStep
    from ..counters import StepCounters

Variables = dict[str, dict[str, Origin]]  # by frame, then by the NextIteration's name
_ALWAYS = 0.9  # share of a loop's time from which a busy device, or a running chain of kernels, limits the loop


def fill_report(report: Report, step: CompiledStep, counters: StepCounters) -> None:
    """Fill an empty report with the counts of a step."""
    found = report_of(step, counters)
    for each in fields(Report):
        setattr(report, each.name, getattr(found, each.name))


def report_of(step: CompiledStep, counters: StepCounters) -> Report:
    """Return the report of the frames of a step, and of the messages between its devices."""
    variables = _loop_variables(step)
    several = len(step.device_plans) > 1
    # Frame 0 is the root, and no loop.
    loops = [
        _loop_report(plan, k, counts[k], variables, str(step.devices[i]) if several else "")
        for i, (plan, counts) in enumerate(counters.loops())
        for k in range(1, len(plan.frames))
        if counts[k]["runs"] or counts[k]["native_runs"]
    ]
    if counters.usages:
        loops = [_refine_by_times(loop, counters, variables.get(loop.name, {}).values()) for loop in loops]
    traffic, swaps = tuple(_traffic_by_pair(step, counters)), tuple(_swap_reports(step, counters))
    return Report(tuple(loops), traffic, swaps, tuple(_cluster_reports(counters)), step.not_clustered)


def _cluster_reports(counters: StepCounters) -> Iterator[ClusterReport]:
    """Yield the report of each cluster."""
    for program, runs, reason in counters.clusters():
        names = [each.computation.name for each in program.instructions if each.computation is not None]
        yield ClusterReport(program.name, tuple(names), runs, reason)


def _swap_reports(step: CompiledStep, counters: StepCounters) -> Iterator[SwapReport]:
    """Yield the swap report of each device, or the reason why saved values could not move there."""
    known = {counts.device for counts in counters.swaps}
    for each in step.device_plans:
        name = str(each.plan.device)
        # A step on a single device has a plan without a device name: any counts are of this device.
        if each.swaps and not (name in known if name else known):
            yield not_swapped(name or "the session's device", counters.unmoved)
    yield from map(swap_report, counters.swaps)


def _loop_report(plan: Plan, k: int, counts: dict[str, Any], variables: Variables, device: str) -> LoopReport:
    """Return the report of frame `k` from its counts; `device` is empty for a step on a single device."""
    frame = plan.frames[k]
    if counts["native_runs"]:
        # Some runs may have been on the step machine, if the program refused or gave up: all are counted.
        runs, starts = counts["runs"] + counts["native_runs"], counts["starts"] + counts["native_starts"]
        kernels = {name: counts[name] for name in ("called", "untraced", "traced")}
        window = frame.parallel_iterations
        return LoopReport(frame.name, runs, starts, 1.0, 1, window, "native", None, device, **kernels)
    # In the order of the plan, in which the frame counts its NextIterations, too.
    nexts = [n.name for n in plan.nodes if n.kind is Kind.NEXT_ITERATION and n.frame == k]
    known = variables.get(frame.name, {})
    variable = _slowest_variable(counts["last"], [known.get(name) for name in nexts])
    limit = _find_limit(counts, frame.parallel_iterations, variable)
    return LoopReport(
        frame.name,
        counts["runs"],
        counts["starts"],
        counts["alive"] / counts["starts"],
        counts["most"],
        frame.parallel_iterations,
        limit,
        variable if limit == "variable" else None,
        device,
        not_native=counts["not_native"] or _not_native(plan, k),
    )


def _not_native(plan: Plan, k: int) -> str | None:
    """Return the compiler's reason for running a loop on the step machine; None if unknown."""
    tests = (n.origin for n in plan.nodes if n.kind is Kind.LOOP_COND and n.frame == k)
    return next((origin.not_native for origin in tests if origin is not None), None)


def _refine_by_times(loop: LoopReport, counters: StepCounters, variables: Iterable[Origin]) -> LoopReport:
    """Refine the limit of a loop by the times of its kernels, on devices with simulated time."""
    uses = {
        plan.device: usage[k]
        for (plan, *_), usage in zip(counters.machines, counters.usages, strict=True)
        for k, frame in enumerate(plan.frames)
        if frame.name == loop.name and k in usage
    }
    if not any(each.ended > each.began for each in uses.values()):  # no time has passed
        return loop
    seconds = max(each.ended for each in uses.values()) - min(each.began for each in uses.values())
    busy = {d: sum(u.busy.values()) / (u.ended - u.began) for d, u in uses.items() if u.ended > u.began}
    loop = replace(loop, busy=busy.get(loop.device, 0.0))
    busiest = max(busy, key=lambda device: busy[device])
    if busy[busiest] >= _ALWAYS:
        return replace(loop, limited_by="device", variable=None, bottleneck=busiest)
    for each in variables:
        # The kernels between old and new value run in sequence, so the chain limits the loop if they fill the time.
        taken = sum(use.busy.get(name, 0.0) for use in uses.values() for name in each.carried or ())
        if taken >= _ALWAYS * seconds:
            return replace(loop, limited_by="variable", variable=each.variable)
    # Neither a device nor a chain explains the time: with more iterations than the window holds, the window does.
    if loop.limited_by != "memory" and loop.iterations > loop.runs * (loop.window + 1):
        return replace(loop, limited_by="window", variable=None)
    return loop


def _loop_variables(step: CompiledStep) -> Variables:
    """Return the loop variables of each frame, with the path of operations between old and new value as `carried`."""
    found: Variables = {}
    for node in step.plan.nodes:
        if node.kind is Kind.NEXT_ITERATION:
            found.setdefault(step.plan.frames[node.frame].name, {})[node.name] = _origin_of(node)
    return found


def _origin_of(node: Node) -> Origin:
    """Return the origin of a NextIteration; a hand-made NextIteration counts as carried from iteration to iteration."""
    return node.origin or Origin(node.name, "variable", 0, node.name, ())


def _traffic_by_pair(step: CompiledStep, counters: StepCounters) -> Iterator[Traffic]:
    """Yield the messages of each pair of devices, summed over all channels; none for the reference executor."""
    if counters.rendezvous is None:
        return
    pairs: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for channel, counts in zip(step.channels, counters.traffic(), strict=True):
        pairs.setdefault((str(channel.source), str(channel.destination)), []).append(counts)
    for (source, destination), each in pairs.items():
        messages, dead, size, waits = (sum(c[key] for c in each) for key in ("messages", "dead", "bytes", "late"))
        yield Traffic(source, destination, messages, dead, size, waits, max(counts["most"] for counts in each))


def _slowest_variable(last: Sequence[int], variables: Sequence[Origin | None]) -> str | None:
    """Return the name of the carried variable that most often ended last in its iteration."""
    carried = [(n, each.variable) for n, each in zip(last, variables) if each is not None and each.carried is not None]
    return max(carried)[1] if carried else None


def _find_limit(counts: dict[str, Any], window: int, variable: str | None) -> str:
    """Return the cause that limited a loop, by the counts of its frame; most certain causes come first."""
    starts, most, held_back, launches = (counts[key] for key in ("starts", "most", "held_back", "launches"))
    # The mean number of instances in flight at a launch, against half of the iterations that were alive at once.
    overlapping = counts["awaited"] > launches * max(1, (most - 1) / 2)
    # One block for each run says nothing: the first iteration of a run is alone in any case.
    if counts["blocked_on_memory"] > max(held_back, counts["runs"]):
        return "memory"
    # A window of 1 allows no overlap from which to judge.
    if held_back and (overlapping or window == 1):
        return "window"
    if variable is not None and not overlapping:
        return "variable"
    # + 1: the last iteration of a run evaluates the predicate only.
    if not held_back and starts <= counts["runs"] * (most + 1):
        return "nothing"
    if variable is not None:
        return "variable"
    # Fewer than one ready kernel for each start of an iteration: the cores were not the shortage.
    return "window" if held_back and counts["queued"] < starts else "cores"
