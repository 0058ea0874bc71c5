"""Cotangents: contributions of the reverse walk to each tensor, and their sums.

Contributions to a tensor are tensors or IndexedSlices. Contributions to a series are slots (an index and the cotangent
of the value there) until the walk leaves the loop reading the series, then whole series. A value saved from a branch
gets cotangents dead exactly where the value is dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ..base.dtypes import series
from ..base.errors import GraphError
from ..ir import scopes
from ..ir.apply import apply
from ..ir.tensor import Tensor
from ..ops.state import series as _operations  # noqa: F401  declares the operation types used below
from ..ops.support.indexed_slices import IndexedSlices


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The cotangent `value` of slot `index` of a series; no contribution where either is dead."""

    index: Tensor
    value: Tensor


class Cotangents:
    """Contributions to the cotangents of tensors, within one region of the gradient."""

    def __init__(self) -> None:
        self.parts: dict[Tensor, list[Any]] = {}

    def add(self, tensor: Tensor, contribution: object) -> None:
        """Record a contribution to the cotangent of a tensor."""
        self.parts.setdefault(tensor, []).append(contribution)

    def sum(self, tensor: Tensor) -> Any:
        """Return the sum of the contributions, which replaces them, or None without any."""
        parts = self.parts.get(tensor)
        if not parts:
            return None
        total = add_up(parts, tensor)
        # Stored, so that the sum is built once however often it is asked for.
        self.parts[tensor] = [total]
        return total

    def dense(self, tensor: Tensor) -> Tensor | None:
        """Return the sum as a dense tensor, or None."""
        total = self.sum(tensor)
        return None if total is None else densify(total)


def add_up(contributions: Sequence[Any], like: Tensor) -> Tensor | IndexedSlices:
    """Return the sum of contributions to `like`, sparse only if all of them are."""
    if any(isinstance(c, Slot) for c in contributions):
        raise GraphError(
            "a saved series is read outside the loop it is for",
            operation=like.op,
            hint="fetch what is read from it; this is a mistake of the gradient rules, please report it",
        )
    if len(contributions) == 1:
        only: Tensor | IndexedSlices = contributions[0]
        return only
    with _enter_common_device(contributions):
        return _sum_contributions(contributions, like)


def _enter_common_device(contributions: Sequence[Any]) -> AbstractContextManager[Any]:
    """Enter the device of all contributions, if they share one, to send only their sum to other devices."""
    devices = {(c.values if isinstance(c, IndexedSlices) else c).op.device for c in contributions}
    return scopes.within(device=tuple(devices)) if len(devices) == 1 else nullcontext()


def _sum_contributions(contributions: Sequence[Any], like: Tensor) -> Tensor | IndexedSlices:
    """Add contributions: sparse ones by concatenation, series slot by slot, all others densely."""
    if all(isinstance(c, IndexedSlices) for c in contributions):
        return _concatenate_slices(contributions)
    if like.dtype is series:
        total: Tensor = contributions[0]
        for part in contributions[1:]:
            total = apply("SeriesAdd", total, part)
        return total
    return add(*[densify(c) for c in contributions])


def add(*terms: Tensor) -> Tensor:
    """Return the sum of dense cotangents of a tensor."""
    # Add infers a shape by broadcasting, AddN merges: with unknown sizes only the latter keeps all knowledge.
    if len(terms) == 2 and terms[0].shape.is_fully_known and terms[0].shape == terms[1].shape:
        return apply("Add", *terms)
    return apply("AddN", list(terms))


def densify(cotangent: Tensor | IndexedSlices) -> Tensor:
    """Return a cotangent as a dense tensor."""
    return cotangent._as_tensor() if isinstance(cotangent, IndexedSlices) else cotangent


def _concatenate_slices(parts: Sequence[IndexedSlices]) -> IndexedSlices:
    return IndexedSlices(
        apply("Concat", [p.values for p in parts], axis=0),
        apply("Concat", _same_dtype([p.indices for p in parts]), axis=0),
        parts[0].dense_shape,
    )


def _same_dtype(indices: list[Tensor]) -> list[Tensor]:
    if len({t.dtype for t in indices}) == 1:
        return indices
    return [apply("Cast", t, dtype="int64") for t in indices]
