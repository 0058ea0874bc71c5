"""The fixtures of layers: a graph to build in, and a session on each executor to run it."""

from tests.nn.conftest import graph, run, start  # noqa: F401
