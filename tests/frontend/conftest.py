"""A graph to build in, and a session on each executor to run it."""

import pytest
import tagloom as tg


@pytest.fixture(autouse=True)
def graph():
    """Open a graph for the test."""
    with tg.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    """Return ``run(fetches, feeds=None)`` of a session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run
