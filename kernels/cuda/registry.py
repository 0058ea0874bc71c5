"""Registry of the operations with a kernel in CUDA C, by type and dtype.

As for the C kernels of CPUs, the definition of an operation fixes its meaning; a kernel computes the same in a single
launch, and leaves unsupported inputs to the definition's kernel. The file of a kernel registers its finder; importing
this package imports those files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .launching import REALS, can_compile


class Compiled(Protocol):
    """A kernel in CUDA C, called with arrays of a library and, if `takes_scalars`, NumPy scalars.

    Attributes
    ----------
    takes_scalars : bool
    on_host : frozenset of int or None
        Numbers of the inputs to pass in the host's memory, for a kernel with a choice of its own, which accepts all
        inputs; None to follow the operation's definition.
    """

    takes_scalars: bool
    on_host: frozenset[int] | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


# Library, operation type, attributes, dtype of the outputs, kernel by definition.
Find = Callable[[Any, str, Mapping[str, Any], "np.dtype[Any]", Callable[..., Any]], Compiled | None]

_finders: dict[str, Find] = {}
_any_dtype: set[str] = set()


def register(*types: str, any_dtype: bool = False) -> Callable[[Find], Find]:
    """Register the decorated finder for the kernels of operations of some types.

    The finder is called for floating-point results of 4 or 8 bytes, or with `any_dtype` for all dtypes.
    """

    def add_finder(find: Find) -> Find:
        twice = _finders.keys() & set(types)
        if twice:
            raise ValueError(f"two files register a kernel of {', '.join(sorted(twice))}")
        _finders.update(dict.fromkeys(types, find))
        _any_dtype.update(types if any_dtype else ())
        return find

    return add_finder


def registered_types() -> frozenset[str]:
    """Return the types of all operations that may have a kernel in CUDA C."""
    return frozenset(_finders)


def find_compiled(
    xp: Any, type: str, attrs: Mapping[str, Any], outputs: Sequence[np.dtype[Any]], otherwise: Callable[..., Any]
) -> Compiled | None:
    """Return the compiled kernel of an operation, or None.

    Parameters
    ----------
    xp : module
        The library of the input and output arrays.
    type, attrs
        Type and attributes of the operation.
    outputs : sequence of dtype
    otherwise : callable
        The definition's kernel, with attributes.
    """
    find = _finders.get(type)
    if find is None or not can_compile(xp) or not (type in _any_dtype or outputs[0].char in REALS):
        return None
    return find(xp, type, attrs, outputs[0], otherwise)
