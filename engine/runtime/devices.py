"""The devices of a session: their names, and the memory and private contexts of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.devices import DeviceSpec, parse_device
from ..base.errors import GraphError
from ..base.settings import Settings
from ..kernels.cpu.contexts import KernelContexts
from ..kernels.cpu.pool import Pool

HOME = DeviceSpec(job="localhost", task=0)
_HINT = "give a number of CPU devices, or a list of names as ['/cpu:0', '/cpu:1']"


@dataclass(frozen=True, slots=True)
class SessionDevice:
    """One device of a session.

    Attributes
    ----------
    spec : DeviceSpec
        Its full name.
    contexts : KernelContexts
        Where its kernels run, and with them its memory.
    """

    spec: DeviceSpec
    contexts: KernelContexts

    @property
    def pool(self) -> Pool | None:
        """Its allocator, None if that is switched off."""
        return self.contexts.pool


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What the arrays of one device take, in bytes.

    Attributes
    ----------
    live_bytes, peak_bytes : int
        Now; the most so far.
    cached_bytes : int
        Of freed arrays, kept for new ones.
    """

    live_bytes: int
    peak_bytes: int
    cached_bytes: int


def memory_of(device: SessionDevice) -> DeviceMemory | None:
    """Return the figures of a device's allocator, None if that is switched off."""
    pool = device.pool
    return None if pool is None else DeviceMemory(pool.live_bytes, pool.peak_bytes, pool.cached_bytes)


def open_devices(wanted: int | Iterable[str] | None, settings: Settings) -> tuple[SessionDevice, ...]:
    """Make the devices that a session was asked for.

    Parameters
    ----------
    wanted : int, iterable of str, or None
        How many CPU devices, or their names; what a name leaves open is filled in. One by default.
    settings : Settings
        ``pool`` and ``pool_bytes``.

    Returns
    -------
    tuple of SessionDevice

    Raises
    ------
    GraphError
        If it is none of these, a name is taken twice, or asks for what is not there.
    """
    names = _listed(1 if wanted is None else wanted)
    specs: list[DeviceSpec] = []
    for name in names:
        spec = _full(parse_device(name), len(specs), name)
        if spec in specs:
            raise GraphError("two devices of a session have one name", got=str(spec), hint="number them")
        specs.append(spec)
    if not specs:
        raise GraphError("a session needs a device", wanted="at least 1", got=wanted, hint="leave devices= out for one")
    return tuple(SessionDevice(spec, KernelContexts(_pool(settings))) for spec in specs)


def _listed(wanted: object) -> list[str]:
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0:
        return [f"/cpu:{i}" for i in range(wanted)]
    listed = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    names = [name for name in listed if isinstance(name, str)]
    if isinstance(wanted, str) or len(names) != len(listed):
        raise GraphError("not the devices of a session", wanted="a number or a list of names", got=wanted, hint=_HINT)
    return names


def _full(spec: DeviceSpec, number: int, name: str) -> DeviceSpec:
    if spec.type not in (None, "CPU"):
        raise GraphError("there is no such device here", wanted="/cpu:...", got=name, hint=_HINT)
    return spec.within(DeviceSpec(HOME.job, None, HOME.task, "CPU", number))


def _pool(settings: Settings) -> Pool | None:
    return Pool(settings.pool_bytes) if settings.pool else None
