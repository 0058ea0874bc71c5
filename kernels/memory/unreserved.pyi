"""Access of swapping to a device's memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .contexts import KernelContexts
from .pool import Pool
from .swappable import SwappableArray

def allocate_unreserved(
    contexts: KernelContexts, shape: tuple[int, ...], dtype: np.dtype[Any], empty: Callable[..., Any] = ...
) -> Any:
    """Return a new array charged to no iteration, None if only memory reserved for iterations is left."""

def charge_reader(pool: Pool, array: Any) -> None:
    """Move a saved array to the account of the iteration reading it."""

def is_sole_owner(pool: Pool, holder: SwappableArray) -> bool:
    """Return True if a pool gets all bytes of an array back when its holder drops it."""
