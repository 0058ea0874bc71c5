"""Values that enter or leave a session's resources; threads copy large arrays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import numpy as np

from ...base import nest
from ...base.array_like import UnreadArray
from ...base.resources import Resource
from ...ops.support.copies import is_large
from ...streams.contract import Device
from ..devices.device_values import copied_out
from ..scheduling.blocking_calls import BlockingCalls


@asynccontextmanager
async def turns_at(resources: Iterable[Resource]) -> AsyncIterator[None]:
    """Hold a turn at each of some resources at once; no thread changes any of them meanwhile.

    Parameters
    ----------
    resources : iterable of Resource
        Iterated again when all turns have come, because resources may have been added by then.
    """
    async with AsyncExitStack() as turns:
        while True:
            mine = {each for each in resources if each.turns is not None}
            for each in sorted(mine, key=id):  # one order for all callers, as in any lock hierarchy: no deadlock
                await turns.enter_async_context(each.turns.turn())  # type: ignore[union-attr]
            if not any(each.turns is not None and each.turns.taken for each in resources if each not in mine):
                break
            await turns.aclose()
        yield


async def run_offloaded(calls: BlockingCalls | None, values: Any, make: Callable[[], Any]) -> Any:
    """Return `make()`, called by a thread if any of `values` is large or has yet to be read."""
    leaves = nest.flatten(values)
    if any(isinstance(each, UnreadArray) for each in leaves):
        return await (calls or asyncio.to_thread)(make)
    return make() if calls is None or not any(map(is_large, leaves)) else await calls(make)


async def copy_to_host(values: Any, devices: Iterable[Device], calls: BlockingCalls | None) -> Any:
    """Return a structure of values, with read-only arrays replaced by copies in the host's memory."""
    found = await copied_out(values, devices)
    return await run_offloaded(calls, found, partial(nest.map_structure, _copy_if_read_only, found))


def _copy_if_read_only(value: Any) -> Any:
    """Return a copy of a read-only array, which has another holder; other values unchanged."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value
