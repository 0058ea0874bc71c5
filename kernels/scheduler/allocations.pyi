"""What has memory of a device."""

from collections.abc import Iterable
from typing import Any

from tagloom.base.resources import Resource
from tagloom.kernels.memory.pool import Pool

def resource_allocations(resources: Iterable[Resource], pool: Pool) -> list[tuple[int, str, None, Any]]:
    """Return (bytes, label, None, None) of what resources hold of the memory that a pool counts, each array once."""

def shared_allocations(pool: Pool) -> list[tuple[int, str, None, None]]:
    """Return (bytes, label, None, None) of what others have that share the limit of a pool, if any do."""
