"""``map_fn`` with a batch size: the elements of a batch at once, one batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...base import nest
from ...base.calling import call
from ...base.errors import GraphError
from ...ir.examples import join_sizes
from ...ir.tensor import Tensor
from ...ops.array.concat import concat
from ...ops.array.shapes import reshape
from ...ops.support.common import shape_of
from ..state.tensor_array import TensorArray
from .elements import Elements, LoopOptions, SparseRows, as_leaves, common_length
from .folding import check_mapped_results
from .vectorized import vectorized_map


def map_in_batches(fn: Callable[..., Any], elems: Any, dtype: Any, size: int, options: LoopOptions) -> Any:
    """Return the results of all elements.

    The last batch may be smaller. Its function is built apart, unless the batches are known to be equal.

    Parameters
    ----------
    fn : callable
        Takes an element.
    elems : structure of Tensor
    dtype : structure of dtype-like, optional
        Structure and dtypes of the results of `fn`; those of `elems` by default.
    size : int
        Elements of a batch.
    options : LoopOptions
        Of the loop over batches.
    """
    tensors = as_leaves(elems, "map_fn")
    _check(size, tensors)
    kinds = nest.map_structure(lambda t: t.dtype, tensors) if dtype is None else dtype
    count = common_length(nest.flatten(tensors), "map_fn")
    whole = count // size * size
    at_once = partial(_map_at_once, fn, kinds)
    rest: list[Tensor] = []
    if not isinstance(count, int) or whole < count or not count:
        rest = at_once(nest.map_structure(lambda t: t[whole:], tensors))
    if isinstance(count, int) and not whole:
        return nest.pack_as(kinds, rest)
    batches = nest.map_structure(lambda t: _regroup(t[:whole], [whole // size, size], 1), tensors)
    # Without any batch the results have zero rows like the rest.
    shapes = [join_sizes(size, shape_of(each)[1:]) for each in rest]
    results = [_regroup(each, [whole], 2) for each in _map_batches(at_once, batches, kinds, shapes, options)]
    return nest.pack_as(kinds, [concat(pair, axis=0) for pair in zip(results, rest, strict=True)] if rest else results)


def _map_batches(
    at_once: Callable[[Any], list[Tensor]], elems: Any, kinds: Any, shapes: Sequence[Tensor], options: LoopOptions
) -> list[Tensor]:
    """Return the results of batches, one after the other; `shapes` are those of a batch, if there may be none."""
    batches = Elements(elems, "map_fn")
    arrays = [TensorArray(d, batches.count) for d in nest.flatten(kinds)]

    def map_next(k: Tensor, arrays: list[TensorArray]) -> Any:
        return k + 1, [a.write(k, v) for a, v in zip(arrays, at_once(batches.read(k)), strict=True)]

    _, arrays = batches.loop(map_next, 0, (arrays,), options)
    return [a.stack_or(shapes[i] if shapes else None) for i, a in enumerate(arrays)]


def _map_at_once(fn: Callable[..., Any], kinds: Any, elems: Any) -> list[Tensor]:
    return check_mapped_results(vectorized_map(lambda each: call(fn, [each], "the function of map_fn"), elems), kinds)


def _check(size: object, tensors: Any) -> None:
    """Raise GraphError for a size that is no positive integer, or elements that are sparse."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise GraphError(
            "map_fn takes batches of one or more elements",
            wanted="batch_size of 1 or more, or None",
            got=size,
            hint="give the number of elements that are computed at once",
        )
    if any(isinstance(t, SparseRows) for t in nest.flatten(tensors)):
        raise GraphError(
            "map_fn takes no batches of sparse tensors",
            wanted="tensors, where there is a batch_size",
            hint="leave batch_size out, or make the tensors dense with sparse_tensor_to_dense",
        )


def _regroup(tensor: Tensor, leading: Sequence[int | Tensor], rank: int) -> Tensor:
    """Replace the leading dimensions of a tensor by others."""
    return reshape(tensor, join_sizes(*leading, shape_of(tensor)[rank:]))
