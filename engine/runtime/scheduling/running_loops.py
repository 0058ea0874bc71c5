"""Event loops that a call would keep waiting: refused, except those of notebooks."""

from __future__ import annotations

import asyncio
import sys
import threading

from ...base.errors import TagloomError


def refuse_running_loop(
    blocking: bool | None, what: str, hint: str, own: asyncio.AbstractEventLoop | None = None
) -> None:
    """Raise TagloomError if an event loop runs in this thread and may not be kept waiting.

    Parameters
    ----------
    blocking : bool or None
        Whether it may; None if it may where it is the event loop of a notebook.
    what : str
        Name of what is called, for the error.
    hint : str
        The same without waiting.
    own : AbstractEventLoop, optional
        The event loop that does the work: never to be kept waiting, as nothing would end the wait.
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
    """Return True if an event loop runs in this thread, so that long work belongs into another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_of_notebook(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if the event loop of this thread is the one in which IPython's kernel runs cells.

    Nothing of the user's waits there for the end of a cell, as it would on the loop of a server.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return False
    of_kernel = getattr(getattr(kernel, "io_loop", None), "asyncio_loop", None)
    return of_kernel is loop if of_kernel is not None else threading.current_thread() is threading.main_thread()
