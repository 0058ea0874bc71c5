"""Checksums of bytes: CRC-32C (Castagnoli, RFC 3720), by processor instructions where available."""

from __future__ import annotations

import google_crc32c
import numpy as np

_PIECE = 1 << 20  # bytes per call; the library holds the interpreter lock, so other threads wait meanwhile


def crc32c(data: bytes | bytearray | memoryview, start: int = 0) -> int:
    """Return the CRC-32C of some bytes, or, with the checksum of the bytes before them as `start`, of both.

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
    # The library refuses memory that may be released, such as that of a memoryview, but accepts that of an array.
    view = np.frombuffer(data, np.uint8)
    for begin in range(0, len(view), _PIECE):
        start = google_crc32c.extend(start, view[begin : begin + _PIECE])
    return start
