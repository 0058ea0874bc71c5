"""Which operations have a kernel in CUDA C, by type and dtype.

As with the kernels in C for CPUs, the definition block of an operation gives its meaning; a kernel computes the same in
one launch, and leaves to the definition's what it was not made for. The file of a kernel registers what finds it;
importing this package imports those files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .launching import REALS, can_compile


class Compiled(Protocol):
    """A kernel in CUDA C, called with arrays of a library and, where it takes them, NumPy scalars.

    Attributes
    ----------
    takes_scalars : bool
    on_host : frozenset of int or None
        Of one that chooses for itself which inputs it wants in the host's memory, these; it runs whatever it is given.
    """

    takes_scalars: bool
    on_host: frozenset[int] | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


# Library, operation type, attributes, dtype of the outputs, kernel by definition.
Find = Callable[[Any, str, Mapping[str, Any], "np.dtype[Any]", Callable[..., Any]], Compiled | None]

_finders: dict[str, Find] = {}
_any_dtype: set[str] = set()


def register(*types: str, any_dtype: bool = False) -> Callable[[Find], Find]:
    """Have the decorated function asked for the kernel of operations of these types.

    It is asked about results that float, of one or two words of 4 bytes, unless it is for those of any dtype.
    """

    def add(find: Find) -> Find:
        twice = _finders.keys() & set(types)
        if twice:
            raise ValueError(f"two files register a kernel of {', '.join(sorted(twice))}")
        _finders.update(dict.fromkeys(types, find))
        _any_dtype.update(types if any_dtype else ())
        return find

    return add


def registered_types() -> frozenset[str]:
    """Return the types of all operations that may have a kernel in CUDA C."""
    return frozenset(_finders)


def find_compiled(
    xp: Any, type: str, attrs: Mapping[str, Any], outputs: Sequence[np.dtype[Any]], otherwise: Callable[..., Any]
) -> Compiled | None:
    """Return the compiled kernel of an operation, None if there is none.

    Parameters
    ----------
    xp : module
        The array library whose arrays it takes and gives.
    type, attrs
        Of the operation.
    outputs : sequence of dtype
    otherwise : callable
        Its kernel by definition, with attributes.
    """
    find = _finders.get(type)
    if find is None or not can_compile(xp) or not (type in _any_dtype or outputs[0].char in REALS):
        return None
    return find(xp, type, attrs, outputs[0], otherwise)
