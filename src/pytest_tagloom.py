"""The pytest plugin of tagloom: a graph and sessions as fixtures.

A module of its own, outside of the package, because pytest imports plugins when it starts: the engine is imported by
the first test that asks for a fixture. It depends on no other plugin; pytest-asyncio, anyio or any other may run the
tests that are coroutines.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_MARK = "tagloom"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark that gives the sessions of a test their options."""
    config.addinivalue_line("markers", f"{_MARK}(**options): options of the Session that the test's fixture opens")


@pytest.fixture
def tagloom_graph(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new tagloom.Graph that is the current one in the test, and in fixtures that ask for it."""
    import tagloom

    graph = tagloom.Graph()
    if inspect.iscoroutinefunction(request.node.obj):
        _surround(request, graph.as_default)  # a runner of coroutines may have taken its context before
    with graph.as_default():
        yield graph


@pytest.fixture
def tagloom_session(request: pytest.FixtureRequest, tagloom_graph: Any) -> Any:
    """An open tagloom.Session of `tagloom_graph`, for a test that is a coroutine.

    It is opened in the test's own task, closed when the test's body has ended, and the test fails if frames, values or
    blocking functions are left then.
    """
    import tagloom

    if not inspect.iscoroutinefunction(request.node.obj):
        pytest.fail("tagloom_session is for tests that are coroutines; others take tagloom_sync_session", pytrace=False)
    session = tagloom.Session(tagloom_graph, **_options(request))
    _surround(request, functools.partial(_Open, session))
    return session


@pytest.fixture
def tagloom_sync_session(request: pytest.FixtureRequest, tagloom_graph: Any) -> Iterator[Any]:
    """An open tagloom.SyncSession of `tagloom_graph`; the test fails if something is left when it is closed."""
    import tagloom

    before = _count()
    with tagloom.SyncSession(tagloom_graph, **_options(request)) as session:
        yield session
    _check_nothing_is_left(session, before)


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options that the marks of a test, its class and module give; the nearest mark decides."""
    marks = reversed(list(request.node.iter_markers(_MARK)))
    return {name: value for mark in marks for name, value in mark.kwargs.items()}


def _surround(request: pytest.FixtureRequest, context: Callable[[], Any]) -> None:
    """Run the test's coroutine in a context manager, plain or asynchronous.

    A fixture with `yield` would be run in a task, and by some plugins in an event loop, that is not the test's.
    """
    node = request.node
    body = node.obj

    @functools.wraps(body)
    async def surrounded(*args: Any, **kwargs: Any) -> Any:
        manager = context()
        if hasattr(manager, "__aenter__"):
            async with manager:
                return await body(*args, **kwargs)
        with manager:
            return await body(*args, **kwargs)

    node.obj = surrounded
    request.addfinalizer(lambda: setattr(node, "obj", body))


class _Open:
    """A session's block, which looks for what is left when it has closed."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def __aenter__(self) -> Any:
        self._before = _count()
        return await self._session.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        await self._session.__aexit__(kind, error, trace)
        if error is None:  # which says more than what it has left
            _check_nothing_is_left(self._session, self._before)


def _count() -> dict[str, int]:
    from tagloom.kernels.scheduler.state import live_counts

    return {key: live_counts()[key] for key in ("frames", "iterations", "values")}


def _check_nothing_is_left(session: Any, before: dict[str, int]) -> None:
    """Fail if the step machines hold more than before, or functions of the session still run."""
    if _count() != before:
        gc.collect()
    left = [f"{count - before[key]} {key}" for key, count in _count().items() if count > before[key]]
    orphaned = session.statistics().orphaned
    left += [f"{orphaned} blocking functions that still run"] if orphaned else []
    if left:
        pytest.fail(f"the closed session left {', '.join(left)}", pytrace=False)
