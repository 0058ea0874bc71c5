"""Descriptions of a native program's kernel and its arguments: data, without arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .values import Shape

_FEW, _MANY = 256, 1024  # threads of a block, and of a block for larger arrays


@dataclass(frozen=True, slots=True)
class Given:
    """Description of an argument in a register.

    Attributes
    ----------
    kind : str
        'array' of the device, 'element' by value, 'known' as a part of the kernel, 'series' of rows, 'nested series' of
        rows of inner loops, 'sum' of products, 'elements' of a TensorArray (with 'kept' if reads do not clear elements,
        'new' if their shape is unknown, 'growing' if their number may grow), or 'handle' for unused objects.
    shape, dtype
        Of the array, or of a row.
    value : numpy.ndarray or None
        The known value.
    is_masked : bool
        True if slots of a series may be empty.
    """

    kind: str
    shape: Shape = ()
    dtype: np.dtype[Any] | None = None
    value: np.ndarray[Any, Any] | None = None
    is_masked: bool = False

    @property
    def key(self) -> Any:
        """Key of the kernels for equal descriptions."""
        value = self.value if self.value is None else self.value.tobytes()
        return self.kind, self.shape, self.dtype and self.dtype.char, value, self.is_masked


@dataclass(frozen=True, slots=True)
class Saved:
    """A series written by a program.

    Attributes
    ----------
    register : int
    shape, dtype
        Of a slot.
    count : int or None
        The word of the state with the number of written slots; None if slots may be skipped.
    nested : int or None
        For a series whose slots are series, the register of the series with their rows: a slot has the bounds of rows.
    """

    register: int
    shape: Shape
    dtype: np.dtype[Any]
    count: int | None
    nested: int | None = None

    @property
    def is_for_host(self) -> bool:
        """True if the host uses the rows: bounds of rows, and integers or truth values for its computations."""
        return self.nested is not None or (not self.shape and self.dtype.kind in "biu")


@dataclass(slots=True)
class Written:
    """A kernel, and a description of its arguments.

    Attributes
    ----------
    code : str
    constants : list of numpy.ndarray
        Arrays too large for the source.
    elements : dict of int to int
        By register, the word of the state with the element.
    words : int
        Size of the state.
    nbytes : int
        Size of the memory for intermediate arrays.
    results : dict of int to (shape, dtype)
        Arrays of results, by register.
    saved : list of Saved
    loops : dict of str to (int, int)
        By loop, the words with the numbers of exits and of further iterations.
    cost : float
        Approximate nanoseconds of an iteration.
    threads : int
        Threads of the block.
    element_shapes : dict of int to tuple
        Shapes of the TensorArrays' elements, by register of the handle.
    parameters : int
        Number of the kernel's parameters.
    """

    code: str = ""
    constants: list[np.ndarray[Any, Any]] = field(default_factory=list)
    elements: dict[int, int] = field(default_factory=dict)
    words: int = 0
    nbytes: int = 0
    results: dict[int, tuple[Shape, np.dtype[Any]]] = field(default_factory=dict)
    saved: list[Saved] = field(default_factory=list)
    loops: dict[str, tuple[int, int]] = field(default_factory=dict)
    cost: float = 0.0
    threads: int = 32
    element_shapes: dict[int, Shape] = field(default_factory=dict)
    parameters: int = 0


def threads_for(widest: int) -> int:
    """Return the number of threads, a power of two, of a block for arrays up to a size."""
    most = _MANY if widest > 16 * _FEW else _FEW
    return max(32, min(most, 1 << max(0, widest - 1).bit_length()))
