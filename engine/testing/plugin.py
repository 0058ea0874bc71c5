"""The pytest plugin under the package's name, for ``pytest -p tagloom.testing.plugin``.

The fixtures come from `pytest_tagloom`, which imports the engine only when a test needs a fixture.
"""

from pytest_tagloom import pytest_configure, tagloom_graph, tagloom_session, tagloom_sync_session

__all__ = ["pytest_configure", "tagloom_graph", "tagloom_session", "tagloom_sync_session"]
