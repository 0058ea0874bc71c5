"""Which operations move to the value that they take a part of, so that the part goes to another device, not the whole.

A value crosses once to each device where it is used. If all who use it there take parts of it, and these are less,
they are taken where the value is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...base.device_names import DeviceSpec
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import SWITCHES
from .groups import is_invariant

_TRIPS = 1000  # iterations that a loop is thought to have: a part crosses in each of them, an invariant once

DeviceOf = Callable[[Operation], "DeviceSpec | None"]


@dataclass(slots=True)
class _Crossing:
    """What a device wants of a value of another one.

    Attributes
    ----------
    takers : list of Operation
        What takes a part of it.
    bytes : int
        Of all these parts.
    is_needed : bool
        Whether anything wants all of it.
    """

    takers: list[Operation] = field(default_factory=list)
    bytes: int = 0
    is_needed: bool = False


def moves(
    operations: Sequence[Operation], device: DeviceOf, is_free: Callable[[Operation], bool]
) -> Iterator[tuple[Operation, DeviceSpec]]:
    """Yield operations, and the devices that they should move to.

    Parameters
    ----------
    operations : sequence of Operation
        Of a lowered program.
    device : callable
        ``device(op)`` is where an operation is, None if that is not decided yet.
    is_free : callable
        ``is_free(op)`` says whether an operation may move.
    """
    crossings: dict[tuple[Tensor, DeviceSpec], _Crossing] = {}
    for op in operations:
        here = device(op)
        for index, tensor in enumerate(op.inputs):
            whole, times = _whole(tensor)
            home = device(whole.op)
            if _hands_on(op, index) or here is None or home in (None, here) or whole.op.is_constant:
                continue
            crossing = crossings.setdefault((whole, here), _Crossing())
            if index == 0 and _takes_part(op) and is_free(op):
                crossing.takers.append(op)
                crossing.bytes += 0 if op.definition.shape_only else times * size_of(op.outputs)
            else:
                crossing.is_needed = True
    for (whole, _), crossing in crossings.items():
        # Of equal bytes fewer messages are better.
        if not crossing.is_needed and (crossing.bytes, len(crossing.takers)) <= (size_of([whole]), 1):
            home = device(whole.op)
            assert home is not None
            yield from ((op, home) for op in crossing.takers)


def size_of(tensors: Iterable[Tensor]) -> int:
    """Return how many bytes tensors have, as far as that is known: what is not counts as one element."""
    arrays = [(t.dtype.numpy.itemsize, t.shape) for t in tensors if t.dtype.numpy is not None]
    return sum(itemsize * math.prod(n or 1 for n in (shape if shape.rank else ())) for itemsize, shape in arrays)


def _takes_part(op: Operation) -> bool:
    return op.definition.is_part or op.definition.shape_only


def _hands_on(op: Operation, index: int) -> bool:
    """Whether an operation passes an input on, so that it is used by those that use the result."""
    return index == 0 and (op.role in SWITCHES or _is_capture(op))


def _is_capture(op: Operation) -> bool:
    """Whether this brings an invariant into a loop that was not made by hand."""
    return is_invariant(op) and op.origin is not None


def _whole(tensor: Tensor) -> tuple[Tensor, int]:
    """Return the value that is brought into branches and loops as `tensor`, and how often that is used there."""
    times = 1
    while _hands_on(tensor.op, 0):
        times *= _TRIPS if _is_capture(tensor.op) else 1
        tensor = tensor.op.inputs[0]
    return tensor, times
