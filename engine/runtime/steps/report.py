"""What a session's last steps got out of the loops in them, and what kept them from more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...base.pages.tables import make_table, make_text
from ...base.wording import sentences, short_device
from ...compile.plan.plan import Node, Plan
from ...ir.operation import Origin
from ...kernels.core.table import Kind
from ...swap.report import SwapReport, not_swapped, swap_report
from .compiled_step import CompiledStep
from .counters import StepCounters

Variables = dict[str, dict[str, Origin]]  # by frame, then by the NextIteration's name
_ALWAYS = 0.9  # share of a loop's time in which a device is busy, or a chain of kernels runs, that limits the loop


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What one loop did.

    Attributes
    ----------
    name : str
        Of the While operation, or the frame of a loop made by hand.
    runs : int
        How often the loop was entered.
    iterations : int
        Started in all runs; each run's last one evaluates the predicate only.
    mean_in_flight : float
        Iterations unfinished when one starts, itself included, on average.
    max_in_flight : int
        The most at any time.
    window : int
        ``parallel_iterations``; the most that "auto" stands for.
    limited_by : {'nothing', 'variable', 'window', 'memory', 'cores', 'device', 'native'}
        What kept more iterations from overlapping: nothing (all were in flight at once); a loop variable, whose new
        value needs its old one; the window, which was full while operations were awaited or nothing was ready; memory,
        which had no room for more; the cores, since operations were ready and waited for their turn; or a device with
        a time of its own, which was busy almost all the time. A native program does one iteration after the other.
    variable : str or None
        The loop variable that iterations waited for, as the body's parameters name it.
    device : str
        Of a loop that several devices take part in, the one that this is about; each has iterations of its own.
    busy : float or None
        On a device with a time of its own, the share of the time from its first kernel of the loop to its last in which
        it had one.
    bottleneck : str or None
        The device that was busy almost all the time.
    not_native : str or None
        Why the loop did not run as a native program: an operation, and what is the matter with it.

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
        """What limited it, in words."""
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
    """What one cluster did: connected operations outside of native loops that are one native program.

    Attributes
    ----------
    name : str
        Made of that of its last operation.
    operations : tuple of str
        Those that it computes.
    runs : int
        How often the program ran.
    not_native : str or None
        Why the step machine ran the operations instead, when it last did.

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
    """What went from one device to another in a session's last step.

    Attributes
    ----------
    source, destination : str
        Full names of the devices.
    messages : int
        Taken, dead ones and empty ones included.
    dead : int
        That only said that a value is dead.
    bytes : int
        Of the values.
    waits : int
        Messages that the receiver had to wait for; the others waited for it.
    most_waiting : int
        Largest number of messages of one edge that waited at once; a window of iterations at most.
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
    """What the loops of a session's last step did, together with the steps like it that ran beside it; or of one step.

    Give an empty one to a step, ``await session.run(fetches, report=report)``: it is filled when that ends, however it
    ends, with what this step did alone.

    Attributes
    ----------
    loops : tuple of LoopReport
        Outer loops before the loops in them; those that ran.
    traffic : tuple of Traffic
        Between the devices of the last step alone.
    swap : tuple of SwapReport
        What saved values did on each device, in the last step alone, if any of its loops may swap them.
    clusters : tuple of ClusterReport
        What else than loops are native programs.
    not_clustered : mapping of str to tuple of str
        By reason, the operations that are in none.

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
        """Return what a notebook shows: a table of loops, of messages, of clusters, and sentences of the rest."""
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


def fill(report: Report, step: CompiledStep, counters: StepCounters) -> None:
    """Let a report say what was counted in a step."""
    found = report_of(step, counters)
    for each in fields(Report):
        setattr(report, each.name, getattr(found, each.name))


def report_of(step: CompiledStep, counters: StepCounters) -> Report:
    """Explain what was counted in the frames of a step, and between its devices."""
    variables = _variables(step)
    several = len(step.device_plans) > 1
    loops = [
        _loop_report(plan, k, counts[k], variables, str(step.devices[i]) if several else "")
        for i, (plan, counts) in enumerate(counters.loops())
        for k in range(1, len(plan.frames))
        if counts[k]["runs"] or counts[k]["native_runs"]
    ]
    if counters.usages:
        loops = [_timed(loop, counters, variables.get(loop.name, {}).values()) for loop in loops]
    traffic, swaps = tuple(_traffic(step, counters)), tuple(_swaps(step, counters))
    return Report(tuple(loops), traffic, swaps, tuple(_clusters(counters)), step.not_clustered)


def _clusters(counters: StepCounters) -> Iterator[ClusterReport]:
    """Yield what each cluster did."""
    for program, runs, reason in counters.clusters():
        names = [each.computation.name for each in program.instructions if each.computation is not None]
        yield ClusterReport(program.name, tuple(names), runs, reason)


def _swaps(step: CompiledStep, counters: StepCounters) -> Iterator[SwapReport]:
    """Yield what saved values did on each device, or why they could not do anything."""
    known = {counts.device for counts in counters.swaps}
    for each in step.device_plans:
        name = str(each.plan.device)
        if each.swaps and not (name in known if name else known):
            yield not_swapped(name or "the session's device", counters.unmoved)
    yield from map(swap_report, counters.swaps)


def _loop_report(plan: Plan, k: int, counts: dict[str, Any], variables: Variables, device: str) -> LoopReport:
    frame = plan.frames[k]
    if counts["native_runs"]:
        runs, starts = counts["runs"] + counts["native_runs"], counts["starts"] + counts["native_starts"]
        return LoopReport(frame.name, runs, starts, 1.0, 1, frame.parallel_iterations, "native", None, device)
    nexts = [n.name for n in plan.nodes if n.kind is Kind.NEXT_ITERATION and n.frame == k]
    known = variables.get(frame.name, {})
    variable = _slowest(counts["last"], [known.get(name) for name in nexts])
    limit = _limit(counts, frame.parallel_iterations, variable)
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
    """Return what kept a loop from being a native program when it was compiled."""
    tests = (n.origin for n in plan.nodes if n.kind is Kind.LOOP_COND and n.frame == k)
    return next((origin.not_native for origin in tests if origin is not None), None)


def _timed(loop: LoopReport, counters: StepCounters, variables: Iterable[Origin]) -> LoopReport:
    """Say what limits a loop on devices with a time of their own, where the time of its kernels tells."""
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
        taken = sum(use.busy.get(name, 0.0) for use in uses.values() for name in each.carried or ())
        if taken >= _ALWAYS * seconds:
            return replace(loop, limited_by="variable", variable=each.variable)
    if loop.limited_by != "memory" and loop.iterations > loop.runs * (loop.window + 1):
        return replace(loop, limited_by="window", variable=None)
    return loop


def _variables(step: CompiledStep) -> Variables:
    """Return the loop variables of each frame; what is carried is the path of the operations it waits for."""
    found: Variables = {}
    for node in step.plan.nodes:
        if node.kind is Kind.NEXT_ITERATION:
            found.setdefault(step.plan.frames[node.frame].name, {})[node.name] = _variable(node)
    return found


def _variable(node: Node) -> Origin:
    """Return where a NextIteration comes from; one made by hand keeps iterations apart."""
    return node.origin or Origin(node.name, "variable", 0, node.name, ())


def _traffic(step: CompiledStep, counters: StepCounters) -> Iterator[Traffic]:
    """Yield what went between each two devices, over all channels; the reference executor sends nothing."""
    if counters.rendezvous is None:
        return
    pairs: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for channel, counts in zip(step.channels, counters.traffic(), strict=True):
        pairs.setdefault((str(channel.source), str(channel.destination)), []).append(counts)
    for (source, destination), each in pairs.items():
        messages, dead, size, waits = (sum(c[key] for c in each) for key in ("messages", "dead", "bytes", "late"))
        yield Traffic(source, destination, messages, dead, size, waits, max(counts["most"] for counts in each))


def _slowest(last: Sequence[int], variables: Sequence[Origin | None]) -> str | None:
    """Return the name of the carried variable that most often was its iteration's last."""
    carried = [(n, each.variable) for n, each in zip(last, variables) if each is not None and each.carried is not None]
    return max(carried)[1] if carried else None


def _limit(counts: dict[str, Any], window: int, variable: str | None) -> str:
    starts, most, held_back, launches = (counts[key] for key in ("starts", "most", "held_back", "launches"))
    overlapping = counts["awaited"] > launches * max(1, (most - 1) / 2)
    if counts["blocked_on_memory"] > max(
        held_back, counts["runs"]
    ):  # the first iteration of a run is alone in any case
        return "memory"
    if held_back and (overlapping or window == 1):
        return "window"
    if variable is not None and not overlapping:
        return "variable"
    if not held_back and starts <= counts["runs"] * (most + 1):  # the last iteration is a predicate only
        return "nothing"
    if variable is not None:
        return "variable"
    return "window" if held_back and counts["queued"] < starts else "cores"
