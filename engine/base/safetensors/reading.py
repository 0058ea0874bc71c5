"""Reading arrays from untrusted files."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any, TypeGuard

import numpy as np

from ..array_like import Array, UnreadArray
from ..checksums import crc32c
from ..dtypes import as_dtype, string
from ..errors import CheckpointError, DtypeError
from ..forks import strand_in_children
from .layout import (
    DTYPES,
    LARGE,
    LENGTH,
    LENGTHS,
    LONGEST_HEADER,
    METADATA,
    MOST_DIMS,
    NAMES,
    PAIRS,
    READ,
    READERS,
    RESTORED,
    SMALL_FLOATS,
)


class TensorFile(Mapping[str, "StoredTensor"]):
    """A file of arrays, open for reading: a mapping of names to unread arrays.

    Parameters
    ----------
    path : str or Path
    directory : int, optional
        Descriptor of the directory of the file; a symbolic link out of the directory is refused.

    Attributes
    ----------
    path : str
    size : int
        Size of the file in bytes.
    metadata : dict of str to str
        Texts in the metadata entry of the header.
    checksums : mapping of str to list of int
        Expected CRC-32C of each piece of 4 MiB of arrays, by name in the file; empty if unknown. An array with other
        checksums is damaged.

    Raises
    ------
    CheckpointError
        If the file cannot be read; DamagedFile if its format is wrong, or it is truncated or not in the directory.

    Examples
    --------
    >>> import os, tempfile, numpy as np
    >>> from tagloom.base.safetensors import TensorFile, write_tensors
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = directory + "/weights.safetensors"
    ...     file = os.open(path, os.O_WRONLY | os.O_CREAT)
    ...     size = write_tensors(file, path, [("w", np.array([1, 2], np.int8)), ("z", np.array(1j))])
    ...     os.close(file)
    ...     with TensorFile(path) as found:
    ...         found["w"], found["z"].copy(), found.size == size
    (<w int8[2]>, array(0.+1.j), True)
    """

    def __init__(self, path: Any, directory: int | None = None) -> None:
        self.path: str = os.fspath(path)
        self.checksums: Mapping[str, list[int]] = {}
        self._lock = threading.Lock()  # guards _is_closed, _readers and _file
        strand_in_children(self)
        self._is_closed, self._readers = False, 0
        self._file: int | None = open_regular(self.path, directory)
        try:
            self.size: int = os.fstat(self._file).st_size
            self._data, entries = self._read_header(self._file)  # `_data`: offset of the arrays' bytes in the file
            self.metadata: dict[str, str] = _checked_metadata(self.path, entries.pop(METADATA, {}))
            self._tensors: dict[str, StoredTensor] = self._stored_arrays(entries)
        # Without a close here, the descriptor of a refused file would stay open until the object is collected.
        except BaseException:
            self.close()
            raise

    def strand(self, _: int) -> None:
        """Replace the lock in a child process, where no thread of the parent will release it."""
        self._lock, self._readers = threading.Lock(), 0

    def __getitem__(self, name: str) -> StoredTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()

    def close(self) -> None:
        """Close the file: copied arrays stay valid, others cannot be copied any longer. Closing twice is allowed.

        A reading thread finishes its piece, and then closes the descriptor.
        """
        with self._lock:
            self._is_closed = True
            self._close_unless_read()

    def read_into(self, out: Array, offset: int, name: str) -> None:
        """Fill a C-contiguous array with the bytes from an offset after the header, in bytes.

        `name` is the array's name for checksums and errors. A large array is read by several threads: the operating
        system maps new memory page by page when it is first written, which may take longer than the disk.
        """
        view = out.reshape(-1).view(np.uint8).data
        begins = range(0, len(view), READ)  # a checksum covers READ bytes, so a piece has a single checksum
        checksums: list[int | None] = list(self.checksums.get(name, [None] * len(begins)))
        if len(checksums) != len(begins):
            raise _damaged_file_error(
                self.path, "its checksums are not those of its arrays", len(begins), len(checksums), name
            )
        pieces = [
            (view[at : at + READ], self._data + offset + at, wanted)
            for at, wanted in zip(begins, checksums, strict=True)
        ]
        if len(view) < LARGE:
            for piece in pieces:
                self._read_piece(name, piece)
            return
        with ThreadPoolExecutor(READERS, "tagloom-reader") as readers:
            list(readers.map(partial(self._read_piece, name), pieces))  # raises what a thread has raised

    def _read_piece(self, name: str, piece: tuple[memoryview, int, int | None]) -> None:
        """Fill a piece, given as (destination, offset in the file, checksum or None), and verify a known checksum."""
        destination, at, wanted = piece
        remaining = destination
        # A read may return fewer bytes than asked for.
        while remaining:
            with self._open_file(name) as file:
                try:
                    count = _read_at(file, remaining, at)
                except OSError as error:
                    raise _unreadable_file_error(self.path, error, name) from error
            if not count:
                raise _damaged_file_error(self.path, "the file has become shorter while it was read", variable=name)
            remaining, at = remaining[count:], at + count
        if wanted is not None and (got := crc32c(destination)) != wanted:
            raise _damaged_file_error(
                self.path, "an array has another checksum than when it was saved", wanted, got, name
            )

    @contextmanager
    def _open_file(self, name: str) -> Iterator[int]:
        """Keep the file open until the end of the block; CheckpointError if closed before."""
        with self._lock:
            if self._is_closed or self._file is None:
                raise CheckpointError(
                    "a file was closed before its arrays were read",
                    file=self.path,
                    variable=name,
                    hint="copy them before, or open it again",
                )
            self._readers += 1
        try:
            yield self._file
        finally:
            with self._lock:
                self._readers -= 1
                self._close_unless_read()

    def _close_unless_read(self) -> None:
        # Called with the lock held: the last of the readers, or `close`, gets here with both conditions true.
        if self._is_closed and not self._readers and self._file is not None:
            os.close(self._file)
            self._file = None

    def _read_header(self, file: int) -> tuple[int, dict[str, Any]]:
        """Return the offset of the data, and the entries of the header."""
        try:
            head = os.pread(file, LENGTH, 0)
            length = int.from_bytes(head, "little")
            most = min(self.size - LENGTH, LONGEST_HEADER)
            if len(head) < LENGTH or length > most:
                raise _damaged_file_error(
                    self.path, "its header is longer than it", f"at most {max(most, 0)} bytes", length
                )
            text = os.pread(file, length, LENGTH)
        except OSError as error:
            raise _unreadable_file_error(self.path, error) from error
        return LENGTH + length, parse_object(text, self.path)

    def _stored_arrays(self, entries: dict[str, Any]) -> dict[str, StoredTensor]:
        """Return the arrays of a header; DamagedFile unless they fill the rest of the file without gaps or overlaps."""
        arrays = {name: _Entry(self, name, entry) for name, entry in entries.items()}
        end = 0
        # An empty array begins at the same offset as the next one, and the order by end puts the empty one first.
        for entry in sorted(arrays.values(), key=lambda entry: (entry.begin, entry.end)):
            if entry.begin != end:
                raise _damaged_file_error(
                    self.path, "its arrays do not follow each other", f"offset {end}", entry.begin, entry.name
                )
            end = entry.end
        if self._data + end != self.size:
            wanted = f"{self._data + end} bytes"
            raise _damaged_file_error(self.path, "it is longer or shorter than it says", wanted, f"{self.size} bytes")
        return self._restore_dtypes(arrays)

    def _parse_original_dtypes(self) -> dict[str, Any]:
        """Return the names of original dtypes, by array, from the metadata; none if another program wrote the key."""
        try:
            dtypes = parse_object(self.metadata.get(DTYPES, "{}").encode(), self.path)
        except DamagedFile:
            return {}
        return dtypes if all(dtype in RESTORED for dtype in dtypes.values()) else {}

    def _restore_dtypes(self, entries: dict[str, _Entry]) -> dict[str, StoredTensor]:
        """Return the arrays in their original dtypes; an entry with the lengths of strings is part of their array."""
        dtypes = self._parse_original_dtypes()
        lengths = {name + LENGTHS for name, dtype in dtypes.items() if dtype == string.name}
        if not dtypes.keys() <= entries.keys() or not lengths <= entries.keys():
            raise _damaged_file_error(self.path, "its metadata name arrays that are not there", got=list(dtypes)[:3])
        tensors = {}
        for name, entry in entries.items():
            if name not in lengths:
                tensors[name] = _make_stored(entry, dtypes.get(name), entries.get(name + LENGTHS))
        return tensors


def _read_at(file: int, into: memoryview, offset: int) -> int:
    """Read bytes at an offset of a file; return their number."""
    if hasattr(os, "preadv"):
        return os.preadv(file, [into], offset)
    data = os.pread(file, len(into), offset)  # macOS
    into[: len(data)] = data
    return len(data)


class _Entry:
    """An array described by a header.

    Attributes
    ----------
    file : TensorFile
    name : str
    dtype : numpy.dtype or None
        None if the format's dtype is unsupported.
    stored_as : str
        The format's name for the dtype.
    shape : tuple of int
    begin, end : int
        Offsets of its bytes in the file's data.
    """

    __slots__ = ("begin", "dtype", "end", "file", "name", "shape", "stored_as")

    def __init__(self, file: TensorFile, name: str, entry: object) -> None:
        self.file, self.name = file, name
        fields = entry if isinstance(entry, dict) else {}
        dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
        if not isinstance(dtype, str):
            raise self._damaged_entry_error("has no dtype", ", ".join(NAMES), dtype)
        if not _are_sizes(shape) or len(shape) > MOST_DIMS:
            raise self._damaged_entry_error("has no shape", "a list of sizes", shape)
        if not _are_sizes(offsets) or len(offsets) != 2:
            raise self._damaged_entry_error("has no place", "two offsets", offsets)
        self.dtype: np.dtype[Any] | None = NAMES.get(dtype, SMALL_FLOATS.get(dtype))
        self.stored_as: str = dtype
        self.shape: tuple[int, ...] = tuple(shape)
        self.begin, self.end = offsets
        self._check_size()

    def _check_size(self) -> None:
        """Check the offsets: inside the file, in order, and as far apart as the shape and a known dtype require."""
        # The length of an array of an unknown dtype is taken as it is, and negative if its offsets are reversed.
        wanted = self.end - self.begin if self.dtype is None else prod(self.shape) * self.dtype.itemsize
        if self.end - self.begin != wanted or wanted < 0 or self.end > self.file.size:
            got = f"offsets {self.begin} to {self.end} in a file of {self.file.size} bytes"
            raise self._damaged_entry_error("does not have the size of its shape", f"{wanted} bytes", got)

    def _damaged_entry_error(self, what: str, wanted: object, got: object) -> DamagedFile:
        return _damaged_file_error(self.file.path, f"an array {what}", wanted, got, self.name)

    def read(self, out: Array) -> Array:
        """Fill and return an array with as many bytes as the entry, of its dtype or of an original dtype."""
        self.file.read_into(out, self.begin, self.name)
        return out


class StoredTensor(UnreadArray):
    """An array in a file.

    Attributes
    ----------
    name : str
    """

    def __init__(self, entry: _Entry, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._entry = entry
        self.name: str = entry.name
        self.dtype: np.dtype[Any] = dtype
        self.shape: tuple[int, ...] = shape

    @property
    def path(self) -> str:
        """Path of the file of the array."""
        return self._entry.file.path

    def copy(self) -> Array:
        """Read the values into a new array; CheckpointError if reading fails."""
        out = np.empty(self.shape, self.dtype)
        self._entry.read(out)
        return out

    @property
    def dtype_name(self) -> str:
        """The engine's name of the dtype, or the format's if the engine has none."""
        try:
            return as_dtype(self.dtype).name
        except DtypeError:
            return self._entry.stored_as

    def __repr__(self) -> str:
        return f"<{self.name} {self.dtype_name}{list(self.shape)}>"


class _UnknownTensor(StoredTensor):
    """An array of an unsupported dtype, which cannot be copied."""

    def __init__(self, entry: _Entry) -> None:
        super().__init__(entry, np.dtype(np.void), entry.shape)

    @property
    def dtype_name(self) -> str:
        return self._entry.stored_as

    def copy(self) -> Array:
        raise CheckpointError(
            "an array of a file is of a dtype that is not read",
            file=self.path,
            variable=self.name,
            wanted=", ".join([*NAMES, *SMALL_FLOATS]),
            got=self.dtype_name,
            hint="leave it out, or convert it where it was written; other arrays of the file can be read",
        )


class _StoredStrings(StoredTensor):
    """Strings: the UTF-8 bytes of all in one array of shape (n,), their lengths in one of the strings' shape, int64."""

    def __init__(self, entry: _Entry, lengths: _Entry) -> None:
        assert string.numpy is not None
        super().__init__(entry, string.numpy, lengths.shape)
        self._lengths = lengths

    def copy(self) -> Array:
        lengths = self._lengths.read(np.empty(self.shape, np.int64)).ravel()
        data = self._entry.read(np.empty(self._entry.shape, np.uint8)).tobytes()
        # Each length apart, since the sum alone may wrap around.
        if (lengths < 0).any() or (lengths > len(data)).any() or int(lengths.sum()) != len(data):
            raise _damaged_file_error(self.path, "strings do not have the lengths that it says", variable=self.name)
        ends = np.cumsum(lengths)
        try:
            texts = [data[end - length : end].decode() for end, length in zip(ends, lengths)]
        except UnicodeDecodeError as error:
            raise _damaged_file_error(self.path, f"a string is no text: {error}", variable=self.name) from error
        return np.array(texts, self.dtype).reshape(self.shape)


def _make_stored(entry: _Entry, dtype: object, lengths: _Entry | None) -> StoredTensor:
    """Return the array of an entry, in its original dtype."""
    if dtype is None:
        return _UnknownTensor(entry) if entry.dtype is None else StoredTensor(entry, entry.dtype, entry.shape)
    if dtype == string.name and lengths is not None and lengths.dtype == np.int64 and entry.dtype == np.uint8:
        return _StoredStrings(entry, lengths)
    # Complex numbers are stored as real numbers, with the real and the imaginary part along an additional last axis.
    if dtype in PAIRS and entry.dtype == PAIRS[str(dtype)] and entry.shape[-1:] == (2,):
        return StoredTensor(entry, np.dtype(str(dtype)), entry.shape[:-1])
    raise _damaged_file_error(entry.file.path, "an array is not stored as its dtype is", got=dtype, variable=entry.name)


def parse_object(text: bytes, path: str) -> dict[str, Any]:
    """Return the entries of a JSON object without duplicate keys.

    Raises
    ------
    CheckpointError
        If the text is no such object, or is constructed to exhaust the parser.
    """
    try:
        entries = json.loads(text.decode("utf-8"), object_pairs_hook=_refuse_repeated_keys)
    except (ValueError, RecursionError, MemoryError) as error:
        raise _damaged_file_error(path, f"its JSON text cannot be read: {error}") from error
    if not isinstance(entries, dict):
        raise _damaged_file_error(path, "its text is no JSON object", got=type(entries).__name__)
    return entries


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key stands there twice")
    return entries


def _checked_metadata(path: str, metadata: object) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged_file_error(path, "its metadata are no strings", got=type(metadata).__name__)
    return metadata


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    """Return True for a list of integers from 0 that NumPy and the operating system can take as sizes and offsets."""
    # `type` and not isinstance, since JSON's true would count as 1.
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 62 for size in value)


def open_regular(path: str, directory: int | None) -> int:
    """Open a regular file for reading, inside an open directory without following links; a pipe does not block.

    Raises
    ------
    DamagedFile
        If the directory has no such file, or the path is no regular file.
    CheckpointError
        If the file cannot be read.
    """
    # O_NONBLOCK, because opening a pipe would wait for its writer; regular files ignore the flag.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        if directory is None:
            file = os.open(path, flags)
        else:
            file = os.open(os.path.basename(path), flags | os.O_NOFOLLOW, dir_fd=directory)
    except (OSError, ValueError) as error:
        if directory is not None and getattr(error, "errno", None) in (errno.ENOENT, errno.ELOOP):
            raise _damaged_file_error(path, "it is not there") from error
        raise _unreadable_file_error(path, error) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _damaged_file_error(path, "it is no file")
    return file


def _unreadable_file_error(path: str, error: Exception, variable: str | None = None) -> CheckpointError:
    reason = getattr(error, "strerror", None) or str(error)
    return CheckpointError(
        f"a file cannot be read: {reason}", file=path, variable=variable, hint="look for the file and its permissions"
    )


class DamagedFile(CheckpointError):
    """A truncated or overwritten file, or a file of another format."""


def _damaged_file_error(
    path: str, why: str, wanted: object = None, got: object = None, variable: str | None = None
) -> DamagedFile:
    """Return the error for a damaged file, with long values shortened."""
    return DamagedFile(
        f"a file is damaged, or no checkpoint: {why}",
        file=path,
        variable=variable,
        wanted=wanted,
        got=None if got is None else _shorten_value(got),
        hint="restore another checkpoint",
    )


def _shorten_value(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
