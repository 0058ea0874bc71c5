"""Nested structures: their leaves, structures of other leaves, and containers of users' classes."""

from typing import TYPE_CHECKING

from .base.containers import register
from .base.nest import flatten, map_structure, pack_as, walk
from .frontend.missing_names import missing_in

if not TYPE_CHECKING:  # type checkers take a module with `__getattr__` to have every name
    __getattr__ = missing_in("nest")

__all__ = ["flatten", "map_structure", "pack_as", "register", "walk"]


def __dir__() -> list[str]:
    """Return the public names, without the submodules."""
    return sorted(__all__)
