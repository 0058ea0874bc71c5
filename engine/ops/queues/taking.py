"""Outputs of operations which take elements; a step which ends early returns the elements to their queue."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...kernels.core.async_result import AsyncResult
from ...kernels.core.continuation import Continuation
from ...kernels.memory.contexts import outside
from ...kernels.queues.queue_base import Taken
from ..support.context import KernelContext, LongCall


def kernel_outputs(context: KernelContext, taken: Taken | AsyncResult, only_fetched: bool) -> Any:
    """Return a kernel's outputs, or an AsyncResult of the outputs.

    Parameters
    ----------
    context : KernelContext
        Of the taking instance.
    taken : Taken, or AsyncResult of one
    only_fetched : bool
        True if the step only returns the element to its caller; without a delivery, the element goes back.
    """

    if isinstance(taken, AsyncResult):
        return taken.then(partial(_outputs_of_taken, context, only_fetched))
    found = _outputs_of_taken(context, only_fetched, taken)
    return found.call() if isinstance(found, Continuation) else found


def _outputs_of_taken(context: KernelContext, only_fetched: bool, taken: Taken) -> Any:
    """Return the outputs of a take, or a Continuation which makes a large batch in a thread."""
    step = context.step
    if taken.is_long and step.long_calls is not None:
        step.resources.note_taken(step.number, taken.give_back, context.operation)  # until the batch is made
        return Continuation(lambda: _made_elsewhere(context, taken, only_fetched))
    result = taken.result()
    if only_fetched:
        step.resources.note_taken(step.number, taken.give_back, context.operation)
    return _one_or_all(result)


def _made_elsewhere(context: KernelContext, taken: Taken, only_fetched: bool) -> AsyncResult:
    """Make a batch in a thread; an error returns the elements to their queue."""
    step = context.step

    def release_if_failed(call: LongCall) -> None:
        # The instance may run again, for instance after a refusal of memory, and then takes anew.
        if not call.cancelled() and call.exception() is not None:
            step.resources.drop_taken(step.number, taken.give_back)
            taken.give_back()

    def outputs_of_result(result: Any) -> Any:
        if not only_fetched:
            step.resources.drop_taken(step.number, taken.give_back)
        return _one_or_all(result)

    call = step.later(taken.make)(taken.entries)
    outside(call.add_done_callback, release_if_failed)
    return AsyncResult(call, outputs_of_result)


def _one_or_all(element: Any) -> Any:
    return element[0] if len(element) == 1 else element
