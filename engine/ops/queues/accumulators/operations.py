"""Conditional accumulators: sums of gradients, taken when enough have arrived; late ones are dropped (rule 131)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....base import dtypes
from ....base.dtypes import DType
from ....base.errors import GraphError, OpError
from ....base.shapes import SCALAR, Shape
from ....base.turns import Turns
from ....ir.definition import REQUIRED, NotDifferentiable, define
from ....ir.operation import Operation
from ....ir.rules.placing import OutlivesStep
from ....ir.traits import Effect
from ....kernels.core.async_result import AsyncResult
from ....kernels.memory.contexts import outside
from ....kernels.queues.queue_base import Taken
from ....kernels.queues.queue_lines import Attempt, Line
from ...support.common import infer_nothing, infer_scalar
from ...support.context import KernelContext, LongCall, has_succeeded, until_ended
from ...support.copies import is_large
from ...support.shared import SharedKind, SharedResource
from ..saved import checked_state
from ..taking import kernel_outputs
from .figures import AccumulatorStatistics
from .gradient_checks import check_gradient, check_rows
from .gradient_sums import DenseSum, Reduction, SparseSum

CONTAINER = "accumulators"
REDUCTIONS = ("MEAN", "SUM")


class TakeGrad(Attempt):
    """A take which waits for `count` gradients."""

    __slots__ = ("count",)

    def __init__(self, operation: str, count: int) -> None:
        super().__init__(operation)
        self.count: int = count


class AccumulatorSpec(NamedTuple):
    """Dtype, shape, reduction and sparsity; accumulators with one shared name need equal specifications."""

    dtype: DType
    shape: Shape
    reduction: str
    sparse: bool


class AccumulatorStorage(SharedResource):
    """The sum of the gradients applied since the last take; used on the loop's thread only.

    Attributes
    ----------
    name : str
    spec : AccumulatorSpec
    sum : DenseSum or SparseSum
    count : int
        Number of gradients in the sum.
    step : int
        Gradients of earlier steps are dropped.
    takers : Line
        The waiting takes.
    turns : Turns
        A turn lasts while a thread adds a gradient; the sum cannot be taken meanwhile.
    applied, dropped, taken : int
        Numbers of added gradients, of dropped gradients, and of taken sums.
    """

    __slots__ = (
        "_is_adding",
        "_oldest",
        "_returned",
        "_steps_set",
        "_takes",
        "applied",
        "count",
        "dropped",
        "name",
        "spec",
        "step",
        "sum",
        "taken",
        "takers",
        "turns",
    )

    def __init__(self, name: str, spec: AccumulatorSpec) -> None:
        self.name: str = name
        self.spec: AccumulatorSpec = spec
        self.sum: Any = (SparseSum if spec.sparse else DenseSum)(name, spec.dtype, spec.shape)
        self.count: int = 0
        self.step: int = 0
        # A waiting take holds no gradient that a cancelled wait would have to return.
        self.takers: Line[TakeGrad] = Line(lambda _: None)
        self.turns: Turns = Turns()
        self.applied: int = 0
        self.dropped: int = 0
        self.taken: int = 0
        self._takes: int = 0  # number of takes; those before `_oldest` took gradients replaced by a restore
        self._oldest: int = 0
        self._steps_set: int = 0  # number of calls of `set_step`
        self._is_adding: bool = False  # True while a thread writes to the sum
        self._returned: list[Reduction] = []  # returned meanwhile: part of `count`, not of `sum` yet

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return f"sum of accumulator {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the arrays of the sum, if there is one."""
        arrays: Iterable[Any] = self.sum.arrays()
        return arrays

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting takes with an error."""
        self.takers.fail(lambda _: error)

    async def aclose(self) -> None:
        """Release the sum."""
        self.sum.set([])
        self._returned.clear()
        self.count, self._oldest = 0, self._takes

    def statistics(self) -> AccumulatorStatistics:
        """Return the accumulator's statistics."""
        size = sum(array.nbytes for array in self.arrays())
        return AccumulatorStatistics(
            self.count, size, self.step, len(self.takers), self.applied, self.dropped, self.taken
        )

    def snapshot(self) -> Any:
        """Return a copy of the sum, the count and the step."""
        gradients, shape = self._whole_sum(), self.sum.shape
        # Copies, because later gradients are added in place.
        total = [each.copy() for each in gradients.arrays()]
        known = [] if shape.rank is None else [[-1 if size is None else size for size in shape]]
        return {"total": total, "shape": known, "count": self.count, "step": self.step}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which replaces the sum with the saved sum."""
        saved = checked_state(saved, {"total", "shape", "count", "step"}, f"accumulator '{self.name}'")
        total, shape, count, step = (saved[name] for name in ("total", "shape", "count", "step"))
        known = _saved_shape(shape)
        if not (isinstance(count, int) and isinstance(step, int) and self._is_valid_sum(total, known, count)):
            raise GraphError(
                f"what was saved of accumulator '{self.name}' does not fit it",
                wanted=f"the sum of some gradients, {self.spec.dtype} of shape {self.spec.shape}",
                got=f"{count} gradients, {total}",
                hint="make the accumulator as it was when it was saved",
            )
        assert known is not None
        # Copied here: an error must leave the accumulator unchanged.
        copies = list(map(np.array, total))

        def replace_sum() -> None:
            self.sum.set(copies)
            self.sum.shape = known
            self._returned.clear()
            self.count, self.step, self._oldest = count, step, self._takes
            self.serve()

        return replace_sum

    def _whole_sum(self) -> Any:
        """Return the sum including gradients which were returned while a thread adds to the sum."""
        if not self._returned:
            return self.sum
        whole = type(self.sum)(self.name, self.spec.dtype, self.sum.shape)
        whole.set(list(self.sum.arrays()))
        for reduction in self._returned:
            whole.merge(reduction.arrays)
        return whole

    def _is_valid_sum(self, total: Any, shape: Shape | None, count: int) -> bool:
        """Return True if a saved sum, with as much of its shape as is known, is a sum of `count` gradients."""
        if not isinstance(total, list) or shape is None or not self.spec.shape.is_compatible_with(shape):
            return False
        # An empty list is the sum of no gradients.
        if not total:
            return count == 0
        return count > 0 and all(isinstance(each, np.ndarray) for each in total) and self.sum.fits(total, shape)

    def apply(self, gradient: Any, local_step: int, operation: str) -> bool:
        """Add a gradient, unless its step is before the accumulator's; return True if added.

        Raises
        ------
        OpError
            If the gradient has another shape.
        """
        if local_step < self.step:
            self.dropped += 1
            return False
        self.sum.add(gradient, operation)
        self.count += 1
        self.applied += 1
        if self.takers:
            self.serve()
        return True

    async def apply_elsewhere(
        self, call: Callable[..., LongCall], gradient: Any, local_step: int, operation: str
    ) -> np.bool_:
        """Add a gradient in a thread after earlier gradients; an addition once begun ends before its cancelled step."""
        try:
            async with self.turns.turn():
                while self.takers.woken:  # woken takes remove the sum in this turn of the event loop
                    await asyncio.sleep(0)
                # Compared in its turn: takes before it may have raised `step`.
                if local_step < self.step:
                    self.dropped += 1
                    return np.bool_(False)
                await self._add_elsewhere(call(self.sum.add, gradient, operation))
            return np.bool_(True)
        finally:
            self.serve()

    async def _add_elsewhere(self, running: LongCall) -> None:
        """Wait for a thread's addition, then merge the sums returned meanwhile and count the gradient."""
        self._is_adding = True
        try:
            await until_ended(running)
            running.result()
        finally:
            self._is_adding = False
            outside(self._merge_returned)
            # Also of a cancelled step: the thread has added the gradient to the sum.
            self.count += has_succeeded(running)
            self.applied += has_succeeded(running)
            del running  # the traceback of its error refers to this frame

    def is_long(self, gradient: Any) -> bool:
        """Return True if adding a gradient is slow or has to wait for another addition."""
        parts = gradient if isinstance(gradient, tuple) else (gradient,)
        return self.turns.taken or any(map(is_large, (*parts, *self.arrays())))

    def set_step(self, step: int) -> None:
        """Drop gradients of steps before `step` from now on."""
        self.step = step
        self._steps_set += 1

    def take(self, count: int, operation: str) -> Taken | AsyncResult:
        """Take all gradients, at least `count`: return the Taken of a `Reduction`, or an AsyncResult which waits.

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
        if not self.takers and self.count >= count and not self.turns.taken:
            return self._take_sum()
        return self.takers.join(TakeGrad(operation, count), self._go_on, self._give_up)

    def serve(self) -> None:
        """Wake the first take in line if enough gradients are in; a take empties the sum, so no other is woken."""
        # A sum that a thread adds to cannot be taken; `apply_elsewhere` serves again after its turn.
        first = None if self.takers.woken or self.turns.taken else self.takers.first_waiting
        if first is not None and self.count >= first.count:
            self.takers.wake(first)

    def _go_on(self, take: TakeGrad) -> Taken:
        """Finish a woken take; the next in line is served also after an error."""
        self.takers.leave(take)
        try:
            if take.error is not None:
                raise take.error
            if self.count < take.count:  # a restore has replaced the sum meanwhile
                raise OpError(
                    f"accumulator '{self.name}' was restored while a take waited",
                    operation=take.operation,
                    hint="restore between steps",
                )
            return self._take_sum()
        finally:
            self.serve()

    def _give_up(self, take: TakeGrad) -> None:
        self.takers.leave(take)
        self.serve()

    # A take raises `step`: gradients computed before it are out of date from then on.
    def _take_sum(self) -> Taken:
        reduction: Reduction = self.sum.take(self.count, self.spec.reduction == "MEAN")
        self.count = 0
        self.step += 1
        self.taken += 1
        self._takes += 1
        put_back = partial(self._put_back, self._steps_set)
        return Taken([reduction], _make_reduction, put_back, self._takes - 1, reduction.is_long)

    def _put_back(self, steps_set: int, reductions: list[Reduction], number: int) -> None:
        """Undo a take: merge its gradients with later ones, and take back the step unless set since."""
        if number < self._oldest:
            return
        (reduction,) = reductions
        self.count += reduction.gradients
        self.taken -= 1
        # A step set by the user since the take stays.
        if steps_set == self._steps_set:
            self.step -= 1
        self._returned.append(reduction)
        # Otherwise `_add_elsewhere` merges, after the thread has ended.
        if not self._is_adding:
            outside(self._merge_returned)  # outside of every step's memory limit
        self.serve()

    def _merge_returned(self) -> None:
        while self._returned:
            self.sum.merge(self._returned.pop(0).arrays)


def _make_reduction(reductions: list[Reduction]) -> tuple[Any, ...]:
    (reduction,) = reductions
    return _as_parts(reduction.make(False))


def _reduced_in_place(reductions: list[Reduction]) -> tuple[Any, ...]:
    (reduction,) = reductions
    return _as_parts(reduction.make(True))


def _as_parts(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _saved_shape(saved: Any) -> Shape | None:
    """Return the shape of a snapshot, or None if the saved value is malformed."""
    # A snapshot has an empty list for an unknown rank, and a list of the sizes for others.
    if saved == []:
        return Shape(None)
    fits = isinstance(saved, list) and len(saved) == 1 and isinstance(saved[0], list)
    if not fits or not all(isinstance(size, int) and size >= -1 for size in saved[0]):
        return None
    return Shape([None if size < 0 else size for size in saved[0]])


_OF_GRADIENTS = {"dtype": None, "shape": Shape(None)}  # of the accumulator; for checks while the graph is built
_ACCUMULATORS = SharedKind(CONTAINER, AccumulatorStorage, "dtype, shape, reduction_type and kind of gradient")
_REASON = NotDifferentiable("an accumulator moves values outside the graph's edges")


def _accumulator_handle(xp: Any, context: KernelContext, *, shared_name: str, **about: Any) -> AccumulatorStorage:
    """Return the session's accumulator of a shared name, made on first use."""
    return _ACCUMULATORS.get(context.step.resources, shared_name, AccumulatorSpec(**about), context.operation)


def _apply_gradient(
    xp: Any, context: KernelContext, accumulator: AccumulatorStorage, local_step: Any, *parts: Any, **_: Any
) -> Any:
    gradient = parts if accumulator.spec.sparse else parts[0]
    if context.step.long_calls is None or not accumulator.is_long(gradient):
        return np.bool_(accumulator.apply(gradient, int(local_step), context.operation))
    return accumulator.apply_elsewhere(context.step.later(_call_function), gradient, int(local_step), context.operation)


def _call_function(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _take_gradients(
    xp: Any,
    context: KernelContext,
    accumulator: AccumulatorStorage,
    num_required: Any,
    *,
    only_fetched: bool,
    **_: Any,
) -> Any:
    """Return the reduced gradients, or an AsyncResult of them."""
    taken = accumulator.take(int(num_required), context.operation)
    if not only_fetched:
        taken = taken.then(_for_good) if isinstance(taken, AsyncResult) else _for_good(taken)
    return kernel_outputs(context, taken, only_fetched)


def _for_good(taken: Taken) -> Taken:
    """Divide the sum in place if the mean is made at once; a mean made by a thread may still be returned."""
    if not taken.is_long:
        taken.make = _reduced_in_place
    return taken


def _rows_shapes(op: Operation) -> list[Shape]:
    shape = Shape(op.attrs["shape"])
    rows = Shape(None) if shape.rank is None else Shape([None, *shape[1:]])
    return [Shape([None]), rows, Shape([shape.rank])]


def _set_step(xp: Any, context: KernelContext, accumulator: AccumulatorStorage, step: Any) -> None:
    accumulator.set_step(int(step))


define(
    "AccumulatorHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "dtype": REQUIRED, "shape": Shape(None), "reduction": "MEAN", "sparse": False},
    shape=lambda op: SCALAR,
    kernel=_accumulator_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep()],
)

define(
    "AccumulatorApplyGradient",
    "handle: resource, local_step: host int64, gradient: host T -> applied: host bool",
    attrs=_OF_GRADIENTS,
    shape=check_gradient,
    kernel=_apply_gradient,
    gradient=_REASON,
    effects=Effect.WRITES,
)

define(
    "AccumulatorTakeGradient",
    "handle: resource, num_required: host int32 -> gradient: host @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None), "only_fetched": False},
    shape=lambda op: Shape(op.attrs["shape"]),
    kernel=_take_gradients,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)

define(
    "AccumulatorApplyRows",
    "handle: resource, step: host int64, values: host T, indices: host I, shape: host int64 -> applied: host bool",
    where={"T": dtypes.NUMERIC, "I": dtypes.INDEX},
    attrs=_OF_GRADIENTS,
    shape=check_rows,
    kernel=_apply_gradient,
    gradient=_REASON,
    effects=Effect.WRITES,
)

define(
    "AccumulatorTakeRows",
    "handle: resource, num_required: host int32 -> indices: host int64, values: host @dtype, shape: host int64",
    attrs={"dtype": REQUIRED, "shape": Shape(None), "only_fetched": False},
    shape=_rows_shapes,
    kernel=_take_gradients,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)

define(
    "AccumulatorNumAccumulated",
    "handle: resource -> count: host int32",
    shape=infer_scalar,
    kernel=lambda xp, context, accumulator: np.int32(accumulator.count),
    gradient=_REASON,
    effects=Effect.READS,
)

define(
    "AccumulatorSetGlobalStep",
    "handle: resource, step: host int64 ->",
    shape=infer_nothing,
    kernel=_set_step,
    gradient=_REASON,
    effects=Effect.WRITES,
)
