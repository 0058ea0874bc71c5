"""Observation of a session: statistics, reports of its last steps, and values while steps run."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import TagloomError
from ..devices.session_devices import DeviceAttributes, memory_figures
from ..memory.session_swap import Swapping
from ..observe.statistics import Statistics
from ..observe.tellers import StatisticsRegistry, StatisticsSource
from ..observe.watch import Watch
from ..scheduling.blocking_calls import BlockingCalls
from ..scheduling.worker_pool import WorkerPool
from ..steps.report.analysis import report_of
from ..steps.report.report import Report
from ..steps.runner import StepRunner

if TYPE_CHECKING:
    from ..observe.serving import Shown

_logger = logging.getLogger("tagloom")
_numbers = count()  # default names of observed sessions


class SessionObservation:
    """Methods of a session for observing its steps.

    `observe` and `observe_if_set` take the session itself, whose methods a subclass may override.

    Parameters
    ----------
    steps : StepRunner
    threads : BlockingCalls
        Threads that call blocking functions.
    cores : WorkerPool
        Threads that compute long kernels.
    swapping : Swapping
        Swapped values of the session.
    """

    def __init__(self, steps: StepRunner, threads: BlockingCalls, cores: WorkerPool, swapping: Swapping) -> None:
        self._steps = steps
        self._threads = threads
        self._cores = cores
        self._swapping = swapping
        self._tellers = StatisticsRegistry()
        self._observing = AsyncExitStack()  # the server opened for `Settings.observe`
        self._last_report = Report()  # the report of a closed session

    def statistics(self) -> Statistics:
        """Return a snapshot of the session's counts; also available after closing."""
        environment = self._steps.environment
        return Statistics(
            **self._steps.figures(),
            orphaned=self._threads.orphaned + self._cores.orphaned,
            **memory_figures(environment.devices, environment.resources),
            swapped_bytes=self._swapping.live_bytes,
            figures=self._tellers.statistics(environment.resources.statistics()),
        )

    def include_statistics(self, kind: str, name: str, source: StatisticsSource) -> None:
        """Add a source of statistics, such as a Checkpointer or a pipeline, to :meth:`statistics`.

        Parameters
        ----------
        kind : str
            Plural noun, as "checkpoints": key of ``statistics().figures``.
        name : str
            Key of the source in ``statistics().figures[kind]``.
        source : object
            Object with a method ``statistics()`` returning a frozen dataclass, callable from any thread; held weakly.
        """
        self._tellers.add(kind, name, source)

    def watch(self, tensor: Any, *, limit: int = 16, policy: str = "block") -> Watch:
        """Return an async iterator over the values of a tensor in the steps started from now on.

        The iterator yields one value for each iteration computing the tensor, in the order of computation, and ends
        with these steps. Only steps whose fetches need the tensor's loop or branch compute the tensor.

        Parameters
        ----------
        tensor : Tensor or name
            Tensor of any dtype with values, in the body of a loop or branch, or outside.
        limit : int, optional
            Most values kept for the reader.
        policy : {'block', 'latest'}, optional
            When there is no room, the step waits for the reader, at most a window of iterations ahead (block), or the
            oldest value is dropped (latest).

        Returns
        -------
        Watch
            Iterate with ``async for``; ``async with`` ends the watch early.

        Raises
        ------
        GraphError
            If `tensor` is no tensor with values of this graph or is watched already, or an option is out of range.
        """
        self._steps.running.check_admits()
        return self._steps.watches.add(Watch(self._steps.graph.as_graph_element(tensor), limit=limit, policy=policy))

    def report(self) -> Report:
        """Return a report of the last step's loops: the overlap of iterations and its limiting cause.

        Concurrent steps of the same fetches and feeds are counted together. A running step is reported up to now.

        Returns
        -------
        Report
            Printable; empty before the first step. After closing, the report from the time of closing.
        """
        # The cache of a closed session is empty; `keep_report` was called before.
        last = self._steps.compiler.cache.last
        return self._last_report if last is None else report_of(*last)

    @asynccontextmanager
    async def observe(self, session: Shown, name: str | None = None) -> AsyncIterator[Path]:
        """Serve statistics of this session within an ``async with``: to `tagloom top`, scripts and metrics collectors.

        Statistics and loop reports are served over a socket accessible only to the session's user, in a directory
        accessible only to the user: ``$XDG_RUNTIME_DIR/tagloom``, or ``tagloom-<uid>`` among temporary files. The event
        loop answers requests in HTTP: ``/statistics`` is JSON, ``/metrics`` is for Prometheus.

        Parameters
        ----------
        name : str, optional
            Name of the session in answers; by default a number.

        Yields
        ------
        Path
            Path of the socket, which is removed at the end.

        Raises
        ------
        TagloomError, OSError
            If no socket can be opened.
        SessionClosed
            If the session is closed.
        """
        self._steps.running.check_open()
        self._steps.running.enter_loop()
        from ..observe.serving import StatisticsServer  # here, as few sessions need its imports

        server = StatisticsServer(session, str(next(_numbers)) if name is None else name)
        try:
            yield server.path
        finally:
            server.close()

    async def observe_if_set(self, session: Shown) -> None:
        """Serve statistics until the session is closed, if ``Settings.observe`` is set; log a failure to open a socket.

        A session must work where no socket can be opened, so the error is not raised.
        """
        if self._steps.environment.settings.observe and not self._steps.running.is_closed:
            try:
                await self._observing.enter_async_context(self.observe(session))
            except (TagloomError, OSError) as error:
                _logger.warning("this session cannot be observed: %s", error)

    def keep_report(self) -> None:
        """Keep the last report beyond the end of the compiled steps; it holds figures alone, and so no step."""
        self._last_report = self.report()

    async def aclose(self) -> None:
        """Close the server opened for `Settings.observe`."""
        await self._observing.aclose()

    def list_devices(self) -> list[DeviceAttributes]:
        """Return names, types and memory limits of the session's devices."""
        return [each.attributes() for each in self._steps.environment.devices]

    def reset_peak_memory_stats(self) -> None:
        """Reset ``statistics().peak_bytes``, and each device's peak, to the bytes in use now."""
        for device in self._steps.environment.devices:
            if device.pool is not None:
                device.pool.reset_peak()
