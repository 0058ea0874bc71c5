"""Structures that a session or an object keeps, as JSON and the arrays in them."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...base.containers import Registered, find_registered, kind_of
from ...base.deferred import Deferred
from ...base.errors import CheckpointError

Later = list[Callable[[], None]]
_PLAIN = (bool, int, str, type(None))


def encode(value: Any, add: Callable[[np.ndarray[Any, Any]], str], what: str, later: Later) -> Any:
    """Return what stands in JSON for a structure of tuples, lists, dicts and registered containers.

    Parameters
    ----------
    value : object
        Its leaves are arrays, numbers, strings, bytes or None.
    add : callable
        Notes an array and returns its name.
    what : str
        Whose structure it is, for errors.
    later : list of callable
        Gets what is to be called to put in the deferred parts.

    Raises
    ------
    CheckpointError
        If there is something else in it; named tuples would come back as tuples that nobody can ask for a name.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(float(value))}
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        return {"array" if isinstance(value, np.ndarray) else "scalar": add(np.asarray(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    encoded = partial(encode, add=add, what=what, later=later)
    if isinstance(value, Deferred):
        place: dict[str, Any] = {}
        later.append(lambda: place.update(encoded(value.make())))
        return place
    return _encode_container(value, encoded, what)


def _encode_container(value: Any, encoded: Callable[[Any], Any], what: str) -> Any:
    if isinstance(kind := kind_of(type(value)), Registered):
        return {"registered": [kind.name, encoded(kind.metadata(value)), list(map(encoded, kind.children(value)))]}
    if isinstance(value, dict):
        return {"dict": [list(map(encoded, pair)) for pair in value.items()]}
    if isinstance(value, (tuple, list)) and not _is_named(value):
        parts = list(map(encoded, value))
        return {"tuple": parts} if isinstance(value, tuple) else parts
    raise _refused(value, what)


def _is_named(value: Any) -> bool:
    return hasattr(value, "_fields")


def _refused(value: Any, what: str) -> CheckpointError:
    hint = "let its snapshot() or state_dict() give what it is made of"
    if _is_named(value):
        hint = "make tuples or dicts of named tuples"
    return CheckpointError(
        "this can not be saved",
        variable=what,
        wanted="tuples, lists, dicts and registered containers of arrays, numbers, strings, bytes and None",
        got=f"{type(value).__module__}.{type(value).__qualname__}",
        hint=hint,
    )


def decode(found: Any, get: Callable[[str], Any], scalar: Callable[[str], Any]) -> Any:
    """Return the structure that `encode` made JSON of.

    Parameters
    ----------
    found : object
        From whatever file.
    get, scalar : callable
        Return the array, or NumPy scalar, of a name; ValueError or KeyError if there is none.

    Raises
    ------
    ValueError, KeyError
        If it is nothing that `encode` makes, or a container of a class that is not registered now.
    """
    decoded = partial(decode, get=get, scalar=scalar)
    if isinstance(found, list):
        return list(map(decoded, found))
    if not isinstance(found, dict):
        return found
    if len(found) != 1:
        raise ValueError(f"an object with {len(found)} keys")
    ((kind, inner),) = found.items()
    if not isinstance(inner, list):
        return _leaf(kind, inner, get, scalar)
    if kind == "tuple":
        return tuple(map(decoded, inner))
    if kind == "dict":
        return {_key(decoded(key)): decoded(each) for key, each in inner}
    if kind == "registered":
        name, metadata, parts = inner
        return find_registered(str(name))(decoded(metadata), list(map(decoded, parts)))
    raise ValueError(f"a list of kind {kind!r}")


def _leaf(kind: str, inner: Any, get: Callable[[str], Any], scalar: Callable[[str], Any]) -> Any:
    if kind not in ("array", "scalar", "bytes", "float") or not isinstance(inner, str):
        raise ValueError(f"an object of kind {kind!r}")
    if kind == "bytes":
        try:
            return base64.b64decode(inner, validate=True)
        except binascii.Error as error:
            raise ValueError("bytes that are not in base 64") from error
    if kind == "float":
        return float(inner)
    return get(inner) if kind == "array" else scalar(inner)


def _key(key: Any) -> Any:
    try:
        hash(key)
    except TypeError as error:
        raise ValueError("a key of a dict that can not be one") from error
    return key
