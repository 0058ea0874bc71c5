"""Writing of TFRecord files, and TensorFlow's messages in them, tf.train.Example."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from ..base.compressed_files import check_compression, open_for_writing
from ..base.dtypes import bfloat16
from ..base.errors import DtypeError, TagloomError
from ..base.record_files import tfrecord
from ..ir.misuse import refuses_misuse

Array = np.ndarray[Any, Any]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of Protocol Buffers
_MOST = 2**63 - 1  # largest int64
_LISTS = {"bytes": 1, "float": 2, "int64": 3}  # fields of a tf.train.Feature


class TFRecordWriter:
    """A writer of TFRecord files, as TensorFlow reads them. Its methods block.

    Parameters
    ----------
    path : str or Path
    compression : {'auto', 'gzip', 'zlib', ''}
        By default gzip for a path that ends with .gz. TensorFlow's words, "GZIP" and "ZLIB", are accepted.

    Raises
    ------
    GraphError
        If the compression is unknown.

    Examples
    --------
    >>> import tempfile, os, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with tg.data.TFRecordWriter(directory + "/a.tfrecord") as writer:
    ...         writer.write(b"one")
    ...     os.path.getsize(directory + "/a.tfrecord")  # a length, two checksums, and the record
    19
    """

    @refuses_misuse
    def __init__(self, path: str | os.PathLike[str], compression: str = "auto") -> None:
        self._file: BinaryIO = open_for_writing(os.fspath(path), check_compression(compression))

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, record: bytes | bytearray | memoryview) -> None:
        """Write a record.

        Parameters
        ----------
        record : bytes or array
            An array is written as the bytes of its elements, row by row.

        Raises
        ------
        DtypeError
            If the record has no bytes, as a string has none.
        """
        self._file.write(tfrecord(record))

    def flush(self) -> None:
        """Pass all written records to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file. A second call has no effect."""
        self._file.close()


@refuses_misuse
def parse_example(record: bytes) -> dict[str, Array | list[bytes]]:
    """Return the features of a serialized tf.train.Example.

    Parameters
    ----------
    record : bytes

    Returns
    -------
    dict of str to numpy.ndarray or list of bytes
        Vectors of int64 or float32; lists of bytes; an empty list for a feature without a kind.

    Raises
    ------
    TagloomError
        If the record is no such message.

    Examples
    --------
    >>> import tagloom as tg
    >>> record = tg.data.make_example({"label": [1, -2], "name": [b"cat"], "weight": [0.5]})
    >>> tg.data.parse_example(record)
    {'label': array([ 1, -2]), 'name': [b'cat'], 'weight': array([0.5], dtype=float32)}
    """
    found: dict[str, Array | list[bytes]] = {}
    try:
        for number, features in _read_fields(record):
            # field 1 of an Example is its Features, whose field 1 is a map: a list of entries
            for entry in (each for n, each in _read_fields(features) if n == 1) if number == 1 else ():
                # 1 is the name and 2 the Feature; of a repeated field the last counts, a rule of Protocol Buffers
                parts = dict(_read_fields(entry))
                found[bytes(parts.get(1, b"")).decode()] = _parse_feature(parts.get(2, b""))
    except (ValueError, IndexError, TypeError, OverflowError, struct.error) as error:
        is_bytes = isinstance(record, (bytes, bytearray, memoryview))
        raise TagloomError(
            f"this is no tf.train.Example: {error}",
            got=f"{len(record)} bytes, {bytes(record[:20])!r}" if is_bytes else f"{record!r:.60}",
            hint="map the records by what they were written with",
        ) from error
    return found


@refuses_misuse
def make_example(features: Mapping[str, Any]) -> bytes:
    """Return a serialized tf.train.Example.

    Parameters
    ----------
    features : mapping of str to sequence
        Lists or arrays, of any shape, of integers, floats, bytes or strings, written row by row; single
        values count as lists of length 1.

    Returns
    -------
    bytes

    Raises
    ------
    DtypeError
        If a feature is of another kind, an integer does not fit int64, or a float float32.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.data.make_example({"label": [3]})
    b'\\n\\x10\\n\\x0e\\n\\x05label\\x12\\x05\\x1a\\x03\\n\\x01\\x03'
    """
    if not isinstance(features, Mapping) or not all(isinstance(name, str) for name in features):
        raise DtypeError(
            "features of a tf.train.Example have names",
            wanted="a dict of str to values",
            got=f"{features!r:.80}",
            hint='make_example({"label": [3]})',
        )
    entries = [
        _encode_field(1, name.encode()) + _encode_field(2, _serialize_feature(name, value))
        for name, value in features.items()
    ]
    return _encode_field(1, b"".join(_encode_field(1, entry) for entry in entries))


# ---- reading


def _read_fields(message: Any) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of a message's fields; fields of 32 and 64 bits as bytes."""
    view, place = memoryview(message), 0
    while place < len(view):
        key, place = _read_varint(view, place)
        kind, number = key & 7, key >> 3
        if kind == _VARINT:
            value, place = _read_varint(view, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _read_varint(view, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if place + size > len(view):
            raise ValueError("it ends within a field")
        yield number, view[place : place + size]
        place += size


def _read_varint(view: Any, place: int) -> tuple[int, int]:
    """Return the integer of variable length at a place, and the next place; ValueError above 64 bits."""
    value = shift = 0
    while True:
        byte = view[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")  # ten bytes of 7 bits each


def _parse_feature(message: object) -> Array | list[bytes]:
    """Return the list of a serialized tf.train.Feature, as an array or list of bytes."""
    for kind, values in _read_fields(message):
        if kind == _LISTS["bytes"]:
            return [bytes(each) for number, each in _read_fields(values) if number == 1]
        parts = [each for number, each in _read_fields(values) if number == 1]  # packed, or a field each
        if kind == _LISTS["float"]:
            return np.frombuffer(b"".join(parts), "<f4").astype(np.float32)
        if kind == _LISTS["int64"]:
            numbers = [n for each in parts for n in ([each] if isinstance(each, int) else _read_varints(each))]
            # two's complement: -1 arrives as 2**64 - 1
            return np.array(numbers, np.uint64).astype(np.int64)
    return []


def _read_varints(view: Any) -> Iterator[int]:
    place = 0
    while place < len(view):
        value, place = _read_varint(view, place)
        yield value


# ---- writing


def _encode_field(number: int, content: bytes) -> bytes:
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _serialize_feature(name: str, value: object) -> bytes:
    """Return a serialized tf.train.Feature of a value; DtypeError if the value does not fit."""
    texts = _encode_texts(value)
    if texts is not None:
        return _encode_field(_LISTS["bytes"], b"".join(_encode_field(1, each) for each in texts))
    array = _as_number_vector(value)
    if array.dtype.kind in "bui":
        if array.dtype == np.uint64 and array.size and int(array.max()) > _MOST:
            raise _misfit_error(name, f"integers from {-_MOST - 1} to {_MOST}", int(array.max()))
        # negative integers are written as their two's complement of 64 bits
        numbers = b"".join(_encode_varint(int(each) & 0xFFFFFFFFFFFFFFFF) for each in array)
        return _encode_field(_LISTS["int64"], _encode_field(1, numbers))
    if array.dtype.kind == "f":
        # an overflow is found below, and reported with the name of the feature
        with np.errstate(over="ignore"):
            floats = array.astype("<f4")
        if not np.array_equal(np.isinf(floats), np.isinf(array)):
            raise _misfit_error(name, f"floats of at most {np.finfo(np.float32).max:.4g}", float(np.abs(array).max()))
        return _encode_field(_LISTS["float"], _encode_field(1, floats.tobytes()))
    raise _misfit_error(name, "integers, floats, bytes or strings", array.dtype)


def _misfit_error(name: str, wanted: str, got: object) -> DtypeError:
    return DtypeError(
        f"feature '{name}' cannot be in a tf.train.Example",
        wanted=wanted,
        got=str(got),
        hint="convert it, or write its bytes",
    )


def _as_number_vector(value: object) -> Array:
    """Return a vector of the numbers of a value; bfloat16, unknown to NumPy, is widened to float32."""
    try:
        array = np.asarray(value).ravel()
    except (ValueError, TypeError):  # rows of different lengths
        array = np.asarray(None)
    return array.astype(np.float32) if array.dtype == bfloat16.numpy else array


def _encode_texts(value: object) -> list[bytes] | None:
    """Return the strings of a value, row by row, in UTF-8; None if the value is empty or has other elements."""
    if isinstance(value, np.ndarray):
        return _encode_texts_of_array(value)
    if isinstance(value, str):
        return [value.encode()]
    if isinstance(value, (bytes, bytearray)) or (isinstance(value, memoryview) and value.format == "B"):
        return [bytes(value)]
    if not isinstance(value, (list, tuple)) or not value:
        return None
    rows = [_encode_texts(each) for each in value]
    return None if None in rows else [text for row in rows if row is not None for text in row]


def _encode_texts_of_array(array: Array) -> list[bytes] | None:
    if array.dtype.kind not in "SUTO":
        return None
    if array.size:
        return _encode_texts(array.ravel().tolist())
    return None if array.dtype.kind == "O" else []
