"""Limits of devices' memory, and the errors of steps and values beyond them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex, TypeVar

from ...base.device_names import parse_device
from ...base.errors import Allocation, DeviceMemoryError, GraphError
from ...base.resources import Resource
from ...base.sizes import format_size, parse_size
from ...base.wording import short_device
from ...compile import DevicePlan
from ...kernels.core.table import Kind
from ...kernels.memory.contexts import KernelContexts
from ...kernels.memory.pool import MemoryLimitError, Pool
from ...kernels.scheduler.allocations import resource_allocations, shared_allocations
from ...kernels.scheduler.limited import NoRoom
from ..devices.session_devices import SessionDevice
from .budget import MemoryBudget

Limit = SupportsIndex | str | MemoryBudget
R = TypeVar("R")
_MOST_ALLOCATIONS = 8
_HINT = "allow more by memory_limit=, or take less at once: smaller feeds, fewer steps, parallel_iterations='auto'"
_SWAP_HINT = (
    "let what loops save for their gradients leave this memory, by Session(swap=True) or "
    "while_loop(..., swap_memory=True), or save less of it by checkpoint_every="
)
_LESS_HINT = "let smaller saved values move (SwapPolicy.minimum), and give them room in a tier"


class HasDevicePlans(Protocol):
    """Interface of a compiled step whose constants are listed in an error."""

    @property
    def device_plans(self) -> Sequence[DevicePlan]: ...


def set_limits(devices: Sequence[SessionDevice], limit: Limit | Mapping[str, Limit] | None) -> None:
    """Limit the memory of a session's devices.

    Parameters
    ----------
    devices : sequence of SessionDevice
    limit : int, str, MemoryBudget or mapping of str to any of these, optional
        Limit of each device's arrays in bytes, or a budget for all devices together; or limits by device names.

    Raises
    ------
    GraphError
        If `limit` is no size, a name matches no device or several, pools are switched off, or a device passed to the
        session has another limit already.
    """
    for device in devices:
        if device.pool is not None:
            device.pool.name = str(device.spec)
    if isinstance(limit, Mapping):
        for name, size in limit.items():
            _limit_device(_find_device(devices, name), size)
    elif limit is not None:
        for device in devices:
            _limit_device(device, limit)


def _limit_device(device: SessionDevice, limit: Limit) -> None:
    """Set the limit of a device; GraphError if its pool is switched off or has another limit."""
    size = None
    if not isinstance(limit, MemoryBudget):
        size = parse_size(limit, f"memory limit of {short_device(device.spec)}")
    if device.pool is None:
        raise GraphError(
            "memory cannot be limited where it is not counted",
            got="Settings(pool=False)",
            wanted="a pool",
            hint="leave the pool on, or memory_limit out",
        )
    shared = limit.shared if isinstance(limit, MemoryBudget) else None
    # A number may replace a number; a budget, which counts its devices' bytes, neither replaces a limit nor goes.
    has_other = device.pool.limit is not None if device.pool.shared is None else device.pool.shared is not shared
    if has_other and (shared is not None or device.pool.shared is not None):
        raise GraphError(
            f"{short_device(device.spec)} was given, and keeps a limit already",
            wanted="one budget, or a limit of its own, in all sessions of a device",
            got=repr(limit),
            hint="give a device without a limit, or leave devices= out for one of the session's own",
        )
    if shared is not None:
        device.pool.share(shared)
    else:
        device.pool.limit = size


def _find_device(devices: Sequence[SessionDevice], name: str) -> SessionDevice:
    """Return the device matched by a name; GraphError if none or several match."""
    wanted = parse_device(name)
    found = [device for device in devices if wanted.allows(device.spec)]
    if len(found) != 1:
        raise GraphError(
            "a memory limit is not for one device of the session",
            got=name,
            wanted=", ".join(short_device(device.spec) for device in devices),
            hint="give it the device's name, as '/cpu:0'",
        )
    return found[0]


def from_outside(
    contexts: KernelContexts, resources: Iterable[Resource], what: str, function: Callable[..., R], *arguments: Any
) -> R:
    """Call a function that brings values from outside into resources; DeviceMemoryError if they do not fit."""
    try:
        return contexts.run(function, *arguments)
    except MemoryError as error:
        pool = contexts.pool
        if pool is None or pool.limit is None:
            raise
        # A call in a thread sets it on the error: there the allowance refused, and not the pool.
        wanted = getattr(error, "wanted_bytes", None) or pool.refused_bytes
        error = MemoryLimitError(wanted, pool.used_bytes, pool.limit, pool.name)
        raise explain_refusal(error, what, (), pool, resources) from None


def explain_refusal(
    error: MemoryLimitError, what: str, steps: Iterable[HasDevicePlans], pool: Pool, resources: Iterable[Resource]
) -> DeviceMemoryError:
    """Return the error of a step or of values from outside whose arrays do not fit."""
    return _make_memory_error(f"{what} do not fit into", error, _held_allocations(pool, steps, resources), hint=_HINT)


def no_room(error: NoRoom) -> DeviceMemoryError:
    """Return the error of a step with an instance that waited for memory which nothing could release."""
    allocations = [Allocation(name, tag, size, source) for size, name, tag, source in error.allocations]
    saved = sum(allocation.bytes for allocation in allocations if allocation.operation.startswith("values saved"))
    better = _LESS_HINT if error.swaps else _SWAP_HINT
    # Swapping is advised only if saved values hold at least a quarter of the memory in use.
    hint = _HINT if 4 * saved < error.live else f"{better}; or {_HINT}"
    return _make_memory_error("there is no room for a result in", error, allocations, hint=hint)


def _make_memory_error(what: str, error: Any, allocations: Iterable[Allocation], **fields: Any) -> DeviceMemoryError:
    """Return a DeviceMemoryError with the sizes of `error` and the largest allocations."""
    left = format_size(max(0, error.limit - error.live))
    return DeviceMemoryError(
        f"{what} the memory of {short_device(error.device)}",
        device=error.device,
        requested=error.wanted,
        live=error.live,
        limit=error.limit,
        allocations=tuple(sorted(allocations, key=lambda allocation: -allocation.bytes)[:_MOST_ALLOCATIONS]),
        wanted=f"{format_size(error.wanted)} ({error.wanted} bytes)",
        got=f"{left} left of {format_size(error.limit)} ({error.limit} bytes)",
        **fields,
    )


def _held_allocations(
    pool: Pool, steps: Iterable[HasDevicePlans], resources: Iterable[Resource]
) -> Iterator[Allocation]:
    """Yield the allocations of a session's resources, and of compiled steps' constants, on a device."""
    for size, label, tag, source in resource_allocations(resources, pool) + shared_allocations(pool):
        yield Allocation(label, tag, size, source)
    constants: dict[int, Allocation] = {}
    for step in steps:
        for node in (node for each in step.device_plans for node in each.plan.nodes if node.kind is Kind.CONST):
            constants[id(node.value)] = Allocation(node.name, None, getattr(node.value, "nbytes", 0), node.source)
    yield from constants.values()
