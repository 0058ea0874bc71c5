"""Native programs on a device: kernels launched again and again until done, while the event loop goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...kernels.native.cuda.kernel import NativeKernel
from ...kernels.native.cuda.run import Run
from ...kernels.native.program import NativeProgram
from .device_kernel import DeviceKernel

if TYPE_CHECKING:
    from ...ir.operation import Operation
    from .device_values import DeviceValues


class LaunchedKernel(DeviceKernel):
    """Kernel of a Native operation, which copies its state out after each launch to see if another is needed.

    Nothing can stop a running kernel, so each launch ends after a while by itself; a cancelled step ends between two.
    """

    def __init__(self, op: Operation, device_values: DeviceValues) -> None:
        super().__init__(op, device_values)
        self.program = NativeProgram.from_attribute(op.attrs["program"])
        self.counts: dict[str, tuple[int, int]] = {}  # (runs, iterations begun) by loop

    @property
    def reason(self) -> str | None:
        """Reason why the latest run was not native; None if native."""
        if isinstance(self._compiled, NativeKernel):
            return self._compiled.reason
        return "it was placed on a device for which there is no code generator, or which lacks a dtype"

    def forget_counts(self) -> None:
        """Reset the counts of loops."""
        self.counts = {}

    def _call_kernel(self, kernel: Callable[..., Any], given: Sequence[Any]) -> Any:
        result = kernel(*given)
        return self._launch_until_done(result) if isinstance(result, Run) else result

    async def _launch_until_done(self, run: Run) -> Any:
        """Launch a run until done and return its results."""
        values = self._device_values
        state = await values.begin_copy_to_host(run.state)
        while values.device.call(run.goes_on, state):
            state = await values.begin_copy_to_host(run.state)
        masks = [await values.begin_copy_to_host(mask) for mask in run.masks] if run.is_done(state) else []
        self._add_counts(run.counts(state))
        return values.device.call(run.results, state, masks, values.device.call)

    def _add_counts(self, counts: dict[str, tuple[int, int]]) -> None:
        for name, (runs, starts) in counts.items():
            before = self.counts.get(name, (0, 0))
            self.counts[name] = before[0] + runs, before[1] + starts
