"""Both executors; after each test nothing of a step may be left."""

import pytest
import tagflow as tg
from tagflow.kernels.scheduler.state import live_counts


@pytest.fixture(params=["machine", "reference"])
def executor(request):
    return request.param


@pytest.fixture
def graph():
    with tg.Graph().as_default() as graph:
        yield graph


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    counts = live_counts()
    assert not any(counts[key] for key in ("frames", "iterations", "values")), counts
