"""Start of a step's machines: a single machine, or a group exchanging messages, with a machine for each device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...compile import DevicePlan
from ...kernels.memory.contexts import KernelContexts
from ...kernels.memory.pool import MemoryLimitError, Pool
from ...kernels.scheduler.group import MachineGroup
from ...kernels.scheduler.limited import LimitedMachine
from ...kernels.scheduler.machine import StepMachine
from ...kernels.scheduler.rendezvous import Rendezvous
from ...ops.support.context import StepContext
from ..devices.session_devices import SessionDevice
from ..devices.simulated_time import Schedule
from ..memory.limits import explain_refusal
from ..memory.session_swap import Swapping
from .compiled_step import CompiledStep
from .counters import StepCounters
from .environment import StepEnvironment

if TYPE_CHECKING:
    from ...kernels.scheduler.tracing import Recorder
    from ...swap.swapper import StepSwapper
    from .machine import EndedMachine

Drain = Callable[[float], bool]
Devices = Sequence[SessionDevice]


class Launched(NamedTuple):
    """The started machines of a step.

    Attributes
    ----------
    machine : StepMachine or MachineGroup
        The machine, or all machines as a group.
    drain : callable
        Drains the machine in private contexts.
    holds : list
        Objects that charge the fed arrays to their devices as long as they live.
    """

    machine: StepMachine | MachineGroup
    drain: Drain
    holds: list[Any]


def launch(
    step: CompiledStep,
    context: StepContext,
    feeds: list[Any],
    environment: StepEnvironment,
    recorder: Recorder | None = None,
) -> Launched:
    """Start the machines of a step.

    Parameters
    ----------
    context : StepContext
        Context of stateful kernels; each machine gets a copy with the memory of its own device.
    feeds : list of numpy.ndarray
        An array for each feed of the step.
    environment : StepEnvironment
        Environment of the session; without devices, only the context's memory is used.
    recorder : Recorder, optional
        Recorder of instances, for a trace.

    Raises
    ------
    DeviceMemoryError
        If the fed arrays do not fit.
    """
    if len(step.device_plans) != 1 or step.is_part:
        return _launch_group(step, context, feeds, environment, recorder)
    part, devices, contexts = step.device_plans[0], environment.devices, context.contexts
    swap = None if environment.swapping is None else _open_swapper(part, devices, environment.swapping)
    # The context as passed suits the session's first device, with NumPy arrays and without swapping.
    if part.plan.has_device_arrays or swap is not None or devices and contexts is not devices[part.device].contexts:
        contexts = devices[part.device].contexts if devices else contexts
        context = _suited_context(context, part)._replace(contexts=contexts, swap=swap)
    # Charged first: a refusal must not leave a machine open.
    holds = charge_feeds(contexts, _feeds_to_charge(part, feeds, swap), step, context)
    pool, shuffle_seed = environment.worker_pool, environment.settings.switches.shuffle_seed
    workers = None if pool is None or part.plan.has_device_arrays else pool.workers  # they know NumPy's arrays only
    submit = _make_schedule(step.schedulers[0])
    machine = machine_for(contexts)(  # by position, which takes a third of the time
        part.tables, context, feeds, shuffle_seed, environment.guard, recorder, workers, None, submit, swap
    )
    # No lambda: the traceback of a kernel's error would keep its frame, and with it the machine.
    run: Any = contexts.run
    return Launched(machine, partial(run, machine.drain), holds)


def _launch_group(
    step: CompiledStep, context: StepContext, feeds: list[Any], environment: StepEnvironment, recorder: Recorder | None
) -> Launched:
    """Start a machine for each device, joined by a rendezvous; return their group and the charges of feeds."""
    devices, swapping = environment.devices, environment.swapping
    how = {
        "shuffle_seed": environment.settings.switches.shuffle_seed,
        "guard": environment.guard,
        "recorder": recorder,
        "workers": None if environment.worker_pool is None else environment.worker_pool.workers,
    }
    meeting = Rendezvous(len(step.channels), step.remote)
    contexts = [devices[part.device].contexts for part in step.device_plans]
    # Each device numbers its own feeds, as it does its fetches below.
    fed = [[feeds[k] for k in part.feeds] for part in step.device_plans]
    swaps = [_open_swapper(part, devices, swapping) for part in step.device_plans]
    parts = list(zip(step.device_plans, step.schedulers, contexts, fed, swaps, strict=True))
    charged = [
        charge_feeds(own, _feeds_to_charge(part, values, swap), step, context) for part, _, own, values, swap in parts
    ]
    holds = [charge for charges in charged for charge in charges]
    machines = [
        machine_for(own)(
            part.tables,
            _suited_context(context, part)._replace(contexts=own, swap=swap),
            values,
            **_suited_options(how, part),
            rendezvous=meeting,
            submit=_make_schedule(scheduler),
            swap=swap,
        )
        for part, scheduler, own, values, swap in parts
    ]
    # Each device numbers its own fetches: the group finds fetch k of the step at (machine, number there).
    places = {k: (i, n) for i, part in enumerate(step.device_plans) for n, k in enumerate(part.fetches)}
    # Of a step over several processes only some fetches are here.
    group = MachineGroup(machines, contexts, meeting, [places[k] for k in sorted(places)])
    return Launched(group, group.drain, holds)


def fed_arrays(step: CompiledStep, feeds: list[Any], environment: StepEnvironment) -> dict[Pool, list[Any]]:
    """Return the fed arrays that `launch` charges to devices with a limit, by the pool of each device."""
    devices, swapping = environment.devices, environment.swapping
    found: dict[Pool, list[Any]] = {}
    for part in step.device_plans:
        pool = devices[part.device].pool
        if pool is None or pool.limit is None:
            continue
        values = feeds if len(step.device_plans) == 1 and not step.is_part else [feeds[k] for k in part.feeds]
        moves = swapping is not None and bool(part.swaps or part.host_backed)
        found[pool] = [
            array
            for k, array in enumerate(values)
            if not part.plan.has_device_arrays and not (moves and k in part.host_backed)
        ]
    return found


def _open_swapper(part: DevicePlan, devices: Devices, swapping: Swapping | None) -> StepSwapper | None:
    """Return the swapper of a device's saved values in a step; None if none of them may move."""
    if swapping is None or not devices or not (part.swaps or part.host_backed):
        return None
    return swapping.begin(devices[part.device])


def _feeds_to_charge(part: DevicePlan, feeds: list[Any], swap: StepSwapper | None) -> list[Any]:
    """Return the fed arrays that count as memory of the device."""
    if part.plan.has_device_arrays:
        return []
    return feeds if swap is None else [array for k, array in enumerate(feeds) if k not in part.host_backed]


def _suited_options(how: Mapping[str, Any], part: DevicePlan) -> Mapping[str, Any]:
    """Return the options of a device's machine: no workers for device arrays, as workers only know NumPy's arrays."""
    return {**how, "workers": None} if part.plan.has_device_arrays else how


def _suited_context(context: StepContext, part: DevicePlan) -> StepContext:
    """Return the context of a device's kernels: only kernels of NumPy's arrays are called in threads."""
    return context._replace(long_calls=None) if part.plan.has_device_arrays else context


def _make_schedule(scheduler: Callable[[], Schedule] | None) -> Schedule | None:
    return None if scheduler is None else scheduler()


def counters_of(step: CompiledStep, machine: StepMachine | MachineGroup) -> StepCounters:
    """Return the StepCounters of a step that runs on `machine`."""
    # Without a clock or a swapper of this run the shared counters do, which spares an object for each step.
    swaps = [swap.counts for swap in machine.swaps]
    if isinstance(machine, StepMachine):
        if machine.submit is None and not swaps:
            return step.counters
        usages = [] if machine.submit is None else [machine.submit.usage]
        return replace(step.counters, usages=usages, swaps=swaps)
    usages = [schedule.usage for schedule in machine.submits if schedule is not None]
    return replace(step.counters, rendezvous=machine.rendezvous, usages=usages, swaps=swaps)


def machine_for(contexts: KernelContexts) -> type[StepMachine]:
    """Return the class of machine for a device: LimitedMachine if its pool has a limit, else StepMachine."""
    return StepMachine if contexts.pool is None or contexts.pool.limit is None else LimitedMachine


def charge_feeds(contexts: KernelContexts, feeds: list[Any], step: CompiledStep, context: StepContext) -> list[Any]:
    """Charge fed arrays to a device while the returned objects live; DeviceMemoryError if the arrays do not fit."""
    if contexts.pool is None:
        return []
    try:
        return contexts.pool.charge_external(feeds)
    except MemoryLimitError as error:
        raise explain_refusal(error, "the values fed", [step], contexts.pool, context.resources) from None


def switch_outcomes(step: CompiledStep, machine: EndedMachine) -> dict[int, Any]:
    """Return the predicates of the root frame's Switches, by their nodes in the plan of the whole step."""
    if not isinstance(machine, MachineGroup):
        return machine.switch_outcomes()  # type: ignore[no-any-return]
    # Each machine numbers its own nodes, and some, made for messages, are not in the plan of the whole step.
    nodes = {node.name: i for i, node in enumerate(step.plan.nodes)}
    return {nodes[name]: went for name, went in machine.switch_outcomes().items() if name in nodes}
