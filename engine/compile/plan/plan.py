"""The Plan: a lowered graph frozen into dense tables, a plan for each device; both executors run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.settings import AUTO
from ...base.source_lines import Source
from ...ir.operation import Origin
from ...kernels.core.table import Kind


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of the lowered graph.

    Attributes
    ----------
    name, type, source, origin
        As in the user's graph (or derived from it).
    kind : Kind
        Kind of the executor's work.
    frame : int
        Index of the frame in which its inputs arrive.
    num_inputs, num_controls : int
        Numbers of data and control edges into an instance.
    outputs : tuple of numpy.dtype or None
        Element type of each output; None for handles and series.
    kernel : callable or None
        ``kernel(*arrays)``, or ``kernel(context, *arrays)`` when `stateful`; returns an array, a tuple of arrays
        (several outputs), None (no output), or a coroutine of one of these.
    detached : bool
        True if any thread may call the kernel, which only computes.
    made_bytes : int
        Bytes of the outputs of a KERNEL, -1 if their shapes are unknown.
    elements : callable or None
        ``elements(*arrays)`` is the approximate number of elements processed by a KERNEL beyond its inputs' elements.
    retry : bool
        True if a KERNEL without room for its result has had no effect and may run again.
    ufunc : str or None
        Name of the NumPy ufunc, if the kernel is just a ufunc.
    has_own_kernel : bool
        True if `kernel` was registered for the dtype or the device kind, so no C kernel takes its place.
    attrs : mapping
        Attributes of a KERNEL, from which its C kernel is chosen.
    value : array, optional
        Value of a CONST.
    index : int
        Number of the feed or fetch (FEED, FETCH), of the series in its frame (SERIES_PUSH, SERIES_EXIT), or of the
        channel (SEND, RECV).
    child : int
        Index of the frame of an ENTER's output.
    is_constant : bool
        True if an ENTER brings a loop invariant.
    is_last : bool
        True if a SERIES_READ is the only read of its slot.
    is_swappable : bool
        True if values saved by a SERIES_PUSH may leave the device's memory.
    is_host_backed : bool
        True if values saved by a SERIES_PUSH may do so where they are in the host's memory anyway.
    dead_silent : bool
        For a SEND: sends nothing when dead. For a RECV: waits for nothing when dead. For a SWITCH: deadness of the
        first output is not propagated when the second is chosen.
    """

    name: str
    type: str
    kind: Kind
    frame: int
    num_inputs: int
    num_controls: int
    outputs: tuple[np.dtype[Any] | None, ...]
    kernel: Callable[..., Any] | None = None
    stateful: bool = False
    detached: bool = False
    made_bytes: int = -1
    elements: Callable[..., int] | None = None
    retry: bool = True
    ufunc: str | None = None
    has_own_kernel: bool = False
    attrs: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    index: int = -1
    child: int = -1
    is_constant: bool = False
    is_last: bool = False
    is_swappable: bool = False
    is_host_backed: bool = False
    dead_silent: bool = False
    source: Source | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A loop of the lowered graph; frame 0 is the root.

    Attributes
    ----------
    name : str
        Static name, part of the tag.
    parent : int
        Index of the enclosing frame (-1 for the root).
    parallel_iterations : int
        The window: most iterations alive at once.
    adaptive : bool
        True if the program asks for as many iterations as memory allows.
    num_enters : int
        Number of ENTER nodes of the frame, which is complete only after all have arrived.
    num_series : int
        Number of series written by its iterations.
    finals : tuple of int
        SERIES_EXIT and TRIP_COUNT nodes, which fire when the frame is done.
    """

    name: str
    parent: int
    parallel_iterations: int
    num_enters: int
    num_series: int = 0
    finals: tuple[int, ...] = ()
    adaptive: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A program for a single device, as tables.

    Attributes
    ----------
    nodes, frames : tuple
        See :class:`Node` and :class:`Frame`.
    data_edges : tuple of tuple of tuple of (int, int)
        ``data_edges[node][output]`` lists (consumer, input index).
    control_edges : tuple of tuple of int
        ``control_edges[node]`` lists the nodes with a control input from a node.
    num_feeds, num_fetches : int
        Number of input and output values.
    feed_dtypes : tuple of numpy.dtype
        Dtypes of the feeds.
    device : str
        Full name of the device, if the program was cut by device.
    has_device_arrays : bool
        True if the plan works on arrays of another library than NumPy.
    """

    nodes: tuple[Node, ...]
    frames: tuple[Frame, ...]
    data_edges: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]
    control_edges: tuple[tuple[int, ...], ...]
    num_feeds: int
    num_fetches: int
    feed_dtypes: tuple[np.dtype[Any], ...] = field(default=())
    device: str = ""
    has_device_arrays: bool = False

    def roots(self) -> list[int]:
        """Return the nodes without inputs and control inputs; they start in the root frame (rule 21)."""
        return [i for i, n in enumerate(self.nodes) if n.num_inputs + n.num_controls == 0]

    def to_text(self) -> str:
        """Print the plan, a node per line, by frame."""
        lines = []
        for f, frame in enumerate(self.frames):
            window = AUTO if frame.adaptive else frame.parallel_iterations
            lines.append(f"frame {f} '{frame.name}' parent={frame.parent} window={window}")
            lines.extend(self._node_line(i) for i, n in enumerate(self.nodes) if n.frame == f)
        return "\n".join(lines)

    def _node_line(self, i: int) -> str:
        node = self.nodes[i]
        edges = ["[" + " ".join(f"{c}.{k}" for c, k in out) + "]" for out in self.data_edges[i]]
        controls = " ^" + " ^".join(map(str, self.control_edges[i])) if self.control_edges[i] else ""
        inputs = f"in={node.num_inputs}+{node.num_controls}"
        return f"  {i} {node.name} {node.kind.name} {inputs} {' '.join(edges)}{controls}"
