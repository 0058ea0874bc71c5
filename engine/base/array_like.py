"""Conversion to arrays: literals, NumPy's scalars and arrays, arrays of other libraries; no silent promotion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any

import numpy as np

from .dtypes import DType, as_dtype, bool_, complex64, float32, int32, string
from .errors import DtypeError

Array = np.ndarray[Any, Any]


class UnreadArray(ABC):
    """An array stored outside of memory, such as in a file, until somebody copies it into memory of their own.

    Values restored by a session may be such arrays, and go from a file to the variables' memory directly.

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple of int
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Number of bytes of a copy."""
        return prod(self.shape) * self.dtype.itemsize

    @abstractmethod
    def copy(self) -> Array:
        """Read the values into a new array, in any thread."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Read the values, when NumPy needs an array."""
        return self.copy().astype(self.dtype if dtype is None else dtype, copy=False)


def as_array(value: object, dtype: DType | None = None) -> Array:
    """Convert a literal or array-like to an array by the literal rules.

    Python ints become int32, floats float32, bools bool, strings string; NumPy's scalars and arrays keep their dtype.
    With `dtype`, Python literals and NumPy's scalars convert to this dtype when the kind fits (an int fits any number,
    a float any floating or complex type) and the value is in range; arrays must have the dtype already.
    """
    kinds = _literal_kinds(value, dtype)
    if kinds is not None:
        return _of_literal(value, kinds, dtype)
    array = _as_numpy(value)
    found = as_dtype(array.dtype)
    if dtype is not None and dtype is not found:
        raise DtypeError("this array has another dtype", wanted=dtype, got=found, hint="cast it with cast or astype")
    return array.astype(found.numpy, copy=False)


def as_fed_array(value: object, dtype: DType) -> Array:
    """Convert as `as_array` does; an array too takes `dtype` when its kind fits and its values are in range."""
    kinds = _literal_kinds(value, dtype)
    if kinds is not None:
        return _of_literal(value, kinds, dtype)
    array = _as_numpy(value)
    found = as_dtype(array.dtype)
    if found is dtype:
        return array if array.dtype == dtype.numpy else array.astype(dtype.numpy)
    if not _fits_dtype(_kind_of_dtype(found), dtype):
        raise DtypeError("this array is of another kind", wanted=dtype, got=found, hint=_CONVERT.format(dtype))
    # A cast that NumPy calls safe needs no look at the values.
    if dtype.is_integer and array.size and not np.can_cast(array.dtype, dtype.numpy):  # type: ignore[arg-type]
        _require_range(array, dtype)
    try:
        # A finite value must not become infinite on the way to a narrower float.
        with np.errstate(over="raise"):
            return array.astype(dtype.numpy)
    except FloatingPointError as error:
        largest = f"{np.abs(array).max()} in an array of {found}"
        raise DtypeError("a value is too large", wanted=dtype, got=largest, hint="scale or clip the values") from error


def as_asked_array(value: object, dtype: DType) -> Array:
    """Convert to a dtype requested by name: as `as_fed_array`, and also wherever no value changes.

    Booleans become numbers, and whole numbers of a floating dtype integers.
    """
    if _literal_kinds(value, dtype) is None:
        array = _as_numpy(value)
        if array.dtype.kind == "b" and dtype.is_numeric:
            return array.astype(dtype.numpy)
        if as_dtype(array.dtype).is_floating and dtype.is_integer:
            return as_fed_array(_read_whole_numbers(array, dtype), dtype)
    return as_fed_array(value, dtype)


def _read_whole_numbers(array: Array, dtype: DType) -> Array:
    """Return whole numbers of a floating dtype as int64; DtypeError for fractions, infinities and larger numbers."""
    # float64 represents every value of the narrower floating dtypes, so the comparison with floor is exact.
    wide = array.astype(np.float64)
    if not (np.isfinite(wide) & (np.floor(wide) == wide) & (np.abs(wide) < 2.0**63)).all():
        raise DtypeError(
            "values that are no whole numbers do not fit an integer dtype",
            wanted=dtype,
            got=f"an array of {array.dtype}",
            hint=f"round it, then numpy.asarray(value, '{dtype}')",
        )
    return wide.astype(np.int64)


_CONVERT = "convert it with numpy.asarray(value, '{}')"


def _require_range(array: Array, dtype: DType) -> None:
    """Refuse an array with a value outside the range of an integer dtype."""
    limits = np.iinfo(dtype.numpy)
    for value in (int(array.min()), int(array.max())):
        if not limits.min <= value <= limits.max:
            raise DtypeError(
                "a value is out of range",
                wanted=f"{dtype}, from {limits.min} to {limits.max}",
                got=f"{value} in an array of {array.dtype}",
                hint="feed a tensor of a wider dtype, or clip the values",
            )


def _as_numpy(value: object) -> Array:
    """Return an array-like as a NumPy array, imported by DLPack where possible; DtypeError for other objects."""
    imported = hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray)
    array = _import_foreign_array(value) if imported else np.asarray(value)
    if array.dtype != object:
        return array
    if array.ndim == 0 and not isinstance(value, np.ndarray):
        raise DtypeError(
            "this cannot become a tensor",
            wanted="numbers, strings, or an array of them",
            got=repr(value),
            hint="give a list, a NumPy array, or a tensor"
            if value is not None
            else "gradients() gives None for what the ys do not depend on, unconnected_gradients='zero' zeros instead; "
            "a function without `return` gives None too",
        )
    return _of_objects(array)


def _import_foreign_array(value: Any) -> Array:
    """Return an array of another library by DLPack, or by ``__array__`` where DLPack does not know the dtype."""
    try:
        return np.from_dlpack(value)
    except (RuntimeError, BufferError, TypeError, ValueError) as error:
        try:
            return np.asarray(value)
        except (RuntimeError, TypeError, ValueError):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise DtypeError(
                f"this array cannot be read: {error}",
                wanted="an array of NumPy, or what DLPack or __array__ gives one for",
                got=f"{kind} of {getattr(value, 'dtype', 'no dtype')}",
                hint="of a tensor of PyTorch, give tensor.detach().cpu(), and .float() if it is bfloat16",
            ) from error


def _of_objects(array: Array) -> Array:
    """Return an array of Python strings as one of NumPy's string dtype."""
    if not all(isinstance(each, (str, bytes)) for each in array.flat):
        other = next(each for each in array.flat if not isinstance(each, (str, bytes)))
        raise DtypeError(
            "an array of objects holds something else than strings",
            wanted="strings, or an array of a dtype of NumPy's",
            got=f"{type(other).__name__} {other!r}",
            hint="give the array a dtype, as in numpy.array(values, 'float32')",
        )
    return np.array(array.tolist(), string.numpy)


def _of_literal(value: object, kinds: set[str], dtype: DType | None) -> Array:
    """Return a literal as an array of `dtype`, or of its widest kind; DtypeError if a value does not fit."""
    if "s" in kinds and len(kinds) > 1:
        raise DtypeError("a literal holds strings and other values", got=repr(value), hint="use one kind of value")
    # Kinds in ascending order: bool, integer, float, complex, string.
    kind = max(kinds, key="?ifcs".index) if kinds else "f"
    if dtype is None:
        dtype = {"?": bool_, "i": int32, "f": float32, "c": complex64, "s": string}[kind]
    elif not _fits_dtype(kind, dtype) and kinds:
        raise DtypeError(
            "this literal does not fit the dtype",
            wanted=dtype,
            got=repr(value),
            hint="write another literal, or cast the tensor it meets",
        )
    try:
        with np.errstate(over="raise"):
            return np.array(_without_scalars(value), dtype.numpy)
    except (OverflowError, FloatingPointError, ValueError, TypeError) as error:
        raise DtypeError(
            f"this literal cannot be converted: {error}",
            wanted=dtype,
            got=repr(value),
            hint="give it a dtype that can hold it, and every element the same shape",
        ) from error


def _without_scalars(value: object) -> Any:
    """Return a literal with NumPy's scalars as Python's numbers, because the former wrap around out of range."""
    if isinstance(value, (list, tuple)):
        return [_without_scalars(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _literal_kinds(value: object, dtype: DType | None) -> set[str] | None:
    """Return the kinds of the numbers in a literal that takes `dtype`; None for values with a dtype of their own."""
    if hasattr(value, "__dlpack__") or (dtype is None and isinstance(value, np.generic)):
        return None
    kinds = _kinds_of_literals(value, scalars=dtype is not None)
    return None if "a" in kinds else kinds


_PYTHON = ((bool, "?"), (int, "i"), (float, "f"), (complex, "c"), ((str, bytes), "s"))


def _kinds_of_literals(value: object, scalars: bool) -> set[str]:
    """Return the kinds of the values in nested lists: "a" for arrays, and for NumPy's scalars unless `scalars`."""
    if isinstance(value, (list, tuple)):
        return set().union(*(_kinds_of_literals(v, scalars) for v in value)) if value else set()
    for types, kind in _PYTHON:  # NumPy's float64 is a float of Python too
        if isinstance(value, types):
            return {kind}
    return {_kind_of_dtype(as_dtype(value.dtype))} if scalars and isinstance(value, np.generic) else {"a"}


def _kind_of_dtype(dtype: DType) -> str:
    if dtype.is_floating:
        return "f"
    return {"bool": "?", "string": "s"}.get(dtype.name, "c" if dtype.is_complex else "i")


def _fits_dtype(kind: str, dtype: DType) -> bool:
    """True if a literal of a kind may take a dtype."""
    fits = {
        "?": dtype is bool_,
        "i": dtype.is_numeric,
        "f": dtype.is_differentiable,
        "c": dtype.is_complex,
        "s": dtype is string,
    }
    return fits[kind]
