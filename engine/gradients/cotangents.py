"""Cotangents: what the reverse walk carries to each tensor, and how contributions add up.

A tensor gets tensors or IndexedSlices. A series gets slots (an index and the cotangent of the value there) until
the loop that reads it is left, then whole series. A value saved from a branch gets cotangents that may be dead
where it is dead itself, and nowhere else.
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
    """The cotangent `value` of slot `index` of a series; nothing where either is dead."""

    index: Tensor
    value: Tensor


class Cotangents:
    """Contributions to the cotangents of tensors, within one region of the gradient."""

    def __init__(self) -> None:
        self.parts: dict[Tensor, list[Any]] = {}

    def add(self, tensor: Tensor, contribution: Any) -> None:
        """Note one contribution."""
        self.parts.setdefault(tensor, []).append(contribution)

    def sum(self, tensor: Tensor) -> Any:
        """Return the sum of the contributions, from then on the only one, or None when there are none."""
        parts = self.parts.get(tensor)
        if not parts:
            return None
        total = add_up(parts, tensor)
        self.parts[tensor] = [total]
        return total

    def dense(self, tensor: Tensor) -> Tensor | None:
        """Return the sum as one tensor, or None."""
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
        return contributions[0]  # type: ignore[no-any-return]
    with _where(contributions):
        return _sum(contributions, like)


def _where(contributions: Sequence[Any]) -> AbstractContextManager[Any]:
    """Add up on the device of all contributions, if it is one: a sum is one message where they would be several."""
    devices = {(c.values if isinstance(c, IndexedSlices) else c).op.device for c in contributions}
    return scopes.within(device=tuple(devices)) if len(devices) == 1 else nullcontext()


def _sum(contributions: Sequence[Any], like: Tensor) -> Tensor | IndexedSlices:
    if all(isinstance(c, IndexedSlices) for c in contributions):
        return _join(contributions)
    if like.dtype is series:
        total = contributions[0]
        for part in contributions[1:]:
            total = apply("SeriesAdd", total, part)
        return total  # type: ignore[no-any-return]
    return add(*[densify(c) for c in contributions])


def add(*terms: Tensor) -> Tensor:
    """Return the sum of dense cotangents of one tensor."""
    if len(terms) == 2 and terms[0].shape.is_fully_known and terms[0].shape == terms[1].shape:
        return apply("Add", *terms)  # type: ignore[no-any-return]
    return apply("AddN", list(terms))  # type: ignore[no-any-return]


def densify(cotangent: Tensor | IndexedSlices) -> Tensor:
    """Return a cotangent as one tensor."""
    return cotangent._as_tensor() if isinstance(cotangent, IndexedSlices) else cotangent


def _join(parts: Sequence[IndexedSlices]) -> IndexedSlices:
    return IndexedSlices(
        apply("Concat", [p.values for p in parts], axis=0),
        apply("Concat", _same_dtype([p.indices for p in parts]), axis=0),
        parts[0].dense_shape,
    )


def _same_dtype(indices: list[Tensor]) -> list[Tensor]:
    if len({t.dtype for t in indices}) == 1:
        return indices
    return [apply("Cast", t, dtype="int64") for t in indices]
