"""Reports of loops, clusters and messages in a session's last steps, and of the causes that limit loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ....base.pages.tables import make_table, make_text
from ....base.wording import sentences, short_device
from ....compile.plan.plan import Node, Plan
from ....ir.operation import Origin
from ....kernels.core.table import Kind
from ....swap.report import SwapReport, not_swapped, swap_report

if TYPE_CHECKING:
    from ..compiled_step import CompiledStep
    from ..counters import StepCounters

Variables = dict[str, dict[str, Origin]]  # by frame, then by the NextIteration's name
_ALWAYS = 0.9  # share of a loop's time from which a busy device, or a running chain of kernels, limits the loop


@dataclass(frozen=True, slots=True)
class LoopReport:
    """Counts of a loop, and the cause of a limit to its overlapping iterations.

    Attributes
    ----------
    name : str
        Name of the While operation, or frame of a loop made by hand.
    runs : int
        Number of times the loop was entered.
    iterations : int
        Iterations started in all runs; the last iteration of each run evaluates the predicate only.
    mean_in_flight : float
        Average number of unfinished iterations when an iteration starts, including the new iteration.
    max_in_flight : int
        Largest number of unfinished iterations at any time.
    window : int
        ``parallel_iterations``; the largest window for "auto".
    limited_by : {'nothing', 'variable', 'window', 'memory', 'cores', 'device', 'native'}
        Cause that kept more iterations from overlapping: nothing (all were in flight at once); a loop variable, whose
        new value needs its old value; the window, which was full while operations were awaited or nothing was ready;
        memory, which had no room for more; the cores, because ready operations waited for their turn; or a device with
        simulated time, which was busy almost all the time. A native program runs its iterations in sequence.
    variable : str or None
        The loop variable that iterations waited for, named as the parameter of the body.
    device : str
        The device of these counts, if several devices take part in the loop; each device counts its own iterations.
    busy : float or None
        Share of the time between the first and the last kernel of the loop in which a device with simulated time
        ran kernels of the loop.
    bottleneck : str or None
        The device that was busy almost all the time.
    not_native : str or None
        Reason why the loop did not run as a native program: an operation and its obstacle.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [1.0], name="double")
    >>> with tg.SyncSession(graph) as session:
    ...     value = session.run(y)
    ...     (loop,) = session.report().loops
    >>> loop.iterations, loop.limited_by, loop.variable
    (8, 'native', None)
    """

    name: str
    runs: int
    iterations: int
    mean_in_flight: float
    max_in_flight: int
    window: int
    limited_by: str
    variable: str | None = None
    device: str = ""
    busy: float | None = None
    bottleneck: str | None = None
    not_native: str | None = None

    @property
    def limiter(self) -> str:
        """Description of `limited_by`, with the name of the variable, window or device."""
        return {
            "nothing": "nothing",
            "variable": f"loop variable {self.variable}",
            "window": f"the window, parallel_iterations={self.window}",
            "memory": "memory",
            "cores": "the cores",
            "device": short_device(self.bottleneck or "the device"),
            "native": "one iteration after the other",
        }[self.limited_by]

    def __str__(self) -> str:
        limit = f"limited by {self.limiter}"
        if self.limited_by == "nothing":
            limit = "all iterations were in flight at once"
        busy = "" if self.busy is None else f"; busy {self.busy:.0%} of the time"
        runs = f" in {self.runs} runs" if self.runs != 1 else ""
        place = f" on {short_device(self.device)}" if self.device else ""
        if self.limited_by == "native":
            return f"{self.name}{place}: {self.iterations} iterations{runs} as a native program"
        reason = f"; no native program: {self.not_native}" if self.not_native else ""
        return (
            f"{self.name}{place}: {self.iterations} iterations{runs}, {self.mean_in_flight:.1f} in flight on average, "
            f"at most {self.max_in_flight} of {self.window}; {limit}{busy}{reason}"
        )


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """Counts of a cluster: connected operations outside of native loops, compiled to a single native program.

    Attributes
    ----------
    name : str
        Name derived from the last operation of the cluster.
    operations : tuple of str
        Names of the operations computed by the program.
    runs : int
        Number of runs of the program.
    not_native : str or None
        Reason for the latest run in which the step machine ran the operations instead.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = x = tg.placeholder("float32", [2])
    ...     for _ in range(8):
    ...         y = tg.reduce_sum(y) * x
    >>> with tg.SyncSession(graph) as session:
    ...     value = session.run(y, {x: [0.5, 0.25]})
    ...     (cluster,) = session.report().clusters
    >>> len(cluster.operations), cluster.runs
    (16, 1)
    """

    name: str
    operations: tuple[str, ...]
    runs: int
    not_native: str | None = None

    def __str__(self) -> str:
        reason = f"; the last time on the step machine: {self.not_native}" if self.not_native else ""
        return f"{self.name}: {len(self.operations)} operations as a native program, {self.runs} times{reason}"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages sent between two devices in a session's last step.

    Attributes
    ----------
    source, destination : str
        Full names of the devices.
    messages : int
        Messages received, including dead and empty messages.
    dead : int
        Messages that carried deadness and no value.
    bytes : int
        Total size of the values.
    waits : int
        Messages awaited by the receiver; the other messages waited for the receiver.
    most_waiting : int
        Largest number of messages of a single edge that waited at once; at most a window of iterations.
    """

    source: str
    destination: str
    messages: int
    dead: int
    bytes: int
    waits: int
    most_waiting: int

    def __str__(self) -> str:
        source, destination = short_device(self.source), short_device(self.destination)
        return (
            f"{source} to {destination}: {self.messages} messages, {self.dead} of them dead, "
            f"{self.bytes} bytes; {self.waits} were waited for, at most {self.most_waiting} of an edge waited"
        )


@dataclass(slots=True)
class Report:
    """Counts of the loops, clusters and messages of a session's last step, including concurrent runs of the same step.

    Pass an empty report to a step, ``await session.run(fetches, report=report)``, to fill the report with the counts of
    this step alone when the step has ended, also by an error.

    Attributes
    ----------
    loops : tuple of LoopReport
        Loops that ran, outer loops before the loops in them.
    traffic : tuple of Traffic
        Messages between the devices of the last step alone.
    swap : tuple of SwapReport
        Moves of saved values on each device, in the last step alone, if any of its loops may swap them.
    clusters : tuple of ClusterReport
        Native programs outside of loops.
    not_clustered : mapping of str to tuple of str
        Operations outside of all native programs, by reason.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [1.0], name="double")
    >>> with tg.SyncSession(graph) as session:
    ...     value = session.run(y)
    ...     print(session.report())
    double: 8 iterations as a native program
    """

    loops: tuple[LoopReport, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    swap: tuple[SwapReport, ...] = ()
    clusters: tuple[ClusterReport, ...] = ()
    not_clustered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Return tables of loops, messages and clusters for a notebook, and sentences of the rest."""
        loops = make_table(
            "Loops",
            [
                "loop",
                "device",
                "runs",
                "iterations",
                "in flight",
                "at most",
                "window",
                "limited by",
                "busy",
                "not native",
            ],
            [
                [
                    *(loop.name, short_device(loop.device), loop.runs, loop.iterations, loop.mean_in_flight),
                    *(loop.max_in_flight, loop.window, loop.limiter),
                    *(None if loop.busy is None else f"{loop.busy:.0%}", loop.not_native),
                ]
                for loop in self.loops
            ],
        )
        traffic = make_table(
            "Messages",
            ["from", "to", "messages", "dead", "bytes", "waited for"],
            [
                [
                    short_device(each.source),
                    short_device(each.destination),
                    each.messages,
                    each.dead,
                    each.bytes,
                    each.waits,
                ]
                for each in self.traffic
            ],
        )
        clusters = make_table(
            "Clusters",
            ["cluster", "operations", "runs", "last time on the step machine"],
            [[each.name, len(each.operations), each.runs, each.not_native] for each in self.clusters],
        )
        rest = [*map(str, self.swap), *(f"not in a cluster: {each}" for each in sentences(self.not_clustered))]
        found = loops + traffic + clusters + "".join(map(make_text, rest))
        return found if self.loops else make_text("no loop ran") + found

    def __str__(self) -> str:
        lines = list(map(str, [*self.loops, *self.traffic, *self.swap])) or ["no loop ran"]
        lines += map(str, self.clusters)
        return "\n".join([*lines, *(f"not in a cluster: {each}" for each in sentences(self.not_clustered))])


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
        return LoopReport(frame.name, runs, starts, 1.0, 1, frame.parallel_iterations, "native", None, device)
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
