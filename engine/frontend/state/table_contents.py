"""Contents of constant lookup tables: arrays of the program, or the lines of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...base.array_like import Array, as_array, as_fed_array
from ...base.dtypes import DType, as_dtype, int32, int64, string
from ...base.errors import DtypeError, GraphError
from ...base.record_files import DamagedRecord, RecordFile

_KEYS = (string, int32, int64)


class GivenContent:
    """Contents from the program's arrays."""

    def __init__(self, keys: list[Any], values: Array) -> None:
        self._keys, self._values = keys, values

    def read(self, key: DType, value: DType) -> tuple[list[Any], Array]:
        return list(self._keys), self._values


class FileContent:
    """Contents of a text file with an entry in each line.

    Parameters
    ----------
    path : str
    entries : callable
        ``entries(lines)`` returns texts or numbers of keys and of values.
    size : int, optional
        Required number of lines, from the first; all by default.
    """

    def __init__(
        self, path: str, entries: Callable[[list[str]], tuple[Iterable[Any], Iterable[Any]]], size: int | None = None
    ) -> None:
        self._path, self._entries, self._size = path, entries, size

    def read(self, key: DType, value: DType) -> tuple[list[Any], Array]:
        lines = _lines_of(self._path)
        if self._size is not None and len(lines) < self._size:
            raise ValueError(f"{self._path} has {len(lines)} lines, fewer than vocab_size={self._size}")
        keys, values = self._entries(lines[: self._size])
        try:
            return _as_array(key, keys).tolist(), _as_array(value, values)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{self._path} has an entry that is no {key} or {value}: {error}") from error


def _lines_of(path: str) -> list[str]:
    """Return the lines of a text file; ValueError for damaged lines."""
    lines: list[str] = []
    file, end = RecordFile(path, "text"), 0
    try:
        while block := file.read_block(end):
            # A block without records is the end of the file.
            if not block.records:
                return lines
            for line in block.records:
                if isinstance(line, DamagedRecord):
                    raise ValueError(f"{path}, line {len(lines) + 1}: {line}")
                lines.append(line)
            end = block.end
    finally:
        file.close()
    return lines


def _as_array(dtype: DType, values: Iterable[Any]) -> Array:
    """Return numbers, or texts of numbers, as an array."""
    listed = list(values)
    # Numbers from a file are texts: int() refuses "1.5", which float() followed by a cast would truncate.
    if dtype is not string and any(isinstance(item, str) for item in listed):
        listed = [int(item) if dtype.is_integer else float(item) for item in listed]
    return np.array(listed, dtype.numpy)


def key_dtype_of(dtype: Any) -> DType:
    key_dtype = as_dtype(dtype)
    if key_dtype not in _KEYS:
        raise DtypeError(
            "keys of a table are strings or integers",
            wanted="string, int64 or int32",
            got=key_dtype,
            hint="make strings of them by as_string, or integers by cast",
        )
    return key_dtype


def values_of(dtype: DType | None, values: Any, what: str) -> Array:
    array = as_array(values) if dtype is None else as_fed_array(values, dtype)
    if what == "keys":
        key_dtype_of(array.dtype)
    return array


def check_unique(keys: list[Any], values: Array) -> None:
    """Raise GraphError for a key with different values; equal repetitions are allowed."""
    first: dict[Any, int] = {}
    for row, key in enumerate(keys):
        other = first.setdefault(key, row)
        if other != row and not np.array_equal(values[other], values[row]):
            raise GraphError(
                "a key of a table has two values",
                wanted=f"one value for {key!r}",
                got=f"rows {other} and {row}",
                hint="leave out one of the two",
            )
