"""A graph to build in, and a session on each executor to run it."""

import pytest
import tagloom as tg


@pytest.fixture(autouse=True)
def graph():
    """Open a graph for the test."""
    with tg.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["machine", "reference"])
def session(request, graph):
    """A session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=60.0) as session:
        yield session


@pytest.fixture
def run(session):
    """Return ``run(fetches, feeds=None)``."""
    return session.run
