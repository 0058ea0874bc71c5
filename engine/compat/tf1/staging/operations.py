"""Operations on staging areas; users build them by the classes of `compat/tf1/staging/areas.py`.

A staging area is a queue of the order "staging"; the operations of queues put elements in and take elements.
"""

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
from ....ir.traits import Effect
from ....kernels.core.async_result import AsyncResult
from ....kernels.queues.queue_base import Taken, kept
from ....ops.queues.elements import ElementSpec, are_copied
from ....ops.queues.operations import prepare_then_put
from ....ops.queues.taking import delivers_taken
from ....ops.support.common import infer_nothing, infer_scalar
from ....ops.support.context import KernelContext
from ....ops.support.shared import SharedKind
from .map_entries import Indices
from .map_storage import MapSpec, MapStorage
from .storage import StagingStorage

CONTAINER = "map staging areas"

_REASON = NotDifferentiable("a staging area moves values outside the graph's edges")
_WAITS = Effect.READS | Effect.WRITES | Effect.WAITS
_COMPONENTS = {"dtypes_": REQUIRED, "shapes": REQUIRED}


def _one_or_all(element: Any) -> Any:
    return element[0] if len(element) == 1 else element


def _outputs_of(found: Any, outputs: Any) -> Any:
    """Return ``outputs(found)``, or an AsyncResult of the outputs if `found` is an AsyncResult."""
    return found.then(outputs) if isinstance(found, AsyncResult) else outputs(found)


def _compute_peek(xp: Any, context: KernelContext, area: StagingStorage, index: Any, **_: Any) -> Any:
    return _outputs_of(area.peek(int(index), context.operation), _one_or_all)


define(
    "StagePeek",
    "handle: resource, index: host int32 -> components: host *@dtypes_",
    attrs=_COMPONENTS,
    shape=lambda op: list(op.attrs["shapes"]),
    kernel=_compute_peek,
    gradient=_REASON,
    effects=Effect.READS | Effect.WAITS,
)

define(
    "StageClear",
    "handle: resource ->",
    shape=infer_nothing,
    kernel=lambda xp, context, area: area.clear(),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
)


_MAPS = SharedKind(CONTAINER, MapStorage, "dtypes, shapes, order, capacity and memory_limit")


def _map_handle(
    xp: Any,
    context: KernelContext,
    *,
    shared_name: str,
    dtypes_: Sequence[DType],
    shapes: Sequence[Shape],
    **about: Any,
) -> MapStorage:
    """Return the session's map staging area of a shared name, made on first use."""
    spec = MapSpec(ElementSpec(tuple(dtypes_), tuple(shapes)), **about)
    return _MAPS.get(context.step.resources, shared_name, spec, context.operation)


define(
    "MapStageHandle",
    "-> handle: resource",
    attrs={**_COMPONENTS, "shared_name": REQUIRED, "capacity": 0, "memory_limit": 0, "ordered": False},
    shape=lambda op: SCALAR,
    kernel=_map_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep()],
)


def _put_shapes(op: Operation) -> list[Shape]:
    """Check the dtypes and static shapes of the components."""
    got, wanted = tuple(tensor.dtype for tensor in op.inputs[2:]), tuple(op.attrs["dtypes_"])
    if got != wanted:
        raise DtypeError(
            f"{op.name} was given other dtypes than the map staging area's",
            wanted=list(wanted),
            got=list(got),
            operation=op,
            hint="cast the components to the area's dtypes",
        )
    for tensor, shape in zip(op.inputs[2:], op.attrs["shapes"], strict=True):
        shape.merge(tensor.shape)
    return infer_nothing(op)


def _map_put(
    xp: Any, context: KernelContext, area: MapStorage, key: Any, *components: Any, indices: Indices, **_: Any
) -> Any:
    pool = context.step.contexts.pool
    put = partial(area.put, key=int(key), indices=indices, operation=context.operation, pool=pool)
    if context.step.long_calls is None or not are_copied(components, pool):
        return put(components)
    return prepare_then_put(context.step.later(kept), (components, pool), put)


define(
    "MapStagePut",
    "handle: resource, key: host int64, components: host *any ->",
    attrs={**_COMPONENTS, "indices": REQUIRED},
    shape=_put_shapes,
    kernel=_map_put,
    gradient=_REASON,
    effects=_WAITS,
)


@delivers_taken
def _map_get(
    xp: Any, context: KernelContext, area: MapStorage, key: Any, *, indices: Indices, **_: Any
) -> Taken | AsyncResult:
    # An empty vector of keys stands for any key.
    taken: Taken | AsyncResult = area.take(None if key.size == 0 else int(key[0]), indices, context.operation)
    return taken


define(
    "MapStageGet",
    "handle: resource, key: host int64 -> key: host int64, components: host *@dtypes_",
    attrs={**_COMPONENTS, "indices": REQUIRED, "only_fetched": False},
    shape=lambda op: [SCALAR, *op.attrs["shapes"]],
    kernel=_map_get,
    gradient=_REASON,
    effects=_WAITS,
)


def _map_peek(xp: Any, context: KernelContext, area: MapStorage, key: Any, *, indices: Indices, **_: Any) -> Any:
    return _outputs_of(area.peek(int(key), indices, context.operation), _one_or_all)


define(
    "MapStagePeek",
    "handle: resource, key: host int64 -> components: host *@dtypes_",
    attrs={**_COMPONENTS, "indices": REQUIRED},
    shape=lambda op: list(op.attrs["shapes"]),
    kernel=_map_peek,
    gradient=_REASON,
    effects=Effect.READS | Effect.WAITS,
)


def _map_size(xp: Any, context: KernelContext, area: MapStorage, *, incomplete: bool) -> np.int32:
    return np.int32(len(area.incomplete) if incomplete else area.size)


define(
    "MapStageSize",
    "handle: resource -> size: host int32",
    attrs={"incomplete": False},
    shape=infer_scalar,
    kernel=_map_size,
    gradient=_REASON,
    effects=Effect.READS,
)

define(
    "MapStageClear",
    "handle: resource ->",
    shape=infer_nothing,
    kernel=lambda xp, context, area: area.clear(),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
)
