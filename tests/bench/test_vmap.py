"""The bench of vectorized programs computes the same by both of tagloom's ways, and as NumPy does."""

import inspect
from contextlib import AsyncExitStack

import numpy as np
import pytest

from bench import vmap


async def values(factory, case):
    async with AsyncExitStack() as stack:
        step = factory(case, stack)
        step = await step if inspect.isawaitable(step) else step
        return [np.asarray(value) for value in await step()]


@pytest.mark.parametrize("case", vmap.EXPERIMENT.cases, ids=lambda case: case["work"])
async def test_all_ways_agree(case):
    wanted = await values(vmap.map_fn_singly, case)
    for way in (vmap.tagloom, vmap.map_fn):
        for one, other in zip(await values(way, case), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


async def test_the_spellings_of_the_state_agree():
    scalars, (vector,) = (
        await values(vmap.tagloom, {"work": "ode_scalars"}),
        await values(vmap.tagloom, {"work": "ode_vector"}),
    )
    np.testing.assert_allclose(np.stack(scalars, 1), vector, rtol=1e-4, atol=1e-5)


async def test_gradients_of_examples_add_up_to_that_of_all():
    first, second = await values(vmap.tagloom, {"work": "example_gradients"})
    hidden = np.tanh(vmap.INPUTS @ vmap.WEIGHTS[0])
    error = 2 * (hidden @ vmap.WEIGHTS[1] - vmap.TARGETS[:, None])
    np.testing.assert_allclose(second.sum(0), hidden.T @ error, rtol=1e-4, atol=1e-4)
    back = error @ vmap.WEIGHTS[1].T * (1 - hidden**2)
    np.testing.assert_allclose(first.sum(0), vmap.INPUTS.T @ back, rtol=1e-4, atol=1e-4)
