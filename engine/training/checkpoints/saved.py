"""An opened checkpoint or file of arrays: unread arrays and their metadata."""

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


def _close_nothing() -> None:
    """Close nothing."""


@dataclass
class Saved:
    """A checkpoint, or another file of arrays, open for reading; ``with`` closes it.

    Attributes
    ----------
    path : str
    variables : mapping of str to UnreadArray
        Unread arrays, by name.
    slices : mapping of str to Slice
        Slices of the sharded variables, by name.
    aliases : mapping of str to str
        Names that some variables would have in a graph without shards.
    resources : mapping of str to mapping of str to object
        Other state of the session, by kind and name.
    objects : mapping of str to object
        States of objects saved with the session.
    step : int or None
    metrics : mapping of str to float
    random_state : tuple of (int, int) or None
        Seed and number of the next step.
    numpy : str or None
        Version of NumPy of the saving process, which determines random numbers.
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
    close: Callable[[], object] = _close_nothing

    def __enter__(self) -> Saved:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RefusedArray(UnreadArray):
    """An array of a dtype that the engine lacks; refused when read, so that other arrays of the file are usable.

    Parameters
    ----------
    path, name : str
    shape : tuple of int
    dtype_name : str
    """

    def __init__(self, path: str, name: str, shape: tuple[int, ...], dtype_name: str) -> None:
        # `void` stands for a dtype that the engine does not have; `dtype_name` tells which.
        self.dtype, self.shape = np.dtype(np.void), shape
        self.dtype_name: str = dtype_name
        self._path, self._name = path, name

    def copy(self) -> Array:
        raise refuse_dtype(self._path, self._name, self.dtype_name)


def describe_array(array: UnreadArray) -> str:
    """Return dtype and shape of an array in words: "float32[2,3]"."""
    try:
        name = str(as_dtype(array.dtype))
    except DtypeError:
        name = getattr(array, "dtype_name", str(array.dtype))
    return f"{name}[{','.join(map(str, array.shape))}]"


def refuse_dtype(path: str, name: str, dtype: object) -> CheckpointError:
    """Return the error about an array of a dtype that the engine lacks."""
    return CheckpointError(
        "an array of a file is of a dtype that no variable has", file=path, variable=name, got=dtype, hint="convert it"
    )
