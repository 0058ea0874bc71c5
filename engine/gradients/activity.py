"""Activity: which tensors depend on the xs in a way gradients can follow."""

from __future__ import annotations

from collections.abc import Iterable

from ..base.dtypes import resource, series
from ..ir import scopes
from ..ir.operation import Operation
from ..ir.structured import extras, is_structured, num_results
from ..ir.tensor import Tensor

Results = dict[Tensor, list[tuple[Operation, int]]]
SERIES_OPS = frozenset(
    {
        "SeriesRead",
        "SeriesReadOrZeros",
        "SeriesReadSeries",
        "SeriesAdd",
        "SeriesSum",
        "SeriesConcat",
        "SeriesSplit",
        "MaybeGet",
    }
)


def active_tensors(xs: Iterable[Tensor], stops: set[Tensor]) -> set[Tensor]:
    """Return every tensor through which a change of some x can be felt, `stops` and what only they feed left out."""
    active: set[Tensor] = set()
    results = _results()
    work = list(xs)
    for tensor in work:
        if tensor not in active:
            active.add(tensor)
            work += [t for t in _reached(tensor, results) if t not in stops and _carries(t)]
    return active


def _carries(tensor: Tensor) -> bool:
    return tensor.dtype.is_differentiable or tensor.dtype in (resource, series)


def _results() -> Results:
    """Find where each tensor is the result of a branch or body: also one it did not make but captures."""
    results: Results = {}
    for around in scopes.current_region().ancestors():
        for owner in around.walk():
            for region in owner.regions[owner.type == "While" :]:
                for i, tensor in enumerate(region.results):
                    results.setdefault(tensor, []).append((owner, i))
    return results


def _reached(tensor: Tensor, results: Results) -> list[Tensor]:
    found: list[Tensor] = []
    for op in tensor.consumers():
        found += _through(op, tensor)
    for owner, i in results.get(tensor, ()):
        found += _variable(owner, i) if owner.type == "While" else [owner.outputs[i]]
    around = tensor.region.owner
    return found + (_saved(around, tensor) if around is not None else [])


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


def _saved(owner: Operation, tensor: Tensor) -> list[Tensor]:
    """Return what the owner gives out of the values it saves of a tensor in one of its regions."""
    first = num_results(owner)
    return [owner.outputs[first + k] for k, e in enumerate(extras(owner)) if e.value is tensor]
