"""The tensors of a vectorized function different in each example."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.shapes import ShapeOnly
from ..ir.structured import num_results, saved_outputs
from ..ir.tensor import Tensor
from ..ir.traits import Effect

Mark = Callable[["BatchedTensors", Operation], None]

# For types whose outputs do not simply differ if an input does; filled by the modules with their rules.
MARKS: dict[str, Mark] = {}


def _mark_of(name: str) -> Mark:
    """Return the mark of an operation type."""
    return MARKS.get(name, mark_results)


class BatchedTensors:
    """The tensors different in each example, found by a fixed point over all operations of the function.

    Parameters
    ----------
    region : Region
        The function for a single example.
    mapped : iterable of Tensor
        Its parameters different in each example.
    """

    def __init__(self, region: Region, mapped: Iterable[Tensor]) -> None:
        self._found: set[Tensor] = set(mapped)
        size = -1
        # Marks are only added, so this ends; a loop needs as many passes as a value takes iterations to spread.
        while size != len(self._found):
            size = len(self._found)
            for op in region.walk():
                _mark_of(op.type)(self, op)

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self._found

    def add(self, *tensors: Tensor) -> None:
        """Mark tensors as different between examples."""
        self._found.update(tensors)

    def any(self, tensors: Iterable[Tensor]) -> bool:
        """Return True if any of the tensors differs between examples."""
        return any(t in self._found for t in tensors)


def mark_results(batched: BatchedTensors, op: Operation) -> None:
    """Mark all outputs if an input differs, or if the operation draws numbers for each example; shapes never differ."""
    if op.definition.has(ShapeOnly):
        return
    if Effect.RANDOM in op.definition.effects or batched.any(op.inputs):
        batched.add(*op.outputs)


def is_ragged(batched: BatchedTensors, op: Operation) -> bool:
    """Return True for a While whose predicate differs between examples."""
    return batched.any(op.regions[0].results)


def _mark_while(batched: BatchedTensors, op: Operation) -> None:
    """Mark loop variables: all changing variables if the predicate differs, as examples then stop apart."""
    cond, body = op.regions
    ragged = is_ragged(batched, op)
    for i in range(num_results(op)):
        changes = body.results[i] is not body.params[i]
        if (ragged and changes) or batched.any((op.inputs[i], body.results[i])):
            batched.add(cond.params[i], body.params[i], op.outputs[i])
    for extra, output in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
        # In a loop that examples leave at different iterations slots hold values of each, as they are read apart.
        if (ragged and (extra.value is None or extra.value.dtype.is_value)) or (
            extra.value is not None and extra.value in batched
        ):
            batched.add(output)


def _mark_cond(batched: BatchedTensors, op: Operation) -> None:
    differs = op.inputs[0] in batched
    for i in range(num_results(op)):
        if differs or batched.any(region.results[i] for region in op.regions):
            batched.add(op.outputs[i])
    for extra, output in zip(saved_outputs(op), op.outputs[num_results(op) :], strict=True):
        if extra.value is not None and extra.value in batched:
            batched.add(output)


MARKS.update(While=_mark_while, Cond=_mark_cond)
