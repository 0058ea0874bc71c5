"""What was saved, opened for reading: arrays that are not read yet, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from ...base.array_like import Array, UnreadArray
from ...base.dtypes import as_dtype
from ...base.errors import CheckpointError, DtypeError
from .slices import Slice


def _nothing() -> None:
    """Close nothing."""


@dataclass
class Saved:
    """A checkpoint, or another file of arrays, open for reading; ``with`` closes it.

    Attributes
    ----------
    path : str
    variables : mapping of str to UnreadArray
        By name.
    slices : mapping of str to Slice
        Which of them are shards, and of what.
    aliases : mapping of str to str
        What some of them would be called if variables were whole.
    resources : mapping of str to mapping of str to object
        What else the session kept, by kind and name.
    objects : mapping of str to object
        States of objects that were saved beside it.
    step : int or None
    metrics : mapping of str to float
    random_state : tuple of (int, int) or None
        Seed and number of the next step.
    numpy : str or None
        The version of NumPy that drew random numbers.
    close : callable
    """

    path: str
    variables: Mapping[str, UnreadArray]
    slices: Mapping[str, Slice] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    random_state: tuple[int, int] | None = None
    numpy: str | None = None
    close: Callable[[], object] = _nothing

    def __enter__(self) -> Saved:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RefusedArray(UnreadArray):
    """An array of a file that is of no dtype of the engine, and is refused when somebody wants it: others are not.

    Parameters
    ----------
    path, name : str
    shape : tuple of int
    dtype_name : str
    """

    def __init__(self, path: str, name: str, shape: tuple[int, ...], dtype_name: str) -> None:
        self.dtype, self.shape = np.dtype(np.void), shape
        self.dtype_name: str = dtype_name
        self._path, self._name = path, name

    def copy(self) -> Array:
        raise refuse_dtype(self._path, self._name, self.dtype_name)


def described(array: UnreadArray) -> str:
    """Return dtype and shape of an array in words: "float32[2,3]"."""
    try:
        name = str(as_dtype(array.dtype))
    except DtypeError:
        name = getattr(array, "dtype_name", str(array.dtype))
    return f"{name}[{','.join(map(str, array.shape))}]"


def refuse_dtype(path: str, name: str, dtype: object) -> CheckpointError:
    """Return the error about an array that is of no dtype of the engine."""
    return CheckpointError(
        "an array of a file is of a dtype that no variable has", file=path, variable=name, got=dtype, hint="convert it"
    )
