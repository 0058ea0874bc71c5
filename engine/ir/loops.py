"""Static knowledge of a While: its counters, its trip count, and how values advance from iteration to iteration.

The only place with rules for changes of loop variables. Passes, gradients and reports ask different questions: the
amount (:func:`change_of`), which reports follow to unchanging values and gradients to values that no step may feed; the
constant amount (`Change.constant`); or the slope of a value computed from counters (`Loop.slope`).

See docs/design/0020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from .operation import Operation
from .region import Region
from .rules.batching import Batch
from .structured import SavedOutput, num_results, saved_outputs
from .tensor import Tensor
from .traits import Effect, Role

Array = np.ndarray[Any, Any]

_LONGEST = 1 << 16  # iterations up to which a loop's predicate is evaluated while compiling


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a loop variable in every iteration.

    Attributes
    ----------
    amount : Tensor or None
        The tensor added or subtracted, which may vary; None for an unchanging variable.
    sign : int
        1 or -1.
    """

    amount: Tensor | None
    sign: int = 1

    @property
    def constant(self) -> int | None:
        """The change as an integer, if known and equal in all iterations; else None."""
        if self.amount is None:
            return 0
        op = bare(self.amount).op
        known = op.is_constant and op.attrs["value"].ndim == 0 and self.amount.dtype.is_integer
        return self.sign * int(op.attrs["value"]) if known else None


def bare(tensor: Tensor, casts: bool = False) -> Tensor:
    """Return the tensor at the start of a chain of copies; with `casts`, also of Casts."""
    while tensor.op.type in ("Identity", "StopGradient") or (casts and tensor.op.type == "Cast"):
        tensor = tensor.op.inputs[0]
    return tensor


def change_of(body: Region, i: int, casts: bool = False) -> Change | None:
    """Return the change of loop variable `i`; None if its next value is not its value plus or minus another tensor."""
    param, result = body.params[i], bare(body.results[i], casts)
    if result is param:
        return Change(None)
    sign = _sign_of_second(result.op)
    if sign is None or not result.dtype.is_numeric or result.rank != 0:
        return None
    left, right = result.op.inputs
    if bare(left, casts) is param:
        return Change(right, sign)
    return Change(left) if sign > 0 and bare(right, casts) is param else None


def _sign_of_second(op: Operation) -> int | None:
    """Return the sign of the second operand of a sum or difference; None for other operations."""
    return {"Add": 1, "Sub": -1}.get(op.type)


class Loop:
    """Analysis of a While for passes.

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
        self._starts: dict[Tensor, int | None] = {}  # asked for repeatedly; each may be the trip count of a loop

    def is_outside(self, tensor: Tensor) -> bool:
        """True if a tensor is computed outside the loop, and so is the same for all iterations."""
        return not (self.body.encloses(tensor.region) or self.cond.encloses(tensor.region))

    def step(self, param: Tensor) -> int | None:
        """Return the integer, in its dtype, by which a loop variable changes in every iteration; None for others."""
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
        """Return the integer by which a scalar advances in each iteration; None if unknown."""
        found: dict[Tensor, int | None] = {}
        work = [tensor]
        while work:  # operands before results; a stack, since chains may be longer than Python's recursion limit
            top = work[-1]
            inner = self._integer_operands(top)
            missing = [t for t in inner if t not in found]
            if missing:
                work += missing
            else:
                slopes = [slope for t in inner if (slope := found[t]) is not None]
                known = inner and len(slopes) == len(inner)
                found[work.pop()] = _slope_of_result(top.op, slopes) if known else self._own_slope(top)
        return found[tensor]

    def _integer_operands(self, tensor: Tensor) -> list[Tensor]:
        """Return the operands of a scalar of the loop if all are integers; none for leaves and other scalars."""
        op = tensor.op
        if self.is_outside(tensor) or op.is_constant or op.is_param:
            return []
        return op.inputs if {t.dtype for t in (*op.inputs, tensor)} <= {dtypes.int32, dtypes.int64} else []

    def _own_slope(self, tensor: Tensor) -> int | None:
        """Return the slope of a leaf: 0 for invariants and constants, the step of a counter."""
        if self.is_outside(tensor) or tensor.op.is_constant:
            return 0
        return self.step(tensor) if tensor.op.is_param else None

    def trip_count(self) -> int | None:
        """Return the number of iterations, if the counters and their bounds are constants; else None."""
        # Blocks that grow by 16: most loops are short, and one evaluation of the longest costs 65,536 elements.
        count = 1
        while count <= _LONGEST:
            going_on = self.values(self.cond.results[0], count)
            if going_on is None or going_on.dtype != np.bool_:
                return None
            if not going_on.all():
                # argmin of bools is the place of the first False.
                return int(np.argmin(going_on))
            count *= 16
        return None

    def surely_runs(self) -> bool:
        """Return True if the loop is known to run an iteration, whenever the region around it runs."""
        if self.op.notes.is_segment:
            around = self.op.region.owner
            return around is not None and bool(Loop(around).trip_count())
        return bool(self.trip_count())

    def values(self, tensor: Tensor, count: int) -> Array | None:
        """Return the values of a scalar in the first `count` iterations, if computable from counters and constants.

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
                value = (
                    _evaluate_kernel(top.op, [found[t] for t in operands])
                    if operands
                    else self._first_values(top, count)
                )
                found[work.pop()] = None if value is None else np.broadcast_to(value, (count,))
        return found[tensor]

    def _known_start(self, tensor: Tensor) -> int | None:
        if tensor not in self._starts:
            self._starts[tensor] = known_start(tensor)
        return self._starts[tensor]

    def _first_values(self, tensor: Tensor, count: int) -> Array | None:
        """Return the values of a counter or constant; None if the start is unknown or the counter overflows."""
        if tensor.op.is_constant:
            return tensor.op.attrs["value"] if tensor.rank == 0 else None
        if tensor.op.role is Role.SERIES_READ and self.is_outside(tensor):
            known = self._known_start(tensor)
            return None if known is None else np.asarray(known, tensor.dtype.numpy)
        step = self.step(tensor) if tensor.op.is_param else None
        start = None if step is None else self._known_start(self.start(tensor))
        if start is None or step is None:
            return None
        # In Python integers, which do not overflow: in its own dtype a counter would wrap around.
        last = start + step * (count - 1)
        info = np.iinfo(tensor.dtype.numpy)
        return start + step * np.arange(count, dtype=tensor.dtype.numpy) if info.min <= last <= info.max else None


def _counted_by(tensor: Tensor) -> list[Operation]:
    """Return the loops whose trip counts a scalar is, or is computed from by the arithmetic of gradients."""
    op = tensor.op
    if op.role is Role.SERIES_READ:
        value = _saved_scalar(tensor)
        return [] if value is None else _counted_by(value)
    if _is_integer_arithmetic(tensor):
        return [loop for t in op.inputs for loop in _counted_by(t)]
    saved = _saved_by_loop(tensor)
    return [op] if saved is not None and saved.kind == "trip" else []


def _slope_of_result(op: Operation, slopes: list[int]) -> int | None:
    """Return the slope of an operation's result from the slopes of its integer operands; None if unknown."""
    if op.type in ("Identity", "Cast"):
        return slopes[0]
    sign = _sign_of_second(op)
    if sign is not None:
        return slopes[0] + sign * slopes[1]
    if op.type == "Mul":
        # Each factor is paired with the slope of the other one.
        for factor, slope in zip(op.inputs, reversed(slopes), strict=True):
            if factor.op.is_constant:
                return int(factor.op.attrs["value"]) * slope
    # Elementwise functions of invariant operands are invariant; of others, nothing is known.
    return 0 if not any(slopes) and op.definition.has(Batch) else None


def known_start(tensor: Tensor) -> int | None:
    """Return the value of an integer scalar; None if unknown.

    It is known of a constant, of the trip count of another loop, also if saved by a loop around that, and of a sum or
    quotient of such values, such as a number of segments.
    """
    op = tensor.op
    if op.is_constant and tensor.rank == 0:
        return int(op.attrs["value"])
    if op.role is Role.SERIES_READ:
        value = _saved_scalar(tensor)
        return None if value is None else known_start(value)
    if _is_integer_arithmetic(tensor):
        return _computed_start(tensor)
    saved = _saved_by_loop(tensor)
    return Loop(op).trip_count() if saved is not None and saved.kind == "trip" else None


def _computed_start(tensor: Tensor) -> int | None:
    """Return the value of an integer computed from known scalars; None if any is unknown."""
    values = [known_start(t) for t in tensor.op.inputs]
    arrays = [
        None if v is None else np.asarray(v, t.dtype.numpy) for v, t in zip(values, tensor.op.inputs, strict=True)
    ]
    found = _evaluate_kernel(tensor.op, arrays)
    return None if found is None else int(found)


def _saved_scalar(tensor: Tensor) -> Tensor | None:
    """Return the value that a loop around another saved, of which a scalar is read; None if there is none."""
    saved = _saved_by_loop(tensor.op.inputs[0])
    return None if saved is None or tensor.rank != 0 else saved.value


def _is_integer_arithmetic(tensor: Tensor) -> bool:
    """Return True for an integer computed from several scalars, such as a sum, a quotient or a minimum."""
    return tensor.dtype.is_integer and _is_elementwise(tensor) and len(tensor.op.inputs) > 1


def _saved_by_loop(tensor: Tensor) -> SavedOutput | None:
    """Return the description of a result that a While saves; None for other tensors."""
    place = tensor.index - num_results(tensor.op) if tensor.op.is_while else -1
    return saved_outputs(tensor.op)[place] if place >= 0 else None


def _is_elementwise(tensor: Tensor) -> bool:
    """True if a scalar is computed from scalars alone, without effects."""
    op = tensor.op
    scalars = all(t.rank == 0 for t in (*op.inputs, *op.outputs))
    pure = op.definition.kernel is not None and op.definition.effects is Effect.NONE and not op.control_inputs
    return scalars and pure and op.definition.has(Batch) and len(op.outputs) == 1


def _evaluate_kernel(op: Operation, values: list[Array | None]) -> Array | None:
    """Return the kernel's result for arrays; None if an operand is unknown or the kernel raises."""
    attrs = {key: op.attrs[key] for key in op.definition.attrs}
    if any(value is None for value in values) or op.definition.kernel is None:
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.definition.kernel(np, *values, **attrs))
    except Exception:
        return None  # the step reports the error, if execution reaches the operation


def is_counted(op: Operation) -> bool:
    """True if the trip count of a While depends on counters and on values known at its start, not on computed values.

    The loop of a gradient, or of iterations that run again, is counted if the forward loop is.
    """
    loop = Loop(op)
    work, seen = list(loop.cond.results), set(loop.cond.results)
    for tensor in work:  # grows while it is read
        if loop.is_outside(tensor):  # a variable of a loop around this one, too
            if not all(map(is_counted, _counted_by(tensor))):
                return False
        elif tensor.op.is_param:
            if loop.step(tensor) is None or not all(map(is_counted, _counted_by(loop.start(tensor)))):
                return False
        else:
            if tensor.op.regions or tensor.op.definition.effects is not Effect.NONE:
                return False
            new = [t for t in tensor.op.inputs if t not in seen]
            work += new
            seen.update(new)
    return True
