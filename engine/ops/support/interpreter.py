"""Work under the interpreter lock, done in small blocks so that the event loop is not held up.

Long kernels run in threads. They keep the lock while Python is called for each element, and in a few NumPy functions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

BLOCK = 2048  # Python calls, one per element, without a break: about a millisecond


def give_way() -> None:
    """Yield the interpreter lock to other threads, even to threads requesting it only now."""
    # Not sleep(0): without a pause this thread takes the lock again before a thread that was not yet waiting.
    time.sleep(1e-5)


def iterate_elements(x: np.ndarray[Any, Any]) -> Iterator[Any]:
    """Yield the elements of an array as Python values, block by block, and yield the lock after each block."""
    flat = x.reshape(-1)
    for start in range(0, x.size, BLOCK):
        if start:
            give_way()
        yield from flat[start : start + BLOCK].tolist()


def running_count(xp: Any, flags: Any) -> Any:
    """Return the number of set flags up to each element of a bool vector, int64; `cumsum` converts under the lock."""
    return xp.cumsum(flags.astype(xp.int64))


def repeated_numbers(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return each index of `counts` repeated by its count, int64; ``numpy.repeat`` holds the lock.

    The result is a running sum: after the last repetition of an index comes the difference to the next repeated index.
    """
    ends = np.cumsum(counts.astype(np.int64))
    result = np.zeros(int(ends[-1]) if ends.size else 0, np.int64)
    present = np.flatnonzero(counts)
    if present.size:
        result[0] = present[0]
        result[ends[present[:-1]]] = np.diff(present)
    return np.cumsum(result, out=result)
