"""Queues filled by an async iterable; users build them by `from_async`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from ....base.errors import QueueClosed, SessionClosed
from ....base.shapes import SCALAR
from ....ir.definition import REQUIRED, NotDifferentiable, define
from ....ir.rules.placing import OutlivesStep
from ....ir.traits import Effect
from ...support.context import KernelContext
from ...support.shared import SharedKind
from ..operations import AGREE, CONTAINER, queue_spec
from ..queue_spec import QueueSpec
from ..storage import QueueStorage
from .pumps import Pump, element_of, pumps_of, put_in

_logger = logging.getLogger("tagloom")


class SourceStorage(QueueStorage):
    """The elements of a queue filled by an async iterable.

    Attributes
    ----------
    pump : Pump
        Fills the queue once: its end closes the queue, also a restored queue, and closing the queue ends the pump.
    """

    __slots__ = ("pump",)
    pump: Pump

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which replaces the elements with the saved ones."""
        change = super().restore(saved)

        def replace_elements() -> None:
            change()
            if self.pump.task.done():
                self.closed = True
                self.serve()

        return replace_elements

    def settle(self) -> None:
        """Update the flags of the lines, and end the pump of a closed queue."""
        super().settle()
        # A pump that closes its own queue is about to end by itself.
        if self.closed and not self.putters and asyncio.current_task() is not self.pump.task:
            self.pump.end()  # the pump may wait for an element without a taker


def _source_handle(
    xp: Any,
    context: KernelContext,
    *,
    shared_name: str,
    source: Any,
    values_of: Callable[[Any], list[Any]],
    **about: Any,
) -> QueueStorage:
    """Return the session's queue of a shared name; on first use, make the queue and start its pump."""
    resources = context.step.resources

    def start_source(name: str, spec: QueueSpec) -> QueueStorage:
        queue = SourceStorage(name, spec)
        move = partial(_fill_queue, queue=queue, source=source, values_of=values_of)
        queue.pump = pumps_of(resources).start(move, f"the source of queue {name}", logs=True)
        return queue

    spec = queue_spec(order="fifo", **about)
    return SharedKind(CONTAINER, start_source, AGREE).get(resources, shared_name, spec, context.operation)


async def _fill_queue(pump: Pump, *, queue: QueueStorage, source: Any, values_of: Callable[[Any], list[Any]]) -> None:
    """Put in the elements of an async iterable, one element ahead of the queue; then close the queue."""
    try:
        await _put_all(pump, queue, source, values_of)
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        queue.failure = pump.moved, error  # the iterable raised CancelledError by itself
    except Exception as error:
        if queue.closed or pump.is_ending:  # by a step or with the session: no take could raise the error
            if not isinstance(error, (QueueClosed, SessionClosed)):
                _logger.warning(
                    "%s has raised %s at its end", pump.task.get_name(), type(error).__name__, exc_info=error
                )
            return
        queue.failure = pump.moved, error
    if not queue.closed and (waiting := queue.close(False, pump.task.get_name())) is not None:
        await waiting


async def _put_all(pump: Pump, queue: QueueStorage, source: Any, values_of: Callable[[Any], list[Any]]) -> None:
    """Put all elements of the iterable in; close its generator in any case."""
    who = pump.task.get_name()
    iterator: AsyncIterator[Any] = aiter(source if hasattr(source, "__aiter__") else source())
    try:
        async for item in iterator:
            if pump.is_ending:
                return  # the iterable has ignored its cancellation
            await put_in(queue, await element_of(queue, values_of(item), who), who)
            pump.moved += 1
    finally:
        if (close := getattr(iterator, "aclose", None)) is not None:
            await close()


define(
    "AsyncSourceHandle",
    "-> handle: resource",
    attrs={
        "shared_name": REQUIRED,
        "dtypes_": REQUIRED,
        "shapes": REQUIRED,
        "capacity": 1,
        "source": REQUIRED,
        "values_of": REQUIRED,
    },
    shape=lambda op: SCALAR,
    kernel=_source_handle,
    gradient=NotDifferentiable("a queue moves values outside the graph's edges"),
    effects=Effect.READS | Effect.PYTHON,
    rules=[OutlivesStep(from_outside=True)],
)
