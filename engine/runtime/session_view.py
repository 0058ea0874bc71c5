"""What a session shows of what it does: statistics, reports of its last steps, and values while steps run."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from ..base.errors import TagloomError
from ..ir.graph import Graph
from .devices.session_devices import SessionDevice, memory_figures
from .memory.session_swap import Swapping
from .observe.statistics import Statistics
from .observe.tellers import Tellers, TellsStatistics
from .observe.watch import Watch
from .resources.manager import ResourceManager
from .scheduling.blocking_calls import BlockingCalls
from .scheduling.worker_pool import WorkerPool
from .session_state import SessionState
from .steps.report import Report, report_of
from .steps.runner import StepRunner

_logger = logging.getLogger("tagloom")
_numbers = count()  # of sessions that may be looked at and have no name


class SessionView(SessionState):
    """The part of a session that has to do with seeing what it does.

    Parameters
    ----------
    graph, resources, devices, steps, cores
        As of SessionState.
    threads : BlockingCalls
        Call functions that block.
    swapping : Swapping
        Keeps saved values elsewhere.
    """

    def __init__(
        self,
        graph: Graph,
        resources: ResourceManager,
        devices: tuple[SessionDevice, ...],
        steps: StepRunner,
        cores: WorkerPool,
        threads: BlockingCalls,
        swapping: Swapping,
    ) -> None:
        super().__init__(graph, resources, devices, steps, cores)
        self._threads = threads
        self._swapping = swapping
        self._tellers = Tellers()
        self._observing = AsyncExitStack()  # what `Settings.observe` has begun
        self._last_report = Report()  # once it is closed

    def statistics(self) -> Statistics:
        """Return a snapshot of counts; those of a closed session too."""
        return Statistics(
            **self._steps.figures(),
            orphaned=self._threads.orphaned + self._cores.orphaned,
            **memory_figures(self._devices, self.resources),
            swapped_bytes=self._swapping.live_bytes,
            figures=self._tellers.statistics(self.resources.statistics()),
        )

    def include_statistics(self, kind: str, name: str, source: TellsStatistics) -> None:
        """Let :meth:`statistics` tell of something else too, as long as it lives: a Checkpointer, a pipeline.

        Parameters
        ----------
        kind : str
            In the plural: "checkpoints". A key of ``statistics().figures``.
        name : str
            A key of what is there.
        source : object
            Its ``statistics()`` returns a frozen dataclass, from any thread. It is held weakly.
        """
        self._tellers.add(kind, name, source)

    def watch(self, tensor: Any, *, limit: int = 16, policy: str = "block") -> Watch:
        """Return an async iterator over the values of a tensor in the steps that start from now on.

        It gives one value for each iteration in which the tensor is computed, in the order of computation, and ends
        with those steps. Only steps whose fetches need the loop or branch that the tensor is in compute it.

        Parameters
        ----------
        tensor : Tensor or name
            Of any dtype with values, in the body of a loop or branch, or outside.
        limit : int, optional
            Most values kept for the reader.
        policy : {'block', 'latest'}, optional
            When there is no room the step waits for the reader, at most a window of iterations ahead; or the oldest
            value is dropped.

        Returns
        -------
        Watch
            Iterate with ``async for``; ``async with`` closes it early.

        Raises
        ------
        GraphError
            If it is no tensor with values of this graph, is watched already, or an option is out of range.
        """
        self._steps.check_admits()
        return self._steps.watches.add(Watch(self.graph.as_graph_element(tensor), limit=limit, policy=policy))

    def report(self) -> Report:
        """Say of each loop of the last step how far its iterations overlapped and what kept them from more.

        Steps of the same fetches and feeds that ran at the same time are counted together. A step that still runs is
        reported as far as it got.

        Returns
        -------
        Report
            Empty before the first step; ``print`` it. That of a session which is closed stays as it was then.
        """
        last = self._steps.compiler.cache.last
        return self._last_report if last is None else report_of(*last)

    @asynccontextmanager
    async def observe(self, name: str | None = None) -> AsyncIterator[Path]:
        """Let others look at this session in an ``async with``: `tagloom top`, scripts, what gathers metrics.

        The session tells its statistics and what its loops did over a socket that only its user may open, in a
        directory that only the user may enter: ``$XDG_RUNTIME_DIR/tagloom``, or ``tagloom-<uid>`` among temporary
        files. The event loop answers, when somebody asks. It speaks HTTP: ``/statistics`` is JSON, ``/metrics`` is for
        Prometheus.

        Parameters
        ----------
        name : str, optional
            What the session is called there; by default a number.

        Yields
        ------
        Path
            Of the socket, which is removed at the end.

        Raises
        ------
        TagloomError, OSError
            If there can be no socket.
        SessionClosed
            If the session is closed.
        """
        self._steps.check_open()
        self._steps.enter_loop()
        from .observe.serving import StatisticsServer  # with sockets; few sessions are looked at

        server = StatisticsServer(self, str(next(_numbers)) if name is None else name)
        try:
            yield server.path
        finally:
            server.close()

    async def observe_if_set(self) -> None:
        """Do what ``Settings.observe`` says, until the session is closed; what prevents it is logged."""
        if self._steps.environment.settings.observe and not self._steps.is_closed:
            try:
                await self._observing.enter_async_context(self.observe())
            except (TagloomError, OSError) as error:
                _logger.warning("this session can not be looked at: %s", error)
