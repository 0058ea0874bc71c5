"""Reports of a session's steps: counts of loops, clusters and messages, as users read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....base.pages.tables import make_table, make_text
from ....base.wording import sentences, short_device
from ....swap.report import SwapReport


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
    called : tuple of str
        Operations whose Python kernels a native program calls in each iteration, for a few microseconds each.
    untraced : tuple of str
        For each operation in `called`, the reason why its kernel is called and not traced.
    traced : tuple of str
        Operations whose Python kernels a native program has traced, so that their inner loops are its steps.

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
    called: tuple[str, ...] = ()
    untraced: tuple[str, ...] = ()
    traced: tuple[str, ...] = ()

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
            calls = f", which calls {', '.join(self.called)}" if self.called else ""
            return f"{self.name}{place}: {self.iterations} iterations{runs} as a native program{calls}"
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
