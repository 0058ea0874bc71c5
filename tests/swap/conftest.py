"""After each test nothing of a step may be left: values, blocks of memory, threads of streams that still work."""

import gc

import pytest
from tagloom.kernels.memory.store import block_counts
from tagloom.kernels.scheduler.state import live_counts
from tagloom.streams import ManualDevice

from tests.swap.manual_swapper import SIZE, Rig


@pytest.fixture(autouse=True)
def nothing_is_left():
    gc.collect()
    before = block_counts()["blocks"]
    yield
    gc.collect()
    assert block_counts()["blocks"] == before
    counts = live_counts()
    assert not any(counts[key] for key in ("frames", "iterations", "values")), counts


@pytest.fixture
async def rig():
    """A Rig on a manual device."""
    rig = Rig(ManualDevice("/cpu:0", limit=10 * SIZE + 100))
    yield rig
    await rig.aclose()
