"""Lookup of the gradient array of a TensorArray, for the gradient functions of its operations.

A call of ``gradients()`` opens a scope, in which each forward array has a single gradient array, made on first use
(rule 111). Another call has its own gradient arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ....base.errors import GraphError
from ....ir.tensor import Tensor

Make = Callable[[Tensor], Tensor]

# A context variable: graphs may be built in several threads or tasks at once.
_scope: ContextVar[tuple[Make, dict[Tensor, Tensor]] | None] = ContextVar("tagloom_gradient_arrays", default=None)


@contextmanager
def gradient_scope(make: Make) -> Iterator[dict[Tensor, Tensor]]:
    """Find or make gradient arrays while the body runs.

    Parameters
    ----------
    make : callable
        ``make(handle)`` builds a TensorArrayGrad without source for a forward array's handle, in the region that
        runs once for each run of this gradient, and returns the handle of the gradient array.

    Yields
    ------
    dict
        The gradient handle of each forward handle requested so far.
    """
    made: dict[Tensor, Tensor] = {}
    token = _scope.set((make, made))
    try:
        yield made
    finally:
        _scope.reset(token)


def gradient_array(handle: Tensor) -> Tensor:
    """Return the handle of the gradient array that belongs to `handle` in this call of ``gradients()``."""
    current = _scope.get()
    if current is None:
        raise GraphError(
            "gradients of a TensorArray are only built by gradients()",
            operation=handle.op,
            hint="use gradients(ys, xs), or ta.grad(source) for a gradient array of your own",
        )
    make, made = current
    if handle not in made:
        made[handle] = make(handle)
    return made[handle]
