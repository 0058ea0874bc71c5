"""Replace tensors by others, everywhere in a changeable program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from .operation import Operation
from .program import Program
from .region import Region
from .structured import is_structured, saved_outputs
from .tensor import Tensor
from .traits import Effect


def count_noninput_uses(program: Program, region: Region | None = None) -> Counter[Tensor]:
    """Return the number of uses of tensors other than as inputs: as results of regions, as saved values, as fetches.

    Parameters
    ----------
    program : Program
    region : Region, optional
        The region whose tensors are counted; the whole graph by default. A caller counting for each loop should
        pass the loop's body, because otherwise each call reads the whole graph.
    """
    found = Counter(program.fetches)
    for op in _that_may_see(region or program.graph.root):
        for inner in op.regions:
            found.update(inner.results)
        if is_structured(op):
            found.update([t for e in saved_outputs(op) for t in (e.value, e.index) if t is not None])
    return found


_MOST_BEFORE_WATCHES = 64


def computing_users(tensor: Tensor, kept: Container[Tensor | None]) -> Iterator[Operation]:
    """Iterate over the operations that use a tensor, except those that run for watches alone.

    A pass may replace a result with no other computing user: where it is watched it is computed as well, for the watch
    alone, so that watching does not change how other results are computed.

    Parameters
    ----------
    tensor : Tensor
    kept : container of Tensor
        Tensors of the region with other uses than by operations.
    """
    return (user for user in tensor._consumers if user.region is not tensor.region or not _is_for_watches(user, kept))


def has_one_user(tensor: Tensor, kept: Container[Tensor | None]) -> bool:
    """Return True if a single operation needs a tensor: operations that run for watches alone do not count."""
    return tensor not in kept and len(list(islice(computing_users(tensor, kept), 2))) == 1


def _is_for_watches(op: Operation, kept: Container[Tensor | None]) -> bool:
    """Return True if all uses of an operation's results, direct and indirect, end in watches of its region.

    Few operations lie between a result and its watch; a search over more would be slow in long bodies, and ends.
    """
    seen, waiting = {op}, [op]
    while waiting:
        if len(seen) > _MOST_BEFORE_WATCHES:
            return False
        user = waiting.pop()
        if not user.outputs:
            if "key" not in user.attrs:
                return False
            continue
        if user.regions or user.definition.effects is not Effect.NONE:
            return False
        for tensor in user.outputs:
            if tensor in kept or not tensor._consumers:
                return False
            for consumer in tensor._consumers:
                if consumer.region is not tensor.region:
                    return False
                if consumer not in seen:
                    seen.add(consumer)
                    waiting.append(consumer)
    return True


def substitute(program: Program, moved: dict[Tensor, Tensor]) -> None:
    """Replace the tensors among the keys of `moved` everywhere in the program."""
    if not moved:
        return
    # Only operations in or around the innermost common region can refer to these tensors.
    _replace_tensors(list(_that_may_see(_innermost_common_region(moved))), moved)
    program.fetches = [moved.get(t, t) for t in program.fetches]


def substitute_in(region: Region, moved: dict[Tensor, Tensor]) -> None:
    """Replace the tensors among the keys of `moved` in a region and in all regions inside."""
    _replace_tensors(list(region.walk()), moved)
    region.results = [moved.get(t, t) for t in region.results]


def _replace_tensors(operations: Iterable[Operation], moved: dict[Tensor, Tensor]) -> None:
    """Replace tensors in the inputs, region results and saved values of operations."""
    for op in operations:
        op.replace_inputs(moved)
        for region in op.regions:
            region.results = [moved.get(t, t) for t in region.results]
        if is_structured(op):
            op.attrs["saved_outputs"] = [
                replace(e, value=moved.get(e.value, e.value), index=moved.get(e.index, e.index))  # type: ignore[arg-type]
                for e in saved_outputs(op)
            ]


def _that_may_see(region: Region) -> Iterator[Operation]:
    """Yield the operations possibly referring to tensors of a region as inputs, results or saved values."""
    if region.owner is not None:
        yield region.owner
    yield from region.walk()


def _innermost_common_region(tensors: Iterable[Tensor]) -> Region:
    """Return the innermost region around several tensors."""
    first, *others = {t.region for t in tensors}
    return next(region for region in first.ancestors() if all(region.encloses(other) for other in others))
