"""Element types of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .errors import DtypeError

float_info: Callable[[Any], Any] = ml_dtypes.finfo  # of bfloat16 too; without types in its library


class DType:
    """An element type.

    Values of `resource` tensors are handles (variables, arrays, stacks); a `series` holds one saved value
    per loop iteration. Neither has NumPy elements, and neither can be fed or fetched.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.complex64.real, tg.bfloat16.is_floating
    (tagloom.float32, True)
    >>> tg.float32 == "float32", tg.float32 == np.float32
    (True, True)
    """

    __slots__ = ("name", "numpy")

    def __init__(self, name: str, numpy: np.dtype[Any] | None) -> None:
        self.name: str = name
        self.numpy: np.dtype[Any] | None = numpy

    @property
    def is_floating(self) -> bool:
        """True for a real floating-point type."""
        return self.name in _FLOATING

    @property
    def is_complex(self) -> bool:
        """True for a complex type."""
        return self.name.startswith("complex")

    @property
    def is_integer(self) -> bool:
        """True for a signed or unsigned integer type."""
        return self.name.startswith(("int", "uint"))

    @property
    def is_differentiable(self) -> bool:
        """True if gradients flow through values of this type."""
        return self.is_floating or self.is_complex

    @property
    def is_numeric(self) -> bool:
        """True if arithmetic is defined on the type."""
        return self.is_differentiable or self.is_integer

    @property
    def is_value(self) -> bool:
        """True if tensors of the type hold NumPy elements."""
        return self.numpy is not None

    @property
    def as_numpy_dtype(self) -> Any:
        """NumPy's scalar type of the elements, under TensorFlow's name; `numpy` is the dtype."""
        return None if self.numpy is None else self.numpy.type

    @property
    def min(self) -> int | float:
        """Smallest finite value."""
        return self._finite_limit("min")

    @property
    def max(self) -> int | float:
        """Largest finite value."""
        return self._finite_limit("max")

    def _finite_limit(self, which: str) -> int | float:
        if self.is_integer:
            return int(getattr(np.iinfo(self.numpy), which))
        if self.is_floating:
            return float(getattr(float_info(self.numpy), which))
        raise DtypeError(
            "only integers and floats have limits", wanted="such a dtype", got=self, hint="see its real part"
        )

    @property
    def real(self) -> DType:
        """The type of the real part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, (str, np.dtype, type)):
            try:
                return as_dtype(other) is self
            except DtypeError:
                return False
        return False

    def __hash__(self) -> int:
        # The hash of the name, to which a dtype is equal: either finds the other in a dict.
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tagloom.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


_FLOATING = ("float16", "float32", "float64", "bfloat16")

bool_: DType = DType("bool", np.dtype(np.bool_))
int8: DType = DType("int8", np.dtype(np.int8))
int16: DType = DType("int16", np.dtype(np.int16))
int32: DType = DType("int32", np.dtype(np.int32))
int64: DType = DType("int64", np.dtype(np.int64))
uint8: DType = DType("uint8", np.dtype(np.uint8))
uint16: DType = DType("uint16", np.dtype(np.uint16))
uint32: DType = DType("uint32", np.dtype(np.uint32))
uint64: DType = DType("uint64", np.dtype(np.uint64))
float16: DType = DType("float16", np.dtype(np.float16))
float32: DType = DType("float32", np.dtype(np.float32))
float64: DType = DType("float64", np.dtype(np.float64))
bfloat16: DType = DType("bfloat16", np.dtype(ml_dtypes.bfloat16))
complex64: DType = DType("complex64", np.dtype(np.complex64))
complex128: DType = DType("complex128", np.dtype(np.complex128))
string: DType = DType("string", np.dtypes.StringDType())
resource: DType = DType("resource", None)
series: DType = DType("series", None)

ALL = (
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    float32,
    float64,
    bfloat16,
    complex64,
    complex128,
    string,
    resource,
    series,
)
INTEGER = tuple(d for d in ALL if d.is_integer)
FLOATING = tuple(d for d in ALL if d.is_floating)
DIFFERENTIABLE = tuple(d for d in ALL if d.is_differentiable)
REAL = FLOATING + INTEGER
NUMERIC = DIFFERENTIABLE + INTEGER
INDEX = (int32, int64)
VALUES = tuple(d for d in ALL if d.is_value)
# Dtypes that array libraries other than NumPy have, such as CuPy.
PORTABLE = tuple(d for d in VALUES if d.name not in ("string", "bfloat16"))

_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL if d.numpy is not None}


def accumulator_dtype(dtype: DType) -> DType:
    """Return the dtype for accumulating and updating values of a floating dtype: at least float32."""
    return float32 if dtype in (float16, bfloat16) else dtype


def as_dtype(value: Any) -> DType:
    """Return the DType named by `value`: a DType, its name, a NumPy dtype or scalar type, or bool/int/float.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.as_dtype("int64"), tg.as_dtype(np.float16), tg.as_dtype(float)
    (tagloom.int64, tagloom.float16, tagloom.float32)
    """
    if isinstance(value, DType):
        return value
    # Python's types have the dtypes of literals, not NumPy's of 64 bits.
    if value is int:
        return int32
    if value is float:
        return float32
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        numpy = np.dtype(value)
    except (TypeError, ValueError):
        raise DtypeError("not a dtype", got=repr(value), hint=f"use one of {', '.join(_BY_NAME)}") from None
    if numpy.kind in "UST":
        return string
    # Another byte order is the same dtype: arrays are converted when they are copied.
    found = _BY_NUMPY.get(numpy.newbyteorder("=") if numpy.kind in "iufc" else numpy)
    if found is None:
        raise DtypeError("this NumPy dtype has no tagloom counterpart", got=numpy, hint="cast the array first")
    return found
