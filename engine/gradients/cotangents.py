"""Cotangents: what the reverse walk carries to each tensor, and how contributions add up.

A dense value gets tensors or IndexedSlices. A series gets slots (an index and the cotangent of the value there)
until the loop that reads it is left, then whole series. A maybe gets values that are live only in its branch;
they are made dense, and added, inside that branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.dtypes import series as series_dtype
from ..base.errors import GraphError
from ..ir.build import apply
from ..ir.structured import num_results
from ..ir.tensor import Tensor
from ..ops import series as _series  # noqa: F401  (declares the operations built here)
from ..ops import series as _series_operations  # noqa: F401  declares the operation types used below
from ..ops.common import shape_of
from ..ops.slices import IndexedSlices


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The cotangent `value` of slot `index` of a series; nothing where either is dead."""

    index: Tensor
    value: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """A cotangent that is live if its branch ran."""

    value: Tensor

    def dense(self, like: Tensor) -> Tensor:
        """Return the cotangent, in a region that runs only when it is live."""
        return apply("MaybeGet", self.value)  # type: ignore[no-any-return]

    def token(self, like: Tensor) -> Tensor:
        """Return the value, dead if the branch did not run."""
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class SlotRead:
    """The cotangent in slot `index` of a series of cotangents; zero where it was not written."""

    series: Tensor
    index: Tensor

    def dense(self, like: Tensor) -> Tensor:
        """Return the cotangent of `like`, zeros when the slot is empty."""
        if like.dtype is series_dtype:
            return apply("SeriesReadSeries", self.series, self.index)  # type: ignore[no-any-return]
        return apply(  # type: ignore[no-any-return]
            "SeriesReadOrZeros", self.series, self.index, shape_of(like), dtype=like.dtype
        )

    def token(self, like: Tensor) -> Tensor:
        """Return the slot's value, dead when it is empty."""
        return apply("SeriesRead", self.series, self.index, dtype=like.dtype, shape=like.shape)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, eq=False)
class SumOf:
    """The sum of all slots of a series of cotangents."""

    series: Tensor

    def dense(self, like: Tensor) -> Tensor:
        """Return the sum, zeros when no slot was written."""
        if like.dtype is series_dtype:
            raise GraphError("a gradient of this order through a loop in a cond in a loop is not supported")
        return apply("SeriesSum", self.series, shape_of(like), dtype=like.dtype)  # type: ignore[no-any-return]

    def token(self, like: Tensor) -> Tensor:
        """Return the sum."""
        return self.dense(like)


Lazy = (Maybe, SlotRead, SumOf)


def is_maybe(tensor: Tensor) -> bool:
    """Whether the tensor may be dead although its region runs: a value saved from a branch."""
    if tensor.op.type == "Cond":
        return tensor.index >= num_results(tensor.op)
    return bool(tensor.op.type == "SeriesRead" and tensor.op.attrs.get("maybe"))


def add_up(contributions: Sequence[Any], like: Tensor) -> Tensor | IndexedSlices:
    """Return the sum of contributions to `like`, sparse only if all of them are."""
    parts: list[Any] = [c.dense(like) if isinstance(c, Lazy) else c for c in contributions]
    if any(isinstance(c, Slot) for c in parts):
        raise GraphError("a saved series is read outside a loop", operation=like.op)
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    if all(isinstance(p, IndexedSlices) for p in parts):
        return IndexedSlices(
            apply("Concat", [p.values for p in parts], axis=0),
            apply("Concat", _same_dtype([p.indices for p in parts]), axis=0),
            parts[0].dense_shape,
        )
    if like.dtype is series_dtype:
        total = parts[0]
        for part in parts[1:]:
            total = apply("SeriesAdd", total, part)
        return total  # type: ignore[no-any-return]
    return apply("AddN", [densify(p) for p in parts])  # type: ignore[no-any-return]


def densify(cotangent: Tensor | IndexedSlices) -> Tensor:
    """Return a cotangent as one tensor."""
    return cotangent._as_tensor() if isinstance(cotangent, IndexedSlices) else cotangent


def _same_dtype(indices: list[Tensor]) -> list[Tensor]:
    if len({t.dtype for t in indices}) == 1:
        return indices
    return [apply("Cast", t, dtype="int64") for t in indices]
