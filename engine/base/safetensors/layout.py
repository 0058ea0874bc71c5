"""Layout of a file of the safetensors format."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..dtypes import bfloat16, string

# The format's names of the engine's dtypes, all little-endian.
NAMES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "BF16": bfloat16.numpy,
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
BY_DTYPE = {dtype: name for name, dtype in NAMES.items()}
# Dtypes of the format that the engine lacks and ml_dtypes provides: arrays of them are read, and cast.
SMALL_FLOATS = {
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
# Complex numbers as pairs of parts: complex128, which the format lacks; complex64 in our files from before it had C64.
PAIRS = {"complex64": np.dtype("<f4"), "complex128": np.dtype("<f8")}

LENGTH = 8  # bytes before the header, which hold its length
LONGEST_HEADER = 100_000_000  # bytes, as in the format's own library
MOST_DIMS = 64  # NumPy's
READ = 1 << 22  # bytes that a thread reads at once, and a checksum covers
READERS = 2  # threads that read an array, where it is large
LARGE = 2 * READ
METADATA = "__metadata__"
RESTORED = (string.name, *PAIRS)  # dtypes stored as other dtypes
DTYPES = "dtypes"  # key of the metadata: JSON of the original dtypes of arrays stored as others
LENGTHS = ":lengths"  # suffix of a name: the lengths of its strings
