"""What users tell of Datasets: counts, and specs of batches."""

from __future__ import annotations

from typing import Any

from ..base.errors import GraphError
from ..base.shapes import Shape
from ..runtime.functions.arguments import TensorSpec
from .stages.elements import leaves_of, packed


def batched_spec(spec: Any, size: int | None, padded: bool) -> Any:
    """Return the spec of a batch of elements of a spec; None where that is not known."""

    def whole(each: TensorSpec) -> TensorSpec:
        shape: Shape = each.shape
        if shape.rank is None:
            return TensorSpec(None, each.dtype)
        return TensorSpec([size, *([None] * shape.rank if padded and not shape.is_fully_known else shape)], each.dtype)

    return None if spec is None else packed(spec, map(whole, leaves_of(spec)))


def check_counts(least: int = 1, **counts: Any) -> None:
    """Raise GraphError for what is no integer, or too small."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise GraphError(
                f"{name} is out of range",
                wanted=f"an integer of at least {least}",
                got=repr(count),
                hint="count elements",
            )
