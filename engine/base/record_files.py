"""Files of records: lines of text, TFRecords, fixed-length records, whole files as one record; plain or compressed.

A file is read in blocks of many records, in a thread. The start of a block determines its content, so a position in a
file is the start of a block and the number of its records already taken.

A TFRecord is a length of 8 bytes, the checksum of the length, the data, and the checksum of the data.
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

BLOCK_BYTES = 1 << 16  # bytes read at once, before the rest of the last record
ENDED = -1  # in place of the start of a block: after the only record of a file
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD = _LENGTH.size + _CHECKSUM.size  # bytes before the data of a TFRecord
_MASK_DELTA, _WORD = 0xA282EAD8, 0xFFFFFFFF  # TFRecord files store checksums rotated, with a constant added


class DamagedRecord(ValueError):
    """An unreadable record; the following records may be readable."""


class Block(NamedTuple):
    """Records read at once.

    Attributes
    ----------
    records : list
        The records, with a DamagedRecord for each unreadable one. Empty at the end of the file.
    end : int
        Start of the next block; ENDED after the only record of a file.
    """

    records: list[Any]
    end: int


ReadBlock = Callable[[BinaryIO], list[Any]]


class FixedLayout(NamedTuple):
    """Layout of a file of records of equal length.

    Attributes
    ----------
    record_bytes : int
    header_bytes, footer_bytes : int
        Bytes before the first record and after the last record.
    """

    record_bytes: int
    header_bytes: int = 0
    footer_bytes: int = 0


class RecordFile:
    """An open file; used by one thread at a time.

    Parameters
    ----------
    path : str
    format : str or FixedLayout
        One of `FORMATS`, or the layout of records of one length.
    compression : {'auto', 'gzip', 'zlib', ''}
        'auto' is gzip if the path ends with .gz, else none.
    """

    def __init__(self, path: str, format: str | FixedLayout, compression: str = "auto") -> None:
        self._read: ReadBlock = FORMATS[format] if isinstance(format, str) else partial(_read_fixed, format)
        self._file: BinaryIO = open_for_reading(path, compression)

    def read_block(self, start: int) -> Block:
        """Read the block that starts at a byte of the content, or at ENDED.

        Raises
        ------
        OSError, EOFError
            If the file cannot be read.
        DamagedRecord
            If no further record can be found.
        """
        if start == ENDED:
            return Block([], ENDED)
        try:
            # Blocks mostly follow each other, and a seek in a compressed file decompresses again.
            if self._file.tell() != start:
                self._file.seek(start)
            records, end = self._read(self._file), self._file.tell()
        except zlib.error as error:
            raise DamagedRecord(f"the compressed data cannot be read: {error}") from error
        # A block without bytes is the last one: at the end of a file, or of an empty file read as a whole.
        return Block(records, end if end > start else ENDED)

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._file.close()


def _read_lines(file: BinaryIO) -> list[Any]:
    """Return the lines of a block, without line ends and byte order mark; a DamagedRecord for a line not in UTF-8."""
    is_first = file.tell() == 0
    data = file.read(BLOCK_BYTES)
    if not data.endswith(b"\n"):
        data += file.readline()
    if is_first:
        data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        return []
    lines = data.removesuffix(b"\n").split(b"\n")
    # Decoding the whole block is faster than line by line, and almost always succeeds.
    try:
        # Not splitlines, which also splits at other characters, such as U+2028.
        return [line.removesuffix("\r") for line in data.removesuffix(b"\n").decode().split("\n")]
    except UnicodeDecodeError:
        return [_decode_line(line.removesuffix(b"\r")) for line in lines]


def _decode_line(line: bytes) -> str | DamagedRecord:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return DamagedRecord(f"this line is not UTF-8: {error.reason} at byte {error.start}: {line[:40]!r}")


def _read_tfrecords(file: BinaryIO) -> list[Any]:
    """Return the records of a block, which ends before a record with a damaged head: the next block raises for it."""
    records: list[Any] = []
    size = 0
    while size < BLOCK_BYTES:
        start = file.tell()
        try:
            data = _read_framed(file)
        except DamagedRecord:
            if not records:
                raise
            file.seek(start)  # records read before are delivered first; the next block starts here
            break
        if data is None:
            break
        size += _HEAD + len(data)
        records.append(_verify_record(data))
    return records


def _read_framed(file: BinaryIO) -> bytes | None:
    """Return the data and the checksum after the head of a record, None at the end of the file."""
    head = file.read(_HEAD)
    if not head:
        return None
    length = _read_length(head)
    try:
        data = file.read(length + _CHECKSUM.size)
    except (MemoryError, OverflowError) as error:
        raise DamagedRecord(f"a record claims a length of {length} bytes") from error
    if len(data) != length + _CHECKSUM.size:
        raise DamagedRecord(f"the file ends within a record of {length} bytes, after {len(data)}")
    return data


def _read_length(head: bytes) -> int:
    """Return the length in the head of a record, after its checksum has been verified."""
    if len(head) < _HEAD:
        raise DamagedRecord(f"the file ends within the head of a record, after {len(head)} of {_HEAD} bytes")
    (wanted,) = _CHECKSUM.unpack_from(head, _LENGTH.size)
    if masked_crc32c(head[: _LENGTH.size]) != wanted:
        raise DamagedRecord("the length of a record does not fit its checksum, so that no record after it is found")
    return int(_LENGTH.unpack_from(head)[0])


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of some bytes as stored in TFRecord files: rotated by 15 bits, with a constant added."""
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & _WORD


def _verify_record(data: bytes) -> bytes | DamagedRecord:
    """Return the record in the data and checksum of a TFRecord, or a DamagedRecord if they do not fit."""
    record = data[: -_CHECKSUM.size]
    (wanted,) = _CHECKSUM.unpack_from(data, len(record))
    got = masked_crc32c(record)
    if got == wanted:
        return record
    return DamagedRecord(f"a record of {len(record)} bytes has checksum {got:#010x} instead of {wanted:#010x}")


def tfrecord(data: bytes | bytearray | memoryview) -> bytes:
    """Return a record with its length and checksums, in the layout of a TFRecord file.

    Raises
    ------
    DtypeError
        If the data is no bytes-like object.
    """
    record = _as_bytes(data)
    length = _LENGTH.pack(len(record))
    return b"".join([length, _CHECKSUM.pack(masked_crc32c(length)), record, _CHECKSUM.pack(masked_crc32c(record))])


def _as_bytes(data: Any) -> memoryview:
    """Return the bytes of a buffer as a flat view, since the length of other views counts elements or rows."""
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
    """Return records of equal length; a shorter last record becomes a DamagedRecord."""
    size, header, footer = layout
    begin = max(file.tell(), header)
    if file.tell() != begin:
        file.seek(begin)
    # A block has one record at least, however long.
    wanted = size * max(1, BLOCK_BYTES // size)
    data = file.read(wanted + footer)
    # The footer is read along with the records, to know how many of the bytes at the end belong to it.
    got = min(len(data) - footer, wanted)  # bytes of records
    # A seek beyond the end succeeds, so a file shorter than its header is found by its size.
    if got < 0 or (not data and begin == header and file.seek(0, os.SEEK_END) < header):
        raise DamagedRecord(f"the file has fewer bytes than its header, of {header}, and its footer, of {footer}")
    records: list[Any] = [data[at : at + size] for at in range(0, got, size)]
    if got % size:
        records[-1] = DamagedRecord(f"the file ends within a record of {size} bytes, after {got % size}")
    file.seek(begin + got)
    return records


def _read_whole(file: BinaryIO) -> list[Any]:
    """Return the content as one record, possibly empty, at the beginning of the file."""
    return [] if file.tell() else [file.read()]


FORMATS: dict[str, ReadBlock] = {"text": _read_lines, "tfrecord": _read_tfrecords, "file": _read_whole}


def matching_files(patterns: Iterable[str]) -> list[str]:
    """Return the files named by paths and patterns, sorted within a pattern; FileNotFoundError if none matches.

    A path containing ``*``, ``?`` or ``[`` is a pattern, unless a file of exactly this name exists.
    """
    files: list[str] = []
    for pattern in patterns:
        is_path = not glob.has_magic(pattern) or os.path.exists(pattern)
        paths = [pattern] if is_path else sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise FileNotFoundError(f"no file matches {pattern!r}")
        files += paths
    return files


def is_named(path: str, patterns: Iterable[str]) -> bool:
    """Return True if `matching_files` could return a path for patterns, whether or not the file exists."""
    return any(path == pattern or _match_components(_split_path(path), _split_path(pattern)) for pattern in patterns)


def _split_path(path: str) -> list[str]:
    root = "/" if os.path.isabs(path) else ""
    return [root, *filter(None, path.split(os.sep))]


def _match_components(parts: list[str], patterns: list[str]) -> bool:
    """Match component by component: ``*`` never crosses a directory separator."""
    if not patterns or not parts:
        # ``**`` also matches no component.
        return parts == patterns or set(patterns) == {"**"}
    part, pattern = parts[0], patterns[0]
    if pattern == "**" and _match_components(parts, patterns[1:]):
        return True
    fits = part == pattern or (part not in (os.curdir, os.pardir) and fnmatchcase(part, pattern))
    return fits and _match_components(parts[1:], patterns if pattern == "**" else patterns[1:])
