"""Default sessions of functions, and the state shared by these sessions.

Each graph has a session per event loop, closed with the loop, and a SyncSession for scripts. Each variable lives in a
single session at a time, and follows the calls: see docs/design/0037-functions.md.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary, WeakValueDictionary, finalize, ref

from ...base.errors import TagloomError
from ...base.forks import when_forked
from ...ir.graph import Graph
from ..resources.manager import Snapshot
from ..session.session import Session
from ..session.sync import SyncSession
from ..steps.outcomes import RandomState

_logger = logging.getLogger("tagloom")
_Held = tuple[Session, AsyncGenerator[None, None]]
_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Graph, _Held]] = WeakKeyDictionary()


class FunctionState:
    """State of a graph's functions between calls, and the sessions of the calls.

    Each variable, by its name, lives in a single session at a time. A call moves its variables into its own session,
    which takes a copy. Concurrent uses of a variable on two event loops are refused.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        # Held while the session for scripts is opened. Not `_lock`, which the session's own thread takes in `opened`
        # while the opening thread waits.
        self._opening = threading.Lock()
        self._lock = threading.RLock()  # guards the attributes below; sessions are used in several threads
        self._places: dict[Session, set[str]] = {}  # names of the values living in each session
        self._calls: Counter[tuple[Session, frozenset[str]]] = Counter()  # running calls by session and names
        self._kept: Snapshot = {}  # values of closed sessions, or of sessions of a parent process
        self._random: RandomState | None = None  # random state of the closed session with the highest step number
        self._graph = graph
        self._script = _Script()
        # Bound to the script session alone: a reference to self would keep it alive. At exit, see `_close_at_exit`.
        finalize(self, self._script.abandon).atexit = False

    # ---- sessions

    def sync_session(self) -> SyncSession:
        """Return the session for scripts, which is closed when the graph's last function is gone."""
        with self._opening:
            session = self._script.session
            if session is None or session.closed:
                self._script.session = session = SyncSession(self._graph, blocking=True)
                session.call(self._begin)
            return session

    async def _begin(self, session: Session) -> None:
        self.opened(session)

    def close_script(self) -> None:
        """Close the session for scripts, and wait for its end."""
        if self._script.session is not None:
            self._script.session.close()

    def opened(self, session: Session) -> None:
        """Register a new session, whose random draws continue after the draws of the other sessions."""
        # A weak reference: a session closed after the last function has nobody to keep its values for.
        session.call_before_release(partial(_close_in, ref(self), session))
        with self._lock:
            # The loop of such a session ended without closing the session, so `closing` was never called.
            for each in [other for other in self._places if other.is_adrift]:
                self.closing(each)
            drawn = [self._random, *(each.random_state for each in self._places)]
            states = [each for each in drawn if each is not None]
            self._places[session] = set()
            if states:
                session.random_state = max(states, key=lambda state: state.step)

    def closing(self, session: Session) -> None:
        """Keep the values of a session that is closed, for the next session."""
        with self._lock:
            self._places.pop(session, None)
            elsewhere = set().union(*self._places.values())
            for kind, values in session.resources.snapshot().items():
                # A value that has moved on may still be here as an old copy, in a resource that cannot be dropped.
                here = {name: value for name, value in values.items() if name not in elsewhere}
                self._kept.setdefault(kind, {}).update(here)
            if self._random is None or self._random.step <= session.random_state.step:
                self._random = session.random_state

    # ---- calls

    @contextmanager
    def used(self, session: Session, names: frozenset[str], function: str) -> Iterator[None]:
        """Keep the variables of a call in its session until the call ends; to be entered on the session's event loop.

        Parameters
        ----------
        session : Session
        names : frozenset of str
            Names of variables and other kept resources.
        function : str
            Name of the function, for errors.

        Raises
        ------
        TagloomError
            If running calls on another event loop use a named variable.
        """
        call = session, names
        with self._lock:
            if not names <= self._places.setdefault(session, set()):
                self._bring(session, names, function)
            self._calls[call] += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls[call] -= 1
                if self._calls[call] <= 0:
                    del self._calls[call]

    def bring_all(self, session: Session, names: Collection[str], function: str) -> None:
        """Move a function's variables into a session, and all other kept values not in use elsewhere."""
        with self._lock:
            wanted = {name for values in self._kept.values() for name in values}
            for other, there in self._places.items():
                wanted |= there - self._in_use(other)
            self._bring(session, wanted | set(names), function)

    def _bring(self, session: Session, names: Collection[str], function: str) -> None:
        """Move the named values into a session, all or none; the caller holds the lock."""
        here = self._places.setdefault(session, set())
        missing = set(names) - here
        moving = {other: missing & there for other, there in self._places.items() if other is not session}
        for other, wanted in moving.items():
            if blocked := wanted & self._in_use(other):
                raise TagloomError(
                    f"{function} uses variables that calls on another event loop use now",
                    wanted="calls of one event loop at a time, or those of several threads by .sync()",
                    got=", ".join(sorted(blocked)),
                    hint=f"await those calls before, or make {function} with a graph of its own: "
                    "tagloom.function(graph=tagloom.Graph())",
                )
            if stuck := other.resources.immovable(wanted):
                raise TagloomError(
                    f"{function} uses what only another of its sessions has",
                    wanted="variables or pipelines, which follow the calls of a function",
                    got=", ".join(sorted(stuck)),
                    hint=f"call {function} either by .sync() or on one event loop, or give it a session: "
                    "tagloom.function(session=...)",
                )
        found = self._take_kept(missing)
        for other, wanted in moving.items():
            for kind, values in other.resources.take(wanted).items():
                found.setdefault(kind, {}).update(values)
            if wanted and other.random_state.step > session.random_state.step:
                session.random_state = other.random_state
            self._places[other] -= wanted
        try:
            session.resources.restore(found)
        except BaseException:
            for kind, values in found.items():  # taken from their sessions already, so kept for the next call
                self._kept.setdefault(kind, {}).update(values)
            raise
        here |= missing

    def _in_use(self, session: Session) -> set[str]:
        """Return the names used now in a session by calls, or by steps from `Function.step`."""
        called = {name for other, names in self._calls if other is session for name in names}
        return called | session.names_in_use()

    def _take_kept(self, names: Collection[str]) -> Snapshot:
        found: Snapshot = {}
        for kind, values in self._kept.items():
            for name in values.keys() & set(names):
                found.setdefault(kind, {})[name] = values.pop(name)
        return found

    # ---- fork

    def strand(self, parent: int) -> None:
        """Continue in a forked process with the values of the parent's sessions, in sessions of its own."""
        # New locks, as threads of the parent, missing in this process, may hold the inherited ones.
        self._opening, self._lock = threading.Lock(), threading.RLock()
        self._calls.clear()
        self._script.session = None
        self._graph.forget_builder()
        torn: list[str] = []
        for session in list(self._places):
            torn += session.resources.drop_torn()
            self.closing(session)
        if torn:
            _logger.warning(
                "a thread of process %d was writing to %s when this process was forked from it: here they have their "
                "initial values again",
                parent,
                ", ".join(torn),
            )


def _close_in(state: ref[FunctionState], session: Session) -> None:
    found = state()
    if found is not None:
        found.closing(session)


class _Script:
    """Holder of the SyncSession for scripts, opened at the first call."""

    def __init__(self) -> None:
        self.session: SyncSession | None = None

    def abandon(self) -> None:
        """Close the session without waiting, as finalizers must."""
        if self.session is not None:
            self.session.abandon()


_states: WeakValueDictionary[Graph, FunctionState] = WeakValueDictionary()
_making = threading.Lock()


def state_of(graph: Graph) -> FunctionState:
    """Return the state of a graph's functions; each function holds the state, which ends with the last of them."""
    with _making:
        state = _states.get(graph)
        if state is None:
            state = _states[graph] = FunctionState(graph)
        return state


@atexit.register
def _close_at_exit() -> None:
    """Close the sessions for scripts of functions that live until the end of the interpreter."""
    for state in list(_states.values()):
        state.close_script()


async def default_session(state: FunctionState, graph: Graph) -> Session:
    """Return the running loop's session for a graph, opened at the first call.

    An asynchronous generator lives as long as the session: an ending loop closes the generators begun in the loop
    (``loop.shutdown_asyncgens()``, called by ``asyncio.run``), and the generator closes the session.
    """
    loop = asyncio.get_running_loop()
    held = _sessions.setdefault(loop, {})
    if graph not in held or held[graph][0].closed:
        session = Session(graph)
        state.opened(session)
        until_closed = _living(session, state, held)
        held[graph] = session, until_closed
        await anext(until_closed)
        await session.observe_if_set()
    return held[graph][0]


async def _living(session: Session, state: FunctionState, held: dict[Graph, _Held]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        # In a forked process the entry is gone, or belongs to a session of this process.
        if session.graph in held and held[session.graph][0] is session:
            del held[session.graph]
        await session.aclose()


def _strand(parent: int) -> None:
    global _making
    _making = threading.Lock()
    for state in list(_states.values()):
        state.strand(parent)
    for held in list(_sessions.values()):
        held.clear()


when_forked(_strand)
