"""Nested structures: their leaves, structures of other leaves, and containers of users' classes."""

from .base.containers import register
from .base.nest import flatten, map_structure, pack_as, walk
from .frontend.missing_names import missing_in

__getattr__ = missing_in("nest")

__all__ = ["flatten", "map_structure", "pack_as", "register", "walk"]
