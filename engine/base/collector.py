"""The garbage collector, paused while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses = 0  # under way, in all threads
_was_enabled = False


@contextmanager
def paused() -> Iterator[None]:
    """Pause automatic collections.

    A compilation makes many objects that refer to each other; looking through all that there are again and again took
    half of its time. Pauses may overlap in several threads; a collector that was disabled stays so.
    """
    global _pauses, _was_enabled
    with _lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                gc.enable()
