"""NumPy's random generators for kernels that are traced, with keys that may change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arrays import Traced, as_dtype
from .interface import Array, Operand, Tape, Untraceable

_LARGEST_MEAN = np.iinfo(np.int64).max - 10 * math.sqrt(np.iinfo(np.int64).max)  # of Poisson draws


class TracedPhilox:
    """Words of a Philox generator, in place of ``numpy.random.Philox``.

    Parameters
    ----------
    tape : Tape
    key : Traced or numpy.ndarray
        Two of uint64.
    counter : Traced or numpy.ndarray
        Four of uint64.
    """

    def __init__(self, tape: Tape, key: Operand, counter: Operand) -> None:
        self.tape = tape
        self._state = tape.start_draws(*(_in_order(tape, x, np.dtype(np.uint64)) for x in (key, counter)))

    def random_raw(self, count: int) -> Traced:
        return self.draw("words", [], (count,), np.uint64)

    def generator(self) -> TracedGenerator:
        return TracedGenerator(self)

    def draw(self, kind: str, parameters: list[Array], size: tuple[int, ...], dtype: Any) -> Traced:
        """Append draws of a kind, as in `kernels/native/draws.pyx`."""
        made = np.empty(size, dtype)
        self.tape.draw(self._state, kind, parameters, made)
        return Traced(self.tape, made)


class TracedGenerator:
    """Draws from distributions, in place of ``numpy.random.Generator``."""

    def __init__(self, bits: TracedPhilox) -> None:
        self._bits = bits

    def standard_normal(self, size: tuple[int, ...], dtype: Any = np.float64) -> Traced:
        return self._bits.draw("normal_f" if np.dtype(dtype) == np.float32 else "normal", [], size, dtype)

    def truncated_normal(self, size: tuple[int, ...]) -> Traced:
        """Return numbers of which those beyond 2 are drawn again."""
        return self._bits.draw("truncated", [], size, np.float64)

    def integers(self, low: Operand, high: Operand, size: tuple[int, ...], dtype: Any) -> Traced:
        """Return integers in [low, high); wider ones than 32 bits by whole words."""
        kind = np.dtype(dtype)
        if kind.char not in "ilIL":
            raise Untraceable
        ends = [_in_order(self._bits.tape, x, kind) for x in (low, high)]
        return self._bits.draw(f"below_{8 * kind.itemsize}", ends, size, kind)

    def standard_gamma(self, shape: Operand, size: tuple[int, ...]) -> Traced:
        if np.signbit(shape).any():
            raise ValueError("shape < 0")
        return self._bits.draw("gamma", [self._spread(shape, size)], size, np.float64)

    def poisson(self, lam: Operand, size: tuple[int, ...]) -> Traced:
        if not np.all((lam >= 0) & (lam <= _LARGEST_MEAN)):
            raise ValueError("lam < 0, or too large")
        return self._bits.draw("poisson", [self._spread(lam, size)], size, np.int64)

    def gumbel(self, size: tuple[int, ...]) -> Traced:
        return self._bits.draw("gumbel", [], size, np.float64)

    def permutation(self, count: int) -> Traced:
        return self._bits.draw("order", [], (count,), np.int64)

    def _spread(self, parameter: Operand, size: tuple[int, ...]) -> Array:
        """Return a parameter of each draw."""
        spread = np.broadcast_to(as_dtype(parameter, np.dtype(np.float64)), size)
        return Traced(self._bits.tape, spread).in_order().array


def _in_order(tape: Tape, x: Operand, dtype: np.dtype[Any]) -> Array:
    return Traced(tape, as_dtype(x, dtype)).in_order().array
