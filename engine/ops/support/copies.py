"""Copies of values leaving or entering a step: large copies are made in threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from ...kernels.memory.contexts import outside
from .context import KernelContext, LongCall

LARGE = 1 << 20  # bytes from which on a copy takes longer than a round trip to a thread


def is_large(value: Any) -> bool:
    """Return True if copying a value is worth a thread."""
    return isinstance(value, np.ndarray) and value.nbytes >= LARGE


def give_copy(context: KernelContext, value: Any, take: Callable[[Any], Awaitable[None] | None]) -> Any:
    """Call `take` with a copy of a value, which `take` then owns; return the awaitable that `take` returns, if any."""
    calls = context.step.long_calls
    if calls is None or not is_large(value):
        return take(outside(np.array, value))
    return _give_copy(calls, value, take)


def copy_in_host(calls: Callable[..., LongCall] | None, value: Any) -> Any:
    """Return a copy of a value in host memory, or the future of a copy made in a thread."""
    return outside(np.array, value) if calls is None or not is_large(value) else calls(np.array, value)


async def _give_copy(calls: Callable[..., Awaitable[Any]], value: Any, take: Callable[[Any], Any]) -> None:
    # A task runs this, in the context of the step's caller.
    waiting = take(await calls(np.array, value))
    if waiting is not None:
        await waiting
