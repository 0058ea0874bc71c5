"""What a kernel of a native program is given, and what it must be given: data, without arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .values import Shape

_FEW, _MANY = 256, 1024  # threads of a block, and those for larger arrays


@dataclass(frozen=True, slots=True)
class Given:
    """What a program is given in a register.

    Attributes
    ----------
    kind : str
        'array' of the device, 'element' by value, 'known' as part of the kernel, 'series' of rows, 'nested series' of
        those of loops in the loop, 'sum' of products, 'elements' of a TensorArray ('kept' if reading does not clear
        them, 'new' if nothing says what shape they have, 'growing' if there may be more), or 'handle', which is not
        looked at.
    shape, dtype
        Of the array, or of a row.
    value : numpy.ndarray or None
        What is known.
    is_masked : bool
        Whether there are slots of a series in which there is nothing.
    """

    kind: str
    shape: Shape = ()
    dtype: np.dtype[Any] | None = None
    value: np.ndarray[Any, Any] | None = None
    is_masked: bool = False

    @property
    def key(self) -> Any:
        """What runs for which a kernel was written have in common."""
        value = self.value if self.value is None else self.value.tobytes()
        return self.kind, self.shape, self.dtype and self.dtype.char, value, self.is_masked


@dataclass(frozen=True, slots=True)
class Saved:
    """A series that a program writes.

    Attributes
    ----------
    register : int
    shape, dtype
        Of what is in a slot.
    count : int or None
        The word of the state that has the number of slots written; None where some may be left out.
    nested : int or None
        Of one whose slots are series, the register of that which has their rows: a slot is where some begin and end.
    """

    register: int
    shape: Shape
    dtype: np.dtype[Any]
    count: int | None
    nested: int | None = None

    @property
    def is_for_host(self) -> bool:
        """Whether the host looks at it: where rows begin and end, and numbers that it computes with."""
        return self.nested is not None or (not self.shape and self.dtype.kind in "biu")


@dataclass(slots=True)
class Written:
    """A kernel, and what it must be given.

    Attributes
    ----------
    code : str
    constants : list of numpy.ndarray
        Arrays that do not stand in the source.
    elements : dict of int to int
        By register, the word of the state that an element is in.
    words : int
        Of the state.
    nbytes : int
        Of the memory for what the program makes and nobody sees.
    results : dict of int to (shape, dtype)
        By register, the arrays that are results.
    saved : list of Saved
    loops : dict of str to (int, int)
        By loop, the words that count how often it ended, and how often it went on.
    cost : float
        About the nanoseconds of an iteration.
    threads : int
        Of the block.
    element_shapes : dict of int to tuple
        Of the TensorArrays, by register of the handle.
    parameters : int
        Of the kernel.
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
    """Return how many threads a block has for arrays of up to so many elements: a power of two."""
    most = _MANY if widest > 16 * _FEW else _FEW
    return max(32, min(most, 1 << max(0, widest - 1).bit_length()))
