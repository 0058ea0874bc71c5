"""What compiling gives: a Plan for each device that takes part in a step, with its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..base.device_names import DeviceSpec
from ..base.settings import Settings
from ..ir.program import Program
from ..kernels.core.table import Kind
from ..kernels.scheduler.plan import CompiledPlan
from .partition.partitioned import Channel, Partitioned
from .plan.build import build_plan
from .plan.plan import Plan
from .target import DeviceTarget, Target


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """What one device does of a step.

    Attributes
    ----------
    device : int
        Which of the target's devices.
    plan : Plan
    tables : CompiledPlan
        The plan as C arrays, for the step machine.
    feeds, fetches : tuple of int
        Which feeds and fetches of the step those of the plan are.
    swaps : bool
        Whether what its loops save may leave the device's memory.
    host_backed : frozenset of int
        Of the plan's feeds those that stay in the host's memory, as only rows of them are read.
    """

    device: int
    plan: Plan
    tables: CompiledPlan
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    swaps: bool
    host_backed: frozenset[int]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A compiled step.

    Attributes
    ----------
    plan : Plan
        Of the whole step, as if there were one device with NumPy's arrays: what the reference executor runs.
    devices : tuple of DevicePlan
        One for each device that has something to do.
    channels : tuple of Channel
        Between the devices.
    not_clustered : mapping of str to str
        Why operations are in no native program, by name and type.
    """

    plan: Plan
    devices: tuple[DevicePlan, ...]
    channels: tuple[Channel, ...]
    not_clustered: Mapping[str, str] = field(default_factory=dict)


def plan_step(partitioned: Partitioned, target: Target) -> StepPlan:
    """Freeze the programs of devices.

    Raises
    ------
    GraphError
        If a static check fails (rules 52 to 55).
    """
    whole = build_plan(partitioned.whole)
    if len(partitioned.programs) <= 1:  # also where nothing is to be done
        device, program = next(iter(partitioned.programs.items()), (_first(target), partitioned.whole))
        plan = whole if program is partitioned.whole else _plan(program, device, target)
        feeds, fetches = range(whole.num_feeds), range(whole.num_fetches)
        only = _device_plan(plan, device, feeds, fetches, target)
        return StepPlan(whole, (only,), (), partitioned.whole.not_clustered)
    devices = [
        _device_plan(
            replace(_plan(program, device, target), device=str(device)),
            device,
            _own(partitioned.feeds, device),
            _own(partitioned.fetches, device),
            target,
        )
        for device, program in partitioned.programs.items()
    ]
    return StepPlan(whole, tuple(devices), tuple(partitioned.channels), partitioned.whole.not_clustered)


def _first(target: Target) -> DeviceSpec:
    return target.devices[0].spec if target.devices else DeviceSpec()


def _target_of(device: DeviceSpec, target: Target) -> tuple[int, DeviceTarget | None]:
    """Return the number of a device among the target's, and what the target says of it."""
    found = [(i, each) for i, each in enumerate(target.devices) if each.spec == device]
    return found[0] if found else (0, None)


def _plan(program: Program, device: DeviceSpec, target: Target) -> Plan:
    _, own = _target_of(device, target)
    return build_plan(program, None if own is None or own.backend is None else own.backend(target.settings))


def _device_plan(
    plan: Plan, device: DeviceSpec, feeds: Sequence[int], fetches: Sequence[int], target: Target
) -> DevicePlan:
    return DevicePlan(
        _target_of(device, target)[0],
        plan,
        _tables(plan, target.settings),
        tuple(feeds),
        tuple(fetches),
        any(node.is_swappable or node.attrs.get("swappable") for node in plan.nodes),
        frozenset(_host_backed(plan)),
    )


def with_own_tables(part: DevicePlan, settings: Settings) -> DevicePlan:
    """Return a plan with tables that no other step counts in."""
    return replace(part, tables=_tables(part.plan, settings))


def _tables(plan: Plan, settings: Settings) -> CompiledPlan:
    return CompiledPlan(plan, _without_c(settings) if plan.has_device_arrays else settings)


def _without_c(settings: Settings) -> Settings:
    """Return settings for arrays that the kernels in C know nothing of."""
    return replace(settings, native=False, loops=False, reuse=False)


def _host_backed(plan: Plan) -> Iterator[int]:
    """Yield the feeds of which only rows are read."""
    for node, outputs in zip(plan.nodes, plan.data_edges, strict=True):
        users = [plan.nodes[user] for edges in outputs for user, _ in edges]
        if node.kind is Kind.FEED and any(user.attrs.get("host_backed") for user in users):
            yield node.index


def _own(places: Sequence[tuple[DeviceSpec, int]], device: DeviceSpec) -> tuple[int, ...]:
    """Return which feeds, or fetches, are a device's, in the order in which it has them."""
    own = sorted((number, k) for k, (place, number) in enumerate(places) if place == device)
    return tuple(k for _, k in own)
