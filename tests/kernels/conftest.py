"""After each test of the machine nothing may be held."""

import gc

import pytest
from tagloom.kernels.scheduler.state import live_counts

NOTHING = {"frames": 0, "iterations": 0, "values": 0}


@pytest.fixture(autouse=True)
def no_leaks():
    yield
    if any(live_counts()[held] for held in NOTHING):
        gc.collect()  # a failed step may still hang in the traceback of its error
    counts = live_counts()
    assert counts.pop("allocated", 0) == counts.pop("freed", 0)
    assert counts == NOTHING
