"""A running step: the asyncio shell around an executor.

The executor decides and this module acts: the shell drains the step machine in bounded slices, starts asynchronous
instances as tasks, returns their results to the machine, and on an error or a cancellation leaves nothing running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...base.errors import DeviceMemoryError, GraphError
from ...base.tags import DEAD
from ...base.waiting import wait_shielded
from ...compile.plan.plan import Plan
from ...kernels.core.async_result import AsyncResult
from ...kernels.scheduler.group import MachineGroup
from ...kernels.scheduler.limited import LimitedMachine
from ...kernels.scheduler.optask import OpTask, start_task
from ...kernels.scheduler.time_slices import TimeSlices
from ...ops.support.context import LongCall, StepContext
from ..devices.device_values import copies_over
from ..devices.session_devices import SessionDevice, check_arrays
from ..devices.simulated_time import hold_clocks
from ..memory.arbiter import MemoryArbiter
from ..memory.claims import HeldBytes, MemoryClaim
from ..observe.trace import DEVICE, Trace, recorder_of
from ..scheduling.time_slices import time_slices_of
from ..scheduling.worker_pool import WakeupFd
from .compiled_step import CompiledStep
from .counters import StepCounters
from .environment import StepEnvironment
from .expiry import start_timer
from .failures import complete
from .launch import Drain, counters_of, launch, switch_outcomes
from .queue_uses import instances_of_feeds, serve_each_other
from .stalls import Activity, stall_timer

if TYPE_CHECKING:
    from ...swap.swapper import StepSwapper
    from ..reference.execution import ReferenceExecution
    from .machine import EndedMachine, Machine, Ticket


class MachineExecution:
    """A step on the step machine.

    Parameters
    ----------
    step : CompiledStep
    context : StepContext
    feeds : list of numpy.ndarray
    environment : StepEnvironment
    trace : Trace, optional
        Trace to get a span for each instance.
    time_slices : TimeSlices, optional
        Time slices of the running loop; looked up if not passed.
    """

    __slots__ = (
        "wakeup",
        "context",
        "counts",
        "drain",
        "environment",
        "holds",
        "loop",
        "machine",
        "seconds",
        "arbiter",
        "cancels",
        "claim",
        "owner",
        "step",
        "swaps",
        "tasks",
        "time_slices",
        "waiter",
        "why_no_room",
    )

    def __init__(
        self,
        step: CompiledStep,
        context: StepContext,
        feeds: list[Any],
        environment: StepEnvironment,
        trace: Trace | None = None,
        time_slices: TimeSlices | None = None,
    ) -> None:
        self.step: CompiledStep = step
        self.context: StepContext = context
        self.environment: StepEnvironment = environment
        self.arbiter: MemoryArbiter = environment.arbiter
        self.claim: MemoryClaim | None = None  # set by MemoryPlaces, if a device has a limit
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.time_slices: TimeSlices = time_slices or time_slices_of(self.loop)
        self.seconds: float = environment.settings.drain_seconds
        launched = launch(step, context, feeds, environment, recorder_of(trace))
        self.machine: Machine = launched.machine
        self.drain: Drain = launched.drain
        self.holds: list[Any] = launched.holds
        self.counts: StepCounters = counters_of(step, launched.machine)
        self.swaps: list[StepSwapper] = self.machine.swaps
        for swap in self.swaps:
            # The end of a copy frees memory, so it wakes the step; a failed copy ends the step.
            swap.copies.wake, swap.copies.fail = self._wake_if_runnable, self.abort
            if trace is not None:
                swap.copies.show = partial(trace.add_copy, swap.counts.device if len(step.device_plans) > 1 else DEVICE)
        self.wakeup: WakeupFd | None = None  # readable when a worker has ended a kernel
        self.tasks: dict[asyncio.Task[Any] | OpTask, tuple[Ticket, Awaitable[Any]]] = {}
        self.waiter: asyncio.Future[None] | None = None
        self.owner: asyncio.Task[Any] | None = None  # the task that runs the step, once the step waits
        self.why_no_room: str = ""  # description of the holders of memory that the step did not get
        self.cancels: int = 0  # cancellations asked of `owner` before it ran the step

    async def run(self, timeout: float | None = None) -> list[Any]:
        """Run the step to its end and return the fetched arrays; raises the first failure.

        A step without asynchronous instances that ends within its slice never yields to the event loop.
        """
        try:
            self.arbiter.register(self)
            # None: other steps have used up this turn of the event loop, and this step drains in a later turn.
            mine = self.time_slices.take(self.seconds)
            more = True if mine is None else self.drain(mine)
            # With swaps also a machine that is done: its last copies have to settle, in `_cancel_and_join`.
            if not self.machine.done or self.swaps:
                await self._drain_to_completion(more, timeout)
            fetched = outcome(self.step, self.machine, self.machine.compiled.plan)
            if self.claim is not None:
                self.claim.note_end()
            return fetched
        except BaseException as error:
            if self.why_no_room and isinstance(error, DeviceMemoryError):
                error.got = f"{error.got}; {self.why_no_room}"
            # Closed here and not only below: kernels that workers have not ended become orphans by it, whose arrays the
            # pool releases when they end.
            self.machine.close()
            if self.environment.worker_pool is not None:
                self.environment.worker_pool.release_orphans()
            raise
        finally:
            # In this order: the machine drops its arrays, then charges of fed arrays and saved values go; only then has
            # the step no memory left that others at the arbiter could wait for.
            self.machine.close()
            self.holds.clear()
            for swap in self.swaps:
                swap.close()
            self.arbiter.unregister(self)
            try:
                if self.context.number in self.context.resources.of_steps:
                    await self.context.resources.aclose_step(self.context.number)
            finally:  # only now: a session that is closed meanwhile still aborts this step
                # The machine and the owner hold the error, whose traceback holds this object: a cycle.
                del self.machine, self.drain, self.owner
                if self.wakeup is not None:
                    self.wakeup.close()
                    self.wakeup = None  # holds a bound method of this object: another cycle

    def abort(self, error: BaseException) -> None:
        """End the step with `error`, which came from outside."""
        self.machine.abort(error)
        self.wake()

    def release(self) -> None:
        """Release the resources of a step that was never run, or will not go on."""
        self.machine.close()
        self.holds.clear()

    async def _drain_to_completion(self, more: bool, timeout: float | None) -> None:
        """Drain and wait by turns until the machine is done or has failed, and no task remains (rule 46)."""
        timer, stall = start_timer(self, timeout), stall_timer(self)
        self.owner = asyncio.current_task()
        self.cancels = 0 if self.owner is None else self.owner.cancelling()
        try:
            while True:
                self._launch_tasks()
                if self.machine.done or self.machine.failure is not None:
                    break
                if not more:
                    await self._wait_for_progress()
                    if self.claim is not None:
                        await self._turn_in_line(self.claim)
                mine = None if more else self.time_slices.take(self.seconds)
                if mine is None:
                    mine = await self.time_slices.wait(self.seconds)
                more = self.drain(mine)
                # The drained kernels may have freed memory that parked steps wait for.
                if self.arbiter.waiting:
                    self.arbiter.wake_fitting_steps()
        finally:
            if timer is not None:
                timer.cancel()
            if stall is not None:
                stall.cancel()
            await self._cancel_and_join()

    def _launch_tasks(self) -> None:
        """Start a task for each asynchronous instance that the machine has handed out."""
        for ticket, awaitable, _, name in self.machine.launches():
            task = start_task(awaitable, name, self._is_over, self._finish_task)
            self.tasks[task] = ticket, awaitable

    def _is_over(self) -> bool:
        """Return True if the step has failed or was cancelled, before the step itself learns of a cancellation."""
        if self.machine.failure is not None:
            return True
        # A cancellation reaches `owner` in its next turn of the loop: until then no task may begin.
        return self.owner is not None and self.owner.cancelling() > self.cancels

    def _finish_task(self, task: asyncio.Task[Any] | OpTask) -> None:
        """Pass the outcome of an ended task to the machine and wake the step."""
        ticket, awaitable = self.tasks.pop(task)
        if task.cancelled():
            close(awaitable)
            self.machine.fail(ticket, asyncio.CancelledError(f"{task.get_name()} was cancelled"))
        elif (error := task.exception()) is not None:
            self.machine.fail(ticket, error)
        else:
            self.machine.finish(ticket, task.result())
        self.wake()

    async def _wait_for_progress(self) -> None:
        """Wait until a task or a worker's kernel has ended, other steps released memory, or the step was aborted."""
        blocked = self.machine.blocked_on_memory
        if self.claim is not None and not blocked and self._waits_for_others():
            self.arbiter.pause(self.claim)
        self.waiter = self.loop.create_future()
        try:
            if blocked:
                self.arbiter.block(self)
            if self.swaps and self._waits_for_copies():
                with self.swaps[0].count_stalled_time():
                    await self.waiter
            elif not self.machine.offloaded:
                await self.waiter
            elif self._expect_worker():
                with hold_clocks(
                    self.environment.clocks
                ):  # kernels of workers take real time: virtual clocks must not jump
                    await self.waiter
        finally:
            self.waiter = None
            if blocked:
                self.arbiter.unblock(self)

    def _waits_for_others(self) -> bool:
        """Return True if nothing of the step proceeds, and an instance waits for a resource or for a fed part."""
        if self.machine.offloaded:
            return False
        return self.context.parts is not None or any(_is_from_others(each) for _, each in self.tasks.values())

    async def _turn_in_line(self, claim: MemoryClaim) -> None:
        """Wait, if this step has paused its claim, until it can end beside the steps begun meanwhile."""
        self.arbiter.note_move()
        claim.note_arrivals()
        while claim.is_paused and self.machine.failure is None and not self.arbiter.resume(claim):
            self.waiter = self.loop.create_future()
            self.arbiter.wait_to_resume(self)
            try:
                await self.waiter
            finally:
                self.waiter = None
                self.arbiter.unblock(self)

    @property
    def holder(self) -> MachineExecution:
        """The execution itself, for the claim on memory: it counts the bytes of its arrays."""
        return self

    @property
    def has_ended(self) -> bool:
        """True if `run` has ended and has released everything."""
        return not hasattr(self, "machine")  # deleted by `run`

    def switch_outcomes(self) -> dict[int, Any]:
        """Return the predicates of the root frame's Switches, by their nodes in the plan of the whole step."""
        return switch_outcomes(self.step, self.machine)

    def owns_task(self, task: object) -> bool:
        """Return True if `task` runs an asynchronous instance of this step."""
        return task in self.tasks

    def bytes_held(self) -> list[HeldBytes]:
        """Return the bytes of the step's arrays on each device with a limit."""
        if self.has_ended:
            return []
        machine = self.machine
        if isinstance(machine, MachineGroup):
            sizes = machine.bytes_held
        else:
            sizes = [(machine.held_bytes, machine.most_held_bytes) if isinstance(machine, LimitedMachine) else (0, 0)]
        devices = self.environment.devices
        pools = [
            devices[part.device].pool if devices else self.context.contexts.pool for part in self.step.device_plans
        ]
        return [
            HeldBytes(pool, *size)
            for pool, size in zip(pools, sizes, strict=True)
            if pool is not None and pool.limit is not None
        ]

    @property
    def is_parked(self) -> bool:
        """True if no part of the step can proceed before memory is released."""
        return bool(self.machine.blocked_on_memory)

    @property
    def is_computing(self) -> bool:
        """True if the step proceeds by itself, or waits for memory."""
        return self.waiter is None or self.waiter.done() or bool(self.machine.offloaded) or self.is_parked

    def _waits_for_copies(self) -> bool:
        """Return True if the step waits for copies of saved values and nothing else."""
        if self.machine.offloaded:
            return False
        return self.machine.pending == sum(swap.waiting for swap in self.swaps) or self.machine.blocked_on_memory

    def _expect_worker(self) -> bool:
        """Ask the machine to ring `wakeup` when a worker ends a kernel; return False if a kernel has ended already."""
        if self.wakeup is None:
            self.wakeup = WakeupFd(self.wake)
        return self.machine.expect(self.wakeup.descriptor)

    def wake(self) -> None:
        """Resume the step's task, to examine its tasks, memory and failure again."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    @property
    def can_progress(self) -> bool:
        """True if a drain would find an instance to run."""
        return bool(self.machine.can_progress)

    @property
    def waits_for_functions(self) -> bool:
        """True if the step waits for anything that ends by itself, as functions and kernels in threads do."""
        names = {task.get_name() for task, (_, each) in self.tasks.items() if not _is_from_others(each)}
        return bool(self.machine.offloaded or names - instances_of_feeds(self.step))

    def shares_a_queue(self, other: MachineExecution) -> bool:
        """Return True if this step would put the elements, or make the room in a queue, that `other` waits for."""
        return serve_each_other(self.step, other.step)

    def fail_out_of_memory(self, why: str = "") -> None:
        """End the step, as nothing will release memory for its parked instances; `why` names the memory's holders."""
        self.why_no_room = why
        assert isinstance(self.machine, LimitedMachine | MachineGroup)  # others never wait for memory
        self.machine.fail_out_of_memory()
        self.wake()

    def _wake_if_runnable(self) -> None:
        """Wake the step if released memory lets it proceed, or perhaps a step that waits for memory."""
        if self.waiter is not None and (
            self.machine.can_progress or self.machine.blocked_on_memory or self.arbiter.waiting
        ):
            self.wake()

    async def _cancel_and_join(self) -> None:
        """Wait until nothing that the step began is under way, despite any number of cancellations meanwhile."""
        try:
            if self.tasks:
                # First, since a task may wait for a resource in a way that only the resource can end.
                self.context.resources.cancel_step(self.context.number, self._why_ended())
                for task in self.tasks:
                    task.cancel()
                await wait_shielded(lambda: list(self.tasks))
        finally:  # the wait raises a second cancellation only after the tasks have ended: copies settle all the same
            if self.swaps or any(each.plan.has_device_arrays for each in self.step.device_plans):
                settling = asyncio.ensure_future(_settle_copies(self.swaps, self.environment.devices))
                await wait_shielded(lambda: [] if settling.done() else [settling])

    def _why_ended(self) -> BaseException:
        """Return the error for operations that wait in resources: the step's failure, or a cancellation."""
        failure = self.machine.failure
        return asyncio.CancelledError("the step was cancelled") if failure is None else failure[2]

    def activity(self) -> Activity:
        """Return the names of the asynchronous instances in flight, and why all iterations wait (rule 50)."""
        return Activity(self.active(), self.machine.dump())

    def active(self) -> list[str]:
        """Return the names of the asynchronous instances in flight, and of those that wait for other processes."""
        return [task.get_name() for task in self.tasks] + self.peer_waits()

    def peer_waits(self) -> list[str]:
        """Return the instances that wait for messages of other processes, with channel and peer."""
        return [str(each) for each in self.machine.peer_waits()] if isinstance(self.machine, MachineGroup) else []


_EXECUTORS = ("machine", "reference")


def executor_named(
    name: str, devices: Sequence[SessionDevice], is_guarded: bool = False
) -> type[MachineExecution] | type[ReferenceExecution]:
    """Return the class of executions `name` for a session's devices; GraphError if unknown, or unfit for them."""
    check_arrays(devices, is_guarded)
    if name not in _EXECUTORS:
        raise GraphError(
            "no such executor", wanted=" or ".join(_EXECUTORS), got=name, hint="leave it out for the step machine"
        )
    if name == "machine":
        return MachineExecution
    if any(each.is_simulated or each.device.arrays is not None for each in devices):
        raise GraphError("the reference executor has no streams", hint="leave executor= or the devices out")
    from ..reference.execution import ReferenceExecution  # here, as sessions run on the step machine

    return ReferenceExecution


def outcome(step: CompiledStep, machine: EndedMachine, plan: Plan) -> list[Any]:
    """Return the fetched arrays of a finished machine, or raise its failure, completed with the node of `plan`."""
    try:
        if machine.failure is not None:
            raise complete(step.graph, plan, *machine.failure)
        if isinstance(machine, MachineGroup) and machine.stuck:
            raise RuntimeError("internal error: devices wait for each other's messages\n" + "\n".join(machine.dump()))
        fetched: list[Any] = machine.fetches
        for k, value in enumerate(fetched):
            if value is DEAD:
                from .dead_fetch import explain_dead_fetch  # here, as it is needed by errors alone

                raise explain_dead_fetch(step, k, switch_outcomes(step, machine))
        return fetched
    finally:
        del machine  # holds the failure, whose traceback holds this frame


def _is_from_others(awaitable: Any) -> bool:
    """Return True if an instance waits in the line of a resource that other steps or the user serve."""
    if not isinstance(awaitable, AsyncResult) or awaitable.give_up is None:
        return False
    from ...ops.queues.iterators import ComingElement

    # An iterator's next element comes from its own source, and from no other step.
    return not isinstance(awaitable, ComingElement)


async def _settle_copies(swaps: Sequence[StepSwapper], devices: Sequence[SessionDevice]) -> None:
    """Withdraw copies of saved values not yet begun, and wait for all others, also copies of device arrays."""
    for swap in swaps:
        swap.close()
    for swap in swaps:
        await swap.drain()
    await copies_over([each.device for each in devices])


def close(awaitable: Any) -> None:
    """Close a coroutine, or withdraw a call in a thread, that may never have begun."""
    if hasattr(awaitable, "close"):
        awaitable.close()
    elif isinstance(awaitable, LongCall):
        awaitable.cancel()
