"""Activity analysis: the tensors depending on the xs in a way gradients can follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..base.dtypes import resource, series
from ..ir.gradient_overrides import has_gradient
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.structured import is_structured, num_results, saved_outputs
from ..ir.tensor import Tensor
from ..ir.traits import Role
from .backward import RULES


def active_tensors(
    xs: Iterable[Tensor],
    stops: set[Tensor],
    here: Region,
    *,
    in_loops: bool = False,
    operations: Iterable[Operation] | None = None,
) -> set[Tensor]:
    """Return every tensor depending on some x; `stops`, and tensors reached through them alone, are left out.

    `here` is the region of the gradient: variables of loops still under construction there are included. With
    `in_loops`, paths through a stop_gradient in a loop's body continue. A caller that knows that all paths are among
    some `operations` of the region passes them, because otherwise each call reads the whole graph.
    """
    active: set[Tensor] = set()
    becomes = _find_receivers(here) if operations is None else _find_receivers_among(operations)
    # A breadth-first search over consumers: `work` grows while it is read.
    work = list(xs)
    for tensor in work:
        if tensor not in active:
            active.add(tensor)
            reached = [t for op in tensor.consumers() for t in _outputs_reached_from(op, tensor)] + becomes.get(
                tensor, []
            )
            if in_loops:
                reached += [t for op in tensor.consumers() if stops_in_loop(op) for t in op.outputs]
            work += [t for t in reached if t not in stops and _may_carry_gradient(t)]
    return active


def _may_carry_gradient(tensor: Tensor) -> bool:
    return tensor.dtype.is_differentiable or tensor.dtype in (resource, series)


def _outputs_reached_from(op: Operation, tensor: Tensor) -> list[Tensor]:
    if op.is_while:
        # Only through its variables: what the body captures is consumed by operations of the body.
        return [t for i, init in enumerate(op.inputs) if init is tensor for t in _receivers_of_variable(op, i)]
    if is_structured(op) or not (op.type in RULES or has_gradient(op)):
        return []
    return op.outputs


def stops_in_loop(op: Operation) -> bool:
    """True if an operation stops gradients in the body of a loop, where such a path makes a gradient zero, not None."""
    stops = op.role is Role.IDENTITY and not has_gradient(op)
    return stops and any(r.owner is not None and r.owner.is_while for r in op.region.ancestors())


def _find_receivers(here: Region) -> dict[Tensor, list[Tensor]]:
    """Return the tensors that receive a tensor's value other than as inputs: results, saved values, open loops."""
    found: dict[Tensor, list[Tensor]] = {}
    for region in here.ancestors():
        # A region without an owner belongs to a loop still under construction.
        for param in region.params if region.owner is None else ():
            if (initial := param.op.notes.initial) is not None:
                found.setdefault(initial, []).append(param)
        for owner in region.walk():
            _add_receivers(owner, found)
    return found


def _find_receivers_among(operations: Iterable[Operation]) -> dict[Tensor, list[Tensor]]:
    found: dict[Tensor, list[Tensor]] = {}
    for op in operations:
        for owner in (op, *(inner for region in op.regions for inner in region.walk())):
            _add_receivers(owner, found)
    return found


def _add_receivers(owner: Operation, found: dict[Tensor, list[Tensor]]) -> None:
    for tensor, outside in _pair_results_with_receivers(owner) if is_structured(owner) else ():
        found.setdefault(tensor, []).extend(outside)


def _pair_results_with_receivers(owner: Operation) -> Iterator[tuple[Tensor, list[Tensor]]]:
    for region in owner.regions[owner.is_while :]:
        for i, tensor in enumerate(region.results):
            yield tensor, _receivers_of_variable(owner, i) if owner.is_while else [owner.outputs[i]]
    for extra, output in zip(saved_outputs(owner), owner.outputs[num_results(owner) :], strict=True):
        if extra.value is not None:
            yield extra.value, [output]


def _receivers_of_variable(op: Operation, i: int) -> list[Tensor]:
    # With back_prop=False the loop is a constant to gradients: its variables end the search.
    if not op.attrs.get("back_prop", True):
        return []
    return [op.regions[1].params[i], op.outputs[i]]
