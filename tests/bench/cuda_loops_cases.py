"""The benches of loops on simulated CUDA, small; run by `test_on_cuda`."""

from contextlib import AsyncExitStack

import numpy as np
import pytest

from bench import cond_loop, counter_loop, loop_gradient, lstm_train, matmul_loop

BENCHES = [counter_loop, cond_loop, matmul_loop, loop_gradient, lstm_train]


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.__name__)
async def test_a_kernel_gives_what_launches_give(bench):
    here = bench.EXPERIMENT
    there = here.on("cuda", [])
    case = {key: min(value, 20) for key, value in here.cases[-1].items()}
    found = []
    for factory in (there.engines["tagloom"], there.engines["launches"], here.engines["tagloom"]):
        async with AsyncExitStack() as stack:
            step = await factory(case, stack)
            await step()
            found.append([np.asarray(value) for value in await step()])
    for others in found[:2]:
        for a, b in zip(others, found[2], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
