"""Nested structures of tuples, named tuples, lists, dicts and dataclasses.

Of a dataclass, a field that is None, and is so by default, holds nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from .errors import GraphError


def children(structure: Any) -> list[tuple[str, Any]] | None:
    """Return (label, child) pairs of a container, or None for a leaf."""
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return [(f".{name}", getattr(structure, name)) for name in structure._fields]
    if isinstance(structure, (tuple, list)):
        return [(f"[{i}]", child) for i, child in enumerate(structure)]
    if isinstance(structure, dict):
        return [(f"[{key!r}]", structure[key]) for key in structure]
    if getattr(structure, "_is_leaf", False):
        return None
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        return [(f".{f.name}", getattr(structure, f.name)) for f in _held(structure)]
    return None


def _held(structure: Any) -> list[Any]:
    """Return the fields of a dataclass that hold something."""
    fields = dataclasses.fields(structure)
    return [f for f in fields if f.default is not None or getattr(structure, f.name) is not None]


def flatten(structure: Any) -> list[Any]:
    """Return the leaves in order."""
    return [leaf for _, leaf in walk(structure)]


def walk(structure: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) for every leaf; the path reads like Python, ``['a'][0].x``."""
    parts = children(structure)
    if parts is None:
        yield path, structure
        return
    for label, child in parts:
        yield from walk(child, path + label)


def flatten_as(like: Any, structure: Any) -> list[Any]:
    """Return the leaves of `structure` in the order of `like` (equal dicts may list their keys differently)."""
    if isinstance(like, dict):
        return [leaf for key in like for leaf in flatten_as(like[key], structure[key])]
    parts, others = children(like), children(structure)
    if parts is None or others is None:
        return [structure]
    return [leaf for (_, a), (_, b) in zip(parts, others, strict=True) for leaf in flatten_as(a, b)]


def pack_as(structure: Any, leaves: list[Any]) -> Any:
    """Put `leaves` into the shape of `structure`."""
    queue = iter(leaves)
    packed = map_structure(lambda _: next(queue), structure)
    if next(queue, queue) is not queue:
        raise ValueError("more leaves than the structure holds")
    return packed


def map_structure(function: Callable[[Any], Any], structure: Any) -> Any:
    """Apply `function` to every leaf and keep the containers."""
    parts = children(structure)
    if parts is None:
        return function(structure)
    values = [map_structure(function, child) for _, child in parts]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*values)
    if isinstance(structure, dict):
        return _with_values(structure, values)
    if isinstance(structure, (tuple, list)):
        return type(structure)(values)
    return _with_fields(structure, values)


def _with_values(structure: dict[Any, Any], values: list[Any]) -> dict[Any, Any]:
    """Return a dict of the same kind (a defaultdict has a default of its own) with other values."""
    packed = copy(structure)
    for key, value in zip(structure, values, strict=True):
        packed[key] = value
    return packed


def _with_fields(structure: Any, values: list[Any]) -> Any:
    """Return a dataclass with other values in all its fields; one may say itself what that is."""
    if hasattr(structure, "_with_leaves"):
        return structure._with_leaves(*values)
    fields = _held(structure)
    for field in fields:
        if not field.init:
            raise GraphError(
                f"field {field.name} of {type(structure).__name__} can not be given another value",
                wanted="a dataclass whose constructor takes every field",
                got="a field with init=False",
                hint="let the constructor take it, or compute it in a property",
            )
    return dataclasses.replace(structure, **{f.name: v for f, v in zip(fields, values, strict=True)})


def with_shards(structure: Any) -> Any:
    """Return a structure with the list of its shards in the place of each variable that is in shards."""
    return map_structure(lambda leaf: list(leaf.shards) if hasattr(leaf, "shards") else leaf, structure)


def difference(left: Any, right: Any, path: str = "", *, outer: bool = True) -> str | None:
    """Describe the first place where two structures differ, or None; the outermost sequence type is free."""
    a, b = children(left), children(right)
    where = path or "the result"
    if (a is None) != (b is None):
        return f"{where} is {_kind(left)} on one side and {_kind(right)} on the other"
    if a is None or b is None:
        return None
    free = outer and isinstance(left, (tuple, list)) and isinstance(right, (tuple, list))
    if not free and type(left) is not type(right):
        return f"{where} is {_kind(left)} on one side and {_kind(right)} on the other"
    if isinstance(left, dict) and set(left) != set(right):
        return f"{where} has keys {list(left)} on one side and {list(right)} on the other"
    if len(a) != len(b):
        return f"{where} has {len(a)} elements on one side and {len(b)} on the other"
    if isinstance(left, dict):
        b = [(label, right[key]) for (label, _), key in zip(a, left, strict=True)]
    for (label, x), (_, y) in zip(a, b, strict=True):
        found = difference(x, y, path + label, outer=False)
        if found:
            return found
    return None


def _kind(structure: Any) -> str:
    return f"a {type(structure).__name__}" if children(structure) is not None else "a single value"
