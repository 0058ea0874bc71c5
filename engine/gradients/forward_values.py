"""Mirrors: access from a region of the gradient to values of the forward region.

The gradient of a While has a body mirroring the forward body, the gradient of a Cond a branch for each forward
branch. When an operation built there uses a tensor of the forward region, the region asks its mirror, which
uses the tensor directly where possible (loop invariants, constants, counters) and otherwise makes the forward
operation save the value (Yu et al., 2018, section 5.1: such values are discovered while the gradient is built).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtypes import int64
from ..ir import scopes
from ..ir.apply import apply, constant
from ..ir.loops import change_of
from ..ir.operation import Operation
from ..ir.region import Region
from ..ir.rules.gradients import Reread
from ..ir.static_values import static_value
from ..ir.structured import save_maybe, save_series
from ..ir.tensor import Tensor
from .liveness import may_be_dead


class ForwardValues:
    """Makes tensors of `forward` available in `region`.

    Parameters
    ----------
    region : Region
        A region of the gradient; its `resolver` is set.
    forward : Region
        A branch of a Cond or the body of a While.
    index : Tensor, optional
        For a body: the forward iteration, an int64 scalar of `region`.
    """

    def __init__(self, region: Region, forward: Region, index: Tensor | None = None) -> None:
        self.region = region
        self.forward = forward
        self.index = index
        self.memo: dict[Tensor, Tensor] = {}
        region.resolver = self.resolve

    def resolve(self, tensor: Tensor) -> Tensor:
        """Return the stand-in in `region` for a tensor of the forward region, or of a region around."""
        if tensor not in self.memo:
            if tensor.region is self.forward:
                with scopes.inside(self.region):
                    self.memo[tensor] = self._read_value(tensor)
            elif self.forward.sees(tensor):
                self.memo[tensor] = self._resolve_outside(tensor)
            else:  # the forward region is a mirror itself: of a gradient, or of a recomputed region
                self.memo[tensor] = self.resolve(self.forward.resolve(tensor))
        return self.memo[tensor]

    def _resolve_outside(self, tensor: Tensor) -> Tensor:
        assert self.region.parent is not None
        with scopes.inside(self.region.parent):
            return self.region.parent.resolve(tensor)

    def _read_value(self, tensor: Tensor) -> Tensor:
        """Return the value of a forward tensor, in the cheapest way: constants, counters, recomputation, saving."""
        op = tensor.op
        if op.is_constant:
            return constant(op.attrs["value"])
        if op.type == "Identity" and not op.control_inputs:
            return self.region.resolve(op.inputs[0])
        counted = self._compute_counter(tensor)
        if counted is not None:
            return counted
        if op.definition.has(Reread) or self._is_cheap(op):
            inputs = [self.region.resolve(t) for t in op.inputs]
            return apply(op.type, *inputs, **{k: op.attrs[k] for k in op.definition.attrs})
        return self._read_saved(tensor)

    def _read_saved(self, tensor: Tensor) -> Tensor:
        """Return a forward value saved by the forward Cond or While."""
        owner = self.forward.owner
        assert owner is not None
        if self.index is None:
            # A branch runs at most once, so one value is saved, alive only if the branch ran.
            branch = owner.regions.index(self.forward)
            return apply("MaybeGet", self._resolve_outside(save_maybe(owner, branch, tensor)))
        # The body of a loop saves a value in each iteration, in slots by the number of the iteration.
        return read_slot(self._resolve_outside(save_series(owner, tensor)), self.index, tensor)

    def _compute_counter(self, tensor: Tensor) -> Tensor | None:
        """Return the value of the iteration number or of a counter, from the iteration number; None for others."""
        if self.index is None:
            return None
        # Output 1 of an Instance is the number of its iteration.
        if tensor.op.type == "Instance" and tensor.index == 1:
            return self.index
        return counter(tensor, self.index) if tensor.op.is_param else None

    def _is_cheap(self, op: Operation) -> bool:
        """True if recomputing costs less than saving: sums and casts of integer scalars not saved themselves."""
        if op.type not in ("Add", "Sub", "Cast") or any(not t.dtype.is_integer or t.rank != 0 for t in op.inputs):
            return False
        return all(self._is_free(t) for t in op.inputs)

    def _is_free(self, tensor: Tensor) -> bool:
        if tensor.region is not self.forward or tensor.op.is_constant:
            return True
        if tensor.op.is_param and self.index is not None:
            return _constant_step(tensor) is not None
        return self._is_cheap(tensor.op)


def read_slot(series: Tensor, index: Tensor, like: Tensor) -> Tensor:
    """Return the value of `like`, a tensor of the forward loop, from a slot of its series."""
    return apply("SeriesRead", series, index, dtype=like.dtype, shape=like.shape, maybe=may_be_dead(like))


def counter(param: Tensor, index: Tensor) -> Tensor | None:
    """Compute a loop variable with a constant change per iteration from its initial value; None for others."""
    body = param.region
    assert body.owner is not None
    i = body.place_of(param)
    step = _constant_step(param)
    if step is None:
        return None
    start = scopes.current_region().resolve(body.owner.inputs[i])
    if step == 0:
        return start
    offset = index if step == 1 else index * constant(step, int64)
    # The number of the iteration is int64, whatever the dtype of the counter.
    if param.dtype is not int64:
        offset = apply("Cast", offset, dtype=param.dtype)
    return offset if _is_zero(start) else start + offset


def _constant_step(param: Tensor) -> int | None:
    """Return the constant by which a loop variable changes in every iteration; None if there is no such constant."""
    change = change_of(param.region, param.region.place_of(param))
    if change is None or change.amount is None:
        return None if change is None else 0
    value = _fixed_value(change.amount)
    if value is None or value.ndim or not param.dtype.is_integer or param.rank != 0:
        return None
    return change.sign * int(value)


def _is_zero(tensor: Tensor) -> bool:
    value = _fixed_value(tensor)
    return value is not None and not value.any()


def _fixed_value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """Return the value of a constant that no step may feed (rule 58), else None."""
    while tensor.op.type == "Identity" and not tensor.graph.is_feedable(tensor):
        tensor = tensor.op.inputs[0]
    return None if tensor.graph.is_feedable(tensor) else static_value(tensor)
