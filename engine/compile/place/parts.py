"""Moves of operations to the value of which they take a part: the part crosses devices, not the whole.

A value crosses once to each device with uses. If all uses there are parts, and the parts together are smaller than
the value, they are taken on the value's device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...base.device_names import DeviceSpec
from ...ir.operation import Operation
from ...ir.rules.placing import TakesPart
from ...ir.rules.shapes import ShapeOnly
from ...ir.tensor import Tensor
from ...ir.traits import SWITCHES
from .groups import is_invariant

_TRIPS = 1000  # assumed iterations of a loop: a part crosses in each of them, an invariant once

DeviceOf = Callable[[Operation], "DeviceSpec | None"]


@dataclass(slots=True)
class _Crossing:
    """Uses of a value on another device.

    Attributes
    ----------
    takers : list of Operation
        Operations taking a part of the value.
    bytes : int
        Total bytes of these parts.
    is_needed : bool
        True if an operation needs the whole value.
    """

    takers: list[Operation] = field(default_factory=list)
    bytes: int = 0
    is_needed: bool = False


def moves(
    operations: Sequence[Operation], device: DeviceOf, is_free: Callable[[Operation], bool]
) -> Iterator[tuple[Operation, DeviceSpec]]:
    """Yield operations to move, each with its new device.

    Parameters
    ----------
    operations : sequence of Operation
        Of a lowered program.
    device : callable
        ``device(op)`` is the device of an operation, None if undecided.
    is_free : callable
        ``is_free(op)`` is True if an operation may move.
    """
    crossings: dict[tuple[Tensor, DeviceSpec], _Crossing] = {}
    for op in operations:
        here = device(op)
        for index, tensor in enumerate(op.inputs):
            whole, times = _value_and_uses(tensor)
            home = device(whole.op)
            # A constant does not cross: the devices of its uses have copies.
            if _hands_on(op, index) or here is None or home in (None, here) or whole.op.is_constant:
                continue
            crossing = crossings.setdefault((whole, here), _Crossing())
            # Operations take a part of their first input; other inputs, as the indices of a Gather, are needed whole.
            if index == 0 and _takes_part(op) and is_free(op):
                crossing.takers.append(op)
                crossing.bytes += 0 if op.definition.has(ShapeOnly) else times * size_of(op.outputs)
            else:
                crossing.is_needed = True
    for (whole, _), crossing in crossings.items():
        # Of equal bytes fewer messages are better.
        if not crossing.is_needed and (crossing.bytes, len(crossing.takers)) <= (size_of([whole]), 1):
            home = device(whole.op)
            assert home is not None
            yield from ((op, home) for op in crossing.takers)


def size_of(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors, with each unknown dimension counted as 1."""
    arrays = [(t.dtype.numpy.itemsize, t.shape) for t in tensors if t.dtype.numpy is not None]
    return sum(itemsize * math.prod(n or 1 for n in (shape if shape.rank else ())) for itemsize, shape in arrays)


def _takes_part(op: Operation) -> bool:
    return op.definition.has(TakesPart) or op.definition.has(ShapeOnly)


def _hands_on(op: Operation, index: int) -> bool:
    """Return True if an operation forwards an input, whose real uses are then the uses of the result."""
    return index == 0 and (op.role in SWITCHES or _is_capture(op))


def _is_capture(op: Operation) -> bool:
    """Return True for the Enter of an invariant made by lowering."""
    return is_invariant(op) and op.origin is not None


def _value_and_uses(tensor: Tensor) -> tuple[Tensor, int]:
    """Return the value brought into branches and loops as `tensor`, and the assumed number of uses there."""
    times = 1
    while _hands_on(tensor.op, 0):
        # The factors of nested loops multiply: a part crosses in each iteration of the innermost.
        times *= _TRIPS if _is_capture(tensor.op) else 1
        tensor = tensor.op.inputs[0]
    return tensor, times
