"""Nested structures of tuples, named tuples, lists, dicts, deques, dataclasses and registered containers.

None is a leaf. A field of a dataclass with value None and default None is omitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .containers import Dicts, kind_of
from .errors import GraphError


def children(structure: object) -> list[tuple[str, Any]] | None:
    """Return (label, child) pairs of a container, or None for a leaf."""
    kind = kind_of(type(structure))
    return None if kind is None else list(zip(kind.labels(structure), kind.children(structure), strict=True))


def is_container(structure: object) -> bool:
    """Return True for a container, False for a leaf."""
    return kind_of(type(structure)) is not None


def flatten(structure: Any) -> list[Any]:
    """Return the leaves of a structure in order.

    Parameters
    ----------
    structure : object
        Leaves in tuples, named tuples, lists, dicts (in the order of insertion), deques, dataclasses and containers
        registered by :func:`register`. None is a leaf, and so is an object of any other class.

    Returns
    -------
    list

    Examples
    --------
    >>> from tagloom import nest
    >>> nest.flatten({"b": [1, 2], "a": (None, "x")})
    [1, 2, None, 'x']
    """
    kind = kind_of(type(structure))
    if kind is None:
        return [structure]
    leaves: list[Any] = []
    _add_leaves(kind.children(structure), leaves)
    return leaves


def _add_leaves(parts: list[Any], leaves: list[Any]) -> None:
    for part in parts:
        kind = kind_of(type(part))
        if kind is None:
            leaves.append(part)
        else:
            _add_leaves(kind.children(part), leaves)


def walk(structure: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) for every leaf; the path reads like Python, ``['a'][0].x``.

    Parameters
    ----------
    structure : object
    path : str, optional
        Path of the structure itself, the prefix of all paths.

    Examples
    --------
    >>> from tagloom import nest
    >>> dict(nest.walk({"a": [1, 2], "b": 3}, "state"))
    {"state['a'][0]": 1, "state['a'][1]": 2, "state['b']": 3}
    """
    parts = children(structure)
    if parts is None:
        yield path, structure
        return
    for label, child in parts:
        yield from walk(child, path + label)


def flatten_as(like: Any, structure: Any) -> list[Any]:
    """Return the leaves of `structure` in the order of `like` (equal dicts may list their keys differently)."""
    kind, other = kind_of(type(like)), kind_of(type(structure))
    if kind is None or other is None:
        return [structure]
    if isinstance(kind, Dicts):
        return [leaf for key in like for leaf in flatten_as(like[key], structure[key])]
    pairs = zip(kind.children(like), other.children(structure), strict=True)
    return [leaf for part, another in pairs for leaf in flatten_as(part, another)]


def pack_as(structure: Any, leaves: list[Any]) -> Any:
    """Arrange `leaves` in the shape of `structure`.

    Parameters
    ----------
    structure : object
        The pattern; its own leaves are ignored.
    leaves : list
        In the order of :func:`flatten`.

    Raises
    ------
    ValueError
        If there are more or fewer leaves than in the structure.

    Examples
    --------
    >>> from tagloom import nest
    >>> nest.pack_as({"b": [0, 0], "a": (0,)}, ["x", "y", "z"])
    {'b': ['x', 'y'], 'a': ('z',)}
    """
    queue = iter(leaves)
    packed = _pack_leaves(structure, queue)
    # The iterator itself is the default, because None may be a leaf.
    if next(queue, queue) is not queue:
        raise ValueError("more leaves than the structure holds")
    return packed


def _pack_leaves(structure: object, leaves: Iterator[Any]) -> Any:
    kind = kind_of(type(structure))
    if kind is None:
        for leaf in leaves:
            return leaf
        raise ValueError("fewer leaves than the structure holds")
    parts, rebuild = kind.open(structure)
    return rebuild([_pack_leaves(part, leaves) for part in parts])


def rebuild_as(structure: object, values: list[Any]) -> Any:
    """Return a container like `structure` with other children, which may be structures."""
    kind = kind_of(type(structure))
    if kind is None:
        raise GraphError("a single value has no children", wanted="a container", got=structure, hint="test it before")
    return kind.open(structure)[1](values)


def make_packer(structure: object) -> Callable[[list[Any]], Any]:
    """Return a function to arrange leaves in the shape of `structure`, without keeping its leaves alive.

    Later changes of the structure's containers have no effect.
    """
    pack = _make_packer(structure)
    return lambda leaves: pack(iter(leaves))


def _make_packer(structure: object) -> Callable[[Iterator[Any]], Any]:
    kind = kind_of(type(structure))
    if kind is None:
        return next
    parts, rebuild = kind.open(structure)
    packers = [_make_packer(part) for part in parts]
    return lambda leaves: rebuild([pack(leaves) for pack in packers])


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Apply `function` to every leaf and keep the containers.

    Parameters
    ----------
    function : callable
        Takes a leaf of each structure.
    structure, *others : object
        Of the same containers, keys and metadata; lists and tuples may stand for each other outermost.

    Raises
    ------
    GraphError
        If a structure differs from the first; the text names the place.

    Examples
    --------
    >>> from tagloom import nest
    >>> nest.map_structure(lambda x, y: x + y, {"a": 1, "b": [2]}, {"b": [20], "a": 10})
    {'a': 11, 'b': [22]}
    """
    if others:
        return _map_together(function, structure, others)
    kind = kind_of(type(structure))
    if kind is None:
        return function(structure)
    parts, rebuild = kind.open(structure)
    return rebuild([map_structure(function, part) for part in parts])


def _map_together(function: Callable[..., Any], structure: object, others: tuple[Any, ...]) -> Any:
    """Apply a function to the leaves of several structures; GraphError if their containers differ."""
    for other in others:
        found = difference(structure, other)
        if found:
            raise GraphError(
                f"map_structure was given different structures: {found}",
                wanted=structure,
                got=other,
                hint="give structures of the same containers and keys",
            )
    columns = [flatten_as(structure, each) for each in (structure, *others)]
    return pack_as(structure, [function(*leaves) for leaves in zip(*columns, strict=True)])


def with_shards(structure: object) -> Any:
    """Return a structure with each partitioned variable replaced by the list of its shards."""
    return map_structure(lambda leaf: list(leaf.shards) if hasattr(leaf, "shards") else leaf, structure)


def difference(left: object, right: object, path: str = "", *, outer: bool = True) -> str | None:
    """Describe the first place where two structures differ, or return None; the outermost sequence type is free."""
    found = _difference_here(left, right, path, outer)
    if found or not is_container(left):
        return found
    for label, x, y in _pair_children(left, right):
        found = difference(x, y, path + label, outer=False)
        if found:
            return found
    return None


def flatten_up_to(like: object, structure: object, path: str = "") -> list[Any]:
    """Return the parts of `structure` at the places of the leaves of `like`: leaves, or structures.

    Raises
    ------
    ValueError
        If the containers differ; the text names the place.
    """
    if not is_container(like):
        return [structure]
    found = _difference_here(like, structure, path, outer=False)
    if found:
        raise ValueError(found)
    return [leaf for label, x, y in _pair_children(like, structure) for leaf in flatten_up_to(x, y, path + label)]


def _difference_here(left: object, right: object, path: str, outer: bool) -> str | None:
    """Describe how two containers differ apart from their children, or a container and a leaf; None if they agree."""
    where, one, other = path or "the result", kind_of(type(left)), kind_of(type(right))
    if one is None and other is None:
        return None
    free = outer and isinstance(left, (tuple, list)) and isinstance(right, (tuple, list))
    if one is None or other is None or not (free or type(left) is type(right)):
        return f"{where} is {_container_kind(left)} on one side and {_container_kind(right)} on the other"
    unlike = one.difference(left, right) if type(left) is type(right) else None
    if unlike:
        return f"{where} {unlike}"
    a, b = len(one.children(left)), len(other.children(right))
    return f"{where} has {a} elements on one side and {b} on the other" if a != b else None


def _pair_children(left: Any, right: Any) -> list[tuple[str, Any, Any]]:
    """Return labels and children of two equal containers, in the order of the first."""
    a, b = children(left) or [], children(right) or []
    if isinstance(kind_of(type(left)), Dicts):
        b = [(label, right[key]) for (label, _), key in zip(a, left, strict=True)]
    return [(label, x, y) for (label, x), (_, y) in zip(a, b, strict=True)]


def _container_kind(structure: object) -> str:
    return f"a {type(structure).__name__}" if is_container(structure) else "a single value"
