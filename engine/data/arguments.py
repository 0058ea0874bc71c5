"""Checks of the arguments of Datasets, and specs of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..base.shapes import Shape
from ..runtime.functions.arguments import TensorSpec
from .stages import mapping
from .stages.elements import leaves_of, pack_leaves


def batched_spec(spec: object, size: int | None, padded: bool) -> Any:
    """Return the spec of a batch of elements of a spec; None for an unknown spec."""

    def spec_of_batched_leaf(each: TensorSpec) -> TensorSpec:
        shape: Shape = each.shape
        if shape.rank is None:
            return TensorSpec(None, each.dtype)
        return TensorSpec([size, *([None] * shape.rank if padded and not shape.is_fully_known else shape)], each.dtype)

    return None if spec is None else pack_leaves(spec, map(spec_of_batched_leaf, leaves_of(spec)))


def check_counts(least: int | None = 1, **counts: Any) -> None:
    """Raise GraphError for counts below `least`, and for objects other than integers."""
    for name, count in counts.items():
        # bool is a subclass of int, but no count
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or (least is not None and count < least):
            raise GraphError(
                f"{name} is out of range",
                wanted="an integer" if least is None else f"an integer of at least {least}",
                got=repr(count),
                hint="count elements",
            )


def check_flags(**flags: bool) -> None:
    """Raise GraphError for flags that are neither True nor False, such as strings."""
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise GraphError(f"{name} is a switch", wanted="True or False", got=repr(flag), hint=f"{name}=True")


def check_shard(num_shards: int, index: int) -> None:
    """Raise GraphError unless `index` numbers a shard among `num_shards`."""
    check_counts(num_shards=num_shards)
    check_counts(least=0, index=index)
    if index >= num_shards:
        raise GraphError(
            "there is no shard of this index",
            wanted=f"an index in [0, {num_shards})",
            got=index,
            hint="count shards from 0, as shard(num_shards=4, index=3) for the last of four",
        )


def check_spec(spec: object) -> None:
    """Raise GraphError unless all leaves of a structure are TensorSpecs."""
    if not all(isinstance(each, TensorSpec) for each in leaves_of(spec)):
        raise GraphError(
            "elements are described by TensorSpecs",
            wanted="a TensorSpec, or a tuple or dict of them",
            got=repr(spec),
            hint="tagloom.TensorSpec([None], 'int32')",
        )


def checked_calls(function: Callable[..., Any], parallel: int, threads: bool | None, seed: int | None) -> bool | None:
    """Return whether a function is called in threads; GraphError for contradictory arguments."""
    check_counts(parallel=parallel)
    if threads is not None:
        check_flags(threads=threads)
    if seed is not None:
        check_counts(least=0, seed=seed)
    is_async = mapping.is_async(function)
    if threads and is_async:
        raise GraphError("an async function is awaited, not called in a thread", got=function, hint="leave threads out")
    if parallel > 1 and not is_async:
        threads = True if threads is None else threads
        if not threads:
            raise GraphError(
                "a plain function is called for several elements at the same time by threads only",
                wanted="threads=True, or parallel=1",
                got=f"parallel={parallel}, threads=False",
                hint="leave threads out",
            )
    return threads


def checked_buckets(
    boundaries: Sequence[int], batch_sizes: int | Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return bucket boundaries and a batch size for each bucket; GraphError if their numbers disagree."""
    bounds = tuple(map(int, boundaries))
    sizes = (batch_sizes,) * (len(bounds) + 1) if isinstance(batch_sizes, int) else batch_sizes
    if list(bounds) != sorted(set(bounds)) or len(sizes) != len(bounds) + 1:
        raise GraphError(
            "buckets need increasing boundaries, and a batch size each",
            wanted=f"{len(bounds) + 1} batch sizes",
            got=f"boundaries {list(bounds)}, batch sizes {list(sizes)}",
            hint="bucket_by_length(len, [10, 20], [32, 16, 8])",
        )
    for size in sizes:
        check_counts(bucket_batch_size=size)
    return bounds, tuple(sizes)
