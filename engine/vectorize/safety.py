"""Operations without failures and infinite slopes, for all finite values.

Examples outside of a loop, or of a branch, are computed with the others, and their results are not
used. With other operations these examples compute with values of an example for which the operations are known to work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ir.traits import Effect

_NAMES = """
Abs Add AddN All Any Atan BroadcastTo Cast Ceil Concat Const Cos Equal Erf ExpandDims Fill Floor Greater
GreaterEqual Identity Less LessEqual LogicalAnd LogicalNot LogicalOr LogicalXor MatMul Max Maximum Mean Min
Minimum Mul Neg NotEqual Param Rank Relu Reshape Rint Shape Sigmoid Sign Sin Size Softplus Split Square
Squeeze Stack StopGradient Sub Sum SumTo Tanh Transpose Unreduce Unstack Where
"""
TOTAL = frozenset(_NAMES.split())


def is_total(*regions: Region) -> bool:
    """Return True if no operation of the regions fails or has an infinite slope for any finite values."""
    return {op.type for region in regions for op in region.walk()} <= TOTAL


def draws(*regions: Region) -> bool:
    """Return True if running the regions again may give other results."""
    return any(op.definition.effects & Effect.RANDOM for region in regions for op in region.walk())


def captured(regions: Sequence[Region]) -> list[Tensor]:
    """Return the tensors from outside used by operations of the regions."""
    found: dict[Tensor, None] = {}
    for tensor in _used(regions):
        if not any(region.encloses(tensor.op.region) for region in regions):
            found[tensor] = None
    return list(found)


def _used(regions: Sequence[Region]) -> Iterator[Tensor]:
    for region in regions:
        yield from region.results
        for op in region.walk():
            yield from op.inputs
            for inner in op.regions:
                yield from inner.results


def effects_of(regions: Sequence[Region]) -> Operation | None:
    """Return an operation of the regions with effects besides reading and drawing, if any."""
    harmless = Effect.READS | Effect.RANDOM | Effect.INSTANCE
    return next((op for r in regions for op in r.walk() if op.definition.effects & ~harmless), None)
