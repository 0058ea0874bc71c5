"""Random programs on strict devices, alone and beside CPUs."""

from contextlib import AsyncExitStack
from dataclasses import replace

import tagloom as tg
from hypothesis import strategies as st
from tagloom.kernels.scheduler.state import live_counts

from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON

PLACES = {
    "layout": st.sampled_from(["s", "sc", "cs", "scs"]),
    "seed": st.integers(0, 1 << 30),
    "window": st.sampled_from([1, 2, 7, 32]),
}


async def run_on(graph, run, layout, seed, strict=StrictDevice):
    """Yield what running a session gives on devices: strict ones and CPUs."""
    async with AsyncExitStack() as stack:
        devices = []
        for i, kind in enumerate(layout):
            devices.append(await stack.enter_async_context(strict(f"/cpu:{i}")) if kind == "s" else f"/cpu:{i}")
        settings = replace(ON, shuffle_seed=seed % 3 or None)
        async with tg.Session(graph, devices=devices, soft_placement=True, settings=settings) as session:
            yield f"on {layout}", await run(session)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))
