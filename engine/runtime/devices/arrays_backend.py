"""Compiler backend of a step on a device whose arrays are not NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.settings import Settings
from ...compile.plan.plan import Plan
from ...ir.operation import Operation
from ...ir.own_kernels import KernelSource
from ...kernels.memory.contexts import KernelContexts
from ...streams.contract import Device
from .device_kernel import DeviceKernel
from .device_values import DeviceValues
from .launched_kernel import LaunchedKernel


class ArraysBackend:
    """DeviceBackend of a device with an array library other than NumPy.

    Parameters
    ----------
    device_values : DeviceValues
        Values of the compiled step on the device.
    """

    def __init__(self, device_values: DeviceValues) -> None:
        self._values = device_values
        self._copies = {
            "ToHost": device_values.to_host,
            "ToDevice": device_values.to_device,
            "IntoDevice": device_values.into_device,
        }

    def kernel(self, op: Operation) -> Callable[..., Any]:
        """Return the kernel of an operation or transfer."""
        kind = LaunchedKernel if "program" in op.definition.attrs else DeviceKernel
        return self._copies.get(op.type) or kind(op, self._values)

    def bind(self, plan: Plan) -> None:
        """Register the plan's constants, which stay on the device from their first use there."""
        self._values.bind(plan)


def device_backend(
    device: Device, contexts: KernelContexts, kernels: KernelSource, settings: Settings
) -> ArraysBackend:
    """Return the backend of a compiled step on a device whose arrays are not NumPy's."""
    return ArraysBackend(DeviceValues(device, contexts, settings.switches.native, kernels))
