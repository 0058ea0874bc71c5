"""Device kinds: how sessions open a device by its name, and which arrays and kernels devices of the kind have.

The kind of a device is the type in its name: ``/job:localhost/task:0/device:GPU:0`` is of the kind GPU. The kinds of
tagloom are registered at the end of this file, by the function that outside packages call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.device_names import DeviceSpec
from ..base.dtypes import PORTABLE, DType, as_dtype
from ..base.errors import GraphError, TagloomError
from ..base.registrations import Registration, Registry
from ..base.settings import Settings
from ..base.wording import short_device
from ..ir.own_kernels import KernelSource

if TYPE_CHECKING:
    from .contract import Device

Open = Callable[[str, int, Settings], "Device"]


class DeviceUnavailable(TagloomError):
    """Error of a device that this machine does not have, or cannot use for want of a library or driver.

    Examples
    --------
    >>> from tagloom.streams import DeviceUnavailable
    >>> print(DeviceUnavailable("no tile processor answers", hint="load its driver").what)
    no tile processor answers
    """


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of devices.

    Attributes
    ----------
    name : str
        In capitals, as in names of devices: "GPU".
    open : callable
        ``open(name, index, settings)`` returns a new Device of the full name `name`, or raises DeviceUnavailable.
    count : callable or None
        ``count()`` returns the number of such devices on this machine; None if unknown.
    kernels : KernelSource
        The kernels of the kind, and the dtypes of its arrays.
    requires : str
        Requirements of the kind, for errors: "a GPU, and pycuda and CuPy, which compute there".
    """

    name: str
    open: Open
    count: Callable[[], int] | None
    kernels: KernelSource
    requires: str

    def open_device(self, spec: DeviceSpec, settings: Settings) -> Device:
        """Open the device of a full name.

        Raises
        ------
        GraphError
            If the device is not available, or the kind opened something else.
        """
        try:
            device: Any = self.open(str(spec), spec.index or 0, settings)
        except DeviceUnavailable as error:
            raise GraphError(
                f"{short_device(spec)} is not available here", wanted=self.requires, got=error.what, hint=error.hint
            ) from error
        from .contract import Device  # loaded with the device

        if not isinstance(device, Device) or not device.computes:
            raise GraphError(
                f"the device kind {self.name}, registered at {_KINDS.source_of(self.name)}, opened no device that"
                " computes",
                wanted="a tagloom.streams.Device with NumPy's arrays or an array library",
                got=repr(device),
                hint="return the device from the function passed as open",
            )
        return device


_KINDS: Registry[DeviceKind] = Registry("device kind")


def register_device_kind(
    name: str,
    open: Open,
    *,
    count: Callable[[], int] | None = None,
    dtypes: Iterable[DType | str] = PORTABLE,
    needs_kernels: bool = False,
    requires: str = "",
) -> Registration:
    """Register a kind of devices, so sessions open ``devices=["/NAME:0"]`` and graphs may ask for them.

    The registration holds for the whole process, in all sessions, until it is taken back.

    Parameters
    ----------
    name : str
        Letters only, in any case: "npu" is the kind of ``/npu:0``, ``/device:NPU:1``.
    open : callable
        ``open(name, index, settings)`` returns a new :class:`tagloom.streams.Device` with the full name `name`, which
        the session closes. It raises :class:`tagloom.streams.DeviceUnavailable` where there is no such device.
    count : callable, optional
        ``count()`` returns the number of such devices on this machine, for ``tagloom info``.
    dtypes : iterable of DType or str, optional
        Dtypes of arrays in the device's memory, for devices whose array library is not NumPy. Operations with values of
        other dtypes run on the host, with copies. By default all except string and bfloat16.
    needs_kernels : bool, optional
        True for an array library without NumPy's functions: the device computes the operations with a kernel
        registered for the kind (:func:`register_kernel`), and the host the others, with copies. Variables and values
        that a loop saves stay on the host.
    requires : str, optional
        Requirements of the kind, for the error about a device that is not available.

    Returns
    -------
    Registration

    Raises
    ------
    GraphError
        If the name is no word of letters or is registered already, or `open` or `count` cannot be called.
    DtypeError
        If one of `dtypes` is no dtype.

    Examples
    --------
    Devices whose products take 5 ms of virtual time:

    >>> import tagloom as tg
    >>> from tagloom import operations, streams
    >>> def open_slow(name, index, settings):
    ...     return streams.LatencyDevice(name, seconds={"MatMul": 0.005})
    >>> kind = operations.register_device_kind("slow", open_slow)
    >>> with tg.Graph().as_default() as graph, tg.device("/slow:1"):
    ...     y = tg.matmul([[2.0]], [[3.0]])
    >>> with tg.SyncSession(graph, devices=["/cpu:0", "/slow:1"]) as session:
    ...     float(session.run(y)[0, 0])
    6.0
    >>> kind.unregister()
    """
    if not isinstance(name, str) or not name.isalpha() or name.lower() in ("job", "replica", "task", "device"):
        raise GraphError(
            "not the name of a device kind",
            wanted="a word of letters, other than job, replica, task and device",
            got=repr(name),
            hint="name it as '/npu:0' is to name its devices: 'npu'",
        )
    for argument, value in (("open", open), ("count", count)):
        if not callable(value) and not (argument == "count" and value is None):
            raise GraphError(
                f"{argument}= of the device kind {name} cannot be called",
                wanted="a function",
                got=repr(value),
                hint="pass the function itself, not its result",
            )
    kind = name.upper()
    kernels = KernelSource(kind, tuple(map(as_dtype, dtypes)), bool(needs_kernels))
    entry = DeviceKind(kind, open, count, kernels, requires or f"a device of the kind {kind}")
    return _KINDS.add(kind, entry, f"the device kind {kind}")


def find_kind(name: str | None) -> DeviceKind | None:
    """Return the registered kind of a name in capitals; None if there is none."""
    return _KINDS.entries.get(name)


def device_kinds() -> list[DeviceKind]:
    """Return the registered kinds, those of tagloom first.

    Examples
    --------
    >>> from tagloom import operations
    >>> [kind.name for kind in operations.device_kinds()][:2]
    ['CPU', 'GPU']
    """
    return list(_KINDS.entries.values())


def kind_names() -> str:
    """Return the names of the registered kinds for errors: "/cpu:..., /gpu:... or /npu:..."."""
    names = [f"/{kind.name.lower()}:..." for kind in device_kinds()]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def kernels_of(spec: DeviceSpec) -> KernelSource:
    """Return the kernels of a device by its name; a type that is no registered kind has no kernels of its own."""
    found = find_kind(spec.type)
    return KernelSource(spec.type or KernelSource().kind) if found is None else found.kernels


def _open_cpu(name: str, index: int, settings: Settings) -> Device:
    from . import cpu

    return cpu.CpuDevice(name, pool=settings.switches.pool, most_cached=settings.pool_bytes)


def _open_gpu(name: str, index: int, settings: Settings) -> Device:
    from .cuda import CudaDevice  # only a session on a GPU loads the package

    return CudaDevice(name, index, most_cached=settings.pool_bytes, computes=True)


def _count_gpus() -> int:
    from .cuda import cuda_devices

    return len(cuda_devices())


def _refuse_by_name(cls: str, argument: str) -> Open:
    """Return an opener for devices of tests, which are made with arguments that a name does not hold."""

    def refuse(name: str, index: int, settings: Settings) -> Device:
        raise DeviceUnavailable(
            f"a {cls} is made by the program that {argument}", hint=f"pass the device: devices=[{cls}({name!r})]"
        )

    return refuse


register_device_kind("cpu", _open_cpu, requires="a CPU")
register_device_kind("gpu", _open_gpu, count=_count_gpus, requires="a GPU, and pycuda and CuPy, which compute there")
register_device_kind(
    "latency", _refuse_by_name("LatencyDevice", "states its times"), requires="a LatencyDevice in the list of devices"
)
register_device_kind(
    "manual", _refuse_by_name("ManualDevice", "releases its work"), requires="a ManualDevice in the list of devices"
)
