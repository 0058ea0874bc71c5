"""Activity: which tensors depend on the xs in a way gradients can follow."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.dtypes import resource, series
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import extras, is_structured, num_results
from ..ir.tensor import Tensor

SERIES_OPS = frozenset(
    {"SeriesRead", "SeriesReadOrZeros", "SeriesReadSeries", "SeriesAdd", "SeriesSum", "SeriesConcat", "SeriesSplit", "MaybeGet"}
)


def active_tensors(xs: Iterable[Tensor], stops: set[Tensor]) -> set[Tensor]:
    """Return every tensor through which a change of some x can be felt, `stops` and what only they feed left out."""
    active: set[Tensor] = set()
    work = list(xs)
    for tensor in work:
        if tensor not in active:
            active.add(tensor)
            work += [t for t in _reached(tensor) if t not in stops and _carries(t)]
    return active


def _carries(tensor: Tensor) -> bool:
    return tensor.dtype.is_differentiable or tensor.dtype in (resource, series)


def _reached(tensor: Tensor) -> list[Tensor]:
    found: list[Tensor] = []
    for op in tensor.consumers():
        found += _through(op, tensor)
    owner = tensor.region.owner
    if owner is not None:
        found += _out_of(owner, tensor)
    return found


def _through(op: Operation, tensor: Tensor) -> list[Tensor]:
    if op.type == "While":
        return [t for i, init in enumerate(op.inputs) if init is tensor for t in _variable(op, i)]
    if is_structured(op):
        return []
    if op.type in SERIES_OPS or op.definition.is_differentiable:
        return op.outputs
    return []


def _variable(op: Operation, i: int) -> list[Tensor]:
    if not op.attrs.get("back_prop", True):
        return []
    return [op.regions[1].params[i], op.outputs[i]]


def _out_of(owner: Operation, tensor: Tensor) -> list[Tensor]:
    """Return what a result of one of the owner's regions becomes outside, and in the next iteration."""
    found: list[Tensor] = []
    region: Region = tensor.region
    if region in owner.regions and not (owner.type == "While" and region is owner.regions[0]):
        for i, result in enumerate(region.results):
            if result is tensor:
                found += _variable(owner, i) if owner.type == "While" else [owner.outputs[i]]
    first = num_results(owner)
    found += [owner.outputs[first + k] for k, e in enumerate(extras(owner)) if e.value is tensor]
    return found
