"""The Plan: a lowered graph frozen into dense tables, one for each device; both executors run it."""

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
    """One operation of the lowered graph.

    Attributes
    ----------
    name, type, source, origin
        As in the user's graph (or made from it).
    kind : Kind
        What the executor does.
    frame : int
        Index of the frame in which its inputs arrive.
    num_inputs, num_controls : int
        Data and control edges that arrive at one instance.
    outputs : tuple of numpy.dtype or None
        Element type of each output; None for handles and series.
    kernel : callable or None
        ``kernel(*arrays)``, or ``kernel(context, *arrays)`` when `stateful`; gives an array, a tuple of arrays
        (several outputs), None (no output), or a coroutine of one of these.
    detached : bool
        Whether any thread may call the kernel, which only computes.
    made_bytes : int
        What the outputs of a KERNEL take, -1 where their shapes are not known.
    elements : callable or None
        ``elements(*arrays)`` is about how many elements a KERNEL goes through that its inputs do not have.
    retry : bool
        Whether a KERNEL that finds no room for its result has done nothing and may begin again.
    ufunc : str or None
        The NumPy ufunc the kernel is, if it is just that.
    attrs : mapping
        Attributes of a KERNEL, from which its C kernel is chosen.
    value : array, optional
        What a CONST gives.
    index : int
        Which feed or fetch (FEED, FETCH); which series of its frame (SERIES_PUSH, SERIES_EXIT); which channel (SEND,
        RECV).
    child : int
        The frame an ENTER leads to.
    is_constant : bool
        Whether an ENTER is a loop invariant.
    is_last : bool
        Whether a SERIES_READ is the only one of its slot.
    is_swappable : bool
        Whether what a SERIES_PUSH saves may leave the device's memory.
    is_host_backed : bool
        Whether it may if it is in the host's memory anyway.
    dead_silent : bool
        Of a SEND, whether it sends nothing when it is dead; of a RECV, whether it waits for nothing when it is; of a
        SWITCH, whether nobody need hear that its first output is dead when it chooses the second.
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
        Index of the frame around it (-1 for the root).
    parallel_iterations : int
        The window: most iterations alive at once.
    adaptive : bool
        The program asks for as many as memory allows.
    num_enters : int
        ENTER nodes that lead here; the frame is complete only after all have arrived.
    num_series : int
        Series written by its iterations.
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
    """A program for one device.

    Attributes
    ----------
    nodes, frames : tuple
        See :class:`Node` and :class:`Frame`.
    data_edges : tuple of tuple of tuple of (int, int)
        ``data_edges[node][output]`` lists (consumer, input index).
    control_edges : tuple of tuple of int
        ``control_edges[node]`` lists the nodes that wait for it.
    num_feeds, num_fetches : int
        How many values go in and come out.
    feed_dtypes : tuple of numpy.dtype
        Of the values that go in.
    device : str
        Its full name, if the program was cut by device.
    has_device_arrays : bool
        Whether arrays of another library than NumPy travel in it.
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
        """Return the nodes that wait for nothing; they start in the root frame (rule 21)."""
        return [i for i, n in enumerate(self.nodes) if n.num_inputs + n.num_controls == 0]

    def to_text(self) -> str:
        """Print the plan, one node a line, by frame."""
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
