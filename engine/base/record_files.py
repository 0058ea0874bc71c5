"""Files of records: lines of text, TFRecords, records of one length, files that are one record; plain or compressed.

A file is read in blocks of many records, in a thread. Where a block begins says what is in it, so that a position in a
file is the begin of a block and how many of its records were taken.
"""

from __future__ import annotations

import codecs
import glob
import os
import struct
import zlib
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from .checksums import crc32c
from .compressed_files import open_for_reading
from .errors import DtypeError

BLOCK_BYTES = 1 << 16  # as many as are read at once, and what is needed to end with a record
ENDED = -1
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD = _LENGTH.size + _CHECKSUM.size
_MASK_DELTA, _WORD = 0xA282EAD8, 0xFFFFFFFF  # of TFRecord files, whose checksums are turned and moved


class DamagedRecord(ValueError):
    """A record can not be read; those behind it may be."""


class Block(NamedTuple):
    """Records that were read at once.

    Attributes
    ----------
    records : list
        A DamagedRecord in the place of each that can not be read. Empty at the end of the file.
    end : int
        Where the next block begins, ENDED behind the last byte of a file that is one record.
    """

    records: list[Any]
    end: int


ReadBlock = Callable[[BinaryIO], list[Any]]


class FixedLayout(NamedTuple):
    """Layout of a file of records of one length.

    Attributes
    ----------
    record_bytes : int
    header_bytes, footer_bytes : int
        Bytes in front of the first record and behind the last one.
    """

    record_bytes: int
    header_bytes: int = 0
    footer_bytes: int = 0


class RecordFile:
    """A file that is open; used by one thread at a time.

    Parameters
    ----------
    path : str
    format : str or FixedLayout
        One of `FORMATS`, or the layout of records of one length.
    compression : {'auto', 'gzip', 'zlib', ''}
        'auto' for gzip if the path ends with .gz.
    """

    def __init__(self, path: str, format: str | FixedLayout, compression: str = "auto") -> None:
        self._read: ReadBlock = FORMATS[format] if isinstance(format, str) else partial(_read_fixed, format)
        self._file: BinaryIO = open_for_reading(path, compression)

    def read_block(self, start: int) -> Block:
        """Read the block that begins at a byte of the content, or ENDED.

        Raises
        ------
        OSError, EOFError
            If the file can not be read.
        DamagedRecord
            If no record can be found from there on.
        """
        if start == ENDED:
            return Block([], ENDED)
        try:
            if self._file.tell() != start:
                self._file.seek(start)
            records, end = self._read(self._file), self._file.tell()
        except zlib.error as error:
            raise DamagedRecord(f"what is compressed can not be read: {error}") from error
        return Block(records, end if end > start else ENDED)

    def close(self) -> None:
        """Close the file; twice is fine."""
        self._file.close()


def _read_lines(file: BinaryIO) -> list[Any]:
    is_first = file.tell() == 0
    data = file.read(BLOCK_BYTES)
    if not data.endswith(b"\n"):
        data += file.readline()
    if is_first:
        data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        return []
    lines = data.removesuffix(b"\n").split(b"\n")
    try:
        return [line.removesuffix("\r") for line in data.removesuffix(b"\n").decode().split("\n")]
    except UnicodeDecodeError:
        return [_decoded(line.removesuffix(b"\r")) for line in lines]


def _decoded(line: bytes) -> str | DamagedRecord:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return DamagedRecord(f"this line is not UTF-8: {error.reason} at byte {error.start}: {line[:40]!r}")


def _read_tfrecords(file: BinaryIO) -> list[Any]:
    records: list[Any] = []
    size = 0
    while size < BLOCK_BYTES:
        start = file.tell()
        try:
            data = _read_framed(file)
        except DamagedRecord:
            if not records:
                raise
            file.seek(start)  # what was read before comes first; the next block begins here
            break
        if data is None:
            break
        size += _HEAD + len(data)
        records.append(_record(data))
    return records


def _read_framed(file: BinaryIO) -> bytes | None:
    """Return a record and its checksum, None at the end of the file."""
    head = file.read(_HEAD)
    if not head:
        return None
    length = _length(head)
    try:
        data = file.read(length + _CHECKSUM.size)
    except (MemoryError, OverflowError) as error:
        raise DamagedRecord(f"a record says that it has {length} bytes") from error
    if len(data) != length + _CHECKSUM.size:
        raise DamagedRecord(f"the file ends within a record of {length} bytes, behind {len(data)}")
    return data


def _length(head: bytes) -> int:
    if len(head) < _HEAD:
        raise DamagedRecord(f"the file ends within the head of a record, behind {len(head)} of {_HEAD} bytes")
    (wanted,) = _CHECKSUM.unpack_from(head, _LENGTH.size)
    if masked_crc32c(head[: _LENGTH.size]) != wanted:
        raise DamagedRecord("the length of a record does not fit its checksum, so that no record behind it is found")
    return int(_LENGTH.unpack_from(head)[0])


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of some bytes as TFRecord files have it: turned by 15 bits and moved."""
    found = crc32c(data)
    return ((found >> 15 | found << 17) + _MASK_DELTA) & _WORD


def _record(data: bytes) -> bytes | DamagedRecord:
    record = data[: -_CHECKSUM.size]
    (wanted,) = _CHECKSUM.unpack_from(data, len(record))
    found = masked_crc32c(record)
    if found == wanted:
        return record
    return DamagedRecord(f"a record of {len(record)} bytes has checksum {found:#010x} instead of {wanted:#010x}")


def tfrecord(data: bytes | bytearray | memoryview) -> bytes:
    """Return a record with its length and checksums, as a TFRecord file has it.

    Raises
    ------
    DtypeError
        If it is not made of bytes.
    """
    record = _as_bytes(data)
    length = _LENGTH.pack(len(record))
    return b"".join([length, _CHECKSUM.pack(masked_crc32c(length)), record, _CHECKSUM.pack(masked_crc32c(record))])


def _as_bytes(data: Any) -> memoryview:
    """Return the bytes of a buffer of any shape; other views have a length in elements, or rows, of their own."""
    try:
        view = memoryview(data)
        return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())
    except (TypeError, ValueError) as error:
        raise DtypeError(
            "a record of a file is made of bytes",
            wanted="bytes, or what has a buffer, as an array",
            got=f"{type(data).__name__}: {data!r:.60}",
            hint="text.encode(), or array.tobytes()",
        ) from error


def _read_fixed(layout: FixedLayout, file: BinaryIO) -> list[Any]:
    """Return records of one length; a DamagedRecord in the place of a last one that is shorter."""
    size, header, footer = layout
    begin = max(file.tell(), header)
    if file.tell() != begin:
        file.seek(begin)
    wanted = size * max(1, BLOCK_BYTES // size)
    data = file.read(wanted + footer)
    there = min(len(data) - footer, wanted)
    if there < 0 or (not data and begin == header and file.seek(0, os.SEEK_END) < header):
        raise DamagedRecord(f"the file has fewer bytes than its header, of {header}, and its footer, of {footer}")
    records: list[Any] = [data[at : at + size] for at in range(0, there, size)]
    if there % size:
        records[-1] = DamagedRecord(f"the file ends within a record of {size} bytes, behind {there % size}")
    file.seek(begin + there)
    return records


def _read_whole(file: BinaryIO) -> list[Any]:
    """Return the content as one record, empty or not, where it begins."""
    return [] if file.tell() else [file.read()]


FORMATS: dict[str, ReadBlock] = {"text": _read_lines, "tfrecord": _read_tfrecords, "file": _read_whole}


def matching_files(patterns: Iterable[str]) -> list[str]:
    """Return the files that paths and patterns name, those of a pattern sorted; FileNotFoundError where there is none.

    A path with ``*``, ``?`` or ``[`` in it is a pattern, unless there is a file of that very name.
    """
    found: list[str] = []
    for pattern in patterns:
        is_path = not glob.has_magic(pattern) or os.path.exists(pattern)
        paths = [pattern] if is_path else sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise FileNotFoundError(f"no file matches {pattern!r}")
        found += paths
    return found


def is_named(path: str, patterns: Iterable[str]) -> bool:
    """Say whether a path is one that `matching_files` may return for patterns, whatever files there are."""
    return any(path == pattern or _fits(_parts(path), _parts(pattern)) for pattern in patterns)


def _parts(path: str) -> list[str]:
    root = "/" if os.path.isabs(path) else ""
    return [root, *filter(None, path.split(os.sep))]


def _fits(parts: list[str], patterns: list[str]) -> bool:
    """Compare name by name: no ``*`` is a way out of a directory."""
    if not patterns or not parts:
        return parts == patterns or set(patterns) == {"**"}
    part, pattern = parts[0], patterns[0]
    if pattern == "**" and _fits(parts, patterns[1:]):
        return True
    fits = part == pattern or (part not in (os.curdir, os.pardir) and fnmatchcase(part, pattern))
    return fits and _fits(parts[1:], patterns if pattern == "**" else patterns[1:])
