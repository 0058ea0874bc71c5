"""Types and values of LLVM's intermediate representation, as text."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Value(NamedTuple):
    """An operand of an instruction: a name or a literal, and its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def element_type(dtype: np.dtype[Any]) -> str:
    """Return LLVM's type for an element, or an empty string."""
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    # bool is a byte, as in NumPy's arrays, not LLVM's i1
    return {"float32": "float", "float64": "double", "bool": "i8"}.get(dtype.name, "")


def is_float(type_: str) -> bool:
    """Return True for types of floating-point numbers."""
    return element_of(type_) in ("float", "double")


def vector_of(type_: str, lanes: int) -> str:
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"


def element_of(type_: str) -> str:
    """Return the element type of a vector type; an element type is its own."""
    return type_.rstrip(">").rpartition(" ")[2]


def with_lanes_of(type_: str, vector: str) -> str:
    """Return the type with as many lanes as another."""
    return vector.replace(element_of(vector), type_)


def size_of(type_: str) -> int:
    """Return the bytes of an element."""
    return {"float": 4, "double": 8}.get(type_) or int(type_[1:]) // 8


def zero_of(type_: str) -> str:
    if "x" in type_:
        return "zeroinitializer"
    return "0.0" if is_float(type_) else "0"


def intrinsic_suffix(type_: str) -> str:
    """Return the suffix of a type in names of intrinsic functions."""
    element = {"float": "f32", "double": "f64"}.get(element_of(type_), element_of(type_))
    return f"v{type_[1:].split(' ')[0]}{element}" if "x" in type_ else element


def lanes_of(type_: str) -> int:
    return int(type_[1:].split(" ")[0]) if "x" in type_ else 1
