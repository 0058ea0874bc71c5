"""Conditional accumulators: gradients added up until enough have come, those that are late left out (rule 131)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import GraphError, OpError
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.traits import Effect
from ..support.common import nothing, scalar
from ..support.context import KernelContext
from .figures import AccumulatorStatistics
from .line import Attempt, Line
from .saved import checked_state
from .shared import SharedResource, shared

CONTAINER = "accumulators"
REDUCTIONS = ("MEAN", "SUM")


class TakeGrad(Attempt):
    """One who waits for `count` gradients."""

    __slots__ = ("count",)

    def __init__(self, operation: str, count: int) -> None:
        super().__init__(operation)
        self.count: int = count


class AccumulatorStorage(SharedResource):
    """The sum of the gradients applied since the last take; used on the loop's thread only.

    Attributes
    ----------
    name : str
    spec : tuple
        Dtype, shape and reduction; accumulators of one shared name must agree.
    shape : Shape
        The first gradient fixes what is not known.
    total : numpy.ndarray or None
        The sum; nobody else holds it.
    count : int
        How many are in it.
    step : int
        Gradients of earlier steps are dropped.
    takers : Line
        Who waits.
    applied, dropped, taken : int
        Gradients added and left out, and sums taken, so far.
    """

    __slots__ = ("applied", "count", "dropped", "name", "shape", "spec", "step", "taken", "takers", "total")

    def __init__(self, name: str, spec: tuple[DType, Shape, str]) -> None:
        self.name: str = name
        self.spec: tuple[DType, Shape, str] = spec
        self.shape: Shape = spec[1]
        self.total: Any = None
        self.count: int = 0
        self.step: int = 0
        self.takers: Line[TakeGrad] = Line(lambda _: None)
        self.applied: int = 0
        self.dropped: int = 0
        self.taken: int = 0

    @property
    def label(self) -> str:
        """What it is called in errors."""
        return f"sum of accumulator {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the sum, if there is one."""
        return () if self.total is None else (self.total,)

    def cancel(self, error: BaseException) -> None:
        """Wake all who wait with an error."""
        self.takers.fail(lambda _: error)

    async def aclose(self) -> None:
        """Let go of the sum."""
        self.total, self.count = None, 0

    def statistics(self) -> AccumulatorStatistics:
        """Return its figures."""
        size = sum(array.nbytes for array in self.arrays())
        return AccumulatorStatistics(
            self.count, size, self.step, len(self.takers), self.applied, self.dropped, self.taken
        )

    def snapshot(self) -> Any:
        """Return a copy of the sum, the count and the step."""
        return {"total": [] if self.total is None else [self.total.copy()], "count": self.count, "step": self.step}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return what puts a saved sum in the place of this one."""
        saved = checked_state(saved, {"total", "count", "step"}, f"accumulator '{self.name}'")
        total = self._checked_total(**saved)

        def change() -> None:
            self.total, self.count, self.step = total, int(saved["count"]), int(saved["step"])
            if total is not None:
                self.shape = Shape(total.shape)
            self.serve()

        return change

    def _checked_total(self, total: Any, count: Any, step: Any) -> Any:
        """Return a copy of a saved sum, or None; an error if it does not fit, or is not of so many gradients."""
        dtype, shape, _ = self.spec
        fits = isinstance(total, list) and len(total) <= 1 and isinstance(count, int) and isinstance(step, int)
        if fits and (total or count):
            found = total[0] if count > 0 and total else None
            fits = isinstance(found, np.ndarray) and found.dtype == dtype.numpy and shape.includes(Shape(found.shape))
        if not fits:
            raise GraphError(
                f"what was saved of accumulator '{self.name}' does not fit it",
                wanted=f"the sum of some gradients, {dtype} of shape {shape}",
                got=f"{count} gradients, {total}",
                hint="make the accumulator as it was when it was saved",
            )
        return np.array(total[0]) if total else None

    def apply(self, gradient: Any, local_step: int, operation: str) -> bool:
        """Add a gradient, unless it is of an earlier step than the accumulator's; say whether it was added.

        Raises
        ------
        OpError
            If it has another shape.
        """
        if local_step < self.step:
            self.dropped += 1
            return False
        if not self.shape.includes(Shape(np.shape(gradient))):
            raise OpError(
                f"a gradient for accumulator '{self.name}' has another shape",
                wanted=self.shape,
                got=Shape(np.shape(gradient)),
                operation=operation,
                hint="apply gradients of one shape, that of the variable",
            )
        if self.total is None:
            self.total = np.array(gradient)
        else:
            np.add(self.total, gradient, out=self.total)
        self.shape = Shape(self.total.shape)
        self.count += 1
        self.applied += 1
        if self.takers:
            self.serve()
        return True

    def take(self, count: int, operation: str) -> Any:
        """Return the mean or sum of all gradients when there are `count`, or what waits for them.

        Raises
        ------
        OpError
            If `count` is not positive.
        """
        if count <= 0:
            raise OpError(
                f"accumulator '{self.name}' was asked for no gradient",
                wanted="1 or more",
                got=count,
                operation=operation,
                hint="give take_grad a positive num_required",
            )
        if not self.takers and self.count >= count:
            return self._reduced()
        return self.takers.join(TakeGrad(operation, count), self._go_on, self._give_up)

    def serve(self) -> None:
        """Wake the first in line if there is enough for it: it takes all, so nobody else is woken beside it."""
        first = None if self.takers.woken else self.takers.first_waiting
        if first is not None and self.count >= first.count:
            self.takers.wake(first)

    def _go_on(self, take: TakeGrad) -> Any:
        self.takers.leave(take)
        try:
            if take.error is not None:
                raise take.error
            if self.count < take.count:  # it was restored meanwhile
                raise OpError(
                    f"accumulator '{self.name}' was restored while a take waited",
                    operation=take.operation,
                    hint="restore between steps",
                )
            return self._reduced()
        finally:
            self.serve()

    def _give_up(self, take: TakeGrad) -> None:
        self.takers.leave(take)
        self.serve()

    def _reduced(self) -> Any:
        total, count = self.total, self.count
        if self.spec[2] == "MEAN":
            total = np.asarray(np.divide(total, count)).astype(total.dtype, copy=False)
        self.total, self.count = None, 0
        self.step += 1
        self.taken += 1
        return total


_REASON = NotDifferentiable("an accumulator moves values outside the graph's edges")


def _handle(
    xp: Any, context: KernelContext, *, shared_name: str, dtype: DType, shape: Shape, reduction: str
) -> AccumulatorStorage:
    spec = (dtype, shape, reduction)
    return shared(context, CONTAINER, shared_name, spec, AccumulatorStorage, "dtype, shape and reduction_type")


def _set_step(xp: Any, context: KernelContext, accumulator: AccumulatorStorage, step: Any) -> None:
    accumulator.step = int(step)


define(
    "AccumulatorHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "dtype": REQUIRED, "shape": Shape(None), "reduction": "MEAN"},
    shape=lambda op: SCALAR,
    kernel=_handle,
    gradient=_REASON,
    effects=Effect.READS,
    outlives_step=True,
)

define(
    "AccumulatorApplyGradient",
    "handle: resource, local_step: host int64, gradient: host T -> applied: host bool",
    shape=scalar,
    kernel=lambda xp, context, accumulator, local_step, gradient: np.bool_(
        accumulator.apply(gradient, int(local_step), context.operation)
    ),
    gradient=_REASON,
    effects=Effect.WRITES,
)

define(
    "AccumulatorTakeGradient",
    "handle: resource, num_required: host int32 -> gradient: host @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: Shape(op.attrs["shape"]),
    kernel=lambda xp, context, accumulator, num_required, **_: accumulator.take(int(num_required), context.operation),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)

define(
    "AccumulatorNumAccumulated",
    "handle: resource -> count: host int32",
    shape=scalar,
    kernel=lambda xp, context, accumulator: np.int32(accumulator.count),
    gradient=_REASON,
    effects=Effect.READS,
)

define(
    "AccumulatorSetGlobalStep",
    "handle: resource, step: host int64 ->",
    shape=nothing,
    kernel=_set_step,
    gradient=_REASON,
    effects=Effect.WRITES,
)
