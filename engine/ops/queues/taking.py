"""Outputs of operations which take elements; a step which ends early returns the elements to their queue.

A `Taken` has the entries that an instance took from a queue, or from another resource, and makes the outputs of them:
the components of an element, or a batch. Until the entries may no longer return, ``taken.give_back`` is registered with
the session's resources, which call it if the step ends early.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
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

    Returns
    -------
    tensor, tuple of tensors, or AsyncResult
    """
    if isinstance(taken, AsyncResult):
        return taken.then(partial(_make_outputs, context, only_fetched))
    outputs = _make_outputs(context, only_fetched, taken)
    # The machine calls the Continuation of an AsyncResult only; here the kernel is running already.
    return outputs.call() if isinstance(outputs, Continuation) else outputs


def delivers_taken(kernel: Callable[..., Taken | AsyncResult]) -> Callable[..., Any]:
    """Make a kernel of a function that takes elements, for an operation type with the attribute `only_fetched`.

    The function is called like a kernel, without `only_fetched`, and returns a Taken, or an AsyncResult of one.
    """

    @wraps(kernel)
    def deliver_outputs(xp: Any, context: KernelContext, *inputs: Any, only_fetched: bool, **attrs: Any) -> Any:
        return kernel_outputs(context, kernel(xp, context, *inputs, **attrs), only_fetched)

    return deliver_outputs


def _make_outputs(context: KernelContext, only_fetched: bool, taken: Taken) -> Any:
    """Return the outputs of a take, or a Continuation which makes a large batch in a thread."""
    step = context.step
    if taken.is_long and step.long_calls is not None:
        # A step that ends while the thread makes the batch gives the entries back; unregistered below.
        step.resources.note_taken(step.number, taken.give_back, context.operation)
        return Continuation(lambda: _make_batch_in_thread(context, taken, only_fetched))
    components = taken.result()
    # Registered until the caller has the results; elements with other uses are consumed by the step.
    if only_fetched:
        step.resources.note_taken(step.number, taken.give_back, context.operation)
    return _unpack_single_output(components)


def _make_batch_in_thread(context: KernelContext, taken: Taken, only_fetched: bool) -> AsyncResult:
    """Make a batch in a thread; an error returns the elements to their queue."""
    step = context.step

    def release_if_failed(call: LongCall) -> None:
        # Not left to the end of the step: the instance may run again, for instance after a refusal of memory, and then
        # takes anew. A cancelled call belongs to a step that has ended, whose end gives the entries back.
        if not call.cancelled() and call.exception() is not None:
            step.resources.drop_taken(step.number, taken.give_back)
            taken.give_back()

    def outputs_of_batch(components: Any) -> Any:
        if not only_fetched:
            step.resources.drop_taken(step.number, taken.give_back)
        return _unpack_single_output(components)

    call = step.later(taken.make)(taken.entries)
    outside(call.add_done_callback, release_if_failed)
    return AsyncResult(call, outputs_of_batch)


def _unpack_single_output(components: Any) -> Any:
    """Return the outputs as kernels do: the value of a single output alone, several as a tuple."""
    return components[0] if len(components) == 1 else components
