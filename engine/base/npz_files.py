"""NumPy's .npz files, damaged ones too: headers of their arrays, and what reading raises."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np

# What `zipfile`, its decompressors and NumPy's parser of headers raise where a file is not what it should be: a member
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
    (3, 0): np.lib.format.read_array_header_2_0,  # another encoding of names of fields, which no tensor has
}


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and dtype of the array that a member of an archive holds, and stop in front of its data.

    Raises
    ------
    Exception
        One of `UNREADABLE` if it is no array, or of a version of the format that NumPy does not have.
    """
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array is of version {version} of the format, which is not known")
    shape, _, dtype = _HEADERS[version](file)
    return shape, dtype
