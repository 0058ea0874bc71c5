"""Arrays in files of the safetensors format: eight bytes of length, a header in JSON, then the arrays' bytes.

Files are written from the arrays' own memory, without a copy, and read into the memory that a copy is wanted in. What a
header says is not believed: each name, dtype, shape and offset is held against the size of the file before a byte is
read, and nothing in a file is ever executed. The format knows neither complex128 nor strings: the metadata then say how
these are stored: complex numbers as pairs, strings as their UTF-8 bytes and, beside them, lengths. An array of a dtype
that is not read is refused when it is copied; the others of its file are not.
"""

from .layout import SMALL_FLOATS
from .reading import DamagedFile, StoredTensor, TensorFile, open_regular, parse_object
from .writing import save_file, sync_directory, sync_file, write_tensors

__all__ = [
    "SMALL_FLOATS",
    "DamagedFile",
    "StoredTensor",
    "TensorFile",
    "open_regular",
    "parse_object",
    "save_file",
    "sync_directory",
    "sync_file",
    "write_tensors",
]
