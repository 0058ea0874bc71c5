"""Statistics of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from ...base.pages.tables import make_table
from ...base.wording import short_device
from ..devices.session_devices import DeviceMemory
from .latency import Latency

if TYPE_CHECKING:
    from ...ops.queues.accumulators.figures import AccumulatorStatistics
    from ...ops.queues.figures import QueueStatistics

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Statistics:
    """Snapshot of a session's counters.

    Attributes
    ----------
    steps_started, steps_running : int
        Steps started since the session was opened; steps running now.
    steps_finished, steps_failed, steps_cancelled, steps_timed_out : int
        Outcomes of ended steps; steps ended by the end of their session count as cancelled.
    steps_compiled : int
        Number of compilations of steps, for other fetches, other shapes or a changed graph.
    compile_seconds, waited_seconds : float
        Total time of compilations; total time that steps have waited for their places.
    cached_steps : int
        Compiled steps kept.
    orphaned : int
        Kernels that could not be interrupted and still finish in the background.
    steps_waiting, steps_refused : int
        Steps waiting for admission now; steps ended with Overloaded since the session was opened.
    latency : Latency
        Histogram with quantiles of the latencies of finished steps, including their waits; except partial runs.
    live_bytes, peak_bytes : int or None
        Bytes of the arrays on the session's device: now; the most so far, or since
        :meth:`Session.reset_peak_memory_stats`. These are results of kernels and values of variables; and, from outside
        and while in use, feeds, results of Python functions, and the constants of compiled steps. A view counts as its
        base, a fetched array not at all. None without a pool.
    cached_bytes : int or None
        Bytes of freed arrays kept for new arrays.
    devices : mapping of str to DeviceMemory
        Memory of each device, by its full name; the figures above are their sums.
    swapped_bytes : mapping of str to int
        Bytes of saved values in the tiers "host" and "disk" now; empty where nothing was swapped yet.
    figures : mapping of str to mapping of str to object
        Further statistics, by kind and name: of the session's resources ("queues"), and of the objects added by
        :meth:`Session.include_statistics` ("checkpoints").

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(1.0) + 1.0
    >>> with tg.SyncSession(graph) as session:
    ...     values = [session.run(y) for _ in range(3)]
    ...     statistics = session.statistics()
    >>> statistics.steps_started, statistics.cached_steps
    (3, 1)
    """

    steps_started: int
    steps_running: int
    cached_steps: int
    orphaned: int = 0
    steps_waiting: int = 0
    steps_refused: int = 0
    steps_finished: int = 0
    steps_failed: int = 0
    steps_cancelled: int = 0
    steps_timed_out: int = 0
    steps_compiled: int = 0
    compile_seconds: float = 0.0
    waited_seconds: float = 0.0
    latency: Latency = field(default_factory=Latency)
    live_bytes: int | None = None
    peak_bytes: int | None = None
    cached_bytes: int | None = None
    devices: Mapping[str, DeviceMemory] = field(default_factory=dict)
    swapped_bytes: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Return tables for a notebook: of the figures, of the devices, and of each other kind."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        figures = [[name, value] for name, value in plain.items() if value is None or isinstance(value, (int, float))]
        found = make_table("Statistics", ["figure", "value"], figures)
        found += _format_records("Devices", {short_device(name): memory for name, memory in self.devices.items()})
        found += make_table("Swapped bytes", ["tier", "bytes"], self.swapped_bytes.items())
        return found + "".join(_format_records(kind.capitalize(), records) for kind, records in self.figures.items())

    @property
    def queues(self) -> Mapping[str, QueueStatistics]:
        """Statistics of the queues used by steps, by shared name."""
        from ...ops.queues.operations import CONTAINER

        return self.figures.get(CONTAINER, {})

    @property
    def accumulators(self) -> Mapping[str, AccumulatorStatistics]:
        """Statistics of the conditional accumulators used by steps, by shared name."""
        from ...ops.queues.accumulators.operations import CONTAINER

        return self.figures.get(CONTAINER, {})

    @property
    def checkpoints(self) -> Mapping[str, Any]:
        """A CheckpointStatistics for each living Checkpointer that has saved or restored, by its directory."""
        return self.figures.get(CHECKPOINTS, {})


def _format_records(caption: str, records: Mapping[str, Any]) -> str:
    """Return a table of records of the same kind: a row for each name, a column for each figure."""
    # Records of one kind may differ in their fields: a table for each set of columns.
    by_columns: dict[tuple[str, ...], list[list[object]]] = {}
    for name, record in records.items():
        known = {f.name: getattr(record, f.name) for f in fields(record)} if is_dataclass(record) else {"value": record}
        by_columns.setdefault(tuple(known), []).append([name, *known.values()])
    return "".join(make_table(caption, ["name", *columns], rows) for columns, rows in by_columns.items())
