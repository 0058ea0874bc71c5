"""For pytest in a process of its own (``-p tests.simcuda.plugin``): CUDA is simulated from before anything is imported.

The libraries are in the folder ``$TAGLOOM_SIMCUDA``. After each test nothing may be left of what the test has made.
"""

import gc
import os
import sys
from pathlib import Path

import pytest

from tests.simcuda.library import Simulated

sys.modules.setdefault("cupy", None)  # the real one wants a real GPU; `tests.simcuda.cupy` is another
simulated = Simulated(Path(os.environ["TAGLOOM_SIMCUDA"]))


@pytest.fixture(autouse=True)
def nothing_is_left_on_the_gpu():
    """Contexts, memory, streams and events are given back, whatever the test has done."""
    yield
    simulated.reset()
    if any(simulated.counts().values()):
        gc.collect()
    assert not any(simulated.counts().values()), simulated.counts()
