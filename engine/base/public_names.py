"""The table of public names, read from `engine/public.py`, so each name imports its own module alone.

The file is a list of imports, written by ``make names`` from the lists ``PUBLIC`` of the families (``ops.math``,
``frontend.control``, ...): type checkers read it directly, and importing it loads the whole engine. Here its code
runs with a replaced ``import``, which records the module and the name instead. So each name is exported once, and
the list is found wherever Python finds modules, also in archives.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from .forks import when_forked

PACKAGE = __name__.partition(".")[0]
LIST = f"{PACKAGE}.public"
# Modules for users:
MODULES = ("compat", "data", "losses", "metrics", "monitoring", "nest", "nn", "streams", "testing", "training")


class Place(NamedTuple):
    """A name in a module."""

    module: str
    name: str


class _NotedModule:
    """Stand-in for a module in ``from module import names``; each attribute is a `Place`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Place:
        return Place(self._module, name)


def _note_import(
    name: str, globals: object = None, locals: object = None, fromlist: object = (), level: int = 0
) -> _NotedModule:
    """Replace ``__import__``; the list contains only relative imports of names."""
    return _NotedModule(importlib.util.resolve_name("." * level + name, PACKAGE))


@cache
def _list_public_names() -> dict[str, Any]:
    """Return the names defined by importing the list: places, and the list ``__all__``."""
    spec = importlib.util.find_spec(LIST)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {LIST}, which lists the public names", name=LIST)
    code = spec.loader.get_code(LIST)  # type: ignore[attr-defined]
    # Only this code sees the other `__import__`: the interpreter's own stays as it is for all threads.
    names: dict[str, Any] = {"__name__": LIST, "__package__": PACKAGE, "__builtins__": {"__import__": _note_import}}
    exec(code, names)
    return names


@cache
def places() -> dict[str, Place]:
    """Return the place of each public name except the modules for users."""
    return {n: place for n, place in _list_public_names().items() if isinstance(place, Place) and not n.startswith("_")}


def listed_for_star() -> list[str]:
    """Return the names imported by ``from tagloom import *``."""
    return list(_list_public_names()["__all__"])


_importing = threading.RLock()


def import_alone(module: str) -> ModuleType:
    """Import a module of the package while no other thread does.

    Python locks each module by itself. Threads that enter the packages of a library at different places, where these
    import each other, as NumPy's do, would end with an error about a deadlock.
    """
    with _importing:
        return importlib.import_module(module)


def _unlock_in_child(parent: int) -> None:
    """Replace the lock in a child process: another thread of the parent may have held it, and will never release it."""
    global _importing
    _importing = threading.RLock()


when_forked(_unlock_in_child)


@cache
def load(name: str) -> Any:
    """Import the module of a public name and return the object.

    Raises
    ------
    KeyError
        If the name is not public.
    """
    place = places()[name]
    return getattr(import_alone(place.module), place.name)
