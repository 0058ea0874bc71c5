"""Steps under way in a session: the event loop that runs them, and the session's way from open to closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ...base.errors import SessionClosed, TagloomError
from ...base.forks import strand_in_children
from ...base.waiting import wait_shielded
from ...kernels.scheduler.time_slices import TimeSlices
from ..scheduling.admission import Admission
from ..scheduling.time_slices import time_slices_of
from .environment import StepEnvironment

if TYPE_CHECKING:
    from .machine import StepUnderWay

_CLOSED, _CLOSING = "this session is closed", "this session is closing"
REOPEN = "open a new one with `async with Session(graph)`"
_OPEN_HERE = "open a session in each process, after the fork"

Release = Callable[[], Coroutine[Any, Any, None]]


class RunningSteps:
    """Steps and partial runs under way in a session, on one event loop at a time.

    A session is open, then closing (no step may begin), then closed (every call fails). Its resources are released
    when no step is left, by the last step if need be.

    Parameters
    ----------
    environment : StepEnvironment
    admission : Admission or None
        Line of the steps that wait for a place.

    Attributes
    ----------
    steps : set of StepUnderWay
    is_stranded : bool
        True in a child forked from the process in which the session was opened.
    is_end_awaited : bool
        True if `note_none_left` must be called when no step is left.
    releasing : asyncio.Task or None
        Release of the session's resources, once it has begun.
    """

    def __init__(self, environment: StepEnvironment, admission: Admission | None) -> None:
        self.steps: set[StepUnderWay] = set()
        self.is_stranded: bool = False
        self.is_end_awaited: bool = False
        self.releasing: asyncio.Task[None] | None = None
        self._environment = environment
        self._admission = admission
        self._closing = ""  # reason why no step may begin any longer
        self._closed = ""  # reason why every call fails
        self._idle: asyncio.Future[None] | None = None  # done when the last step of a closed session has ended
        self._release: Release | None = None  # to be called after the last step
        self._here: tuple[asyncio.AbstractEventLoop | None, TimeSlices | None] = None, None
        strand_in_children(self)

    # ---- open, closing or closed

    @property
    def is_closed(self) -> bool:
        """True if every further call fails."""
        return bool(self._closed)

    @property
    def is_adrift(self) -> bool:
        """True if the event loop of the latest step was closed while the session stays open."""
        loop = self._here[0]
        return not self._closed and loop is not None and loop.is_closed()

    def check_open(self) -> None:
        """Raise SessionClosed if the session is closed."""
        if self._closed:
            raise SessionClosed(self._closed, hint=_OPEN_HERE if self.is_stranded else REOPEN)

    def check_admits(self) -> None:
        """Raise SessionClosed if no step may begin any longer."""
        if self._closing:
            self.check_open()
            raise SessionClosed(self._closing, hint=REOPEN)

    def refuse_steps(self) -> None:
        """Refuse every further step."""
        self._closing = self._closing or _CLOSING

    def refuse_calls(self) -> None:
        """Refuse every further call."""
        self._closed = self._closed or _CLOSED

    def strand(self, parent: int) -> None:
        """Close the session in a forked child process, which has neither its threads nor its running steps.

        A session not yet used on an event loop has neither threads nor steps, and stays open in the child.
        """
        if self._here[0] is None:
            return
        if self._environment.worker_pool is not None:
            self._environment.worker_pool.strand()
        if not self._closed:
            self._closed = self._closing = f"this session was opened in process {parent}, this is a child of it"
            self.is_stranded = True
            self._environment.arbiter.strand()

    # ---- the event loop

    def enter_loop(self) -> TimeSlices:
        """Return the time slices of the running loop; TagloomError without a loop, or with steps on another loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise TagloomError(
                "no asyncio event loop runs here",
                hint="asyncio.run(main()), or anyio on asyncio; trio's loop cannot run a session",
            ) from None
        known, slices = self._here
        if loop is known and slices is not None:
            return slices
        others = self.steps or (self._admission and self._admission.waiting)
        if known is not None and not known.is_closed() and others:
            raise TagloomError(
                "a session serves one event loop at a time, and steps of another one are under way",
                hint="await them first, or open a session in each loop",
            )
        slices = time_slices_of(loop)
        self._here = loop, slices
        return slices

    # ---- the end of the last step

    def until_none_left(self) -> asyncio.Future[None]:
        """Return a future that is done when no step is under way any longer."""
        self._idle = self._idle or asyncio.get_running_loop().create_future()
        self.is_end_awaited = True
        return self._idle

    async def after_last(self, release: Release) -> None:
        """Release the resources of steps now or, without waiting, when the last step under way ends.

        A cancelled close may not wait, as a step itself may have called it; but copies of an ending step are still
        under way, and their destinations must stay open.
        """
        if self.steps:
            self._release, self.is_end_awaited = release, True
        else:
            self.releasing = self.releasing or _begin_release(release)
            await self.await_release()

    def note_none_left(self) -> None:
        """Note that the last step under way has ended; begin the release that was left to this step."""
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        if self._release is not None:
            self.releasing = _begin_release(self._release)
            self._release = None

    async def await_release(self) -> None:
        """Wait for the end of the release, which has begun, despite cancellations."""
        releasing = self.releasing
        assert releasing is not None
        await wait_shielded(lambda: [] if releasing.done() else [releasing])
        releasing.result()


def _begin_release(release: Release) -> asyncio.Task[None]:
    """Release the resources of steps in a task, which no cancellation of a waiting caller cuts short."""
    return asyncio.get_running_loop().create_task(release(), name="release")
