"""The devices of a session: names, memory and private contexts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from ...base.device_names import DeviceSpec, parse_device
from ...base.errors import GraphError
from ...base.extras import install_hint
from ...base.settings import Settings
from ...base.wording import short_device
from ...compile import DeviceTarget
from ...ir.own_kernels import KernelSource
from ...kernels.memory.contexts import KernelContexts
from ...kernels.memory.pool import Pool
from ...streams.capabilities import SimulatedTime
from ...streams.contract import Device
from ...streams.kinds import find_kind, kernels_of, kind_names
from ..resources.manager import ResourceManager

HOME = DeviceSpec(job="localhost", task=0)
_HINT = "give a number of CPU devices, or a list of names as ['/cpu:0', '/cpu:1'] or of devices of tagloom.streams"


@dataclass(frozen=True, slots=True)
class DeviceAttributes:
    """Attributes of a session's device, as returned by :meth:`Session.list_devices`.

    Attributes
    ----------
    name : str
        Full name.
    device_type : str
        Device kind: "CPU", "GPU", or another registered kind.
    memory_limit_bytes : int or None
        Limit of the device's arrays in bytes; None for no limit.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.SyncSession(tg.Graph(), devices=2, memory_limit="1GiB") as session:
    ...     [(each.device_type, each.memory_limit_bytes) for each in session.list_devices()]
    [('CPU', 1073741824), ('CPU', 1073741824)]
    """

    name: str
    device_type: str
    memory_limit_bytes: int | None


@dataclass(frozen=True, slots=True)
class SessionDevice:
    """A device of a session.

    Attributes
    ----------
    spec : DeviceSpec
        Full name.
    device : Device
        Memory and streams.
    owned : bool
        True if the device is closed with the session.
    contexts : KernelContexts
        Contexts of the device's kernels, with their memory.
    kernels : KernelSource
        Kernels of the device's kind, which the session keeps when the kind is taken back.
    """

    spec: DeviceSpec
    device: Device
    owned: bool
    contexts: KernelContexts
    kernels: KernelSource

    @property
    def pool(self) -> Pool | None:
        """The device's allocator; None if switched off."""
        return self.contexts.pool

    @property
    def is_simulated(self) -> bool:
        """True if the device's kernels take simulated time."""
        return isinstance(self.device, SimulatedTime)

    def attributes(self) -> DeviceAttributes:
        """Return the device's attributes for users."""
        limit = self.device.limit if self.pool is None or self.pool.limit is None else self.pool.limit
        return DeviceAttributes(str(self.spec), self.spec.type or "", limit)

    def target(self) -> DeviceTarget:
        """Return the compiler's target for steps on the device."""
        limit = None if self.pool is None else self.pool.limit
        kernels, generator = self.kernels, self.device.generator
        if self.device.arrays is None:
            return DeviceTarget(self.spec, limit, None, generator, kernels)
        from .arrays_backend import device_backend  # loads the kernels of such devices, which other sessions need not

        backend = partial(device_backend, self.device, self.contexts, kernels)
        return DeviceTarget(self.spec, limit, backend, generator, kernels)


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of a device's arrays, in bytes.

    Attributes
    ----------
    live_bytes, peak_bytes : int
        Bytes in use now; the most in use so far.
    cached_bytes : int
        Bytes of freed arrays, kept for new arrays.
    limit_bytes : int or None
        Limit of `live_bytes`, shared with other sessions under a MemoryBudget; None for no limit.
    resource_bytes : int
        Share of `live_bytes` held by variables and all other state kept from step to step.
    """

    live_bytes: int
    peak_bytes: int
    cached_bytes: int
    limit_bytes: int | None = None
    resource_bytes: int = 0


def memory_figures(devices: Iterable[SessionDevice], resources: ResourceManager) -> dict[str, Any]:
    """Return the memory figures by device, and their sums, of all devices with a pool; empty without pools."""
    pools = {str(device.spec): device.pool for device in devices if device.pool is not None}
    held = resources.nbytes_by_device(pools)
    found = {
        name: DeviceMemory(pool.live_bytes, pool.peak_bytes, pool.cached_bytes, pool.limit, held[name])
        for name, pool in pools.items()
    }
    names = ("live_bytes", "peak_bytes", "cached_bytes") if found else ()
    totals: dict[str, Any] = {name: sum(getattr(figures, name) for figures in found.values()) for name in names}
    return totals | {"devices": found}


def peak_bytes(devices: Iterable[SessionDevice]) -> int | None:
    """Return the sum of the devices' peaks in bytes; None without pools."""
    pools = [device.pool for device in devices if device.pool is not None]
    # An upper bound of the peak of the sum: the devices may have had their peaks at different times.
    return sum(pool.peak_bytes for pool in pools) if pools else None


def homes_of(values: Sequence[Any], devices: Sequence[SessionDevice]) -> list[str]:
    """Return the device name of each value, "cpu:0"; the first device's for values outside of all pools."""
    names = [short_device(place.spec) for place in devices]
    # The usual case, without a search of the pools.
    if len(devices) == 1:
        return names * len(values)
    return [
        next((name for name, place in zip(names, devices) if _holds_array(place, each)), names[0]) for each in values
    ]


def _holds_array(place: SessionDevice, value: Any) -> bool:
    """Return True if a device's memory has an array."""
    if place.device.arrays is not None:
        return place.device.owns(value)
    return place.pool is not None and isinstance(value, np.ndarray) and place.pool.counts(value)


Wanted = int | Iterable[str | Device] | None


def open_devices(wanted: Wanted, settings: Settings) -> tuple[SessionDevice, ...]:
    """Open the devices of a session.

    Parameters
    ----------
    wanted : int, iterable of str or Device, or None
        Number of CPU devices, or names of devices, completed where partial; a single CPU by default. A Device
        must compute, with NumPy's arrays or an array library, and stays open when the session ends.
    settings : Settings
        ``pool`` and ``pool_bytes``.

    Returns
    -------
    tuple of SessionDevice

    Raises
    ------
    GraphError
        If `wanted` is none of these, a name is used twice, or a device is not available or of another process.
    """
    # Names are completed by their position, so that partial names such as "/cpu" of several devices differ.
    specs: dict[DeviceSpec, str | Device] = {}
    for each in _list_devices(1 if wanted is None else wanted):
        name = each if isinstance(each, str) else each.name
        spec = _complete_spec(parse_device(name), len(specs), name, _has_arrays(each))
        if spec in specs:
            raise GraphError(
                "two devices of a session have one name",
                wanted="a name for each",
                got=f"{short_device(spec)} twice",
                hint="number them",
            )
        specs[spec] = each
    _require_own_process(specs)
    if not specs:
        raise GraphError("a session needs a device", wanted="at least 1", got=wanted, hint="leave devices= out for one")
    return tuple(_open_device(spec, each, settings) for spec, each in specs.items())


def _require_own_process(specs: Iterable[DeviceSpec]) -> None:
    """Raise GraphError for a device of another process: it would run here under the other's name."""
    here = replace(HOME, replica=0)  # a name without a replica counts as replica 0
    others = [spec for spec in specs if not here.allows(spec)]
    if others:
        raise GraphError(
            "the devices of a session belong to one process, its own",
            wanted=f"devices of {HOME}, which is this process",
            got=", ".join(map(str, others)),
            hint="leave job, replica and task out of the names, as devices=['/cpu:0', '/cpu:1']; a session does not "
            "reach other machines",
        )


def _open_device(spec: DeviceSpec, wanted: str | Device, settings: Settings) -> SessionDevice:
    """Return the device of a name, newly opened, or the passed device with its own contexts."""
    if not isinstance(wanted, str):
        return SessionDevice(spec, wanted, False, wanted.contexts, kernels_of(spec))
    kind = find_kind(spec.type)
    assert kind is not None, "checked by _complete_spec"
    device = kind.open_device(spec, settings)
    return SessionDevice(spec, device, True, device.contexts, kind.kernels)


def _list_devices(wanted: object) -> list[str | Device]:
    """Return a list of names and devices; GraphError for anything else, or a device that only copies."""
    if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool) and wanted >= 0:
        return [f"/cpu:{i}" for i in range(int(wanted))]
    # [None] fails the check below, as a list with anything but names and devices does.
    listed = list(wanted) if isinstance(wanted, (Sequence, Iterator)) else [None]
    for each in listed:
        if isinstance(each, Device) and not each.computes:
            raise GraphError(
                f"{each.name} copies, but cannot compute",
                wanted="a device with an array library",
                got=repr(each),
                hint=f"a GPU computes where CuPy is installed: {install_hint('cuda')}",
            )
    devices = [each for each in listed if isinstance(each, (str, Device))]
    # A string would pass for a list of names of one letter.
    if isinstance(wanted, str) or len(devices) != len(listed):
        raise GraphError(
            "not the devices of a session", wanted="a number or a list of names", got=repr(wanted), hint=_HINT
        )
    return devices


def _has_arrays(device: object) -> TypeGuard[Device]:
    return isinstance(device, Device) and device.arrays is not None


def _complete_spec(spec: DeviceSpec, number: int, name: str, known: bool) -> DeviceSpec:
    if spec.type is not None and not known and find_kind(spec.type) is None:
        raise GraphError("there is no such device here", wanted=kind_names(), got=repr(name), hint=_HINT)
    return spec.within(DeviceSpec(HOME.job, None, HOME.task, "CPU", number))


def check_arrays(devices: Sequence[SessionDevice], is_guarded: bool) -> None:
    """Refuse options that devices without NumPy's arrays do not support.

    Raises
    ------
    GraphError
        If results are to be checked, or other devices have simulated time.
    """
    foreign = [place for place in devices if place.device.arrays is not None]
    if foreign and (is_guarded or any(place.is_simulated for place in devices)):
        what = "check_numerics=True" if is_guarded else "a device that takes stated times"
        raise GraphError(
            f"{what} is not supported with {short_device(foreign[0].spec)}, whose arrays are not NumPy's",
            hint="use check_numerics() in the graph, or leave it out" if is_guarded else "leave one of them out",
        )
