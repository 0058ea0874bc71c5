"""Values of the host's memory on a device whose arrays are not NumPy's: copies in and out, and cached constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ...base import nest
from ...compile.plan.plan import Plan
from ...ir.own_kernels import ON_HOST, KernelSource
from ...kernels.core.table import Kind
from ...kernels.memory.contexts import KernelContexts
from ...streams.contract import Device
from ...streams.event import DeviceClosed, Event

_SHORT = 64  # elements; vectors of integers up to this length stay in the host's memory
_in_use: WeakKeyDictionary[Device, WeakSet[DeviceValues]] = WeakKeyDictionary()


@dataclass(slots=True)
class PendingCopy:
    """An array on the device with the copy of a host value under way.

    The copy has no result: the thread of a copy that has just ended would hold the array for a moment more.

    Attributes
    ----------
    array : array
    copy : Event or None
        Copy to be awaited before the array is used; None for a scalar.
    """

    array: Any
    copy: Event[None] | None = None

    @property
    def is_there(self) -> bool:
        """True if the array is ready for use."""
        return self.copy is None or (self.copy.done and self.copy.error is None)

    async def wait(self) -> Any:
        """Return the array when ready for use."""
        if self.copy is not None:
            await self.copy
        return self.array


class DeviceValues:
    """Values of a compiled step on a device, with the step's constants there.

    Parameters
    ----------
    device : Device
        Device with an array library other than NumPy.
    contexts : KernelContexts
        Contexts of the device's kernels.
    native : bool
        True to use the kernels of the device's code generator, for operations with such kernels.
    kernels : KernelSource, optional
        Kernels registered for the device's kind, and the dtypes of its arrays.

    Attributes
    ----------
    xp : module
        The array library.
    """

    def __init__(
        self, device: Device, contexts: KernelContexts, native: bool = False, kernels: KernelSource = ON_HOST
    ) -> None:
        self.kernels = kernels
        self.device = device
        self.contexts = contexts
        self.xp: Any = device.arrays
        self.native = native
        self._constants: dict[int, tuple[Any, PendingCopy | None]] = {}

    @property
    def is_limited(self) -> bool:
        """True if the device's memory has a limit."""
        return self.device.limit is not None

    def bind(self, plan: Plan) -> None:
        """Register the plan's constants, which stay on the device from their first use there."""
        _in_use.setdefault(self.device, WeakSet()).add(self)
        values = [node.value for node in plan.nodes if node.kind is Kind.CONST]
        # By identity, as arrays have no hash; the entry holds the value, so that its id is not used again.
        self._constants = {id(value): (value, None) for value in values}

    def has(self, value: Any) -> bool:
        """Return True if a value is an array on the device."""
        return isinstance(value, self.xp.ndarray)

    def copy_in(self, values: Sequence[Any]) -> list[PendingCopy]:
        """Return values of the host's memory as arrays on the device, with their copies under way.

        Raises
        ------
        MemoryError
            If there is no room for all of them; no copy has begun then, so the new arrays are released at once.
        """
        arrays = [np.asarray(value) for value in values]
        copies = [self._find_copy(array) or PendingCopy(self._allocate_copy(array)) for array in arrays]
        pairs = zip(arrays, copies, strict=True)
        fresh = [(array, each) for array, each in pairs if array.ndim and each.copy is None]
        copy = self.device.copy_all_in([(array, each.array) for array, each in fresh]) if fresh else None
        for array, each in fresh:
            each.copy = copy
            if id(array) in self._constants:
                self._constants[id(array)] = array, each
        return copies

    def _find_copy(self, array: Any) -> PendingCopy | None:
        """Return the pending copy of a constant, done or under way; None for other values and failed copies."""
        _, pending = self._constants.get(id(array), (None, None))
        failed = pending is not None and pending.copy is not None and pending.copy.error is not None
        return None if failed else pending

    def _allocate_copy(self, array: Any) -> Any:
        """Return a new array for a copy of a value; a scalar is already written."""
        if array.ndim == 0:
            return self.contexts.run(self.device.call, _make_scalar, self.xp, array)
        return self.device.allocate(array.shape, array.dtype)

    def forget(self) -> bool:
        """Release the constants on the device until their next use; return False if there were none."""
        # A copy under way needs its array: only constants that have arrived are released.
        there = [(value, pending) for value, pending in self._constants.values() if pending and pending.is_there]
        self._constants.update((id(value), (value, None)) for value, _ in there)
        return bool(there)

    def begin_copy_to_host(self, value: Any) -> Event[Any]:
        """Return an Event of a copy in the host's memory of an array on the device."""
        return self.device.copy_out(value, after=self.device.compute_barrier())

    def to_host(self, value: Any) -> Any:
        """Return a value in the host's memory, or an awaitable of the value."""
        return self.begin_copy_to_host(value) if self.has(value) else value

    def to_device(self, value: Any) -> Any:
        """Return a value on the device, except values that the host computes with."""
        return value if stays_on_host(value) else self.into_device(value)

    def into_device(self, value: Any) -> Any:
        """Return a value on the device, or an awaitable of the value."""
        if self.has(value):
            return value
        (pending,) = self.copy_in([value])
        return pending.array if pending.is_there else pending.wait()

    def wrap_kernel(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls a kernel on the device."""
        return partial(self.device.call, kernel)


def _make_scalar(xp: Any, array: Any) -> Any:
    return xp.full((), array[()], dtype=array.dtype)


def stays_on_host(value: Any) -> bool:
    """Return True if a value is in the host's memory and small enough for the host to compute with."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    return value.ndim == 0 or (value.ndim == 1 and value.dtype.kind in "biu" and value.size <= _SHORT)


def forget_constants(devices: Iterable[Device]) -> bool:
    """Release the constants of compiled steps on devices; return False if there were none."""
    found = [each.forget() for device in devices for each in _in_use.get(device, ())]
    return any(found)


async def copies_over(devices: Iterable[Device]) -> None:
    """Wait until devices whose arrays are not NumPy's copy nothing, so that all memory of an ended step is free."""
    for device in devices:
        for stream in device.streams[1:] if device.arrays is not None else ():
            now = stream.statistics()
            if now.waiting or now.running:
                # An empty piece of work at the end of the stream is over when all copies before it are.
                with suppress(DeviceClosed):
                    await stream.submit().over()


async def copied_out(values: Any, devices: Iterable[Device]) -> Any:
    """Return a structure of values with copies in the host's memory of the arrays on devices, all begun at once."""
    found = list(devices)
    copies = nest.map_structure(lambda value: _copied_out(value, found), values)
    copied = [await copy if isinstance(copy, Event) else copy for copy in nest.flatten(copies)]
    return nest.pack_as(copies, copied)


def _copied_out(value: Any, devices: Iterable[Device]) -> Any:
    for device in devices:
        if device.owns(value):
            return device.copy_out(value, after=device.compute_barrier())
    return value
