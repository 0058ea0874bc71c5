"""Operations on queues; users build them by the classes of `frontend/queues/queues.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import DtypeError
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.rules.placing import OutlivesStep
from ...ir.static_values import static_dimension
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.core.continuation import Continuation
from ...kernels.memory.pool import Pool
from ...kernels.queues import queue_kernels as _queue_kernels  # noqa: F401  registers the C kernels
from ...kernels.queues.queue_base import Taken, kept
from ..support.common import infer_nothing, infer_scalar
from ..support.context import KernelContext, LongCall, Resources
from ..support.shared import SharedKind
from .elements import ElementSpec, are_copied
from .orders import MANY
from .queue_spec import QueueSpec
from .storage import QueueStorage
from .taking import delivers_taken

_PACKAGE = __name__.partition(".")[0]
CONTAINER = "queues"
AGREE = "kind, capacity, dtypes and shapes"
_QUEUES = SharedKind(CONTAINER, QueueStorage, AGREE)

_REASON = NotDifferentiable("a queue moves values outside the graph's edges")
_WAITS = Effect.READS | Effect.WRITES | Effect.WAITS


def storage_of(resources: Resources, shared_name: str, spec: QueueSpec, who: str) -> QueueStorage:
    """Return a session's queue or staging area, made on first use; OpError if the specifications differ."""
    if spec.stages:
        # A saved graph may have a staging area though nobody has asked for `compat.tf1` yet, which is a higher layer.
        staging = importlib.import_module(f"{_PACKAGE}.compat.tf1.staging.storage")
        kind: SharedKind[QueueStorage] = SharedKind("staging areas", staging.StagingStorage, AGREE)
        return kind.get(resources, shared_name, spec, who)
    return _QUEUES.get(resources, shared_name, spec, who)


def queue_spec(*, dtypes_: Sequence[DType], shapes: Sequence[Shape], **about: Any) -> QueueSpec:
    """Return the QueueSpec of a QueueHandle's attributes except its shared name."""
    return QueueSpec(elements=ElementSpec(tuple(dtypes_), tuple(shapes)), **about)


def _queue_handle(
    xp: Any,
    context: KernelContext,
    *,
    shared_name: str,
    dtypes_: Sequence[DType],
    shapes: Sequence[Shape],
    **about: Any,
) -> QueueStorage:
    """Return the session's queue of a shared name, made on first use."""
    spec = queue_spec(dtypes_=dtypes_, shapes=shapes, **about)
    return storage_of(context.step.resources, shared_name, spec, context.operation)


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
    kernel=_queue_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep()],
)


def _choose_queue(xp: Any, index: Any, *queues: QueueStorage) -> QueueStorage:
    if not 0 <= index < len(queues):
        raise IndexError(f"there is no queue {index} in a list of {len(queues)}")
    return queues[int(index)]


define(
    "QueueChoice",
    "index: host int32, handles: *resource -> handle: resource",
    shape=lambda op: SCALAR,
    kernel=_choose_queue,
    gradient=_REASON,
)


def _check_components(op: Operation, many: bool) -> None:
    """Raise an error if dtypes or static shapes of the components differ from the queue's."""
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
        # A batch has its elements along a new first dimension.
        whole = shape if not many else Shape(None) if shape.rank is None else Shape([None, *shape])
        whole.merge(tensor.shape)  # in this order, an error says that the queue's shape was wanted


def _put_shapes(op: Operation) -> list[Shape]:
    _check_components(op, many=False)
    return infer_nothing(op)


def _put_many_shapes(op: Operation) -> list[Shape]:
    _check_components(op, many=True)
    return infer_nothing(op)


def _put_components(xp: Any, context: KernelContext, queue: QueueStorage, *components: Any, **_: Any) -> Any:
    pool = context.step.contexts.pool
    if context.step.long_calls is None or not are_copied(components, pool):
        return queue.put(components, context.operation, pool)
    put = partial(queue.put, operation=context.operation, pool=pool)
    return prepare_then_put(context.step.later(kept), (components, pool), put)


def _put_many(xp: Any, context: KernelContext, queue: QueueStorage, *components: Any, **_: Any) -> Any:
    pool = context.step.contexts.pool
    # Without a ring, each row becomes an object of its own, which is slow for many rows.
    copied = are_copied(components, pool, parts=queue.ring is None)
    if context.step.long_calls is None or not (copied or (queue.ring is None and len(components[0]) > MANY)):
        return queue.put_many(queue.rows(components, context.operation), context.operation, pool)
    put = partial(queue.put_many, operation=context.operation, pool=pool)
    return prepare_then_put(context.step.later(_rows_kept), (queue, components, context.operation, pool), put)


def _rows_kept(queue: QueueStorage, components: Sequence[Any], operation: str, pool: Pool | None) -> Any:
    return queue.rows(kept(components, pool) if queue.ring is not None else components, operation)


async def prepare_then_put(
    call: Callable[..., LongCall], arguments: tuple[Any, ...], put: Callable[..., Any]
) -> Continuation:
    """Prepare the elements in a thread before the instance stands in the queue's line."""
    return Continuation(partial(put, await call(*arguments)))


for _type, _kernel, _shapes in (
    ("Enqueue", _put_components, _put_shapes),
    ("EnqueueMany", _put_many, _put_many_shapes),
):
    define(
        _type,
        "handle: resource, components: host *any ->",
        attrs={"dtypes_": REQUIRED, "shapes": REQUIRED},
        shape=_shapes,
        kernel=_kernel,
        gradient=_REASON,
        effects=_WAITS,
    )


@delivers_taken
def _take_element(xp: Any, context: KernelContext, queue: QueueStorage, **_: Any) -> Taken | AsyncResult:
    return queue.take(context.operation)


@delivers_taken
def _take_many(
    xp: Any, context: KernelContext, queue: QueueStorage, count: Any, *, up_to: bool, **_: Any
) -> Taken | AsyncResult:
    return queue.take_many(int(count), context.operation, up_to)


define(
    "Dequeue",
    "handle: resource -> components: host *@dtypes_",
    attrs={"dtypes_": REQUIRED, "shapes": REQUIRED, "only_fetched": False},
    shape=lambda op: list(op.attrs["shapes"]),
    kernel=_take_element,
    gradient=_REASON,
    effects=_WAITS,
)


def _batch_shapes(op: Operation) -> list[Shape]:
    # The last batch of `dequeue_up_to` may be smaller.
    count = None if op.attrs["up_to"] else static_dimension(op.inputs[1])
    return [Shape(None) if shape.rank is None else Shape([count, *shape]) for shape in op.attrs["shapes"]]


define(
    "DequeueMany",
    "handle: resource, count: host int32 -> components: host *@dtypes_",
    attrs={"dtypes_": REQUIRED, "shapes": REQUIRED, "up_to": False, "only_fetched": False},
    shape=_batch_shapes,
    kernel=_take_many,
    gradient=_REASON,
    effects=_WAITS,
)

define(
    "QueueClose",
    "handle: resource ->",
    attrs={"cancel_pending": False},
    shape=infer_nothing,
    kernel=lambda xp, context, queue, *, cancel_pending: queue.close(cancel_pending, context.operation),
    gradient=_REASON,
    effects=_WAITS,
)

define(
    "QueueSize",
    "handle: resource -> size: host int32",
    shape=infer_scalar,
    kernel=lambda xp, context, queue: np.int32(len(queue)),
    gradient=_REASON,
    effects=Effect.READS,
)

define(
    "QueueIsClosed",
    "handle: resource -> closed: host bool",
    shape=infer_scalar,
    kernel=lambda xp, context, queue: np.bool_(queue.closed),
    gradient=_REASON,
    effects=Effect.READS,
)
