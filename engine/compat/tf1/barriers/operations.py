"""Operations on barriers; users build them by the class of `compat/tf1/barriers/barrier.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ....base.dtypes import DType
from ....base.errors import DtypeError
from ....base.shapes import SCALAR, Shape
from ....ir.definition import REQUIRED, NotDifferentiable, define
from ....ir.operation import Operation
from ....ir.rules.placing import OutlivesStep
from ....ir.static_values import static_dimension
from ....ir.traits import Effect
from ....kernels.core.async_result import AsyncResult
from ....kernels.queues.queue_base import Taken
from ....ops.queues.elements import ElementSpec, are_copied
from ....ops.queues.operations import prepare_then_put
from ....ops.queues.orders import MANY
from ....ops.queues.taking import delivers_taken
from ....ops.support.common import infer_nothing, infer_scalar
from ....ops.support.context import KernelContext
from ....ops.support.shared import SharedKind
from .storage import BarrierSpec, BarrierStorage

CONTAINER = "barriers"
_BARRIERS = SharedKind(CONTAINER, BarrierStorage, "types and shapes")

_REASON = NotDifferentiable("a barrier moves values outside the graph's edges")
_COMPONENTS = {"dtypes_": REQUIRED, "shapes": REQUIRED}


def _barrier_handle(
    xp: Any, context: KernelContext, *, shared_name: str, dtypes_: Sequence[DType], shapes: Sequence[Shape]
) -> BarrierStorage:
    """Return the session's barrier of a shared name, made on first use."""
    spec = BarrierSpec(ElementSpec(tuple(dtypes_), tuple(shapes)))
    return _BARRIERS.get(context.step.resources, shared_name, spec, context.operation)


define(
    "BarrierHandle",
    "-> handle: resource",
    attrs={**_COMPONENTS, "shared_name": REQUIRED},
    shape=lambda op: SCALAR,
    kernel=_barrier_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep()],
)


def _insert_shapes(op: Operation) -> list[Shape]:
    """Check dtype and static shape of the values, one per key."""
    _, keys, values = op.inputs
    if values.dtype is not op.attrs["dtype"]:
        raise DtypeError(
            f"{op.name} was given another dtype than the component's",
            wanted=op.attrs["dtype"],
            got=values.dtype,
            operation=op,
            hint="cast the values to the barrier's type",
        )
    count, shape = keys.shape.merge(Shape([None]))[0], op.attrs["shape"]
    (Shape(None) if shape.rank is None else Shape([count, *shape])).merge(values.shape)
    return infer_nothing(op)


def _insert_many(
    xp: Any, context: KernelContext, barrier: BarrierStorage, keys: Any, values: Any, *, component: int, **_: Any
) -> Any:
    """Insert a component; the rows of large batches are made in a thread."""
    put = partial(barrier.insert, component, operation=context.operation)
    if context.step.long_calls is None or not (are_copied([values], None, parts=True) or len(keys) > MANY):
        return put(barrier.rows(component, keys, values, context.operation))
    return prepare_then_put(context.step.later(barrier.rows), (component, keys, values, context.operation), put)


define(
    "BarrierInsertMany",
    "handle: resource, keys: host string, values: host T ->",
    attrs={"component": REQUIRED, "dtype": REQUIRED, "shape": Shape(None)},
    shape=_insert_shapes,
    kernel=_insert_many,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
)


@delivers_taken
def _take_batch(
    xp: Any,
    context: KernelContext,
    barrier: BarrierStorage,
    count: Any,
    *,
    small_batch: bool,
    wait_for_incomplete: bool,
    **_: Any,
) -> Taken | AsyncResult:
    """Take the indices, keys and values of a batch."""
    return barrier.take(int(count), small_batch, wait_for_incomplete, context.operation)


def _take_shapes(op: Operation) -> list[Shape]:
    count = None if op.attrs["small_batch"] else static_dimension(op.inputs[1])
    batches = [Shape(None) if s.rank is None else Shape([count, *s]) for s in op.attrs["shapes"]]
    return [Shape([count]), Shape([count]), *batches]


define(
    "BarrierTakeMany",
    "handle: resource, count: host int32 -> indices: host int64, keys: host string, values: host *@dtypes_",
    attrs={**_COMPONENTS, "small_batch": False, "wait_for_incomplete": False, "only_fetched": False},
    shape=_take_shapes,
    kernel=_take_batch,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)

define(
    "BarrierClose",
    "handle: resource ->",
    attrs={"cancel_pending": False},
    shape=infer_nothing,
    kernel=lambda xp, context, barrier, *, cancel_pending: barrier.close(cancel_pending, context.operation),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
)


def _count_elements(xp: Any, context: KernelContext, barrier: BarrierStorage, *, incomplete: bool) -> np.int32:
    return np.int32(len(barrier.incomplete if incomplete else barrier.ready))


define(
    "BarrierSize",
    "handle: resource -> size: host int32",
    attrs={"incomplete": False},
    shape=infer_scalar,
    kernel=_count_elements,
    gradient=_REASON,
    effects=Effect.READS,
)
