"""Writing arrays to a file, directly from their memory."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..array_like import Array
from ..checksums import crc32c
from ..dtypes import as_dtype, string
from ..errors import CheckpointError
from .layout import BY_DTYPE, DTYPES, LENGTH, LENGTHS, METADATA, NAMES, PAIRS, READ
from .streams import stream_to

Check = Callable[[], None]


def _go_on() -> None:
    """Do nothing: the default check, which never stops a writer."""


def write_tensors(
    file: int,
    path: str,
    tensors: Iterable[tuple[str, Any]],
    metadata: Mapping[str, str] = {},
    check: Check = _go_on,
    checksums: dict[str, list[int]] | None = None,
) -> int:
    """Write arrays to an open, empty file.

    Parameters
    ----------
    file : int
        Descriptor.
    path : str
        Name of the file in errors.
    tensors : iterable of (str, array)
        Names and arrays. Each array is released when the operating system has its bytes.
    metadata : mapping of str to str, optional
        Texts for the metadata entry of the header.
    check : callable, optional
        Called between pieces of 4 MiB; an exception ends the writing.
    checksums : dict of str to list of int, optional
        Receives the CRC-32C of each piece of 4 MiB of each array, by name in the file.

    Returns
    -------
    int
        The size of the file.

    Raises
    ------
    CheckpointError
        If an array's dtype cannot be stored, or two arrays have the same name.
    OSError
        If the file cannot be written.
    """
    stored, dtypes = _as_stored(path, tensors)
    header = _format_header(stored, {**metadata, **({DTYPES: json.dumps(dtypes)} if dtypes else {})})
    size = LENGTH + len(header) + sum(array.nbytes for _, array in stored)
    stream = stream_to(file, size, check)
    stream.write(memoryview(len(header).to_bytes(LENGTH, "little") + header))
    # Taken from the end, so that the list drops an array as soon as it is written.
    stored.reverse()
    while stored:
        name, array = stored.pop()
        data = _bytes_of(array)
        del array  # `data` alone keeps it alive, until its bytes are written
        if checksums is None:
            stream.write(data)
            continue
        checksums[name] = []
        for begin in range(0, len(data), READ):  # a piece is in the processor's cache when it is written
            checksums[name].append(crc32c(data[begin : begin + READ]))
            stream.write(data[begin : begin + READ])
    stream.finish()
    return size


def _as_stored(path: str, tensors: Iterable[tuple[str, Any]]) -> tuple[list[tuple[str, Array]], dict[str, str]]:
    """Return named arrays of dtypes of the format, in the file's order, and original dtypes of converted arrays."""
    stored: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    for name, value in tensors:
        array = np.asarray(value)
        parts = _arrays_for(path, name, array)
        if len(parts) > 1 or array.dtype == np.complex128:
            dtypes[name] = as_dtype(array.dtype).name
        for key, part in parts.items():
            if key in stored or key == METADATA:
                raise CheckpointError("two arrays of a file have one name", file=path, variable=key, hint="rename one")
            stored[key] = part
    # Large elements first, so that each array is aligned without padding.
    return sorted(stored.items(), key=lambda item: -item[1].dtype.itemsize), dtypes


def _arrays_for(path: str, name: str, array: Array) -> dict[str, Array]:
    """Return the arrays that represent an array in a file, by name: two for strings, one for other dtypes."""
    if array.dtype.kind in "TU":
        return _string_parts(path, name, array)
    little = array.dtype.newbyteorder("<") if array.dtype.kind in "iufc" else array.dtype
    array = array.astype(little, order="C", copy=False)
    if array.dtype == np.complex128:
        # The format lacks complex128: an additional last axis has the real and the imaginary part.
        return {name: array.reshape(*array.shape, 1).view(PAIRS["complex128"])}
    if array.dtype not in BY_DTYPE:
        raise _unsupported_dtype_error(path, name, array.dtype)
    return {name: array}


def _string_parts(path: str, name: str, array: Array) -> dict[str, Array]:
    """Return the UTF-8 bytes of all strings, in order, and an array of their lengths in bytes."""
    try:
        texts = [each.encode() for each in array.astype(string.numpy).ravel().tolist()]
    except (TypeError, ValueError) as error:
        raise _unsupported_dtype_error(path, name, array.dtype) from error
    lengths = np.array([len(text) for text in texts], np.int64).reshape(array.shape)
    return {name: np.frombuffer(b"".join(texts), np.uint8), name + LENGTHS: lengths}


def _unsupported_dtype_error(path: str, name: str, dtype: object) -> CheckpointError:
    known = ", ".join([*NAMES, "complex128", "string"])
    return CheckpointError(
        "arrays of this dtype cannot be saved", file=path, variable=name, wanted=known, got=dtype, hint="cast it"
    )


def _format_header(tensors: list[tuple[str, Array]], metadata: Mapping[str, str]) -> bytes:
    """Return the header as JSON, padded with spaces to a multiple of eight bytes."""
    entries: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    begin = 0
    for name, array in tensors:
        end = begin + array.nbytes
        dtype = BY_DTYPE[array.dtype]
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % LENGTH)  # so that the arrays begin where their elements are aligned


def _bytes_of(array: Array) -> memoryview:
    """Return the bytes of an array as a flat view of its memory; an array in another order is copied."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def save_file(path: str, tensors: Iterable[tuple[str, Any]], check: Check = _go_on) -> None:
    """Write a file, which appears on disk complete or not at all, replacing an existing file.

    Parameters
    ----------
    path : str
    tensors : iterable of (str, array)
    check : callable, optional
        Called between pieces of 4 MiB and before the file appears; an exception ends the writing.

    Raises
    ------
    CheckpointError
        If an array cannot be stored.
    OSError
        If the file cannot be written. The partial file is removed then.
    """
    # A hidden file in the same directory, since a rename is atomic only within a file system.
    directory, name = os.path.split(os.path.abspath(path))
    partial = os.path.join(directory, f".{name}-{secrets.token_hex(8)}")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            write_tensors(file, path, tensors, check=check)
            sync_file(file)
        finally:
            os.close(file)
        check()
        # Atomic, and only after the bytes are on the disk; the new name is synced below.
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    sync_directory(directory)


def sync_file(file: int) -> None:
    """Wait until the bytes written to a file are on the disk."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # of macOS, whose fsync does not wait for the disk's own memory
    if full is not None:
        fcntl.fcntl(file, full)
    else:
        os.fsync(file)


def sync_directory(directory: str) -> None:
    """Wait until the names of a directory are on the disk."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
