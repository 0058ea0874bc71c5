"""End of a session: running steps, threads, memory and devices, in this order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from math import inf

from ...base.errors import SessionClosed
from ..memory.session_swap import Swapping
from ..scheduling.blocking_calls import BlockingCalls
from ..scheduling.timeouts import check_seconds
from ..scheduling.worker_pool import WorkerPool
from ..steps.runner import StepRunner
from ..steps.running_steps import REOPEN
from .observation import SessionObservation


class SessionLifecycle:
    """Closing of a session; the state between open and closed is that of its RunningSteps.

    Parameters
    ----------
    steps : StepRunner
    threads : BlockingCalls
        Threads that call blocking functions.
    cores : WorkerPool
        Threads that compute long kernels.
    swapping : Swapping
    observation : SessionObservation
    """

    def __init__(
        self,
        steps: StepRunner,
        threads: BlockingCalls,
        cores: WorkerPool,
        swapping: Swapping,
        observation: SessionObservation,
    ) -> None:
        self._steps = steps
        self._threads = threads
        self._cores = cores
        self._swapping = swapping
        self._observation = observation
        self._before_release: list[Callable[[], object]] = []

    def call_before_release(self, function: Callable[[], object]) -> None:
        """Register a function to be called after the last step and before the session drops its variables."""
        self._before_release.append(function)

    async def aclose(self, drain: float) -> None:
        """Close the session: end running steps with SessionClosed, wait for them, and release all memory and threads.

        Blocking functions outliving their steps are waited for too, for at most ``Settings.close_seconds``. A cancelled
        call stops waiting: the steps still end, each in its task, and the last step releases the session. Closing twice
        is fine, also while another call drains.

        Parameters
        ----------
        drain : float, optional
            Seconds in which running steps and partial runs may finish; ``math.inf`` without a limit. Meanwhile no step
            begins, not even for functions of running steps; waiting steps end with SessionClosed at once; and variables
            can be read.
        """
        check_seconds(drain, "drain")
        if self._steps.running.is_stranded:
            return  # a copy in a forked process: the steps, threads and devices belong to the parent
        self._steps.running.enter_loop()
        try:
            await self._drain_steps(drain)
        finally:
            await self._end_steps()

    async def _drain_steps(self, seconds: float) -> None:
        """Refuse new steps, send waiting steps away, and wait for running steps, at most `seconds`."""
        running, admission = self._steps.running, self._steps.admission
        running.refuse_steps()
        if admission is not None:
            admission.close(_closed_while_waiting)
        self._steps.memory.send_away(_closed_while_waiting)
        for execution in [each for each in running.steps if each.loop.is_closed()]:  # no loop will run it again
            execution.release()
            running.steps.discard(execution)
        if seconds and running.steps:
            await asyncio.wait([running.until_none_left()], timeout=None if seconds == inf else seconds)

    async def _end_steps(self) -> None:
        """End all steps and blocking calls; the last step releases the session, even if this call is cancelled."""
        environment = self._steps.environment
        environment.arbiter.begin_closing()
        # Before the steps are awaited: a step blocked in a queue would never end by itself.
        environment.resources.cancel(SessionClosed("the session was closed", hint=REOPEN))
        try:
            await self._abort_steps()
            await self._threads.aclose(environment.settings.close_seconds)
        finally:
            await self._steps.running.after_last(self._release_all)

    async def _abort_steps(self) -> None:
        """End all steps with SessionClosed and wait for them; a repeated or cancelled call does no harm."""
        running = self._steps.running
        running.refuse_calls()
        self._steps.watches.close()
        for execution in running.steps:
            execution.abort(SessionClosed("the session was closed while a step was running", hint=REOPEN))
        if running.steps:
            await asyncio.wait([running.until_none_left()])

    async def _release_all(self) -> None:
        """Release memory, threads and devices after the last step; repeated and concurrent calls are fine."""
        self._observation.keep_report()
        # Popped, so a repeated release calls no function again. Functions save the variables, hence before the rest.
        while self._before_release:
            self._before_release.pop()()
        self._steps.compiler.cache.clear()
        self._threads.shutdown()
        environment = self._steps.environment
        # The exit stack calls in reverse order: first the observers, which read the session's figures, then the threads
        # that may still write to resources, the resources and swapped values, which live in device memory, the devices,
        # and the arbiter last.
        async with AsyncExitStack() as closing:
            closing.callback(environment.arbiter.close)
            for each in environment.devices:
                if each.owned:
                    closing.push_async_callback(each.device.aclose)
            closing.push_async_callback(self._swapping.aclose)
            closing.push_async_callback(environment.resources.aclose)
            closing.push_async_callback(self._cores.aclose)
            closing.push_async_callback(self._observation.aclose)


def _closed_while_waiting() -> SessionClosed:
    return SessionClosed("the session was closed while a step waited", hint=REOPEN)
