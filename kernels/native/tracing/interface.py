"""The tape to which a kernel that is traced appends its steps, and truth values that are assumed of its questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Operand = Any  # a traced array, or what NumPy takes for an array


class Untraceable(Exception):
    """A kernel does something that no step does."""


class Asked(Untraceable):
    """A kernel asks for a truth value that is not assumed yet."""


class Tape(Protocol):
    """The steps of a run, to which those of a kernel are appended; arrays are over memory of the run."""

    answers: Answers

    def restart(self) -> None:
        """Drop the steps of the kernel."""
        ...

    def assume(self, condition: Array, value: bool) -> None:
        """Append a check that a bool has a value; the program gives up where it has the other."""
        ...

    def start_draws(self, key: Array, counter: Array) -> int:
        """Append the start of a Philox generator; return the address of its state."""
        ...

    def draw(self, state: int, kind: str, parameters: list[Array], output: Array) -> None:
        """Append draws that fill an array; see `kernels/native/draws.pyx`."""
        ...

    def sort_rows(self, array: Array, is_stable: bool) -> None:
        """Append a sort of elements along the last axis, in place, of an array in order."""
        ...

    def order_rows(self, source: Array, places: Array, is_stable: bool) -> None:
        """Append the positions that sort elements along the last axis; both arrays are in order."""
        ...

    def apply_ufunc(self, ufunc: np.ufunc, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Append the inner loop of a ufunc for the dtypes of the arrays, all of which have the shape of the outputs."""
        ...

    def choose_elements(self, condition: Array, x: Array, y: Array, output: Array) -> None:
        """Append an elementwise choice."""
        ...

    def cast_elements(self, source: Array, target: Array) -> None:
        """Append a copy of elements to another dtype."""
        ...

    def copy_elements(self, source: Array, target: Array) -> None:
        """Append a copy of elements of one dtype and shape."""
        ...

    def gather_elements(self, source: Array, places: Array, target: Array) -> None:
        """Append a copy of the elements at places of an array in order, counted from 1; 0 stands for zero."""
        ...

    def take_rows(self, table: Array, numbers: list[Array], target: Array) -> None:
        """Append a copy of rows of an array, by numbers that change; the program gives up where one is out of range."""
        ...

    def put_rows(self, table: Array, numbers: list[Array], source: Array, ufunc: np.ufunc | None = None) -> None:
        """Append a copy to rows of an array, or a ufunc that joins rows with them, one after the other."""
        ...

    def check_rows(self, numbers: Array, count: int) -> None:
        """Append a check that numbers are in [0, count); the program gives up where one is not."""
        ...

    def apply_gufunc(
        self, ufunc: np.ufunc, ranks: list[int], sizes: list[int], arrays: list[Array], checks: bool
    ) -> None:
        """Append a generalised ufunc of inputs and outputs.

        Parameters
        ----------
        ufunc : numpy.ufunc
        ranks : list of int
            For each array, how many of its last axes belong to the function.
        sizes : list of int
            Sizes of the function's axes, in the order of its signature.
        arrays : list of numpy.ndarray
            All with the same other axes.
        checks : bool
            True if the program gives up where the function reports an error.
        """
        ...

    def accumulate(self, ufunc: np.ufunc, source: Array, target: Array) -> None:
        """Append a running sum, or product, along the last axis."""
        ...

    def operate(self, type: str, attrs: dict[str, Any], inputs: list[Array], dtype: np.dtype[Any]) -> Array:
        """Append the work of the C kernel of an operation with one output; return the output."""
        ...


class Answers:
    """Truth values that are assumed of a kernel's questions, in order; see `trace_kernel`."""

    def __init__(self, given: tuple[bool, ...] = ()) -> None:
        self.given = given
        self._count = 0

    def answer(self, tape: Tape, condition: Array) -> bool:
        """Return the assumed value of a bool, which a step checks; raise Asked without an assumption."""
        if self._count == len(self.given):
            raise Asked
        value = self.given[self._count]
        self._count += 1
        tape.assume(condition, value)
        return value
