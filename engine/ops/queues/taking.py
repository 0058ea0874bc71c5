"""What was taken becomes the outputs of its operation; of a step that ends early it goes back."""

from __future__ import annotations

from typing import Any

from ...kernels.scheduler.calls import Continuation
from ..control.py_function import AsyncResult
from ..support.context import KernelContext
from .attempts import Taken


def given(context: KernelContext, taken: Taken | AsyncResult, only_fetched: bool) -> Any:
    """Return a kernel's outputs, or what gives them.

    Parameters
    ----------
    context : KernelContext
        Of the instance that takes.
    taken : Taken, or AsyncResult of one
    only_fetched : bool
        Whether the step does nothing with it but give it to its caller; if that does not come to be it goes back.
    """

    resources, number = context.step.resources, context.step.number

    def outputs(taken: Taken) -> Any:
        result = taken.result()
        if only_fetched:
            resources.note_taken(number, taken.give_back)
        return _one_or_all(result)

    def told(taken: Taken, result: Any) -> Any:
        if not only_fetched:
            resources.drop_taken(number, taken.give_back)
        return _one_or_all(result)

    def make(taken: Taken) -> AsyncResult:
        call = context.step.later(taken.make)(taken.entries)
        return AsyncResult(call, lambda result: told(taken, result))

    def make_elsewhere(taken: Taken) -> Continuation:
        resources.note_taken(number, taken.give_back)  # until its outputs are there
        return Continuation(lambda: make(taken))

    def go_on(taken: Taken) -> Any:
        return make_elsewhere(taken) if taken.is_long and context.step.long_calls is not None else outputs(taken)

    if isinstance(taken, AsyncResult):
        return taken.then(go_on)
    found = go_on(taken)
    return found.call() if isinstance(found, Continuation) else found


def _one_or_all(element: Any) -> Any:
    return element[0] if len(element) == 1 else element
