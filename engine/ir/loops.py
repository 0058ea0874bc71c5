"""What is known of a While: its counters, how often it runs, and which rows of arrays its iterations read.

The one place that knows how a loop variable changes. Passes, gradients and reports ask different questions of it: by
what (:func:`change_of`), which reports follow to what stays the same and gradients to what no step may feed; by which
number (`Change.constant`); or how a value made of counters goes on from iteration to iteration (`Loop.slope`).

See docs/design/0020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from .operation import Operation
from .region import Region
from .structured import num_results, saved_outputs
from .tensor import Tensor
from .traits import Effect

Array = np.ndarray[Any, Any]

_LONGEST = 1 << 16  # iterations of a loop whose predicate is tried for each of them while compiling


@dataclass(frozen=True, slots=True)
class Change:
    """By how much a loop variable changes in every iteration.

    Attributes
    ----------
    amount : Tensor or None
        What is added, or taken away; None for a variable that stays as it is. It may change itself.
    sign : int
        1 or -1.
    """

    amount: Tensor | None
    sign: int = 1

    @property
    def constant(self) -> int | None:
        """The change as an integer, if it is one and the same in all iterations and known."""
        if self.amount is None:
            return 0
        op = bare(self.amount).op
        known = op.is_constant and op.attrs["value"].ndim == 0 and self.amount.dtype.is_integer
        return self.sign * int(op.attrs["value"]) if known else None


def bare(tensor: Tensor, casts: bool = False) -> Tensor:
    """Return what a tensor is a mere copy of, or cast from."""
    while tensor.op.type in ("Identity", "StopGradient") or (casts and tensor.op.type == "Cast"):
        tensor = tensor.op.inputs[0]
    return tensor


def change_of(body: Region, i: int, casts: bool = False) -> Change | None:
    """Return by how much loop variable `i` changes; None if its next value is no sum of its value and another."""
    param, result = body.params[i], bare(body.results[i], casts)
    if result is param:
        return Change(None)
    if result.op.type not in ("Add", "Sub") or not result.dtype.is_numeric or result.rank != 0:
        return None
    is_sum = result.op.type == "Add"
    left, right = result.op.inputs
    if bare(left, casts) is param:
        return Change(right, 1 if is_sum else -1)
    return Change(left) if is_sum and bare(right, casts) is param else None


class Loop:
    """A While as passes see it.

    Parameters
    ----------
    op : Operation
        The While.

    Attributes
    ----------
    cond, body : Region
    """

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.cond: Region = op.regions[0]
        self.body: Region = op.regions[1]
        self._starts: dict[Tensor, int | None] = {}  # asked for again and again; each may be the trip count of a loop

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor is the same for all iterations since it is made around the loop."""
        return not (self.body.encloses(tensor.region) or self.cond.encloses(tensor.region))

    def step(self, param: Tensor) -> int | None:
        """Return by which integer of its dtype a loop variable changes in every iteration; None for others."""
        if param.region not in (self.cond, self.body):
            return None
        change = change_of(self.body, param.region.place_of(param))
        if change is None or change.constant is None or not param.dtype.is_integer or param.rank != 0:
            return None
        range_ = np.iinfo(param.dtype.numpy)  # the smallest integer may be taken away, which only wraps
        return change.constant if range_.min <= change.constant <= range_.max else None

    def start(self, param: Tensor) -> Tensor:
        """Return the first value of a loop variable."""
        return self.op.inputs[param.region.place_of(param)]

    def slope(self, tensor: Tensor) -> int | None:
        """Return by which integer a scalar goes on from one iteration to the next; None if that is not known."""
        found: dict[Tensor, int | None] = {}
        work = [tensor]
        while work:  # each operand before what is made of it
            top = work[-1]
            inner = self._integers(top)
            missing = [t for t in inner if t not in found]
            if missing:
                work += missing
            else:
                slopes = [found[t] for t in inner]
                known = inner and None not in slopes
                found[work.pop()] = _slope(top.op, slopes) if known else self._own_slope(top)  # type: ignore[arg-type]
        return found[tensor]

    def _integers(self, tensor: Tensor) -> list[Tensor]:
        """Return the operands of a scalar of the loop that is made of integers alone."""
        op = tensor.op
        if self.is_outside(tensor) or op.is_constant or op.is_param:
            return []
        return op.inputs if {t.dtype for t in (*op.inputs, tensor)} <= {dtypes.int32, dtypes.int64} else []

    def _own_slope(self, tensor: Tensor) -> int | None:
        """Return the slope of what is no sum or product: 0 for invariants, the step of a counter."""
        if self.is_outside(tensor) or tensor.op.is_constant:
            return 0
        return self.step(tensor) if tensor.op.is_param else None

    def trip_count(self) -> int | None:
        """Return how often the body runs, if its counters and their bounds are constants."""
        count = 1
        while count <= _LONGEST:
            going_on = self.values(self.cond.results[0], count)
            if going_on is None or going_on.dtype != np.bool_:
                return None
            if not going_on.all():
                return int(np.argmin(going_on))
            count *= 16
        return None

    def values(self, tensor: Tensor, count: int) -> Array | None:
        """Return what a scalar made of counters and constants is in the first iterations, if it can be computed.

        Returns
        -------
        array of shape (count,) or None
        """
        found: dict[Tensor, Array | None] = {}
        work = [tensor]
        while work:
            top = work[-1]
            operands = top.op.inputs if _is_elementwise(top) else []
            missing = [t for t in operands if t not in found]
            if missing:
                work += missing
            else:
                value = _evaluate(top.op, [found[t] for t in operands]) if operands else self._first(top, count)
                found[work.pop()] = None if value is None else np.broadcast_to(value, (count,))
        return found[tensor]

    def _known_start(self, tensor: Tensor) -> int | None:
        if tensor not in self._starts:
            self._starts[tensor] = known_start(tensor)
        return self._starts[tensor]

    def _first(self, tensor: Tensor, count: int) -> Array | None:
        """Return the values of a counter, or of a constant."""
        if tensor.op.is_constant:
            return tensor.op.attrs["value"] if tensor.rank == 0 else None
        step = self.step(tensor) if tensor.op.is_param else None
        start = None if step is None else self._known_start(self.start(tensor))
        if start is None or step is None:
            return None
        last = start + step * (count - 1)
        info = np.iinfo(tensor.dtype.numpy)
        return start + step * np.arange(count, dtype=tensor.dtype.numpy) if info.min <= last <= info.max else None


def _slope(op: Operation, slopes: list[int]) -> int | None:
    """Return the slope of what integers of known slopes are made into."""
    if op.type in ("Identity", "Cast"):
        return slopes[0]
    if op.type in ("Add", "Sub"):
        return slopes[0] + (slopes[1] if op.type == "Add" else -slopes[1])
    if op.type == "Mul":
        for factor, slope in zip(op.inputs, reversed(slopes), strict=True):
            if factor.op.is_constant:
                return int(factor.op.attrs["value"]) * slope
    return 0 if not any(slopes) and op.definition.batch is not None else None


def known_start(tensor: Tensor) -> int | None:
    """Return an integer scalar that is a constant, or the trip count of another loop if that is known."""
    op = tensor.op
    if op.is_constant and tensor.rank == 0:
        return int(op.attrs["value"])
    saved = tensor.index - num_results(op) if op.is_while else -1
    return Loop(op).trip_count() if saved >= 0 and saved_outputs(op)[saved].kind == "trip" else None


def _is_elementwise(tensor: Tensor) -> bool:
    """Whether a scalar is computed from scalars alone, without effects."""
    op = tensor.op
    scalars = all(t.rank == 0 for t in (*op.inputs, *op.outputs))
    pure = op.definition.kernel is not None and op.definition.effects is Effect.NONE and not op.control_inputs
    return scalars and pure and op.definition.batch is not None and len(op.outputs) == 1


def _evaluate(op: Operation, values: list[Array | None]) -> Array | None:
    attrs = {key: op.attrs[key] for key in op.definition.attrs}
    if any(value is None for value in values) or op.definition.kernel is None:
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.definition.kernel(np, *values, **attrs))
    except Exception:
        return None  # the step reports it, if it comes so far


def is_counted(op: Operation) -> bool:
    """Whether how often a While runs depends on counters and on what is known when it begins, not on what it computes.

    The loop of a gradient runs as often as the forward loop did.
    """
    loop = Loop(op)
    work, seen = list(loop.cond.results), set(loop.cond.results)
    for tensor in work:  # grows while it is read
        if loop.is_outside(tensor):
            continue  # a variable of a loop around this one, too
        if tensor.op.is_param:
            start = loop.start(tensor)
            forward = start.op if start.op.is_while and start.index >= num_results(start.op) else None
            if loop.step(tensor) is None or (forward is not None and not is_counted(forward)):
                return False
        else:
            if tensor.op.regions or tensor.op.definition.effects is not Effect.NONE:
                return False
            new = [t for t in tensor.op.inputs if t not in seen]
            work += new
            seen.update(new)
    return True
