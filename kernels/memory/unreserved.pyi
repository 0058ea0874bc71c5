"""What the swapping of saved values asks of a device's memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .contexts import KernelContexts
from .pool import Pool
from .swappable import SwappableArray

def allocate_unreserved(
    contexts: KernelContexts, shape: tuple[int, ...], dtype: np.dtype[Any], empty: Callable[..., Any] = ...
) -> Any:
    """Return a new array that no iteration is charged for, None if it would take what is reserved for some."""

def charge_reader(pool: Pool, array: Any) -> None:
    """Count a saved array on the account of the iteration that reads it."""

def is_sole_owner(pool: Pool, holder: SwappableArray) -> bool:
    """Say whether a pool gets all bytes of an array back when the one who holds it lets go of it."""
