"""Kinds of containers in nested structures: Python's own, dataclasses, and classes registered by users.

Registered containers live in optree's registry, in the namespace "tagloom" or the global namespace. optree is
imported by `register` alone; where nobody has imported optree, nothing can be registered.

See docs/design/0049-structures.md.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import deque
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Protocol

from .errors import GraphError

NAMESPACE = "tagloom"  # of optree's registry
Rebuild = Callable[[list[Any]], Any]


class Kind(Protocol):
    """Operations on containers of a kind."""

    def children(self, structure: Any) -> list[Any]:
        """Return the children in order."""
        ...

    def labels(self, structure: Any) -> list[str]:
        """Return the prefix of each child's path, like ``[0]`` or ``.x``."""
        ...

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the children, and a function to make an equal container of new children."""
        ...

    def metadata(self, structure: Any) -> Any:
        """Return all data of the container except its children: keys, names of fields, or registered metadata."""
        ...

    def difference(self, left: Any, right: Any) -> str | None:
        """Describe how two containers of equal type differ apart from their children's values, or return None."""
        ...


class Sequences:
    """Lists and tuples, and classes derived from them."""

    def children(self, structure: Any) -> list[Any]:
        """Return the elements."""
        return list(structure)

    def labels(self, structure: Any) -> list[str]:
        """Return the indices in brackets."""
        return [f"[{i}]" for i in range(len(structure))]

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the elements, and the type as the function to pack new elements."""
        return list(structure), type(structure)

    def metadata(self, structure: Any) -> Any:
        """Return None: a sequence has no data besides its elements."""
        return None

    def difference(self, left: Any, right: Any) -> str | None:
        """Return None: lengths are compared for containers of all kinds."""
        return None


class Deques(Sequences):
    """Deques, which keep their greatest length."""

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the elements, and a function to make a deque of the same greatest length."""
        return list(structure), partial(_make_deque, type(structure), structure.maxlen)


class NamedTuples(Sequences):
    """Named tuples, whose constructor takes a value for each field."""

    def labels(self, structure: Any) -> list[str]:
        """Return the names of the fields after a dot."""
        return [f".{name}" for name in structure._fields]

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the fields, and a function to call the constructor with new values."""
        return list(structure), partial(_call_unpacked, type(structure))


class Dicts:
    """Dicts and classes derived from them, in the order of insertion."""

    def children(self, structure: Any) -> list[Any]:
        """Return the values."""
        return list(structure.values()) if type(structure) is dict else [structure[key] for key in structure]

    def labels(self, structure: Any) -> list[str]:
        """Return the keys in brackets."""
        return [f"[{key!r}]" for key in structure]

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the values, and a function to make a dict of the same keys (a defaultdict keeps its default)."""
        rebuild = (
            partial(_make_dict, list(structure)) if type(structure) is dict else partial(_with_values, copy(structure))
        )
        return self.children(structure), rebuild

    def metadata(self, structure: Any) -> Any:
        """Return the keys."""
        return tuple(structure)

    def difference(self, left: Any, right: Any) -> str | None:
        """Compare the keys, whatever their order."""
        if left.keys() == right.keys():
            return None
        return f"has keys {list(left)} on one side and {list(right)} on the other"


class Dataclasses:
    """Dataclasses; a field with value None and default None is omitted."""

    def children(self, structure: Any) -> list[Any]:
        """Return the values of the fields not omitted."""
        return [getattr(structure, field.name) for field in _flattened_fields(structure)]

    def labels(self, structure: Any) -> list[str]:
        """Return the names of the fields after a dot."""
        return [f".{field.name}" for field in _flattened_fields(structure)]

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the fields, and a function to replace them, or the class's own function."""
        own = getattr(structure, "_with_leaves", None)
        rebuild = (
            partial(_with_fields, copy(structure), _flattened_fields(structure))
            if own is None
            else partial(_call_unpacked, own)
        )
        return self.children(structure), rebuild

    def metadata(self, structure: Any) -> Any:
        """Return the names of the fields not omitted."""
        return tuple(field.name for field in _flattened_fields(structure))

    def difference(self, left: Any, right: Any) -> str | None:
        """Compare the omitted fields."""
        ours, theirs = self.metadata(left), self.metadata(right)
        if ours == theirs or len(ours) != len(theirs):
            return None
        return f"has fields {list(ours)} on one side and {list(theirs)} on the other"


class Registered:
    """Containers of a class registered with optree.

    Parameters
    ----------
    entry : PyTreeNodeRegistryEntry
        The functions registered with the class.
    """

    def __init__(self, entry: Any) -> None:
        self._entry = entry

    @property
    def name(self) -> str:
        """Module and qualified name of the class."""
        return _name_of(self._entry.type)

    def children(self, structure: Any) -> list[Any]:
        """Return the children, as the registered function lists them."""
        return self._flatten_registered(structure)[0]

    def labels(self, structure: Any) -> list[str]:
        """Return the registered function's names of its children, or numbers."""
        children, _, entries = self._flatten_registered(structure)
        return [self._label_entry(entry) for entry in (range(len(children)) if entries is None else entries)]

    def open(self, structure: Any) -> tuple[list[Any], Rebuild]:
        """Return the children, and the registered function to make a container of new children."""
        children, metadata, _ = self._flatten_registered(structure)
        return children, partial(self._entry.unflatten_func, metadata)

    def metadata(self, structure: Any) -> Any:
        """Return the metadata returned by the registered function."""
        return self._flatten_registered(structure)[1]

    def difference(self, left: Any, right: Any) -> str | None:
        """Compare the metadata."""
        (_, ours, _), (_, theirs, _) = self._flatten_registered(left), self._flatten_registered(right)
        try:
            # Arrays compare elementwise, and the bool of several elements is an error.
            if ours is theirs or bool(ours == theirs):
                return None
        except Exception as error:  # of the user's comparison
            raise GraphError(
                f"the metadata of two {self._entry.type.__name__} cannot be compared: {error}",
                wanted="metadata whose == gives a bool: names, numbers, tuples of them",
                got=type(ours).__name__,
                hint="let flatten return arrays among the children, not in the metadata",
            ) from error
        return f"has metadata {ours!r} on one side and {theirs!r} on the other"

    def _flatten_registered(self, structure: Any) -> tuple[list[Any], Any, list[Any] | None]:
        """Return children, metadata, and the children's entries or None."""
        found = self._entry.flatten_func(structure)
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            raise self._flattening_error(repr(found))
        children, entries = list(found[0]), found[2] if len(found) == 3 else None
        if entries is not None and len(entries := list(entries)) != len(children):
            raise self._flattening_error(f"{len(children)} children and {len(entries)} entries")
        return children, found[1], entries

    def _flattening_error(self, got: str) -> GraphError:
        return GraphError(
            f"the flatten function of the registered class {self._entry.type.__name__} returns something else",
            wanted="(children, metadata) or (children, metadata, entries) with an entry for each child",
            got=got,
            hint="correct what was given to nest.register",
        )

    def _label_entry(self, entry: Any) -> str:
        """Return a child's part of a path: by the class's own type, or an attribute for a name, brackets for others."""
        optree, found = sys.modules["optree"], self._entry
        made = found.path_entry_type(entry, found.type, found.kind)
        # FlattenedEntry, optree's default, has no spelling: names become attributes, other entries stand in brackets.
        if not isinstance(made, optree.FlattenedEntry):
            return str(made.codify(""))
        return f".{entry}" if isinstance(entry, str) and entry.isidentifier() else f"[{entry!r}]"


def _call_unpacked(function: Callable[..., Any], values: list[Any]) -> Any:
    return function(*values)


def _make_deque(cls: Any, maxlen: int | None, values: list[Any]) -> Any:
    return cls(values, maxlen)


def _make_dict(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def _with_values(pattern: dict[Any, Any], values: list[Any]) -> dict[Any, Any]:
    packed = copy(pattern)
    for key, value in zip(pattern, values, strict=True):
        packed[key] = value
    return packed


def _flattened_fields(structure: Any) -> list[Any]:
    """Return the fields of a dataclass except omitted fields."""
    fields = dataclasses.fields(structure)
    return [f for f in fields if f.default is not None or getattr(structure, f.name) is not None]


def _with_fields(structure: Any, fields: list[Any], values: list[Any]) -> Any:
    """Return a dataclass with some fields replaced; GraphError for a field unknown to its constructor."""
    for field in fields:
        if not field.init:
            raise GraphError(
                f"field {field.name} of {type(structure).__name__} cannot be given another value",
                wanted="a dataclass whose constructor takes every field",
                got="a field with init=False",
                hint="let the constructor take it, or compute it in a property",
            )
    return dataclasses.replace(structure, **{f.name: v for f, v in zip(fields, values, strict=True)})


_SEQUENCES, _DEQUES, _NAMED_TUPLES, _DICTS, _DATACLASSES = (
    Sequences(),
    Deques(),
    NamedTuples(),
    Dicts(),
    Dataclasses(),
)
# Kinds by class, None for leaves. Users' classes are not cached: they may be registered later, and a class made in a
# function should be freed with that function.
_KINDS: dict[type, Kind | None] = {
    list: _SEQUENCES,
    tuple: _SEQUENCES,
    dict: _DICTS,
    deque: _DEQUES,
    **dict.fromkeys((type(None), bool, int, float, complex, str, bytes, type(...)), None),
}
_OWN = frozenset({__name__.partition(".")[0], "numpy", "ml_dtypes"})  # packages whose classes are cached
_BUILT_IN = frozenset(_KINDS)
_UNKNOWN: Any = object()


def kind_of(cls: type) -> Kind | None:
    """Return the kind of container of a class, or None if its instances are leaves."""
    kind = _KINDS.get(cls, _UNKNOWN)
    if kind is not _UNKNOWN:
        known: Kind | None = kind
        return known
    # A registration overrides what the class is by its bases.
    found = _kind_by_registry(cls) or _kind_by_bases(cls)
    if cls.__module__.partition(".")[0] in _OWN:
        _KINDS[cls] = found
    return found


def _kind_by_registry(cls: type) -> Registered | None:
    """Return the kind of a class registered with optree, by any library."""
    registry = getattr(sys.modules.get("optree"), "register_pytree_node", None)
    if registry is None:
        return None
    entry = registry.get(cls, namespace=NAMESPACE)
    return Registered(entry) if entry is not None and entry.kind.name == "CUSTOM" else None


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def find_registered(name: str) -> Callable[[Any, list[Any]], Any]:
    """Return the function for making a registered container from metadata and children.

    Parameters
    ----------
    name : str
        Module and qualified name of the class, from a file: no module is imported.

    Raises
    ------
    ValueError
        If no such class is registered.
    """
    registry = getattr(sys.modules.get("optree"), "register_pytree_node", None)
    entries = {} if registry is None else registry.get(namespace=NAMESPACE)
    for cls, entry in entries.items():
        if entry.kind.name == "CUSTOM" and _name_of(cls) == name:
            build: Callable[..., Any] = entry.unflatten_func
            return build
    raise ValueError(f"a container of class {name}, which is not registered: import its module, or register it")


def _kind_by_bases(cls: Any) -> Kind | None:
    """Return the kind of a class by its bases, or by being a dataclass; None for leaves."""
    if issubclass(cls, tuple):
        return _NAMED_TUPLES if hasattr(cls, "_fields") else _SEQUENCES
    if issubclass(cls, list):
        return _SEQUENCES
    if issubclass(cls, dict):
        return _DICTS
    if issubclass(cls, deque):
        return _DEQUES
    if getattr(cls, "_is_leaf", False) or not dataclasses.is_dataclass(cls):
        return None
    return _DATACLASSES


def _is_own(cls: type) -> bool:
    """Return True for classes with a permanent kind: Python's containers, NumPy's and this package's classes."""
    home = sys.modules.get(cls.__module__)
    return cls in _BUILT_IN or (cls.__module__.partition(".")[0] in _OWN and getattr(home, cls.__name__, None) is cls)


def register(
    cls: Any,
    flatten: Callable[[Any], tuple[Any, ...]] | None = None,
    unflatten: Callable[[Any, Any], Any] | None = None,
    *,
    path_entry_type: type | None = None,
) -> Any:
    """Make instances of a class containers in structures: of loop variables, branches, arguments, fetches.

    The class is registered with optree in the namespace "tagloom", so ``optree.tree_map(f, x, namespace="tagloom")``
    also descends into its instances. Classes registered with optree globally need no registration here, and a
    registration takes precedence over the rules for dataclasses, named tuples and classes derived from dict or list.

    Parameters
    ----------
    cls : type
        As a decorator, without functions, a class with methods ``__tree_flatten__(self)`` and, as a class method,
        ``__tree_unflatten__(cls, metadata, children)``.
    flatten : callable, optional
        Takes an instance; returns ``(children, metadata)`` or ``(children, metadata, entries)``. The metadata is all
        data besides the children: two structures are the same if their metadata is equal. Entries name the children in
        errors: names of attributes, or keys.
    unflatten : callable, optional
        Takes metadata and children; returns an instance. The function should not check the children, which may be
        any values: tensors, arrays, dtypes, shapes, None.
    path_entry_type : type, optional
        A subclass of ``optree.PyTreeEntry``: path entries for optree's accessors and for errors here.

    Returns
    -------
    type
        The class.

    Raises
    ------
    GraphError
        If `cls` is no class, is registered already, belongs to Python, NumPy or tagloom, or has no functions.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> tg.nest.register(
    ...     Pair, lambda p: ((p.left, p.right), None, ("left", "right")), lambda _, children: Pair(*children)
    ... ).__name__
    'Pair'
    >>> @tg.function
    ... def fibonacci(n):
    ...     step = lambda k, p: (k + 1, Pair(p.right, p.left + p.right))
    ...     return tg.while_loop(lambda k, p: k < n, step, (0, Pair(0, 1)))[1]
    >>> found = fibonacci.sync(10)
    >>> type(found).__name__, int(found.left)
    ('Pair', 55)
    """
    import optree  # only here: most programs register nothing

    if not isinstance(cls, type):
        raise GraphError("only a class can be registered", wanted="a class", got=cls, hint="give type(x)")
    if _is_own(cls):
        raise GraphError(
            f"{cls.__name__} cannot be registered",
            wanted="a class of yours, or of another library",
            got=f"{cls.__module__}.{cls.__qualname__}",
            hint="derive a class from it and register that",
        )
    _KINDS.pop(cls, None)
    options = {} if path_entry_type is None else {"path_entry_type": path_entry_type}
    try:
        if flatten is None and unflatten is None:
            return optree.register_pytree_node_class(cls, namespace=NAMESPACE, **options)
        if flatten is None or unflatten is None:
            raise TypeError("flatten and unflatten go together")
        return optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE, **options)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"{cls.__name__} cannot be registered: {error}",
            wanted="a class that is not registered yet, with flatten and unflatten or the methods __tree_flatten__ "
            "and __tree_unflatten__",
            got=cls,
            hint="register a class once, where it is defined",
        ) from error
