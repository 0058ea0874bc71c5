"""What travels between the stages of a pipeline: elements with where they come from, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...base.array_like import as_array
from ...base.errors import DtypeError, PipelineError, ShapeError
from ...base.shapes import Shape

Origin = tuple[str, int] | None  # a file or another source, and the number of the line, record or element there
Item = tuple[Any, Origin]  # an element, or the Failure in its place

_LARGEST_CHUNK = 64  # elements that go from stage to stage at once
_CHUNK_BYTES = 1 << 18


class Failure:
    """What stands in the place of an element that could not be made; it is raised to whoever comes to it."""

    __slots__ = ("error",)

    def __init__(self, error: PipelineError) -> None:
        self.error = error


def described(origin: Origin) -> str | None:
    """Return where an element comes from, in words."""
    if origin is None:
        return None
    name, number = origin
    return f"{name} {number}" if name else f"element {number} of the source"


def failure(what: str, number: int, origin: Origin, error: BaseException | None, **fields: Any) -> Failure:
    """Return what stands in the place of an element, with an error that says which one it is."""
    made = PipelineError(what, element=number, origin=described(origin), **fields)
    made.__cause__ = error
    return Failure(made)


class ChunkSize:
    """How many elements are asked for at once: more and more, as long as they are small and come quickly."""

    __slots__ = ("most",)

    def __init__(self) -> None:
        self.most = 1

    def learn(self, chunk: list[Item]) -> None:
        """Look at what has come, and at the size of its last element."""
        if not chunk:
            return
        size = nbytes_of(chunk[-1][0])
        self.most = max(1, min(2 * self.most, _LARGEST_CHUNK, _CHUNK_BYTES // max(size, 1)))


def nbytes_of(element: Any) -> int:
    """Return about how many bytes an element takes, of arrays and bytes only."""
    if isinstance(element, (np.ndarray, np.generic)):
        return element.nbytes
    if isinstance(element, (bytes, bytearray, str)):
        return len(element)
    if isinstance(element, (tuple, list)):
        return sum(map(nbytes_of, element))
    if isinstance(element, dict):
        return sum(map(nbytes_of, element.values()))
    return 0


# ---- structures: tuples and dicts; lists are arrays


def leaves_of(element: Any) -> list[Any]:
    """Return the leaves of an element in order."""
    if isinstance(element, tuple):
        return [leaf for each in element for leaf in leaves_of(each)]
    if isinstance(element, dict):
        return [leaf for each in element.values() for leaf in leaves_of(each)]
    return [element]


def skeleton(element: Any) -> Any:
    """Return what is equal for elements of one structure."""
    if isinstance(element, tuple):
        return tuple(map(skeleton, element))
    if isinstance(element, dict):
        return {key: skeleton(each) for key, each in element.items()}
    return None


def packed(like: Any, leaves: Iterator[Any]) -> Any:
    """Return a structure like another, of other leaves."""
    if isinstance(like, tuple):
        parts = [packed(each, leaves) for each in like]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    if isinstance(like, dict):
        return {key: packed(each, leaves) for key, each in like.items()}
    return next(leaves)


def in_order_of(like: Any, element: Any) -> Any:
    """Return an element of an equal skeleton with the keys of its dicts in the order of another's."""
    if isinstance(like, tuple):
        parts = [in_order_of(a, b) for a, b in zip(like, element, strict=True)]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    if isinstance(like, dict):
        return {key: in_order_of(each, element[key]) for key, each in like.items()}
    return element


def conform(element: Any, spec: Any, wanted: Any) -> list[Any]:
    """Return the leaves of an element as arrays of a spec's dtypes and shapes.

    Bytes become vectors of uint8, lists become arrays.

    Parameters
    ----------
    element : object
    spec : structure of TensorSpec
    wanted : object
        The spec's skeleton.

    Raises
    ------
    DtypeError, ShapeError
        If it does not fit.
    """
    if wanted is None:
        return [_conformed(element, spec)]
    if skeleton(element) != wanted:
        raise ShapeError(
            "an element has another structure than its spec",
            wanted=spec,
            got=summary(element),
            hint="let the last map return the structure of the spec",
        )
    leaves = leaves_of(in_order_of(wanted, element))
    return [_conformed(leaf, want) for leaf, want in zip(leaves, leaves_of(spec), strict=True)]


def _conformed(leaf: Any, spec: Any) -> Any:
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype == spec.dtype.numpy and _fits(leaf.shape, spec.shape):
        return leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)
    value = np.frombuffer(leaf, np.uint8) if isinstance(leaf, (bytes, bytearray)) else leaf
    try:
        array = as_array(value, spec.dtype)
    except DtypeError as error:
        raise DtypeError(
            f"an element has another dtype than its spec: {error.what}",
            wanted=spec,
            got=summary(leaf),
            hint="cast it in a map, as by numpy.asarray(value, dtype)",
        ) from error
    if not _fits(array.shape, spec.shape):
        raise ShapeError(
            "an element has another shape than its spec",
            wanted=spec,
            got=f"{array.dtype}{list(array.shape)}",
            hint="give None for dimensions that vary",
        )
    return array


def _fits(got: tuple[int, ...], wanted: Shape) -> bool:
    dims = wanted.dims if wanted.rank is not None else None
    return dims is None or (
        len(got) == len(dims) and all(want is None or want == size for want, size in zip(dims, got, strict=True))
    )


def summary(element: Any) -> str:
    """Return what an element is, shortly."""

    def leaf(each: Any) -> str:
        if isinstance(each, (np.ndarray, np.generic)):
            return f"{each.dtype}{list(each.shape)}"
        return f"{type(each).__name__} {each!r}"[:80]

    return str(packed(element, map(leaf, leaves_of(element))))[:200]


# ---- in states


def saved_items(items: Iterable[Item]) -> list[Any]:
    """Return elements for a state; a failure as what it says."""
    return [_saved_failure(value, origin) if type(value) is Failure else (value, origin) for value, origin in items]


def _saved_failure(failed: Failure, origin: Origin) -> Any:
    error = failed.error
    return None, origin, {"what": error.what, "number": error.element, "hint": error.hint}


def restored_items(saved: Any) -> list[Item]:
    """Return elements of a state, which may have come from a file."""
    return [_restored(*each) for each in saved]


def _restored(value: Any, origin: Any, failed: Any = None) -> Item:
    place: Origin = None if origin is None else (str(origin[0]), int(origin[1]))
    if failed is None:
        return value, place
    return failure(failed["what"], int(failed["number"]), place, None, hint=failed["hint"]), place
