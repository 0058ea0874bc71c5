"""Interfaces of other libraries, each loaded when a program asks for it: `tagloom.compat.tf1`."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a type checker would accept any name of a module with `__getattr__`
    from . import tf1 as tf1
else:

    def __getattr__(name):
        """Load an interface at its first use."""
        if name not in __all__:
            raise AttributeError(f"{__name__} has no '{name}'\n  try: {__name__}.{__all__[0]}", name=name)
        return importlib.import_module(f"{__name__}.{name}")


__all__ = ["tf1"]


def __dir__() -> list[str]:
    """Return the names of the interfaces."""
    return sorted(__all__)
