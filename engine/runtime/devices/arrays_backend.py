"""The kernels of one compiled step on a device whose arrays are not NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.settings import Settings
from ...compile.plan.plan import Plan
from ...ir.operation import Operation
from ...kernels.memory.contexts import KernelContexts
from ...streams.contract import Device
from .device_kernel import DeviceKernel
from .device_values import DeviceValues
from .launched_kernel import LaunchedKernel


class ArraysBackend:
    """The DeviceBackend of a device that computes with another array library than NumPy.

    Parameters
    ----------
    device_values : DeviceValues
        Of one compiled step.
    """

    def __init__(self, device_values: DeviceValues) -> None:
        self._values = device_values
        self._copies = {
            "ToHost": device_values.to_host,
            "ToDevice": device_values.to_device,
            "IntoDevice": device_values.into_device,
        }

    def kernel(self, op: Operation) -> Callable[..., Any]:
        """Return the kernel of an operation, or of a transfer."""
        kind = LaunchedKernel if "program" in op.definition.attrs else DeviceKernel
        return self._copies.get(op.type) or kind(op, self._values)

    def bind(self, plan: Plan) -> None:
        """Keep the plan's constants on the device from when they are first used there."""
        self._values.bind(plan)


def device_backend(device: Device, contexts: KernelContexts, settings: Settings) -> ArraysBackend:
    """Return the backend of one compiled step on a device whose arrays are not NumPy's."""
    return ArraysBackend(DeviceValues(device, contexts, settings.native))
