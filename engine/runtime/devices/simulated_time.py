"""Devices with simulated time: the end of kernels that were computed at once, by the device's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from ...kernels.core.table import Kind
from ...streams.capabilities import models_time
from ...streams.contract import Clock, Device
from ...streams.event import Event

if TYPE_CHECKING:  # a pipeline holds clocks, and loads no compiler for it
    from ...compile.partition.partitioned import Channel
    from ...compile.plan.plan import Node, Plan
    from .session_devices import SessionDevice

COPY_OUT, COPY_IN = "DeviceToHost", "HostToDevice"


@contextmanager
def hold_clocks(clocks: Sequence[Clock]) -> Iterator[None]:
    """Hold clocks that are free to jump, while work under way takes real time."""
    for clock in clocks:
        clock.hold()
    try:
        yield
    finally:
        for clock in clocks:
            clock.release()


@dataclass(slots=True)
class Usage:
    """Usage of a device's compute stream by a loop or a whole step, in seconds of the device's clock.

    Attributes
    ----------
    began, ended : float
        Begin of the first kernel and end of the last kernel.
    busy : dict of str to float
        Total time of kernels, by operation.
    """

    began: float = inf
    ended: float = -inf
    busy: dict[str, float] = field(default_factory=dict)

    def note(self, operation: str, began: float, ended: float) -> None:
        """Count a kernel."""
        self.began, self.ended = min(self.began, began), max(self.ended, ended)
        self.busy[operation] = self.busy.get(operation, 0.0) + ended - began


class Occupation:
    """A kernel that occupies a stream of its device.

    Awaiting an occupation returns begin and end of the kernel, in seconds of the device's clock, after its end. A
    cancelled await withdraws the kernel if it has not begun.

    Parameters
    ----------
    event : Event
    note : callable, optional
        Called with begin and end.
    """

    __slots__ = ("_event", "_note")

    def __init__(self, event: Event[Any], note: Callable[[float, float], None] | None = None) -> None:
        self._event = event
        self._note = note

    def __await__(self) -> Generator[Any, None, tuple[float, float]]:
        event = self._event
        try:
            yield from event.__await__()
        except asyncio.CancelledError:
            event.withdraw()
            raise
        assert event.began is not None
        assert event.ended is not None
        if self._note is not None:
            self._note(event.began, event.ended)
        return event.began, event.ended

    def close(self) -> None:
        """Withdraw the kernel, since nobody will await its end."""
        self._event.withdraw()


class Schedule:
    """Schedule of a device's kernels in a step, and of the copies of received values, on the devices' streams.

    Parameters
    ----------
    plan : Plan
    device : Device
        Device of the plan.
    sources : sequence of Device
        Sending device of each channel.
    delayed : sequence of bool
        For each node True if its kernel takes simulated time.

    Attributes
    ----------
    usage : dict of int to Usage
        Usage by ended kernels, by frame; the kernels of inner loops count in the outer frames as well.
    """

    def __init__(self, plan: Plan, device: Device, sources: Sequence[Device], delayed: Sequence[bool]) -> None:
        self._plan = plan
        self._device = device
        self._sources = sources
        self._delayed = delayed
        self.usage: dict[int, Usage] = {}

    def __call__(self, node: int, nbytes: int) -> Occupation | None:
        """Submit a computed kernel with `nbytes` bytes of results; None if the kernel takes no simulated time."""
        what = self._plan.nodes[node]
        if self._delayed[node]:
            return Occupation(self._device.compute.submit(kind=what.type), partial(self._count_kernel, what))
        if what.kind is Kind.RECV:
            return self._submit_copy(self._sources[what.index], nbytes)
        return None

    def _count_kernel(self, node: Node, began: float, ended: float) -> None:
        """Count an ended kernel in its frame and all outer frames."""
        frame = node.frame
        while frame >= 0:
            self.usage.setdefault(frame, Usage()).note(node.name, began, ended)
            frame = self._plan.frames[frame].parent

    def _submit_copy(self, source: Device, nbytes: int) -> Occupation | None:
        """Submit a copy: out of the memory of the source, then into the memory of this device."""
        # Any two devices exchange values by way of the host: the copy in begins after the copy out has ended.
        last: Event[Any] | None = None
        if models_time(source, COPY_OUT, nbytes):
            last = source.device_to_host.submit(kind=COPY_OUT, nbytes=nbytes)
        if models_time(self._device, COPY_IN, nbytes):
            after = [] if last is None else [last]
            last = self._device.host_to_device.submit(kind=COPY_IN, nbytes=nbytes, after=after)
        return None if last is None else Occupation(last)


def schedulers(
    plans: Sequence[tuple[Plan, int]], channels: Sequence[Channel], devices: Sequence[SessionDevice]
) -> list[Callable[[], Schedule] | None]:
    """Return for each plan a factory of a step's schedule; None for each without any device of simulated time.

    Parameters
    ----------
    plans : sequence of (Plan, int)
        Plans, each with the number of its device.
    channels : sequence of Channel
    devices : sequence of SessionDevice
    """
    if not any(each.is_simulated for each in devices):
        return [None] * len(plans)
    # Plans of other devices get schedules too: they may receive from a device whose copies take simulated time.
    by_name = {each.spec: each.device for each in devices}
    sources = [by_name[channel.source] for channel in channels]
    return [_schedule_factory(plan, devices[number].device, sources) for plan, number in plans]


def _schedule_factory(plan: Plan, device: Device, sources: Sequence[Device]) -> Callable[[], Schedule]:
    delayed = [node.kind is Kind.KERNEL and models_time(device, node.type) for node in plan.nodes]
    return partial(Schedule, plan, device, sources, delayed)
