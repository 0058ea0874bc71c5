"""The one synchronous face of a session, for scripts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from ..base.errors import SessionClosed, TagflowError
from ..ir.scopes import Opened, Scope
from .session import Session, Statistics


class SyncSession:
    """A Session in an event loop of its own, in a thread.

    Takes the arguments of :class:`Session`. Use it in scripts; inside a running event loop it is refused.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.constant(2.0) * 3.0
    >>> with tg.SyncSession(graph) as session:
    ...     float(session.run(y))
    6.0
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_running_loop()
        self._session = Session(*args, **kwargs)
        self._scope = Opened(Scope(self._session.graph.root))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tagflow-session", daemon=True)
        self._thread.start()

    def __enter__(self) -> SyncSession:
        self._scope.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.close()
        self.close()

    @property
    def graph(self) -> Any:
        """The session's graph."""
        return self._session.graph

    def run(self, fetches: Any, feeds: Mapping[Any, Any] | None = None, *, timeout: float | None = None) -> Any:
        """Run one step; see :meth:`Session.run`."""
        return self._call(self._session.run(fetches, feeds, timeout=timeout))

    def make_step(self, fetches: Any, feeds: Sequence[Any] = ()) -> Callable[..., Any]:
        """Return a compiled step to call with the fed values; see :meth:`Session.make_step`."""
        step = self._session.make_step(fetches, feeds)
        return lambda *values, timeout=None: self._call(step(*values, timeout=timeout))

    def read_variables(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the variables' values by name."""
        return self._call(self._session.read_variables(names))  # type: ignore[no-any-return]

    def write_variables(self, values: Mapping[str, Any]) -> None:
        """Set variables by name."""
        self._call(self._session.write_variables(values))

    def statistics(self) -> Statistics:
        """Return a snapshot of counts."""
        return self._session.statistics()

    def close(self) -> None:
        """End running steps and the thread; closing twice is fine."""
        if self._loop.is_closed():
            return
        self._call(self._session.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            _refuse_running_loop()
            if self._loop.is_closed():
                raise SessionClosed("this session is closed")
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise TagflowError("SyncSession can not be used inside a running event loop", hint="use `async with Session(...)`")
