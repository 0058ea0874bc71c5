"""Rules of differentiation, besides the gradient itself: see `engine/gradients`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TakesSlices:
    """The gradient accepts IndexedSlices."""


@dataclass(frozen=True, slots=True)
class Reread:
    """A gradient in need of the result runs the operation again, as the input is saved anyway."""
