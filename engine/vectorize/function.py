"""Vectorization of a function, built once for a single example."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import scopes
from ..ir.region import Region
from ..ir.structured import new_region
from ..ir.substitute import substitute_in
from ..ir.tensor import Tensor
from . import arrays, conditionals, effects, loops, saved  # noqa: F401  (they add their rules to the walk)
from .batched import BatchedTensors
from .columns import has_columns, take_apart
from .walk import Vectorization

Build = Callable[[Region, list[Tensor]], "Sequence[Tensor | None]"]


def vectorize(
    build: Build, arguments: Sequence[Tensor], count: Tensor, name: str
) -> tuple[list[Tensor | None], list[bool]]:
    """Build a function for many examples at once, in the current region.

    Parameters
    ----------
    build : callable
        ``build(region, parameters)`` builds the function for a single example in `region`, and returns its results.
    arguments : sequence of Tensor
        The arguments of all examples, along the first dimension.
    count : Tensor of int32, scalar
        Number of examples.
    name : str
        Name of the parameters.

    Returns
    -------
    results : list of Tensor or None
        The results; results different in each example have the examples along the first dimension.
    differ : list of bool
        For each result, True if different in each example.

    Raises
    ------
    VectorizationError
        If an operation has effects, or no rule for many examples.
    """
    graph = scopes.get_default_graph()
    noted = graph.note_attempt()
    region = new_region("vectorized function")
    params = [region.add_param(t.dtype, t.shape[1:], name) for t in arguments]
    try:
        results = _take_vectors_apart(region, params, build(region, params))
        walk = Vectorization(region, dict(zip(params, arguments, strict=True)), count)
        walk.run()
        values = [None if t is None else walk.value(t) for t in results]
        return values, [t is not None and t in walk.batched for t in results]
    finally:
        # The function for a single example is no part of the graph; the numbers that its draws took stay taken.
        graph.give_up(noted, [region], frees_seeds=False)


def _take_vectors_apart(
    region: Region, params: list[Tensor], results: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    """Rewrite the loops over small vectors different in each example; return the stand-ins for the results."""
    found = [op for op in region.walk() if op.is_while and has_columns(op)]
    batched = BatchedTensors(region, params) if found else ()
    for op in found:
        if any(t in batched for t in op.outputs):
            moved = take_apart(op)
            op.region.operations.remove(op)
            substitute_in(region, moved)
            results = [None if t is None else moved.get(t, t) for t in results]
    return results
