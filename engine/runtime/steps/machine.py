"""Interfaces of the machines that compute steps, and of the executions that run them on an event loop.

Two machines compute steps, the step machine in C and the reference executor, and each has an execution: its shell on
the event loop. Sessions know executions only by these interfaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeAlias

from ...kernels.scheduler.plan import CompiledPlan
from ...ops.support.context import StepContext
from ..memory.claims import Holder, MemoryClaim
from .compiled_step import CompiledStep
from .counters import StepCounters
from .stalls import Activity

Ticket: TypeAlias = Any  # names an instance to the machine that started it: a number, or a pair in a group of machines
LaunchedInstance: TypeAlias = tuple[Ticket, Awaitable[Any], int, str]  # ticket, awaitable, node and name
Failure: TypeAlias = tuple[int, str, BaseException, Any]  # node (-1 from outside), tag, error, shapes of the inputs


class EndedMachine(Protocol):
    """Results of a machine that has ended: of a StepMachine, a MachineGroup or a ReferenceMachine."""

    @property
    def failure(self) -> Failure | None: ...
    @property
    def fetches(self) -> list[Any]:
        """The fetched arrays; DEAD for a value that was never computed."""
        ...

    def switch_outcomes(self) -> Any:
        """Return the predicates of the root frame's Switches, by node, or by name in a group of machines."""
        ...


class Machine(EndedMachine, Protocol):
    """A StepMachine, or a MachineGroup, which has a StepMachine for each device.

    A machine decides and never waits: `drain` computes, `launches` hands out what is to be awaited, and `finish` and
    `fail` take the outcomes.
    """

    @property
    def compiled(self) -> CompiledPlan: ...
    @property
    def done(self) -> bool: ...
    @property
    def pending(self) -> int:
        """Number of launched instances that have not finished."""
        ...

    @property
    def offloaded(self) -> Any:
        """Instances computed by workers; false if there are none."""
        ...

    @property
    def can_progress(self) -> bool: ...
    @property
    def blocked_on_memory(self) -> bool: ...
    @property
    def swaps(self) -> list[Any]: ...
    def drain(self, seconds: float) -> bool:
        """Compute ready instances for about `seconds`; return True if more are ready."""
        ...

    def launches(self) -> Sequence[LaunchedInstance]: ...
    def finish(self, ticket: Ticket, result: Any) -> None: ...
    def fail(self, ticket: Ticket, exception: BaseException) -> None: ...
    def abort(self, exception: BaseException) -> None: ...
    def expect(self, descriptor: int) -> bool: ...
    def dump(self) -> list[str]: ...
    def close(self) -> None: ...


class StepUnderWay(Protocol):
    """A step under way in a session: an execution, or a partial run."""

    @property
    def step(self) -> CompiledStep: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    def abort(self, error: BaseException) -> None:
        """End the step with `error`, which came from outside."""

    def release(self) -> None:
        """Release the resources of a step that was never run, or will not go on."""

    def owns_task(self, task: object) -> bool:
        """Return True if `task` runs an instance of the step."""
        ...

    def activity(self) -> Activity:
        """Return the active instances and the state of the step, for the error of a timeout."""
        ...


class Execution(StepUnderWay, Protocol):
    """One run of a compiled step on an event loop: a MachineExecution or a ReferenceExecution."""

    claim: MemoryClaim | None  # set by MemoryPlaces, if a device has a limit

    @property
    def context(self) -> StepContext: ...
    @property
    def counts(self) -> StepCounters: ...
    @property
    def holder(self) -> Holder | None:
        """The execution as the holder of its claim on memory; None if it does not count the bytes of its arrays."""
        ...

    @property
    def has_ended(self) -> bool:
        """True if `run` has ended and has released everything."""
        ...

    async def run(self, timeout: float | None = None) -> list[Any]:
        """Run the step to its end and return the fetched arrays; raises the first failure."""
        ...

    def active(self) -> list[str]:
        """Return the names of the instances under way."""
        ...

    def switch_outcomes(self) -> dict[int, Any]:
        """Return the predicates of the root frame's Switches, by their nodes in the plan of the whole step."""
        ...
