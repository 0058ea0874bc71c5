"""The sessions that functions run in unless they are given one: one for each graph and event loop, ended with it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, finalize

from ...ir.graph import Graph
from ..session import Session
from ..sync import SyncSession

_logger = logging.getLogger("tagloom")
_Held = tuple[Session, AsyncGenerator[None, None]]
_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Graph, _Held]] = WeakKeyDictionary()

_forgotten: WeakSet[Graph] = WeakSet()  # whose session had variables when it was closed
_told: WeakSet[Graph] = WeakSet()


async def default_session(graph: Graph) -> Session:
    """Return the session of the running loop for a graph, opened when first asked for.

    An asynchronous generator lives as long as the session: a loop that ends closes those that were begun in it
    (``loop.shutdown_asyncgens()``, which ``asyncio.run`` calls).
    """
    loop = asyncio.get_running_loop()
    held = _sessions.setdefault(loop, {})
    if graph not in held:
        if graph in _forgotten and graph not in _told:
            _told.add(graph)
            _logger.warning(
                "functions run in another event loop than before: their variables have their initial values again; "
                "call them in one asyncio.run(), or carry the values over by `await f.session()`"
            )
        session = Session(graph)
        until_closed = _living(session, held)
        held[graph] = session, until_closed
        await anext(until_closed)
        await session.observe_if_set()
    return held[graph][0]


async def _living(session: Session, held: dict[Graph, _Held]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        del held[session.graph]
        if list(session.resources):
            _forgotten.add(session.graph)
        await session.aclose()


class SyncDefault:
    """A SyncSession that is closed when nobody holds this any longer, or the interpreter ends.

    Parameters
    ----------
    graph : Graph

    Attributes
    ----------
    session : SyncSession
    """

    def __init__(self, graph: Graph) -> None:
        self.session: SyncSession = SyncSession(graph)
        finalize(self, _close, self.session)


_sync: WeakValueDictionary[Graph, SyncDefault] = WeakValueDictionary()


def default_sync_session(graph: Graph) -> SyncDefault:
    """Return what holds the session for scripts of a graph; functions of the graph that were called hold this."""
    held = _sync.get(graph)
    if held is None:
        held = _sync[graph] = SyncDefault(graph)
    return held


def _close(session: SyncSession) -> None:
    """Close a session, beside the event loop if the garbage collector calls this in one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        session.close()
    else:
        threading.Thread(target=session.close, name="tagloom-close").start()
