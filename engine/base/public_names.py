"""Where the public names come from: `engine/public.py` read as a table, so that each name loads its own module alone.

That file is a list of imports, which type checkers read as it is, and which loads the whole engine when it is imported.
Here its code is executed with another meaning of ``import``, which notes the module and the name instead: the list
stays the one place where a name is exported, and it is found wherever Python finds modules, in archives too.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any, NamedTuple

PACKAGE = __name__.partition(".")[0]
LIST = f"{PACKAGE}.public"


class Place(NamedTuple):
    """A name in a module."""

    module: str
    name: str


class _NotedModule:
    """Stands for a module in a statement ``from module import names``; an attribute of it is a `Place`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Place:
        return Place(self._module, name)


def _note(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> _NotedModule:
    """Take the place of ``__import__``; the list has relative imports of names only."""
    return _NotedModule(importlib.util.resolve_name("." * level + name, PACKAGE))


@cache
def _table() -> dict[str, Any]:
    """Return the names that the list would have if it was imported: places, and the list ``__all__``."""
    spec = importlib.util.find_spec(LIST)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {LIST}, which lists the public names", name=LIST)
    code = spec.loader.get_code(LIST)  # type: ignore[attr-defined]
    names: dict[str, Any] = {"__name__": LIST, "__package__": PACKAGE, "__builtins__": {"__import__": _note}}
    exec(code, names)
    return names


@cache
def places() -> dict[str, Place]:
    """Return the place of each public name except the modules for users."""
    return {n: place for n, place in _table().items() if isinstance(place, Place) and not n.startswith("_")}


def listed_for_star() -> list[str]:
    """Return the names that ``from tagloom import *`` gives."""
    return list(_table()["__all__"])


@cache
def load(name: str) -> Any:
    """Return what a public name stands for, from its module, which is imported.

    Raises
    ------
    KeyError
        If there is no such public name.
    """
    place = places()[name]
    return getattr(importlib.import_module(place.module), place.name)
