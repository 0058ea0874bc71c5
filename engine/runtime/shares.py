"""What each device does of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..base.devices import DeviceSpec
from ..base.settings import Settings
from ..base.tags import Kind
from ..compile import divided
from ..ir.rewrite import Program
from ..kernels.scheduler.plan import CompiledPlan
from ..partition.partitioned import Channel
from ..plan.build import build_plan
from ..plan.plan import Plan
from .devices import SessionDevice
from .elsewhere import resident_plan


class Share:
    """What one device does of a step.

    Parameters
    ----------
    device : int
        Which of the session's devices.
    plan : Plan
    feeds, fetches : tuple of int
        Which feeds and fetches of the step those of the plan are.
    settings : Settings

    Attributes
    ----------
    machine : CompiledPlan
        The plan's tables, for the step machine.
    scheduler : callable or None
        Makes the Schedule of one step, where devices have a time of their own.
    swaps : bool
        Whether what its loops save may leave the device's memory.
    host_backed : frozenset of int
        Of the plan's feeds those that stay in the host's memory, as only rows of them are read.
    """

    __slots__ = ("device", "feeds", "fetches", "host_backed", "machine", "plan", "scheduler", "swaps")

    def __init__(
        self, device: int, plan: Plan, feeds: tuple[int, ...], fetches: tuple[int, ...], settings: Settings
    ) -> None:
        self.device = device
        self.plan = plan
        self.feeds = feeds
        self.fetches = fetches
        self.machine = CompiledPlan(plan, _by_kernels(settings) if plan.foreign else settings)
        self.scheduler: Callable[[], Any] | None = None
        self.host_backed = frozenset(_host_backed(plan))
        self.swaps = any(node.is_swappable or node.attrs.get("swappable") for node in plan.nodes)


def _by_kernels(settings: Settings) -> Settings:
    """Return settings for arrays of which C knows nothing."""
    return replace(settings, native=False, loops=False, reuse=False)


def _host_backed(plan: Plan) -> Iterator[int]:
    """Yield the feeds of which only rows are read."""
    for node, outputs in zip(plan.nodes, plan.data_edges, strict=True):
        users = [plan.nodes[user] for edges in outputs for user, _ in edges]
        if node.kind is Kind.FEED and any(user.attrs.get("host_backed") for user in users):
            yield node.index


def shares_of(
    program: Program, plan: Plan, places: Sequence[SessionDevice], soft: bool, settings: Settings
) -> tuple[tuple[Share, ...], tuple[Channel, ...]]:
    """Cut a lowered program up for devices.

    Parameters
    ----------
    program : Program
    plan : Plan
        Of the whole program.
    places : sequence of SessionDevice
        The session's; without any, all is for one, whatever the operations ask for.
    soft : bool
        Place operations elsewhere if what they ask for is not there or contradicts itself.
    settings : Settings

    Returns
    -------
    tuple of Share, tuple of Channel

    Raises
    ------
    GraphError
        If there is no device for an operation, or it can not do what it should.
    """
    devices = [place.spec for place in places]
    if not devices or (len(devices) == 1 and not any(op.device for op in program.graph.root.operations)):
        return (_whole(program, plan, 0, places, settings),), ()
    cut = divided(program, devices, soft, settings)
    if len(cut.programs) <= 1:
        (device,) = cut.programs or devices[:1]
        return (_whole(cut.programs.get(device, program), plan, devices.index(device), places, settings),), ()
    shares = [
        Share(
            number,
            replace(_plan(part, places[number], settings), device=str(device)),
            _own(cut.feeds, device),
            _own(cut.fetches, device),
            settings,
        )
        for device, part in cut.programs.items()
        for number in [devices.index(device)]
    ]
    return tuple(shares), tuple(cut.channels)


def _plan(program: Program, place: SessionDevice, settings: Settings) -> Plan:
    return build_plan(program) if place.device.arrays is None else resident_plan(program, place, settings)


def _own(places: Sequence[tuple[DeviceSpec, int]], device: DeviceSpec) -> tuple[int, ...]:
    """Return which feeds, or fetches, are a device's, in the order in which it has them."""
    own = sorted((number, k) for k, (place, number) in enumerate(places) if place == device)
    return tuple(k for _, k in own)


def _whole(program: Program, plan: Plan, device: int, places: Sequence[SessionDevice], settings: Settings) -> Share:
    if places and places[device].device.arrays is not None:
        plan = resident_plan(program, places[device], settings)
    return Share(device, plan, tuple(range(plan.num_feeds)), tuple(range(plan.num_fetches)), settings)
