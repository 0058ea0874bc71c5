"""StepPlan, the result of compilation: a Plan with its tables for each device of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..base.device_names import DeviceSpec
from ..base.settings import Settings
from ..ir.operation import Operation
from ..ir.own_kernels import ON_HOST, KernelSource
from ..ir.program import Program, needed
from ..kernels.core.table import Kind
from ..kernels.scheduler.plan import CompiledPlan
from ..kernels.scheduler.rendezvous import RemoteChannel
from .partition.partitioned import Channel, Partitioned
from .plan.build import build_plan
from .plan.plan import Plan
from .target import DeviceTarget, Target


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The part of a step on a device.

    Attributes
    ----------
    device : int
        Index among the target's devices.
    plan : Plan
    tables : CompiledPlan
        The plan as C arrays, for the step machine.
    feeds, fetches : tuple of int
        Indices, among the step's feeds and fetches, of the plan's feeds and fetches.
    swaps : bool
        True if values saved by its loops may leave the device's memory.
    host_backed : frozenset of int
        The plan's feeds that stay in the host's memory, because only rows of them are read.
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
        Of the whole step, for a single device with NumPy's arrays; the reference executor runs this plan.
    devices : tuple of DevicePlan
        A DevicePlan for each device with operations.
    channels : tuple of Channel
        Between all devices of the step; by number, which is the same in the plans of all tasks.
    not_clustered : mapping of str to str
        Reasons why operations are in no native program, by name and type.
    is_part : bool
        True if other tasks have devices of the step.
    remote : tuple of RemoteChannel
        Of a plan for one task: the channels with one end on a device of the task, and the other on another task's.
    """

    plan: Plan
    devices: tuple[DevicePlan, ...]
    channels: tuple[Channel, ...]
    not_clustered: Mapping[str, str] = field(default_factory=dict)
    is_part: bool = False
    remote: tuple[RemoteChannel, ...] = ()


def plan_step(partitioned: Partitioned, target: Target) -> StepPlan:
    """Freeze the programs of devices into plans with tables; those of the target's task alone, if it names one.

    Tasks that plan one Partitioned, or pickled copies of it, agree on the numbers of channels, feeds and fetches.

    Raises
    ------
    GraphError
        If a static check fails (rules 52 to 55).
    """
    whole = build_plan(partitioned.whole, source_of=_sources_of_whole(partitioned, target))
    programs = {device: program for device, program in partitioned.programs.items() if target.plans(device)}
    if len(partitioned.programs) <= 1 and (programs or target.task is None):  # no program: a step without operations
        device, program = next(iter(programs.items()), (_first_device(target), partitioned.whole))
        # Transfers change a device's program, while the reference executor runs the whole with NumPy's arrays.
        plan = whole if program is partitioned.whole else _plan_device(program, device, target)
        feeds, fetches = range(whole.num_feeds), range(whole.num_fetches)
        only = _device_plan(plan, device, feeds, fetches, target)
        return StepPlan(whole, (only,), (), partitioned.whole.not_clustered)
    devices = [
        _device_plan(
            replace(_plan_device(program, device, target), device=str(device)),
            device,
            _indices_on_device(partitioned.feeds, device),
            _indices_on_device(partitioned.fetches, device),
            target,
        )
        for device, program in programs.items()
    ]
    channels = tuple(partitioned.channels)
    return StepPlan(
        whole,
        tuple(devices),
        channels,
        partitioned.whole.not_clustered,
        is_part=len(programs) < len(partitioned.programs),
        remote=_remote_channels(channels, target),
    )


def _remote_channels(channels: Sequence[Channel], target: Target) -> tuple[RemoteChannel, ...]:
    """Return the channels with one end among the planned devices, each with the task that has the other end."""
    found = []
    for channel in channels:
        is_sent, is_received = target.plans(channel.source), target.plans(channel.destination)
        if is_sent != is_received:
            other = channel.destination if is_sent else channel.source
            peer = str(replace(other, type=None, index=None))
            found.append(RemoteChannel(channel.number, peer, channel.dtype.numpy, channel.name, is_sent))
    return tuple(found)


def _first_device(target: Target) -> DeviceSpec:
    return target.devices[0].spec if target.devices else DeviceSpec()


def _target_of(device: DeviceSpec, target: Target) -> tuple[int, DeviceTarget | None]:
    """Return a device's index in the target, and its DeviceTarget; (0, None) without an entry in the target."""
    matches = [(i, candidate) for i, candidate in enumerate(target.devices) if candidate.spec == device]
    return matches[0] if matches else (0, None)


def _plan_device(program: Program, device: DeviceSpec, target: Target) -> Plan:
    _, device_target = _target_of(device, target)
    if device_target is None:
        return build_plan(program)
    backend = None if device_target.backend is None else device_target.backend(target.settings)
    return build_plan(program, backend, lambda op: device_target.kernels)


def _sources_of_whole(partitioned: Partitioned, target: Target) -> Callable[[Operation], KernelSource]:
    """Return a function of an operation of the whole step that returns the kernels of the operation's device."""
    # The whole step computes with NumPy, as no kernel of a device with other arrays can.
    kernels = {device.spec: device.kernels for device in target.devices if device.backend is None}
    if len(partitioned.programs) <= 1:
        device = next(iter(partitioned.programs), _first_device(target))
        return lambda op: kernels.get(device, ON_HOST)
    placed = {op.name: device for device, program in partitioned.programs.items() for op in needed(program)}
    return lambda op: kernels.get(placed.get(op.name, _first_device(target)), ON_HOST)


def _device_plan(
    plan: Plan, device: DeviceSpec, feeds: Sequence[int], fetches: Sequence[int], target: Target
) -> DevicePlan:
    """Return a device's plan with tables, and with the swapping allowed by its nodes."""
    return DevicePlan(
        _target_of(device, target)[0],
        plan,
        _compile_tables(plan, target.settings),
        tuple(feeds),
        tuple(fetches),
        any(node.is_swappable or node.attrs.get("swappable") for node in plan.nodes),
        frozenset(_host_backed(plan)),
    )


def with_own_tables(part: DevicePlan, settings: Settings) -> DevicePlan:
    """Return a copy of a plan with new tables, which no other step uses for its counters."""
    return replace(part, tables=_compile_tables(part.plan, settings))


def _compile_tables(plan: Plan, settings: Settings) -> CompiledPlan:
    return CompiledPlan(plan, _without_c(settings) if plan.has_device_arrays else settings)


def _without_c(settings: Settings) -> Settings:
    """Return settings without kernels in C, which cannot handle other arrays than NumPy's."""
    return replace(settings, switches=replace(settings.switches, native=False, loops=False, reuse=False))


def _host_backed(plan: Plan) -> Iterator[int]:
    """Yield the indices of feeds of which only rows are read."""
    for node, outputs in zip(plan.nodes, plan.data_edges, strict=True):
        users = [plan.nodes[user] for edges in outputs for user, _ in edges]
        if node.kind is Kind.FEED and any(user.attrs.get("host_backed") for user in users):
            yield node.index


def _indices_on_device(places: Sequence[tuple[DeviceSpec, int]], device: DeviceSpec) -> tuple[int, ...]:
    """Return the indices of a device's feeds, or fetches, in the order of the device's program."""
    positions = sorted((number, k) for k, (place, number) in enumerate(places) if place == device)
    return tuple(k for _, k in positions)
