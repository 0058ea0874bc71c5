"""Items between the stages of a pipeline: elements with their origins, or failures in their places."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.containers import Dicts, Kind, Registered, Sequences, kind_of
from ...base.errors import PipelineError
from ...base.nest import rebuild_as

Origin = tuple[str, int] | None  # source, such as a file, and number of the line, record or element in the source
Item = tuple[Any, Origin]  # an element, or the Failure in its place

_LARGEST_CHUNK = 64  # most elements per call of pull
_CHUNK_BYTES = 1 << 18


class Failure:
    """Placeholder of an element without a value; the error is raised at the consumer."""

    __slots__ = ("error",)

    def __init__(self, error: PipelineError) -> None:
        self.error = error


def describe_origin(origin: Origin) -> str | None:
    """Return the origin of an element in words."""
    if origin is None:
        return None
    name, number = origin
    return f"{name} {number}" if name else f"element {number} of the source"


def make_failure(what: str, number: int, origin: Origin, error: BaseException | None, **fields: Any) -> Failure:
    """Return the placeholder of a failed element, whose error names the element."""
    made = PipelineError(what, element=number, origin=describe_origin(origin), **fields)
    made.__cause__ = error
    return Failure(made)


def first_of(items: deque[Item], most: int) -> list[Item]:
    """Remove and return up to `most` items from the left of a deque."""
    return [items.popleft() for _ in range(min(most, len(items)))]


class ChunkSize:
    """Number of elements to request at once, doubled as long as elements are small and come quickly."""

    __slots__ = ("most",)

    def __init__(self) -> None:
        self.most = 1

    def adapt_to(self, chunk: list[Item]) -> None:
        """Adapt the size to an arrived chunk, by the bytes of its last element."""
        if not chunk:
            return
        size = nbytes_of(chunk[-1][0])
        self.most = max(1, min(2 * self.most, _LARGEST_CHUNK, _CHUNK_BYTES // max(size, 1)))


def nbytes_of(element: object) -> int:
    """Return the approximate size of an element in bytes, counting arrays, bytes and strings only."""
    if isinstance(element, (np.ndarray, np.generic)):
        return element.nbytes
    if isinstance(element, (bytes, bytearray, str)):
        return len(element)
    if isinstance(element, (tuple, list)):
        return sum(map(nbytes_of, element))
    if isinstance(element, dict):
        return sum(map(nbytes_of, element.values()))
    parts = parts_of(element)
    return 0 if parts is None else sum(map(nbytes_of, parts))


# ---- structures: tuples, dicts, dataclasses and registered containers; lists are arrays


@dataclass(frozen=True)
class Skeleton:
    """Class, metadata and parts of a container, equal for elements of equal structure.

    Attributes
    ----------
    cls : type
    metadata : object
        The container without its children.
    parts : tuple
        The skeletons of the children.
    """

    cls: type
    metadata: Any
    parts: tuple[Any, ...]
    _is_leaf = True  # of nested structures


def kind_of_element(element: object) -> Kind | None:
    """Return the kind of a container; None for a leaf, such as a list or deque of an unregistered class."""
    kind = kind_of(type(element))
    is_array = isinstance(element, (list, deque)) and not isinstance(kind, Registered)
    return None if is_array else kind


def is_structure(element: object) -> bool:
    """Return True if an element has parts."""
    return isinstance(element, (tuple, dict)) or kind_of_element(element) is not None


def parts_of(element: object) -> list[Any] | None:
    """Return the parts of an element in order, or None for a leaf."""
    kind = kind_of_element(element)
    return None if kind is None else kind.children(element)


def leaves_of(element: object) -> list[Any]:
    """Return the leaves of an element in order."""
    parts = parts_of(element)
    return [element] if parts is None else [leaf for part in parts for leaf in leaves_of(part)]


def skeleton_of(element: Any) -> Any:
    """Return a value to compare structures by: equal for elements of equal structure."""
    kind = kind_of_element(element)
    if kind is None:
        return None
    if isinstance(kind, Sequences):
        return tuple(map(skeleton_of, element))
    if isinstance(kind, Dicts):
        return {key: skeleton_of(each) for key, each in element.items()}
    parts = tuple(map(skeleton_of, kind.children(element)))
    return Skeleton(type(element), kind.metadata(element), parts)


def pack_leaves(like: Any, leaves: Iterator[Any]) -> Any:
    """Return a structure like another, with new leaves."""
    kind = kind_of_element(like)
    if kind is None:
        return next(leaves)
    if isinstance(kind, Dicts):
        return {key: pack_leaves(each, leaves) for key, each in like.items()}
    parts, rebuild = kind.open(like)
    return rebuild([pack_leaves(each, leaves) for each in parts])


def in_order_of(like: Any, element: Any) -> Any:
    """Return an element with the keys of its dicts in the order of `like`, which has an equal skeleton."""
    if isinstance(like, Skeleton):
        return rebuild_as(element, list(map(in_order_of, like.parts, parts_of(element) or [])))
    kind = kind_of_element(like)
    if kind is None:
        return element
    if isinstance(kind, Dicts):
        return {key: in_order_of(each, element[key]) for key, each in like.items()}
    parts, rebuild = kind.open(like)
    return rebuild([in_order_of(a, b) for a, b in zip(parts, parts_of(element) or [], strict=True)])


def describe_element(element: object) -> str:
    """Return a short description of an element."""

    def describe_leaf(each: object) -> str:
        if isinstance(each, (np.ndarray, np.generic)):
            return f"{each.dtype}{list(each.shape)}"
        return f"{type(each).__name__} {each!r}"[:80]

    return str(pack_leaves(element, map(describe_leaf, leaves_of(element))))[:200]
