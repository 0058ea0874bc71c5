"""Values of registers while a kernel is written, and positions of elements in arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]
TYPES = {
    "?": "bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
}


class NotWritten(Exception):
    """The reason why a program cannot be written for the arrays of a run."""


def has_type(dtype: np.dtype[Any] | None) -> bool:
    """Return True if elements of a dtype have a type in CUDA C here."""
    return dtype is not None and _type_char(dtype) in TYPES


def c_type(dtype: np.dtype[Any]) -> str:
    """Return the C type of elements of a dtype."""
    return TYPES[_type_char(dtype)]


def _type_char(dtype: np.dtype[Any]) -> str:
    return dtype.char.translate({ord("l"): "q", ord("L"): "Q"})  # long has 8 bytes, as long long


def cast(dtype: np.dtype[Any], text: str) -> str:
    """Return C of a number converted to a dtype."""
    return f"(({c_type(dtype)})({text}))"


def write_literal(value: Any) -> str:
    """Return C of an element."""
    dtype = np.dtype(value.dtype)
    if dtype.kind == "f":
        return cast(dtype, _write_real(float(value)))
    number = int(value)
    if dtype.kind != "b" and number == np.iinfo(dtype).min < 0:
        # C has no literal for the smallest integer: its absolute value overflows
        return cast(dtype, f"{number + 1}LL - 1")
    suffix = {"u": "ULL", "i": "LL"}.get(dtype.kind, "")
    return cast(dtype, f"{number}{suffix}")


def _write_real(number: float) -> str:
    # C has no literals for NaN and infinities
    if math.isnan(number):
        return "infinity() - infinity()"
    return repr(number) if math.isfinite(number) else f"{'-' * (number < 0)}infinity()"


@dataclass(slots=True)
class Value:
    """The value of a register.

    Attributes
    ----------
    dtype, shape
        Of the array; an array without dimensions is an element, which each thread holds.
    code : str
        C of the element, or of the array's address.
    memory : str
        Name of the array's memory, the same for all arrays that may overlap; "" for memory never written.
    known : numpy.ndarray or None
        The value, if the same in all runs of the kernel.
    """

    dtype: np.dtype[Any]
    shape: Shape
    code: str
    memory: str = ""
    known: np.ndarray[Any, Any] | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_element(self) -> bool:
        """True for a value without dimensions."""
        return not self.shape

    def at(self, index: str) -> str:
        """Return C of the element at an index, in the order of memory."""
        return self.code if self.is_element else f"{self.code}[{index}]"


@dataclass(frozen=True, slots=True)
class Strided:
    """A view of an array's elements as an array of another shape.

    Attributes
    ----------
    shape : tuple of int
        Shape of the view.
    strides : tuple of int
        Distances along each dimension, in elements.
    offset : str
        C of the index of the first element.
    """

    shape: Shape
    strides: tuple[int, ...]
    offset: str = "0"

    @property
    def is_plain(self) -> bool:
        """True if the view has all elements in order from the first."""
        return self.offset == "0" and _join_dimensions(self.shape, self.strides) in ([], [(math.prod(self.shape), 1)])

    def index(self, i: str) -> str:
        """Return C of the array's index of the view's element `i`, counted in row-major order."""
        terms, inner = [self.offset] if self.offset != "0" else [], 1
        parts = _join_dimensions(self.shape, self.strides)
        for k, (size, stride) in enumerate(reversed(parts), 1):
            place = i if inner == 1 else f"{i} / {inner}"
            place = place if k == len(parts) else f"{place} % {size}"
            if stride:
                terms.append(place if stride == 1 else f"({place}) * {stride}")
            inner *= size
        return " + ".join(reversed(terms)) or "0"


def _join_dimensions(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return sizes and strides, with adjacent dimensions of compatible strides joined."""
    parts: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if parts and parts[-1][1] == stride * size:
            parts[-1] = parts[-1][0] * size, stride
        else:
            parts.append((size, stride))
    return parts


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an array in row-major order, in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def broadcast(value: Value, shape: Shape) -> Strided:
    """Return a view of a value in a larger shape; NotWritten if the shapes are incompatible."""
    if joint_shape([value.shape, shape]) != shape:
        raise NotWritten(f"shape {list(value.shape)} does not go with {list(shape)}")
    # stride 0 repeats an element
    missing = len(shape) - len(value.shape)
    strides = zip(value.shape, row_strides(value.shape), strict=True)
    return Strided(shape, (*[0] * missing, *(0 if size == 1 else stride for size, stride in strides)))


def joint_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the broadcast shape of several; NotWritten if they are incompatible."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise NotWritten(str(error)) from error
