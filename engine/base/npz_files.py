"""NumPy's .npz files, possibly damaged: headers of their arrays, and the exceptions of reading."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np

# Exceptions that `zipfile`, its decompressors and NumPy's header parser raise for files of another format: a member
# with a password is a RuntimeError, a header that is no literal a TokenError, SyntaxError or TypeError.
UNREADABLE: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    RuntimeError,
    SyntaxError,
    MemoryError,
    OverflowError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,  # differs in the encoding of field names, which tensors do not have
}


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of the array in a member of an archive, with the file positioned at its data.

    Raises
    ------
    Exception
        An exception of `UNREADABLE`, if the member is no array, or of a format version unknown to NumPy.
    """
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array is of version {version} of the format, which is not known")
    shape, _, dtype = _HEADERS[version](file)
    return shape, dtype
