"""Work that keeps the interpreter lock, done a little at a time so that the event loop is not held up.

Kernels that take long run in threads. There the lock is kept by Python that is called for each element, and by a few
functions of NumPy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

BLOCK = 2048  # elements for each of which Python is called without a break: about a millisecond


def give_way() -> None:
    """Let other threads have the interpreter, even if they ask for it only now."""
    time.sleep(1e-5)


def elements(x: np.ndarray[Any, Any]) -> Iterator[Any]:
    """Yield the elements of an array as Python's values, a block at a time, and give way behind each block."""
    flat = x.reshape(-1)
    for start in range(0, x.size, BLOCK):
        if start:
            give_way()
        yield from flat[start : start + BLOCK].tolist()


def running_count(xp: Any, flags: Any) -> Any:
    """Return how many of a vector of bools are set up to each of them, int64; `cumsum` converts with the lock held."""
    return xp.cumsum(flags.astype(xp.int64))


def repeated_numbers(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return each number from 0 up as often as `counts` says, int64; ``numpy.repeat`` holds the lock.

    Where the repetitions of one number end, the difference to the next that has any is added.
    """
    ends = np.cumsum(counts.astype(np.int64))
    result = np.zeros(int(ends[-1]) if ends.size else 0, np.int64)
    present = np.flatnonzero(counts)
    if present.size:
        result[0] = present[0]
        result[ends[present[:-1]]] = np.diff(present)
    return np.cumsum(result, out=result)
