"""Vectorization of reads and writes of elements by indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....base import dtypes
from ....ir.apply import apply, constant
from ....ir.examples import Examples, join_sizes, known_rank, multiply_sizes, sizes_of
from ....ir.indexing import Dynamic, whole_rows
from ....ir.tensor import Tensor
from .families import one_by_one, shift_axis
from .shapes import steps_of


def example_numbers(examples: Examples, dtype: dtypes.DType) -> Tensor:
    """Return the numbers of the examples as a vector."""
    zero, one = constant(np.int32(0)), constant(np.int32(1))
    return apply("Cast", apply("Range", zero, examples.count, one), dtype=dtype)


def _index_with_example(examples: Examples, indices: Tensor) -> Tensor:
    """Return index vectors of all examples with the number of the example in front."""
    rank = known_rank(indices)
    numbers = example_numbers(examples, indices.dtype)
    numbers = apply("Reshape", numbers, join_sizes(examples.count, *[1] * (rank - 1)))
    numbers = apply("BroadcastTo", numbers, join_sizes(sizes_of(indices)[:-1], 1))
    return apply("Concat", [numbers, indices], axis=rank - 1)


def gather_examples(examples: Examples) -> Sequence[Tensor]:
    """Take elements of each example: from its own array, or by its own indices."""
    params, indices = examples.operands
    axis, batch = examples.op.attrs["axis"] % examples.rank(), examples.op.attrs["batch_dims"]
    if examples.batched[0]:
        # Arrays of their own: with common indices the examples are one more dimension in front of the axis.
        shared = not examples.batched[1] and not batch
        if shared:
            return examples.copy(params, indices, axis=axis + 1)
        return examples.copy(params, examples.spread(1), axis=axis + 1, batch_dims=batch + 1)
    if batch:
        return examples.copy(examples.spread(0), indices, axis=axis + 1, batch_dims=batch + 1)
    (taken,) = examples.copy(params, indices, axis=axis)
    rank = examples.rank() + examples.rank(1)
    return [taken if not axis else apply("Transpose", taken, perm=_to_front(axis, rank))]


def _to_front(axis: int, rank: int) -> tuple[int, ...]:
    """Return the order of axes with an axis moved to the front."""
    return (axis, *(i for i in range(rank) if i != axis))


def gather_grad_examples(examples: Examples) -> Sequence[Tensor]:
    """Add up the cotangents of elements taken from the array of each example."""
    shape = examples.with_count(2)
    axis = examples.op.attrs["axis"] % known_rank(examples.op.outputs[0]) + 1
    batch = examples.op.attrs["batch_dims"]
    if not examples.batched[1] and not batch:
        return examples.copy(examples.spread(0), examples[1], shape, axis=axis)
    return examples.copy(examples.spread(0), examples.spread(1), shape, axis=axis, batch_dims=batch + 1)


def gather_nd_examples(examples: Examples) -> Sequence[Tensor]:
    """Take elements of each example by index vectors."""
    if not examples.batched[0]:
        return examples.copy(*examples.operands)
    return examples.copy(examples[0], _index_with_example(examples, examples.spread(1)))


def scatter_nd_examples(examples: Examples) -> Sequence[Tensor]:
    """Add up updates in an array of each example."""
    if examples.batched[2]:  # a number of segments that was counted
        return one_by_one(examples)
    indices = _index_with_example(examples, examples.spread(0))
    return examples.copy(indices, examples.spread(1), examples.with_count(2))


def tensor_scatter_examples(examples: Examples) -> Sequence[Tensor]:
    """Update elements in the array of each example."""
    indices = _index_with_example(examples, examples.spread(1))
    return examples.copy(examples.spread(0), indices, examples.spread(2))


def segments_examples(examples: Examples) -> Sequence[Tensor]:
    """Reduce the segments of each example: its segments are numbered after those of earlier examples."""
    if examples.batched[2]:
        return one_by_one(examples)
    ids, number = examples.spread(1), examples[2]
    count = apply("Cast", number, dtype=ids.dtype)
    offsets = example_numbers(examples, ids.dtype) * count
    offsets = apply("Reshape", offsets, join_sizes(examples.count, *[1] * examples.rank(1)))
    every = apply("Cast", examples.count, dtype=ids.dtype) * count
    # A number below 0 stays without a segment; a number too large stays too large, and meets no other example.
    moved = apply("Where", apply("Less", ids, count), ids + offsets, every)
    moved = apply("Where", apply("Less", ids, apply("Cast", constant(0), dtype=ids.dtype)), ids, moved)
    total = apply("Mul", number, apply("Cast", examples.count, dtype=number.dtype))
    (rows,) = examples.copy(examples.spread(0), moved, total)
    rest = sizes_of(examples.spread(0))[1 + examples.rank(1) :]
    return [apply("Reshape", rows, join_sizes(examples.count, apply("Cast", number, dtype=rest.dtype), rest))]


def strided_slice_examples(examples: Examples) -> Sequence[Tensor]:
    """Index each example."""
    spec = examples.op.attrs["spec"]
    if not any(examples.batched[1:]):
        return examples.copy(examples.spread(0), *examples.operands[1:], spec=steps_of(spec))
    if not _takes_row(examples, 1):
        return one_by_one(examples)
    size = sizes_of(examples[0])[int(examples.batched[0])]
    index = _from_the_front(examples[1], size)
    if examples.batched[0]:
        return [apply("Gather", examples[0], index, axis=1, batch_dims=1)]
    return [apply("Gather", examples[0], index, axis=0)]


def _takes_row(examples: Examples, first: int) -> bool:
    """Return True if an index expression takes a row by a tensor, operand `first`."""
    spec = examples.op.attrs["spec"]
    single = len(examples.operands) == first + 1 and len(spec) > 0 and isinstance(spec[0], Dynamic)
    return single and whole_rows(spec)


def _from_the_front(index: Tensor, size: Tensor) -> Tensor:
    """Return indices counted from the front."""
    count = apply("Cast", size, dtype=index.dtype)
    zero = constant(np.zeros((), index.dtype.numpy))
    return apply("Where", apply("Less", index, zero), index + count, index)


def strided_slice_grad_examples(examples: Examples) -> Sequence[Tensor]:
    """Put the cotangent of an indexed example into zeros."""
    spec = examples.op.attrs["spec"]
    if not any(examples.batched[2:]):
        return examples.copy(examples.with_count(0), examples.spread(1), *examples.operands[2:], spec=steps_of(spec))
    if not _takes_row(examples, 2):
        return one_by_one(examples)
    index = _from_the_front(examples[2], examples.shared(0)[0])
    indices = _index_with_example(examples, apply("ExpandDims", index, axis=1))
    return [apply("ScatterNd", indices, examples.spread(1), examples.with_count(0))]


def slice_block_examples(examples: Examples) -> Sequence[Tensor]:
    """Cut a block out of each example; a begin of its own selects the rows along each axis."""
    sizes = examples.op.outputs[0].shape
    if not examples.batched[1]:
        whole = examples.shared(2)
        return examples.copy(examples.spread(0), join_sizes(0, examples[1]), join_sizes(-1, whole))
    if not sizes.is_fully_known or examples.batched[2]:
        return one_by_one(examples)
    begin, x = examples[1], examples.spread(0)
    for i, size in enumerate(sizes.as_tuple()):
        rows = begin[:, i : i + 1] + constant(np.arange(size, dtype=begin.dtype.numpy))
        x = apply("Gather", x, rows, axis=i + 1, batch_dims=1)
    return [x]


def one_hot_examples(examples: Examples) -> Sequence[Tensor]:
    """Make vectors of an index for each index of each example."""
    if any(examples.batched[1:]):
        return one_by_one(examples)
    axis = shift_axis(examples.op.attrs["axis"], examples.rank() + 1)
    return examples.copy(*examples.operands, axis=axis)


def add_along_axis_examples(examples: Examples) -> Sequence[Tensor]:
    """Add up elements along an axis of each example, by indices."""
    axis = shift_axis(examples.op.attrs["axis"], examples.rank())
    return examples.copy(examples.spread(0), examples.spread(1), examples.with_count(2), axis=axis)


def search_sorted_examples(examples: Examples) -> Sequence[Tensor]:
    """Search in the sorted rows of each example."""
    if examples.rank(0) == examples.rank(1):
        return examples.copy(examples.spread(0), examples.spread(1))
    return one_by_one(examples)


def sparse_product_examples(examples: Examples) -> Sequence[Tensor]:
    """Multiply a common sparse matrix by the matrices of all examples, as a matrix of all their columns."""
    if any(examples.batched[:3]):
        return one_by_one(examples)
    indices, values, shape, b = examples.operands
    sizes = sizes_of(b)
    columns = apply("Reshape", apply("Transpose", b, perm=(1, 0, 2)), join_sizes(sizes[1], multiply_sizes(sizes[::2])))
    (joined,) = examples.copy(indices, values, shape, columns)
    rows = apply("Reshape", joined, join_sizes(sizes_of(joined)[0], sizes[0], sizes[2]))
    return [apply("Transpose", rows, perm=(1, 0, 2))]


def any_shared(shared: Sequence[int], rule: Callable[[Examples], Sequence[Tensor]]) -> Callable[..., Sequence[Tensor]]:
    """Return `rule` where the operands `shared` are common to all examples, a loop over the examples elsewhere."""

    def vectorize(examples: Examples) -> Sequence[Tensor]:
        return one_by_one(examples) if any(examples.batched[i] for i in shared) else rule(examples)

    return vectorize
