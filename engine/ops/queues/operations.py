"""Operations on queues; users build them by the classes of `frontend/queues.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import DtypeError
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.traits import Effect
from ..control.py_function import AsyncResult
from ..support.common import nothing, scalar
from ..support.context import KernelContext
from .elements import ElementSpec
from .shared import shared
from .storage import QueueSpec, QueueStorage

CONTAINER = "queues"

_REASON = NotDifferentiable("a queue moves values outside the graph's edges")
_WAITS = Effect.READS | Effect.WRITES | Effect.WAITS


def _handle(
    xp: Any,
    context: KernelContext,
    *,
    shared_name: str,
    dtypes_: Sequence[DType],
    shapes: Sequence[Shape],
    **about: Any,
) -> QueueStorage:
    spec = QueueSpec(elements=ElementSpec(tuple(dtypes_), tuple(shapes)), **about)
    return shared(context, CONTAINER, shared_name, spec, QueueStorage, "kind, capacity, dtypes and shapes")


define(
    "QueueHandle",
    "-> handle: resource",
    attrs={
        "shared_name": REQUIRED,
        "order": "fifo",
        "dtypes_": REQUIRED,
        "shapes": REQUIRED,
        "capacity": -1,
        "capacity_bytes": -1,
        "min_after_dequeue": 0,
        "seed": 0,
    },
    shape=lambda op: SCALAR,
    kernel=_handle,
    gradient=_REASON,
    effects=Effect.READS,
    outlives_step=True,
)


def _check(op: Operation, many: bool) -> None:
    """Check what is known of components while building."""
    wanted = op.attrs["dtypes_"]
    got = tuple(tensor.dtype for tensor in op.inputs[1:])
    if got != tuple(wanted):
        raise DtypeError(
            f"{op.name} was given other dtypes than the queue's",
            wanted=list(wanted),
            got=list(got),
            operation=op,
            hint="cast the components to the queue's dtypes",
        )
    for tensor, shape in zip(op.inputs[1:], op.attrs["shapes"], strict=True):
        whole = shape if not many else Shape(None) if shape.rank is None else Shape([None, *shape])
        tensor.shape.merge(whole)


def _put_shapes(op: Operation) -> list[Shape]:
    _check(op, many=False)
    return nothing(op)


def _put_many_shapes(op: Operation) -> list[Shape]:
    _check(op, many=True)
    return nothing(op)


def _put(xp: Any, context: KernelContext, queue: QueueStorage, *components: Any, **_: Any) -> Any:
    return queue.put(components, context.operation)


def _put_many(xp: Any, context: KernelContext, queue: QueueStorage, *components: Any, **_: Any) -> Any:
    return queue.put_many(components, context.operation)


for _type, _kernel, _shapes in (("Enqueue", _put, _put_shapes), ("EnqueueMany", _put_many, _put_many_shapes)):
    define(
        _type,
        "handle: resource, components: host *any ->",
        attrs={"dtypes_": REQUIRED, "shapes": REQUIRED},
        shape=_shapes,
        kernel=_kernel,
        gradient=_REASON,
        effects=_WAITS,
    )


def _outputs(element: Any) -> Any:
    return element[0] if len(element) == 1 else element


def _given(taken: Any) -> Any:
    """Return a kernel's outputs, or what gives them."""
    if not isinstance(taken, AsyncResult):
        return _outputs(taken)
    convert = taken.convert
    return AsyncResult(taken.source, lambda result: _outputs(convert(result)), taken.give_up, taken.in_order)


def _take(xp: Any, context: KernelContext, queue: QueueStorage, **_: Any) -> Any:
    return _given(queue.take(context.operation))


def _take_many(xp: Any, context: KernelContext, queue: QueueStorage, count: Any, *, up_to: bool, **_: Any) -> Any:
    return _given(queue.take_many(int(count), context.operation, up_to))


define(
    "Dequeue",
    "handle: resource -> components: host *@dtypes_",
    attrs={"dtypes_": REQUIRED, "shapes": REQUIRED},
    shape=lambda op: list(op.attrs["shapes"]),
    kernel=_take,
    gradient=_REASON,
    effects=_WAITS,
)


def _batch_shapes(op: Operation) -> list[Shape]:
    shapes = op.attrs["shapes"]
    return [Shape(None) if shape.rank is None else Shape([None, *shape]) for shape in shapes]


define(
    "DequeueMany",
    "handle: resource, count: host int32 -> components: host *@dtypes_",
    attrs={"dtypes_": REQUIRED, "shapes": REQUIRED, "up_to": False},
    shape=_batch_shapes,
    kernel=_take_many,
    gradient=_REASON,
    effects=_WAITS,
)

define(
    "QueueClose",
    "handle: resource ->",
    attrs={"cancel_pending": False},
    shape=nothing,
    kernel=lambda xp, context, queue, *, cancel_pending: queue.close(cancel_pending, context.operation),
    gradient=_REASON,
    effects=_WAITS,
)

define(
    "QueueSize",
    "handle: resource -> size: host int32",
    shape=scalar,
    kernel=lambda xp, context, queue: np.int32(len(queue)),
    gradient=_REASON,
    effects=Effect.READS,
)

define(
    "QueueIsClosed",
    "handle: resource -> closed: host bool",
    shape=scalar,
    kernel=lambda xp, context, queue: np.bool_(queue.closed),
    gradient=_REASON,
    effects=Effect.READS,
)
