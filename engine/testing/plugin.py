"""The pytest plugin under the package's name, for ``pytest -p tagloom.testing.plugin``.

An installed tagloom needs no option: pytest finds `pytest_tagloom`, which imports the engine only when a test needs it.
"""

from pytest_tagloom import pytest_configure, tagloom_graph, tagloom_session, tagloom_sync_session

__all__ = ["pytest_configure", "tagloom_graph", "tagloom_session", "tagloom_sync_session"]
