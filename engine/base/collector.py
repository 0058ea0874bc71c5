"""Pauses of the garbage collector while many lasting objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from .forks import when_forked

_lock = Lock()
_pauses = 0  # open pauses, in all threads
_was_enabled = False


@contextmanager
def pause_collections() -> Iterator[None]:
    """Pause automatic collections.

    A compilation makes many objects with references to each other; repeated collections of all objects took half of its
    time. Pauses may overlap in several threads; a collector disabled before stays disabled.
    """
    global _pauses, _was_enabled
    with _lock:
        # Only the first pause knows whether the collector was enabled before.
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses = max(0, _pauses - 1)  # a child forked inside a pause has reset the count
            if _pauses == 0 and _was_enabled:
                gc.enable()


def _forget_threads(_: int) -> None:
    """Resume garbage collection in a child process, which has no thread to end a pause of the parent's."""
    global _lock, _pauses
    _lock = Lock()
    if _pauses and _was_enabled:
        gc.enable()
    _pauses = 0


when_forked(_forget_threads)
