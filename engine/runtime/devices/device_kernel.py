"""Kernels on a device whose arrays are not NumPy's: places of values, and copies before a kernel runs.

Values in the host's memory and on the device travel along the same edges. The host computes with scalars and short
vectors of integers, such as counters, shapes and predicates, as long as all inputs are of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.dtypes import as_dtype
from ...ir.definition import Ufunc, host_inputs
from ...ir.operation import Operation
from ...ir.own_kernels import ON_HOST, KernelSource, bound_kernel
from ...ir.rules.kernels import KeepsSize, PassesInputs, ReadsValues
from ...ir.rules.shapes import ShapeOnly
from ...kernels.core.continuation import Continuation
from ...kernels.memory.swappable import SwappableArray
from ...kernels.scheduler.series import Series
from ...ops.state.variables.operations import VariableSlot
from ...streams.event import Event
from .device_values import DeviceValues, stays_on_host

if TYPE_CHECKING:
    from ...kernels.cuda.registry import Compiled

Put = Callable[[Any], None]
Coming = tuple[Put, Event[Any]]  # receiver of a copy's result, and the copy


class DeviceKernel:
    """Kernel of an operation that moves inputs to the memory where the operation reads them.

    Parameters
    ----------
    op : Operation
    device_values : DeviceValues
        Memory and kernels of the device.
    """

    def __init__(self, op: Operation, device_values: DeviceValues) -> None:
        definition = op.definition
        where = _find_place(op, device_values.kernels)
        self._device_values = device_values
        self._on_host = bound_kernel(op, np, ON_HOST)
        kernel = bound_kernel(op, device_values.xp, device_values.kernels)
        own = device_values.kernels.find(op)
        compiled = None
        if where == "device" and device_values.native and own is None:
            compiled = _find_compiled(op, device_values, kernel)
        self._compiled = compiled
        self._on_device = self._on_host if where == "host" else device_values.wrap_kernel(compiled or kernel)
        self._first = int(definition.stateful)  # the context comes first
        hosts = [True] * len(op.inputs) if where == "host" else _host_inputs(op, compiled)
        self._hosts = [hosts[i] and op.inputs[i].dtype.is_value for i in range(len(op.inputs))]
        # Operations that forward their inputs, or read only shapes, take values in either memory: nothing is copied.
        passing = definition.has(PassesInputs) or definition.has(ShapeOnly)
        values = [not passing and tensor.dtype in device_values.kernels.dtypes for tensor in op.inputs]
        self._values = [i for i, value in enumerate(values) if value and not hosts[i]]
        # The host may compute in place of the device if all results are small as well, which `KeepsSize` promises
        # for operations with host inputs such as axes.
        self._may_stay = bool(self._values) and where == "device" and (not any(hosts) or definition.has(KeepsSize))
        self._may_stay &= compiled is None or compiled.on_host is None
        self._looks = [i for i, tensor in enumerate(op.inputs) if passing]
        is_universal = own is None and isinstance(definition.kernel, Ufunc) and definition.kernel.elsewhere is None
        self._takes_scalars = is_universal if compiled is None else compiled.takes_scalars
        # The size of the result, or an error, depends on values: the kernel blocks until the device has computed them.
        self._waits = definition.has(ReadsValues)
        self._host_backed = bool(op.attrs.get("host_backed"))
        # The host computes small integers, so a series of integers may have elements in both memories.
        may_be_mixed = where == "store" and any(t.dtype.is_value and not t.dtype.is_differentiable for t in op.outputs)
        # The fast path of `__call__`: all inputs are values for the device, and none needs a look of its own.
        self._is_plain = not self._first and self._values == [*range(len(op.inputs))] and not self._host_backed
        self._array: type = device_values.xp.ndarray
        self._series = [i for i, t in enumerate(op.inputs, self._first) if may_be_mixed and t.dtype.name == "series"]

    def __call__(self, *arguments: Any) -> Any:
        """Return the kernel's result, or an awaitable of the result."""
        if self._is_plain and (kernel := self._at_once(arguments)) is not None:
            return self._call_kernel(kernel, arguments)
        given = list(arguments)
        stays = self._runs_on_host(given)
        coming = self._begin_input_copies(given, stays)
        kernel = self._on_host if stays else self._on_device
        if coming or (self._waits and not stays):
            return self._call_after_copies(kernel, given, coming)
        return self._call_kernel(kernel, given)

    def _at_once(self, arguments: Sequence[Any]) -> Callable[..., Any] | None:
        """Return the kernel if all inputs are in the memory of the device, or of the host, as most are; else None."""
        if all(isinstance(value, self._array) for value in arguments):
            return None if self._waits else self._on_device
        return self._on_host if self._may_stay and all(map(stays_on_host, arguments)) else None

    def _call_kernel(self, kernel: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Call a kernel whose inputs are in place; return an awaitable if the device has too much work queued."""
        result = kernel(*given)
        event = None if kernel is self._on_host else self._device_values.device.backpressure()
        return result if event is None else _return_after(event, result)

    def _runs_on_host(self, given: Sequence[Any]) -> bool:
        """Return True if the host computes this instance."""
        if self._looks:
            return all(not self._device_values.has(given[self._first + i]) for i in self._looks)
        if self._series:
            return not any(
                self._device_values.has(each) or isinstance(each, SwappableArray) for each in self._series_values(given)
            )
        return self._may_stay and all(stays_on_host(given[self._first + i]) for i in self._values)

    def _series_values(self, given: Sequence[Any]) -> Iterator[Any]:
        """Yield the values of series among the inputs; some series of integers hold values in the host's memory."""
        for i in self._series:
            if isinstance(given[i], Series):
                yield from (given[i].at(index) for index in given[i].indices())

    def _begin_input_copies(self, given: list[Any], stays: bool) -> list[Coming]:
        """Begin all copies of inputs; put ready values into `given`, and return the copies under way."""
        wanted = [] if stays else [*self._inputs_to_copy(given), *self._series_values_to_copy(given)]
        coming = self._begin_copies([*wanted, *self._variables_to_copy(given)])
        for i, wants_host in enumerate(self._hosts, self._first):
            if wants_host and self._device_values.has(given[i]):
                coming.append((_put_at(given, i), self._device_values.begin_copy_to_host(given[i])))
        return coming

    def _begin_copies(self, wanted: list[tuple[Put, Any]]) -> list[Coming]:
        """Begin copies to the device; put ready arrays in place, and return the copies under way."""
        coming = []
        for (put, _), pending in zip(wanted, self._device_values.copy_in([value for _, value in wanted]), strict=True):
            if pending.copy is None or pending.is_there:
                put(pending.array)
            else:
                coming.append((_put_ready_array(put, pending.array), pending.copy))
        return coming

    def _inputs_to_copy(self, given: list[Any]) -> Iterator[tuple[Put, Any]]:
        """Yield the inputs to be copied to the device; scalars beside arrays stay, as kernels take them as they are."""
        for i in (i + self._first for i in self._values):
            value = given[i]
            if self._takes_scalars and isinstance(value, np.ndarray) and value.ndim == 0:
                given[i] = value[()]  # there is an array beside the scalar, or the host would compute this instance
            elif not (
                self._device_values.has(value) or (self._host_backed and given[self._first].keeps_on_host(value))
            ):
                yield _put_at(given, i), value

    def _variables_to_copy(self, given: Sequence[Any]) -> Iterator[tuple[Put, Any]]:
        """Yield the variables written from outside and not on the device yet."""
        for each in given if self._on_device is not self._on_host else ():
            if isinstance(each, VariableSlot) and each.in_host is not None:
                yield _put_into_variable(each, each.in_host), each.in_host

    def _series_values_to_copy(self, given: Sequence[Any]) -> Iterator[tuple[Put, Any]]:
        """Yield the values in the host's memory of series that also hold values on the device."""
        for series in (given[i] for i in self._series if isinstance(given[i], Series)):
            for index in series.indices():
                if not self._device_values.has(value := series.at(index)) and not isinstance(
                    value, Series | SwappableArray
                ):
                    yield partial(series.put, index), value

    async def _call_after_copies(self, kernel: Callable[..., Any], given: list[Any], coming: list[Coming]) -> Any:
        """Wait for copies under way; return a Continuation of the kernel, to run the instance as any other."""
        for put, event in coming:
            put(await event)
        if self._waits and kernel is self._on_device:
            compute = self._device_values.device.compute
            if not self._device_values.is_limited:
                return await compute.submit(partial(self._device_values.contexts.run, kernel, *given))
            # Under a limit, memory is charged to the running iteration, known on the loop's thread alone: so only wait
            # for the stream here, and call the kernel in the Continuation.
            await compute.submit()
        return Continuation(partial(self._go_on, kernel, given))

    def _go_on(self, kernel: Callable[..., Any], given: list[Any]) -> Any:
        """Call a kernel whose inputs are in place, unless a variable was written from outside in the meantime."""
        coming = self._begin_copies(list(self._variables_to_copy(given)))
        return self._call_after_copies(kernel, given, coming) if coming else self._call_kernel(kernel, given)


def _host_inputs(op: Operation, compiled: Compiled | None) -> list[bool]:
    """Return for each input True if the kernel reads it in the host's memory."""
    if compiled is None or compiled.on_host is None:
        return host_inputs(op)
    return [i in compiled.on_host for i in range(len(op.inputs))]


def _find_compiled(op: Operation, device_values: DeviceValues, otherwise: Callable[..., Any]) -> Compiled | None:
    generator = device_values.device.generator
    outputs = [np.dtype(tensor.dtype.numpy) for tensor in op.outputs]
    return None if generator is None else generator.find_kernel(op.type, op.attrs, outputs, otherwise)


async def _return_after(event: Event[Any], result: Any) -> Any:
    """Return a result after the device is ready for more work."""
    await event
    return await result if hasattr(type(result), "__await__") else result


def _put_at(given: list[Any], i: int) -> Put:
    return partial(given.__setitem__, i)


def _put_ready_array(put: Put, array: Any) -> Put:
    return lambda _: put(array)


def _put_into_variable(slot: VariableSlot, old: Any) -> Put:
    return partial(slot.move, old)


def _find_place(op: Operation, kernels: KernelSource) -> str:
    """Return the place of an operation; "host" for stores of dtypes that the device does not have."""
    where = kernels.place_of(op)
    named = [op.attrs[name] for name in ("dtype", "elem_type") if name in op.definition.attrs]
    dtypes = [tensor.dtype for tensor in (*op.inputs, *op.outputs)] + list(map(as_dtype, named))
    return "host" if any(dtype.is_value and dtype not in kernels.dtypes for dtype in dtypes) else where
