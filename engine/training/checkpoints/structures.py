"""Encoding of state structures as JSON and arrays, and decoding."""

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


def encode_structure(value: object, add: Callable[[np.ndarray[Any, Any]], str], what: str, later: Later) -> Any:
    """Return JSON for a structure of tuples, lists, dicts and registered containers.

    Parameters
    ----------
    value : object
        Structure whose leaves are arrays, numbers, strings, bytes or None.
    add : callable
        Stores an array and returns its name.
    what : str
        Owner of the structure, for error messages.
    later : list of callable
        Receives calls that insert the deferred parts.

    Raises
    ------
    CheckpointError
        If the structure has other values. Named tuples are refused, because they would return as plain tuples.
    """
    if isinstance(value, float):
        # JSON has no infinities and NaN.
        return value if math.isfinite(value) else {"float": repr(float(value))}
    # Exact types: an enum, for example, would return as a plain number.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        return {"array" if isinstance(value, np.ndarray) else "scalar": add(np.asarray(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    encoded = partial(encode_structure, add=add, what=what, later=later)
    if isinstance(value, Deferred):
        place: dict[str, Any] = {}
        # Filled in by the writing thread, so that a large pipeline does not stop training.
        later.append(lambda: place.update(encoded(value.make())))
        return place
    return _encode_container(value, encoded, what)


def _encode_container(value: object, encoded: Callable[[Any], Any], what: str) -> Any:
    """Return JSON for a tuple, list, dict or registered container; refuse other types."""
    if isinstance(kind := kind_of(type(value)), Registered):
        return {"registered": [kind.name, encoded(kind.metadata(value)), list(map(encoded, kind.children(value)))]}
    if isinstance(value, dict):
        return {"dict": [list(map(encoded, pair)) for pair in value.items()]}
    if isinstance(value, (tuple, list)) and not _is_named(value):
        parts = list(map(encoded, value))
        return {"tuple": parts} if isinstance(value, tuple) else parts
    raise _unsupported_value_error(value, what)


def _is_named(value: object) -> bool:
    return hasattr(value, "_fields")


def _unsupported_value_error(value: object, what: str) -> CheckpointError:
    """Return the error about a value that no checkpoint can contain, with a hint for its type."""
    hint = "let its snapshot() or state_dict() give what it is made of"
    if _is_named(value):
        hint = "make tuples or dicts of named tuples"
    return CheckpointError(
        "this cannot be saved",
        variable=what,
        wanted="tuples, lists, dicts and registered containers of arrays, numbers, strings, bytes and None",
        got=f"{type(value).__module__}.{type(value).__qualname__}",
        hint=hint,
    )


def decode_structure(found: object, get: Callable[[str], Any], scalar: Callable[[str], Any]) -> Any:
    """Return the structure of JSON made by `encode_structure`.

    Parameters
    ----------
    found : object
        JSON from any file; not trusted.
    get, scalar : callable
        Return the array or NumPy scalar of a name; raise ValueError or KeyError for an unknown name.

    Raises
    ------
    ValueError, KeyError
        If `found` is not made by `encode_structure`, or has a container of an unregistered class.
    """
    decoded = partial(decode_structure, get=get, scalar=scalar)
    if isinstance(found, list):
        return list(map(decoded, found))
    if not isinstance(found, dict):
        return found
    if len(found) != 1:
        raise ValueError(f"an object with {len(found)} keys")
    # Encoded objects have one key, their kind; a plain dict is encoded as a list of pairs.
    ((kind, inner),) = found.items()
    if not isinstance(inner, list):
        return _decode_leaf(kind, inner, get, scalar)
    if kind == "tuple":
        return tuple(map(decoded, inner))
    if kind == "dict":
        return {_require_hashable(decoded(key)): decoded(each) for key, each in inner}
    if kind == "registered":
        name, metadata, parts = inner
        return find_registered(str(name))(decoded(metadata), list(map(decoded, parts)))
    raise ValueError(f"a list of kind {kind!r}")


def _decode_leaf(kind: str, inner: object, get: Callable[[str], Any], scalar: Callable[[str], Any]) -> Any:
    """Return the leaf of a JSON object with one key; raise ValueError for unknown kinds."""
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


def _require_hashable(key: object) -> Any:
    try:
        hash(key)
    except TypeError as error:
        raise ValueError("a key of a dict that cannot be one") from error
    return key
