"""Checks for calls that would block a running event loop: refused, except on loops of notebooks."""

from __future__ import annotations

import asyncio
import sys
import threading

from ...base.errors import TagloomError


def refuse_running_loop(
    blocking: bool | None, what: str, hint: str, own: asyncio.AbstractEventLoop | None = None
) -> None:
    """Raise TagloomError if an event loop runs in this thread and may not be blocked.

    Parameters
    ----------
    blocking : bool or None
        True to allow blocking; None to allow blocking the event loop of a notebook.
    what : str
        Name of the called function, for the error.
    hint : str
        Equivalent call without blocking.
    own : AbstractEventLoop, optional
        The event loop that does the work: never blocked, as nothing would end the wait.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is own:
        raise TagloomError(
            f"{what} cannot be used in a function that its own steps call",
            wanted="an await on the session's event loop, which this call would keep waiting for itself",
            got=f"a call in thread {threading.current_thread().name}",
            hint="fetch the value in the step itself, or make the function async and await another Session there",
        )
    if blocking or (blocking is None and is_of_notebook(running)):
        return
    raise TagloomError(f"{what} cannot be used inside a running event loop", hint=hint)


def is_loop_here() -> bool:
    """Return True if an event loop runs in this thread, so that long work belongs into another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_of_notebook(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if IPython's kernel runs its cells in the event loop of this thread.

    No task of the user waits there for the end of a cell, as on the loop of a server.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return False
    of_kernel = getattr(getattr(kernel, "io_loop", None), "asyncio_loop", None)
    # Kernels that do not show their loop run cells in the main thread.
    return of_kernel is loop if of_kernel is not None else threading.current_thread() is threading.main_thread()
