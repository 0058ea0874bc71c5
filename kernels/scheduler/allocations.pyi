"""Holders of a device's memory, for the report of a step out of memory."""

from collections.abc import Iterable
from typing import Any

from tagloom.base.resources import Resource
from tagloom.kernels.memory.pool import Pool

def resource_allocations(resources: Iterable[Resource], pool: Pool) -> list[tuple[int, str, None, Any]]:
    """Return (bytes, label, None, None) for each resource with memory counted by a pool; each array counts once."""

def shared_allocations(pool: Pool) -> list[tuple[int, str, None, None]]:
    """Return (bytes, label, None, None) for the memory of other pools with the same limit, if there is any."""
