"""Coroutines run from plain functions, whether or not an event loop runs in the caller's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from ..frontend.state.variables import global_variables
from ..runtime.session.session import Session

Result = TypeVar("Result")


def run_to_end(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine run in an event loop of its own.

    Inside of a running event loop, as in a coroutine test, the new loop runs in a thread, and the caller waits.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    # asyncio.run refuses a thread whose loop runs, so another thread runs the coroutine.
    # In a copy of the caller's context, which has the current graph and the block of `tagloom.priority`.
    with ThreadPoolExecutor(1, thread_name_prefix="tagloom-testing") as threads:
        return threads.submit(copy_context().run, asyncio.run, coroutine).result()


async def initialize_variables(session: Session) -> None:
    """Initialize the variables of a session's graph."""
    with session.graph.as_default():
        initializers = [variable.initializer for variable in global_variables()]
    if initializers:
        await session.run(initializers)
