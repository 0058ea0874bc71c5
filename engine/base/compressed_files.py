"""Files compressed as a whole, by gzip or zlib, and plain files."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, BinaryIO, cast

from .errors import GraphError

COMPRESSIONS = ("auto", "gzip", "zlib", "")
_PIECE = 1 << 16  # bytes read at once


def check_compression(compression: object) -> str:
    """Return a compression in lower case, where TensorFlow writes "GZIP"; None stands for no compression.

    Raises
    ------
    GraphError
        If there is no such compression.
    """
    word = "" if compression is None else compression
    found = word.lower() if isinstance(word, str) else word
    if not isinstance(found, str) or found not in COMPRESSIONS:
        raise GraphError(
            "files of this compression are neither read nor written",
            wanted="'auto', 'gzip', 'zlib' or ''",
            got=repr(compression),
            hint="use 'gzip', which other programs read too",
        )
    return found


def _choose_compression(path: str, compression: str) -> str:
    if compression != "auto":
        return compression
    return "gzip" if path.endswith(".gz") else ""


def open_for_reading(path: str, compression: str = "auto") -> BinaryIO:
    """Open a file for reading its decompressed content.

    Parameters
    ----------
    path : str
    compression : {'auto', 'gzip', 'zlib', ''}
        'auto' is gzip if the path ends with .gz, else none.
    """
    kind = _choose_compression(path, compression)
    if kind == "gzip":
        return cast(BinaryIO, gzip.open(path))
    file = open(path, "rb")  # noqa: SIM115
    # `_ZlibReader` is a raw file, which has no readline and may return fewer bytes than asked for.
    return io.BufferedReader(_ZlibReader(file), _PIECE) if kind == "zlib" else file


def open_for_writing(path: str, compression: str = "auto") -> BinaryIO:
    """Open a file for writing content to be compressed, replacing an existing file.

    Parameters
    ----------
    path : str
    compression : {'auto', 'gzip', 'zlib', ''}
        As for `open_for_reading`.
    """
    kind = _choose_compression(path, compression)
    if kind == "gzip":
        return cast(BinaryIO, gzip.open(path, "wb"))
    file = open(path, "wb")  # noqa: SIM115
    return io.BufferedWriter(_ZlibWriter(file), _PIECE) if kind == "zlib" else file


class _ZlibReader(io.RawIOBase):
    """The content of consecutive zlib streams. Seeking backward reads the file from its beginning again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._restart_stream()

    def _restart_stream(self) -> None:
        self._file.seek(0)
        self._stream: Any = None
        self._at = 0  # bytes of the content delivered so far

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        view = memoryview(into).cast("B")
        data = self._read_content(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read_content(self, most: int) -> bytes:
        """Return the next bytes of the content, none at its end; EOFError where the file ends within a stream."""
        while most:
            # The unused data of one stream begins the next; an unconsumed tail is input that did not fit.
            if self._stream is None or self._stream.eof:
                piece = (self._stream and self._stream.unused_data) or self._file.read(_PIECE)
                if not piece:
                    return b""
                self._stream = zlib.decompressobj()
            else:
                piece = self._stream.unconsumed_tail or self._file.read(_PIECE)
            data: bytes = self._stream.decompress(piece, most)
            if data:
                return data
            if not piece and not self._stream.eof:
                raise EOFError("the file ends before its zlib stream does")
        return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self._at
        elif whence == io.SEEK_END:
            while self.read(_PIECE):
                pass
            offset += self._at
        # zlib has no index: forward is by decompressing, backward from the beginning again.
        if offset < self._at:
            self._restart_stream()
        while self._at < offset and self.read(min(_PIECE, offset - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()


class _ZlibWriter(io.RawIOBase):
    """Writes one zlib stream, which ends when the file is closed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._stream: Any = zlib.compressobj()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(self._stream.compress(data))
        return memoryview(data).nbytes

    def flush(self) -> None:
        if self._stream is not None:
            self._file.write(self._stream.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                self._file.write(stream.flush())
            finally:
                self._file.close()
        super().close()
