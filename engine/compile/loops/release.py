"""Release a saved value with its last read.

A loop counting down reads the values saved for the gradient, each slot once. Taking the value out of its slot with this
read frees the memory while the backward loop runs, so that the gradients saved by this loop find room in place of the
values. In nested loops the slots hold series, which inner loops read in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...ir.loops import change_of
from ...ir.operation import Operation
from ...ir.program import Program
from ...ir.structured import SavedOutput, num_results, saved_outputs
from ...ir.substitute import count_noninput_uses
from ...ir.tensor import Tensor
from ...ir.traits import Role


def release_saved(program: Program) -> Program:
    """Mark the last read of each slot; `program` is changed."""
    uses = count_noninput_uses(program)
    for writer in program.graph.root.walk():
        if writer.is_while:
            for series, extra in _pair_saved_outputs(writer):
                if series not in uses:
                    _mark_single_read(series, extra, uses)
    return program


def _pair_saved_outputs(writer: Operation) -> Iterable[tuple[Tensor, SavedOutput]]:
    return zip(writer.outputs[num_results(writer) :], saved_outputs(writer), strict=True)


def _mark_single_read(series: Tensor, extra: SavedOutput, uses: Counter[Tensor]) -> None:
    """Mark the read of a series with a single reading loop, and the reads of series in its slots."""
    if len(series._consumers) != 1:
        return
    (read,) = series._consumers
    reader = _loop_around(read)
    # A reader nested in another loop would read each slot once per outer iteration.
    if read.role is not Role.SERIES_READ or reader is None or reader.region is not series.op.region:
        return
    read.attrs["last"] = _counts_down(reader, read.inputs[1])
    inner = _find_inner_saved(extra.value, uses)
    if read.attrs["last"] and read.outputs[0] not in uses and inner is not None:
        _mark_single_read(read.outputs[0], inner, uses)


def _find_inner_saved(value: Tensor | None, uses: Counter[Tensor]) -> SavedOutput | None:
    """Return the SavedOutput of an inner loop's series, if its only use is to be saved in a slot."""
    if value is None or not value.op.is_while or value._consumers or uses[value] != 1:
        return None
    return dict(_pair_saved_outputs(value.op)).get(value)


def _loop_around(op: Operation) -> Operation | None:
    """Return the loop whose body contains an operation, possibly in branches; None if there is none."""
    region = op.region
    while region.owner is not None and region.owner.is_cond:
        region = region.owner.region
    owner = region.owner
    return owner if owner is not None and owner.is_while and region is owner.regions[1] else None


def _counts_down(loop: Operation, index: Tensor) -> bool:
    """Return True if an index differs between iterations: a loop variable minus 1, or a non-zero multiple thereof."""
    if index.op.type == "Mul":
        index, factor = index.op.inputs
        if not _is_constant(factor) or factor.op.attrs["value"] == 0:
            return False
    body = loop.regions[1]
    changes = [change_of(body, i) for i, result in enumerate(body.results) if result is index]
    return bool(changes) and changes[0] is not None and changes[0].constant == -1


def _is_constant(tensor: Tensor) -> bool:
    return tensor.op.is_constant and tensor.rank == 0
