"""Values that come from outside into a session's resources, or go out of them: large ones are copied in threads."""

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
    """Have a turn at each of some resources at once; none of them is changed by a thread meanwhile.

    Parameters
    ----------
    resources : iterable of Resource
        Asked for again when all turns have come: others may be there by then.
    """
    async with AsyncExitStack() as turns:
        while True:
            mine = {each for each in resources if each.turns is not None}
            for each in sorted(mine, key=id):  # in one order, so that two who want several do not block each other
                await turns.enter_async_context(each.turns.turn())  # type: ignore[union-attr]
            if not any(each.turns is not None and each.turns.taken for each in resources if each not in mine):
                break
            await turns.aclose()
        yield


async def made_elsewhere(calls: BlockingCalls | None, values: Any, make: Callable[[], Any]) -> Any:
    """Return what `make` makes of values: a thread calls it if some of them are large, or have to be read."""
    leaves = nest.flatten(values)
    if any(isinstance(each, UnreadArray) for each in leaves):
        return await (calls or asyncio.to_thread)(make)
    return make() if calls is None or not any(map(is_large, leaves)) else await calls(make)


async def taken_out(values: Any, devices: Iterable[Device], calls: BlockingCalls | None) -> Any:
    """Return a structure of values with copies in the host's memory of the arrays that others hold."""
    found = await copied_out(values, devices)
    return await made_elsewhere(calls, found, partial(nest.map_structure, _own, found))


def _own(value: Any) -> Any:
    """Return a copy of an array that is read-only, as somebody holds it; anything else as it is."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value
