"""The fixtures of sessions: both executors, and a check that nothing of a step is left."""

from tests.runtime.conftest import executor, nothing_is_left  # noqa: F401
