"""Both executors; after each test nothing of a step may be left."""

import gc
import sys

import pytest
from tagloom.kernels.memory.store import block_counts
from tagloom.kernels.scheduler.state import live_counts
from tagloom.runtime.session.sync import wait_for_abandoned_sessions

from tests.strict_array_library.library import WAITS, Special


@pytest.fixture(params=["machine", "reference"])
def executor(request):
    return request.param


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    counts = live_counts()
    assert not any(counts[key] for key in ("frames", "iterations", "values")), counts


@pytest.fixture
def strict_library(monkeypatch):
    """What the strict array library needs around it; no waits are noted yet."""
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", Special())
    WAITS.reasons.clear()


@pytest.fixture
def collected():
    """Collect garbage before the check of leftovers, and wait for the end of hidden sessions that this drops."""
    yield
    gc.collect()
    wait_for_abandoned_sessions()


@pytest.fixture
def every_block_comes_back():
    gc.collect()
    before = block_counts()
    yield
    gc.collect()
    after = block_counts()
    assert after["blocks"] == before["blocks"]
    assert after.get("allocated", 0) - before.get("allocated", 0) == after.get("freed", 0) - before.get("freed", 0)
