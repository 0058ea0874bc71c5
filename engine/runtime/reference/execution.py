"""Steps on the reference executor, with the interface of an execution."""

from __future__ import annotations

import asyncio
from typing import Any

from ...kernels.scheduler.time_slices import TimeSlices
from ...ops.support.context import StepContext
from ..memory.claims import MemoryClaim
from ..observe.trace import Trace, recorder_of
from ..steps.compiled_step import CompiledStep
from ..steps.counters import Cluster, StepCounters
from ..steps.environment import StepEnvironment
from ..steps.execution import outcome
from ..steps.expiry import start_timer
from ..steps.launch import charge_feeds
from ..steps.stalls import Activity, stall_timer
from .executor import ReferenceMachine


class ReferenceExecution:
    """A step on the reference executor, with a task for each instance.

    Parameters
    ----------
    step, context, feeds, environment, trace, time_slices
        As of MachineExecution; time slices are not used.
    """

    def __init__(
        self,
        step: CompiledStep,
        context: StepContext,
        feeds: list[Any],
        environment: StepEnvironment,
        trace: Trace | None = None,
        time_slices: TimeSlices | None = None,
    ) -> None:
        self.step = step
        self.context = context
        self.claim: MemoryClaim | None = None  # set by MemoryPlaces, if a device has a limit
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.holds: list[Any] = charge_feeds(context.contexts, feeds, step, context)
        self.machine: ReferenceMachine = ReferenceMachine(
            step.plan, context, feeds, environment.settings.switches.shuffle_seed, environment.guard, recorder_of(trace)
        )
        counts = (step.plan, self.machine.counts.loop_counts, list[Cluster])
        self.counts: StepCounters = StepCounters([counts], unmoved="the reference executor does not swap")

    async def run(self, timeout: float | None = None) -> list[Any]:
        """Run the step to its end and return the fetched arrays; raises the first failure."""
        timer, stall = start_timer(self, timeout), stall_timer(self)
        try:
            await self.machine.run()
            return outcome(self.step, self.machine, self.step.plan)
        finally:
            if timer is not None:
                timer.cancel()
            if stall is not None:
                stall.cancel()
            self.holds.clear()
            try:
                if self.context.number in self.context.resources.of_steps:
                    await self.context.resources.aclose_step(self.context.number)
            finally:
                self.machine.failure = None  # the error's traceback holds the machine
                del self.machine

    def abort(self, error: BaseException) -> None:
        """End the step with `error`, which came from outside."""
        self.machine.abort(error)

    def release(self) -> None:
        """Release the resources of a step that was never run, or will not go on."""
        self.holds.clear()

    @property
    def holder(self) -> None:
        """None: the reference executor does not count the bytes of a step's arrays."""

    @property
    def has_ended(self) -> bool:
        """True if `run` has ended and has released everything."""
        return not hasattr(self, "machine")  # deleted by `run`

    def switch_outcomes(self) -> dict[int, Any]:
        """Return the predicates of the root frame's Switches, by node."""
        return self.machine.switch_outcomes()

    def owns_task(self, task: object) -> bool:
        """Return True if `task` runs an instance of this step."""
        return not self.has_ended and task in self.machine.tasks

    def activity(self) -> Activity:
        """Return the names of the running instances, and a line of state for each."""
        names = self.active()
        return Activity(names, [f"{name} is active" for name in names])

    def active(self) -> list[str]:
        """Return the names of the running instances."""
        return sorted(task.get_name() for task in self.machine.tasks)

    def peer_waits(self) -> list[str]:
        """Return no instances: the reference executor runs a whole step in this process."""
        return []
