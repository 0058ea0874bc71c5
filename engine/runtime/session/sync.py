"""Synchronous sessions, for scripts and notebooks."""

from __future__ import annotations

import asyncio
import atexit
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

from ...base.errors import SessionClosed, TagloomError
from ...base.forks import strand_in_children
from ...base.source_lines import user_source
from ...ir.entry import explained
from ...ir.graph import Graph
from ...ir.scopes import PersistentScope, Scope
from ..devices.session_devices import DeviceAttributes
from ..observe.statistics import Statistics
from ..observe.trace import Trace
from ..scheduling.running_loops import refuse_running_loop
from ..scheduling.timeouts import check_seconds
from ..steps.outcomes import RandomState
from ..steps.report.report import Report
from .session import Session
from .sync_handles import SyncPartialRun, SyncStep
from .typed_runs import typed_sync_make_step, typed_sync_run
from .variables import Named

_AWAITED = "use `async with Session(...)`, or SyncSession(..., blocking=True), which keeps the event loop waiting"
_LONGEST_WAIT = 0.1  # seconds until a lost interrupt is noticed


class SyncSession:
    """A Session in an event loop of its own, in a thread, for scripts and notebooks.

    In a thread with a running event loop, calls are refused, unless the session is `blocking`: the running loop then
    stands still during each call. Methods have the arguments and results of :class:`Session`.

    The thread starts with the first call. A process forked before the first call has a usable copy of the session, a
    process forked later has a closed copy.

    Parameters
    ----------
    *args, **kwargs
        The arguments of :class:`Session`.
    blocking : bool, optional
        True to wait also in a thread with a running event loop, False to refuse such calls everywhere. By default a
        notebook's event loop waits, because a cell has the loop to itself, and every other loop is refused.

    Raises
    ------
    TagloomError
        If an event loop runs in this thread and may not be blocked.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(2.0) * 3.0
    >>> with tg.SyncSession(graph) as session:
    ...     float(session.run(y))
    6.0
    """

    def __init__(self, *args: Any, blocking: bool | None = None, **kwargs: Any) -> None:
        self._blocking = blocking
        refuse_running_loop(blocking, "SyncSession", _AWAITED)
        self._session = Session(*args, **kwargs)
        self._scope = PersistentScope(Scope(self._session.graph.root))
        self._serving: _Serving | None = None  # from the first call on
        self._lock = threading.Lock()  # guards `_serving` and the attributes below
        self._calls: set[_Call] = set()  # under way, in any thread
        self._closer: threading.Thread | None = None
        self._closed = threading.Event()
        self._why_closed = "this session is closed"
        strand_in_children(self)
        if self._session.settings.observe:
            self._call(self._session.observe_if_set)

    def __repr__(self) -> str:
        return repr(self._session).replace("<Session", "<SyncSession", 1)

    def __del__(self) -> None:
        closed = getattr(self, "_closed", None)  # None if __init__ has refused its arguments
        if closed is not None and self._closer is None:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=1)
            self.abandon()

    async def __aenter__(self) -> NoReturn:
        raise TagloomError(
            "a SyncSession is not awaited",
            wanted="with",
            got="async with",
            hint="`async with Session(graph) as session:`",
        )

    async def __aexit__(self, *_: object) -> None:
        """Do nothing; ``async with`` looks the method up before calling `__aenter__`, which raises the error."""

    def strand(self, parent: int) -> None:
        """Mark the session as closed in this child of the process `parent` if its thread was started in the parent."""
        self._lock = threading.Lock()  # a thread of the parent may hold the inherited lock for ever
        if self._closer is None and self._serving is not None:
            self._why_closed = f"this session was opened in process {parent}, this is a child of it"
            self._closer = threading.current_thread()
            self._closed.set()

    def __enter__(self) -> SyncSession:
        self._scope.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.close()
        self.close()

    @property
    def blocking(self) -> bool | None:
        """True if calls may block an event loop of their thread; None if only a notebook's loop."""
        return self._blocking

    @property
    def graph(self) -> Graph:
        """The session's graph."""
        return self._session.graph

    @typed_sync_run
    @explained
    def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        timeout: float | None = None,
        trace: Trace | None = None,
        report: Report | None = None,
        priority: int | None = None,
    ) -> Any:
        """Run one step: `fetches`, `feeds`, `timeout`, `trace`, `report`, `priority` are as of :meth:`Session.run`."""
        options = {"timeout": timeout, "trace": trace, "report": report, "priority": priority}
        return self._call(self._session.run, fetches, feeds, **options)

    @typed_sync_make_step
    def make_step(self, fetches: Any, feeds: Sequence[Any] = ()) -> SyncStep[Any]:
        """Compile a step that maps values for `feeds` to `fetches`; see :meth:`Session.make_step`."""
        return SyncStep(self._call(_at_once, self._session.make_step, fetches, feeds), self._call)

    def partial_run_setup(
        self, fetches: Any, feeds: Sequence[Any] = (), *, trace: Trace | None = None
    ) -> SyncPartialRun:
        """Begin a step in parts; `fetches`, `feeds` and `trace` are as of :meth:`Session.partial_run_setup`."""
        handle = self._call(self._session.partial_run_setup, fetches, feeds, trace=trace)
        return SyncPartialRun(handle, partial(self._call, handle.aclose))

    @explained
    def partial_run(
        self,
        handle: SyncPartialRun,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Run a part: `handle`, `fetches`, `feeds` and `timeout` are as of :meth:`Session.partial_run`."""
        inner = handle.handle if isinstance(handle, SyncPartialRun) else handle
        return self._call(self._session.partial_run, inner, fetches, feeds, timeout=timeout)

    def read_variables(self, names: Named | Iterable[Named] | None = None) -> dict[str, Any]:
        """Return copies of the variables' values by name; see :meth:`Session.read_variables` for `names`."""
        return self._call(self._session.read_variables, names)  # type: ignore[no-any-return]

    def write_variables(self, values: Mapping[Any, Any], *, consistent: bool = False, seconds: float = 10.0) -> None:
        """Set variables to `values` by name; see :meth:`Session.write_variables` for `consistent` and `seconds`."""
        self._call(self._session.write_variables, values, consistent=consistent, seconds=seconds)

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return copies of the session's state between steps; see :meth:`Session.snapshot`."""
        return self._call(self._session.snapshot)  # type: ignore[no-any-return]

    def restore(
        self, snapshot: Mapping[str, Mapping[str, Any]], *, consistent: bool = False, seconds: float = 10.0
    ) -> None:
        """Restore the session's state from `snapshot`; see :meth:`Session.restore` for `consistent` and `seconds`."""
        self._call(self._session.restore, snapshot, consistent=consistent, seconds=seconds)

    @property
    def random_state(self) -> RandomState:
        """Seed and step number of the next step's random operations; see :attr:`Session.random_state`."""
        return self._session.random_state

    @random_state.setter
    def random_state(self, state: tuple[int, int]) -> None:
        self._call(_at_once, setattr, self._session, "random_state", state)

    def statistics(self) -> Statistics:
        """Return a snapshot of the session's counts."""
        return self._session.statistics()

    def list_devices(self) -> list[DeviceAttributes]:
        """Return the session's devices; see :meth:`Session.list_devices`."""
        return self._session.list_devices()

    def reset_peak_memory_stats(self) -> None:
        """Reset memory peaks to the bytes in use now; see :meth:`Session.reset_peak_memory_stats`."""
        self._session.reset_peak_memory_stats()

    def report(self) -> Report:
        """Return a report of the last step's loops; see :meth:`Session.report`."""
        return self._session.report()

    @property
    def closed(self) -> bool:
        """True if the session is closed."""
        return self._session.closed

    def close(self, *, drain: float = 0.0) -> None:
        """End running steps and the thread; closing twice is fine, and so is closing in several threads.

        `drain` lets steps of other threads finish; see :meth:`Session.aclose`.
        """
        check_seconds(drain, "drain")
        self._refuse_running_loop()
        with self._lock:
            self._start()  # also for a session without calls, which closes like any other
            first, self._closer = self._closer is None, self._closer or threading.current_thread()
        if not first:
            # In the closing thread itself, as in the handler of a signal, waiting would never end.
            if self._closer is not threading.current_thread():
                self._closed.wait()
            return
        try:
            self._await(_Call(partial(self._end, drain)))
        finally:
            for call in list(self._calls):  # earlier calls of other threads, which end with the session's steps
                call.wait()
            try:
                self._started().end()
            finally:
                self._closed.set()

    def abandon(self) -> None:
        """Begin to close a session that nobody uses, without waiting and without taking a lock.

        For finalizers: the garbage collector runs in any thread, on event loops that must not wait, in the session's
        own thread, and in the middle of code that holds locks which the session may need for its end.
        """
        if self._closer is None:
            self._closer = threading.current_thread()
            self._closed.set()
            if self._serving is not None:
                self._serving.abandon(self._session)

    async def _end(self, drain: float) -> None:
        """Close the session, and end the async generators that functions have left open in the loop."""
        await self._session.aclose(drain=drain)
        await self._loop.shutdown_asyncgens()

    def call(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
        """Return the result of ``await function(session, *args, **kwargs)`` in the session's loop, with its Session."""
        return self._call(function, self._session, *args, **kwargs)

    def _call(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
        """Await ``function(*args, **kwargs)`` in the session's loop, in the caller's context.

        An interrupt of the waiting thread cancels the call, and is raised when the call has ended.
        """
        self._refuse_running_loop()
        call = _Call(partial(function, *args, **kwargs))
        with self._lock:
            if self._closer is not None:
                raise SessionClosed(self._why_closed, hint="open a new one with `with SyncSession(graph)`")
            self._start()
            self._calls.add(call)
        try:
            return self._await(call)
        finally:
            self._calls.discard(call)

    def _start(self) -> None:
        """Start the thread with the session's event loop, unless it runs; the caller holds the lock."""
        if self._serving is None:
            self._serving = _Serving()

    def _started(self) -> _Serving:
        assert self._serving is not None
        return self._serving

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return self._started().loop

    def _refuse_running_loop(self) -> None:
        own = None if self._serving is None else self._serving.loop
        refuse_running_loop(self._blocking, "SyncSession", _AWAITED, own)

    def _await(self, call: _Call) -> Any:
        """Run a call in the session's loop and wait for its end, also after an interrupt, which cancels the call."""
        try:
            self._loop.call_soon_threadsafe(call.start)
            call.wait()
        except BaseException:  # an interrupt of this thread: the call must not go on without its caller
            self._loop.call_soon_threadsafe(call.cancel)
            call.wait()
            raise
        try:
            return call.result()
        except TagloomError as error:
            error.source = error.source or user_source()  # the loop's thread does not have the caller's line
            raise


class _Call:
    """A coroutine function called in another thread's loop."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._function = function
        self._task: asyncio.Task[Any] | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(lambda _: self._ended.set())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def wait(self) -> None:
        """Wait for the end; by short waits, since a signal just before a wait does not interrupt the wait."""
        while not self._ended.wait(_LONGEST_WAIT):
            pass

    def result(self) -> Any:
        assert self._task is not None
        return self._task.result()

    async def _run(self) -> Any:
        return await self._function()


class _Serving:
    """Thread running an event loop until the loop is stopped, with a default executor of its own."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(thread_name_prefix="asyncio")
        self.loop.set_default_executor(self._executor)
        self.thread = threading.Thread(
            target=_serve, args=[self.loop, self._executor], name="tagloom-session", daemon=True
        )
        self.thread.start()

    def abandon(self, session: Session) -> None:
        """Close the session in the loop, then end loop and thread; return at once."""
        for thread in list(_ending):
            if not thread.is_alive():
                _ending.discard(thread)
        _ending.add(self.thread)
        self.loop.call_soon_threadsafe(_leave, session, self.loop)

    def end(self) -> None:
        """Wait for the executor's calls, then end the loop and its thread.

        The calling thread waits itself: ``loop.shutdown_default_executor`` would start a thread for the wait, which
        Python 3.12 and later refuse while the interpreter ends, the time when sessions of functions are closed.
        """
        try:
            self._executor.shutdown()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()


_ending: set[threading.Thread] = set()  # of abandoned sessions; some may have ended
_leaving: set[asyncio.Task[None]] = set()  # an event loop alone does not keep its tasks


def _serve(loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor) -> None:
    """Run a loop until its stop, then end its executor; an exit raised by a kernel reaches the caller alone."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            continue
        executor.shutdown()  # of an abandoned session, whose executor nobody else has waited for
        return loop.close()


def _leave(session: Session, loop: asyncio.AbstractEventLoop) -> None:
    """Close an abandoned session in its loop, then stop the loop, which ends the thread."""

    async def close() -> None:
        await session.aclose()
        await loop.shutdown_asyncgens()

    def closed(task: asyncio.Task[None]) -> None:
        _leaving.discard(task)
        loop.stop()

    task = loop.create_task(close())
    _leaving.add(task)
    task.add_done_callback(closed)


@atexit.register
def wait_for_abandoned_sessions() -> None:
    """Wait until all abandoned sessions are closed: their threads would end with the interpreter, in mid-closing."""
    for thread in list(_ending):
        thread.join()
        _ending.discard(thread)


async def _at_once(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)
