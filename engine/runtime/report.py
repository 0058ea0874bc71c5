"""What a session's last steps got out of the loops in them, and what kept them from more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.tags import Kind
from ..compile import optimized
from ..ir.carried import find_chains
from ..ir.operation import Operation
from ..ir.rewrite import Program
from ..partition.partitioned import Channel
from ..plan.plan import Plan
from .counted import Counted
from .step import CompiledStep

Variables = dict[str, tuple[str, bool]]


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
        ``parallel_iterations``.
    limited_by : {'nothing', 'variable', 'window', 'cores'}
        What kept more iterations from overlapping: nothing (all were in flight at once); a loop variable, whose new
        value needs its old one; the window, which was full while operations were awaited or nothing was ready; or
        the cores, since operations were ready and waited for their turn.
    variable : str or None
        The loop variable that iterations waited for, as the body's parameters name it.
    device : str
        Of a loop that several devices take part in, the one that this is about; each has iterations of its own.
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

    def __str__(self) -> str:
        limit = {
            "nothing": "all iterations were in flight at once",
            "variable": f"limited by loop variable {self.variable}",
            "window": f"limited by the window, parallel_iterations={self.window}",
            "cores": "limited by the cores",
        }[self.limited_by]
        runs = f" in {self.runs} runs" if self.runs != 1 else ""
        place = f" on {self.device}" if self.device else ""
        return (
            f"{self.name}{place}: {self.iterations} iterations{runs}, {self.mean_in_flight:.1f} in flight on average, "
            f"at most {self.max_in_flight} of {self.window}; {limit}"
        )


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
        return (
            f"{self.source} to {self.destination}: {self.messages} messages, {self.dead} of them dead, "
            f"{self.bytes} bytes; {self.waits} were waited for, at most {self.most_waiting} of an edge waited"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What the loops of a session's last step did, together with the steps like it that ran beside it.

    Attributes
    ----------
    loops : tuple of LoopReport
        Outer loops before the loops in them; those that ran.
    traffic : tuple of Traffic
        Between the devices of the last step alone.
    """

    loops: tuple[LoopReport, ...] = ()
    traffic: tuple[Traffic, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, [*self.loops, *self.traffic])) or "no loop ran"


def report_of(step: CompiledStep, counted: Counted, settings: Any) -> Report:
    """Explain what was counted in the frames of a step, and between its devices."""
    variables = _variables(step, settings)
    several = len(step.shares) > 1
    loops = [
        _loop_report(plan, k, counts[k], variables, str(step.devices[share]) if several else "")
        for share, (plan, counts) in enumerate(counted.loops())
        for k in range(1, len(plan.frames))
        if counts[k]["runs"]
    ]
    return Report(tuple(loops), tuple(_traffic(step.channels, counted.traffic())))


def _loop_report(plan: Plan, k: int, counts: dict[str, Any], variables: Variables, device: str) -> LoopReport:
    frame = plan.frames[k]
    nexts = [n.name for n in plan.nodes if n.kind is Kind.NEXT_ITERATION and n.frame == k]
    variable = _slowest(counts["last"], [variables.get(name, (name, False)) for name in nexts])
    limit = _limit(counts, frame.parallel_iterations, variable)
    return LoopReport(
        frame.name, counts["runs"], counts["starts"], counts["alive"] / counts["starts"], counts["most"],
        frame.parallel_iterations, limit, variable if limit == "variable" else None, device,
    )  # fmt: skip


def _variables(step: CompiledStep, settings: Any) -> Variables:
    """Return name, and whether it keeps iterations apart, of each loop variable, by its NextIteration."""
    feeds = [feed.tensor for feed in step.feeds]
    wanted = Program(step.graph, feeds, step.tensors, step.targets, step.watched)
    program = optimized(wanted, replace(settings, fuse=False))
    loops = {op.name: op for op in program.graph.root.walk() if op.type == "While"}
    found: Variables = {}
    for k, frame in enumerate(step.plan.frames):
        nexts = [n.name for n in step.plan.nodes if n.kind is Kind.NEXT_ITERATION and n.frame == k]
        found.update(zip(nexts, _named(nexts, loops.get(frame.name)), strict=False))
    return found


def _named(nexts: list[str], op: Operation | None) -> list[tuple[str, bool]]:
    """Return name, and whether it keeps iterations apart, of each loop variable in the order of the plan."""
    if op is None:
        return [(name, True) for name in nexts]
    chained = {chain.variable for chain in find_chains(*op.regions)}
    return [(p.op.attrs.get("label", p.op.name), i in chained) for i, p in enumerate(op.regions[1].params)]


def _traffic(channels: Sequence[Channel], counted: Sequence[Mapping[str, int]]) -> Iterator[Traffic]:
    """Yield what went between each two devices, over all channels."""
    pairs: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for channel, counts in zip(channels, counted, strict=True):
        pairs.setdefault((str(channel.source), str(channel.destination)), []).append(counts)
    for (source, destination), each in pairs.items():
        messages, dead, size, waits = (sum(c[key] for c in each) for key in ("messages", "dead", "bytes", "late"))
        yield Traffic(source, destination, messages, dead, size, waits, max(counts["most"] for counts in each))


def _slowest(last: Sequence[int], variables: Sequence[tuple[str, bool]]) -> str | None:
    """Return the name of the chained variable that most often was its iteration's last."""
    chained = [(count, name) for count, (name, apart) in zip(last, variables) if apart]
    return max(chained)[1] if chained else None


def _limit(counts: dict[str, Any], window: int, variable: str | None) -> str:
    starts, most, held_back, launches = (counts[key] for key in ("starts", "most", "held_back", "launches"))
    overlapping = counts["awaited"] > launches * max(1, (most - 1) / 2)
    if held_back and (overlapping or window == 1):
        return "window"
    if variable is not None and not overlapping:
        return "variable"
    if not held_back and starts <= counts["runs"] * (most + 1):  # the last iteration is a predicate only
        return "nothing"
    if variable is not None:
        return "variable"
    return "window" if held_back and counts["queued"] < starts else "cores"
