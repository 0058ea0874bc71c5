"""Arrays in files of the safetensors format: eight bytes of length, a header in JSON, then the arrays' bytes.

Files are written from the arrays' own memory, without a copy, and read directly into the memory of a copy. Headers are
not trusted: each name, dtype, shape and offset is checked against the size of the file before a byte is read, and no
content of a file is ever executed. The format has neither complex128 nor strings, so the metadata describe their
storage: complex numbers as pairs; strings as UTF-8 bytes, with a second array of lengths. An array of an unsupported
dtype is refused when it is copied; the other arrays of its file remain readable.
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
