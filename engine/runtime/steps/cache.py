"""Cache of a session's compiled steps; the least recently used step leaves first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from typing import Any, TypeAlias

from ...base.errors import DeviceMemoryError
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...kernels.memory.pool import MemoryLimitError
from ..memory.limits import explain_refusal
from .compiled_step import CompiledStep
from .counters import StepCounters
from .environment import StepEnvironment
from .fed_shapes import Shapes

# Fetched tensors, fetched operations, feeds, version of the graph, watched tensors, True for a partial run, True for an
# observed step, shapes of feeds for a step that takes no others, and version of the registrations of outside packages.
StepKey: TypeAlias = tuple[
    tuple[Tensor, ...],
    tuple[Operation, ...],
    tuple[Tensor, ...],
    int,
    tuple[Tensor, ...],
    bool,
    bool,
    Shapes | None,
    int,
]


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
        self._steps: OrderedDict[StepKey, CompiledStep] = OrderedDict()
        self.last: tuple[CompiledStep, StepCounters] | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, key: StepKey) -> bool:
        return key in self._steps

    def get(self, key: StepKey) -> CompiledStep | None:
        """Return the step of a key and mark it as used last; None if the cache has no such step."""
        step = self._steps.get(key)
        if step is not None:
            self._steps.move_to_end(key)
        return step

    def insert(self, key: StepKey, step: CompiledStep, may_wait: bool = True) -> None:
        """Keep a step and charge its constants; older steps make room for them.

        Constants that do not fit beside the arrays of steps under way are charged when the step begins, which waits
        for these steps; see `MemoryPlaces.place`.

        Parameters
        ----------
        key : StepKey
        step : CompiledStep
        may_wait : bool
            False for a step that begins without waiting for memory.

        Raises
        ------
        DeviceMemoryError
            If the constants do not fit.
        """
        environment = self._environment
        for known in [known for known in self._steps if known[-1] != key[-1]]:
            del self._steps[known]  # compiled before a registration: never asked for again
        step.bind_devices(environment.devices)
        while (error := _refusal_of_constants(step, environment)) is not None:
            if self._steps:
                self._steps.popitem(last=False)
                self.last = None  # would keep the step, and so its constants
            elif may_wait and environment.arbiter.may_release():
                break
            else:
                raise _explain_constants(error, step, environment) from None
        self._steps[key] = step
        while len(self._steps) > environment.settings.step_cache_size:
            self._steps.popitem(last=False)

    def forget(self, tensors: Container[Any]) -> None:
        """Drop the steps with fetches or feeds among some tensors, because no caller asks for them any longer."""
        for key in list(self._steps):
            # The first three parts are fetched tensors, fetched operations and feeds.
            if any(each in tensors for elements in key[:3] for each in elements):
                self._steps.pop(key, None)

    def clear(self) -> None:
        """Drop all steps."""
        self._steps.clear()
        self.last = None


def _refusal_of_constants(step: CompiledStep, environment: StepEnvironment) -> MemoryLimitError | None:
    """Charge a step's constants; return the error if they do not fit."""
    try:
        step.charge_constants(environment.devices)
    except MemoryLimitError as error:
        return error
    return None


def _explain_constants(error: MemoryLimitError, step: CompiledStep, environment: StepEnvironment) -> DeviceMemoryError:
    """Return the DeviceMemoryError of a step's constants that do not fit."""
    pools = [device.pool for device in environment.devices]
    pool = next(each for each in pools if each is not None and each.name == error.device)
    return explain_refusal(error, "the constants of a step", [step], pool, environment.resources)
