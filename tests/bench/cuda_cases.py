"""The bench on simulated CUDA, small; run by `test_lstm_memory_cuda`."""

from contextlib import AsyncExitStack
from functools import partial

import numpy as np
import pytest
import tagloom as tg

from bench import lstm_memory, lstm_memory_cuda

FITS = 8


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"BATCH": 4, "UNITS": 32, "EVERY": 4}.items():
        monkeypatch.setattr(lstm_memory, name, value)
    monkeypatch.setattr(tg, "SwapPolicy", partial(tg.SwapPolicy, minimum=1))  # what is saved is small as well


async def ran(factory, case):
    """Return the values of the second step, and the notes."""
    async with AsyncExitStack() as stack:
        step = await factory(case, stack)
        await step()
        values = [np.asarray(value) for value in await step()]
        return values, step.notes() if hasattr(step, "notes") else {}


@pytest.mark.parametrize(("length", "mode"), [(8, "none"), (8, "host"), (32, "host"), (32, "recompute")])
async def test_values_are_those_of_a_cpu(length, mode):
    case = {"fits": FITS, "length": length, "mode": mode}
    wanted, _ = await ran(lstm_memory.unlimited, case)
    for factory in (lstm_memory_cuda.limited, lstm_memory_cuda.unlimited):
        found, notes = await ran(factory, case)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
        assert "device at most" in notes[lstm_memory.MEMORY]
        if factory is lstm_memory_cuda.limited:
            assert (mode == "none") == (lstm_memory.BEYOND in notes)
            assert ("host out" in notes[lstm_memory.SWAP]) == (length > FITS and mode == "host")
