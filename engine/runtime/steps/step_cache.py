"""Cache of a session's compiled steps; the least recently used step leaves first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from typing import Any

from ...kernels.memory.pool import MemoryLimitError
from ..memory.limits import explain_refusal
from .compiled_step import CompiledStep
from .counters import StepCounters
from .environment import StepEnvironment


class StepCache:
    """Compiled steps by their requests; a step's constants are charged to its devices while the cache keeps the step.

    Parameters
    ----------
    environment : StepEnvironment

    Attributes
    ----------
    last : (CompiledStep, StepCounters) or None
        The last step started and its counters, for reports.
    """

    def __init__(self, environment: StepEnvironment) -> None:
        self._environment = environment
        self._steps: OrderedDict[Any, CompiledStep] = OrderedDict()
        self.last: tuple[CompiledStep, StepCounters] | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, key: Any) -> bool:
        return key in self._steps

    def get(self, key: Any) -> CompiledStep | None:
        """Return the step of a key and mark it as used last; None if the cache has no such step."""
        step = self._steps.get(key)
        if step is not None:
            self._steps.move_to_end(key)
        return step

    def insert(self, key: Any, step: CompiledStep) -> None:
        """Keep a step and charge its constants; older steps make room for them.

        Raises
        ------
        DeviceMemoryError
            If the constants do not fit.
        """
        while not self._charge_constants(step):
            self._steps.popitem(last=False)
            self.last = None  # would keep the step, and so its constants
        self._steps[key] = step
        while len(self._steps) > self._environment.settings.step_cache_size:
            self._steps.popitem(last=False)

    def _charge_constants(self, step: CompiledStep) -> bool:
        """Charge a step's constants; return False if they do not fit beside the constants of other steps."""
        devices = self._environment.devices
        try:
            step.bind_devices(devices)
        except MemoryLimitError as error:
            # Other devices may have been charged before the device without room.
            step.holds.clear()
            if self._steps:
                return False
            pools = [device.pool for device in devices]
            pool = next(each for each in pools if each is not None and each.name == error.device)
            raise explain_refusal(error, "the constants of a step", [step], pool, self._environment.resources) from None
        return True

    def forget(self, tensors: Container[Any]) -> None:
        """Drop the steps with fetches or feeds among some tensors, because no caller asks for them any longer."""
        for key in list(self._steps):
            # These are fetched tensors, fetched operations and feeds; see `StepCompiler._cache_key`.
            if any(each in tensors for elements in key[:3] for each in elements):
                self._steps.pop(key, None)

    def clear(self) -> None:
        """Drop all steps."""
        self._steps.clear()
        self.last = None
