"""After each test of the machine nothing may be held."""

import gc

import pytest
from tagflow.kernels.scheduler.machine import live_counts


@pytest.fixture(autouse=True)
def no_leaks():
    yield
    gc.collect()
    counts = live_counts()
    assert counts.pop("allocated", 0) == counts.pop("freed", 0)
    assert counts == {"frames": 0, "iterations": 0, "values": 0}
