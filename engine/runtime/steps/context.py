"""What kernels that have state are told of their step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...kernels.memory.contexts import KernelContexts
from ...ops.state.variables import VariableStore
from ...swap.swapper import StepSwapper
from ..observe.watch import Watch
from ..scheduling.blocking_calls import BlockingCalls
from .partial_run import PartialRunState

UNWATCHED: dict[str, Watch] = {}
_PLAIN = KernelContexts()


class StepContext(NamedTuple):
    """What a step offers to stateful kernels.

    Its number, the graph's seed, the session's variables and threads, what is watched, what comes and goes in parts,
    what keeps saved values on its device.
    """

    number: int
    seed: int
    variables: VariableStore
    threads: BlockingCalls | None = None
    contexts: KernelContexts = _PLAIN
    watches: Mapping[str, Watch] = UNWATCHED
    parts: PartialRunState | None = None
    swap: StepSwapper | None = None

    def show(self, key: str, value: np.ndarray[Any, Any]) -> Any:
        """Show a value to who watches the tensor of that name; return what must be awaited, if anything."""
        watch = self.watches.get(key)
        return None if watch is None else watch.show(value)
