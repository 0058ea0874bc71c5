"""Checksums of bytes: CRC-32C (Castagnoli, RFC 3720), by the processor's own instructions where it has some."""

from __future__ import annotations

import google_crc32c
import numpy as np

_PIECE = 1 << 20  # bytes; other threads of Python wait while a piece is added up


def crc32c(data: bytes | bytearray | memoryview, start: int = 0) -> int:
    """Return the CRC-32C of some bytes, or, with that of what is in front of them as `start`, of both.

    Parameters
    ----------
    data : bytes-like
    start : int

    Returns
    -------
    int
        32 bits.

    Examples
    --------
    >>> from tagloom.base.checksums import crc32c
    >>> hex(crc32c(b"123456789")), crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    ('0xe3069283', True)
    """
    if type(data) is bytes and len(data) <= _PIECE:
        return int(google_crc32c.extend(start, data))
    # The library refuses memory that may be released, as that of a memoryview, but takes that of an array.
    view = np.frombuffer(data, np.uint8)
    for begin in range(0, len(view), _PIECE):
        start = google_crc32c.extend(start, view[begin : begin + _PIECE])
    return start
