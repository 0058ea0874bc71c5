"""Vectorization of operations on shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import dtypes
from ....base.shapes import Shape
from ....ir.apply import apply, constant
from ....ir.examples import Examples, join_sizes, known_rank, multiply_sizes, sizes_of
from ....ir.tensor import Tensor
from .families import one_by_one, raise_rank, shift_axis


def shape_of_one(examples: Examples) -> Sequence[Tensor]:
    """Return the shape of an example, which all examples share."""
    return [sizes_of(examples.spread(0))[1:]]


def size_of_one(examples: Examples) -> Sequence[Tensor]:
    """Return the number of elements of an example, which all examples share."""
    return [multiply_sizes(sizes_of(examples.spread(0))[1:])]


def rank_of_one(examples: Examples) -> Sequence[Tensor]:
    """Return the rank of an example."""
    return [constant(np.int32(examples.rank()))]


def reshape_examples(examples: Examples) -> Sequence[Tensor]:
    """Reshape all examples to a shape of each."""
    known = examples.op.outputs[0].shape
    # Known sizes replace a -1 in the shape, which sizes of 0 would make ambiguous.
    if known.is_fully_known and not examples.batched[1]:
        return [apply("Reshape", examples.spread(0), join_sizes(examples.count, *known.as_tuple()))]
    return [apply("Reshape", examples.spread(0), examples.with_count(1))]


def broadcast_examples(examples: Examples) -> Sequence[Tensor]:
    """Broadcast each example to a shape, which all examples share."""
    ones = known_rank(examples.op.outputs[0]) - examples.rank()
    return [apply("BroadcastTo", raise_rank(examples.spread(0), ones), examples.with_count(1))]


def sum_examples_to(examples: Examples) -> Sequence[Tensor]:
    """Sum each example down to a shape, which all examples share."""
    rank = known_rank(examples.op.outputs[0])
    extra = examples.rank() - rank
    total = apply("SumTo", examples.spread(0), examples.with_count(1, *[1] * extra))
    if not extra:
        return [total]
    return [apply("Reshape", total, examples.with_count(1))]


def unreduce_examples(examples: Examples) -> Sequence[Tensor]:
    """Broadcast each example over reduced axes."""
    axis = shift_axis(examples.op.attrs["axis"], known_rank(examples.op.outputs[0]))
    return examples.copy(examples.spread(0), examples.with_count(1), axis=axis)


def fill_examples(examples: Examples) -> Sequence[Tensor]:
    """Fill an array for each example with its value."""
    ones = known_rank(examples.op.outputs[0])
    return [apply("BroadcastTo", raise_rank(examples.spread(1), ones), examples.with_count(0))]


def squeeze_examples(examples: Examples) -> Sequence[Tensor]:
    """Remove axes of size 1 of an example, never the axis of the examples."""
    axis, shape = examples.op.attrs["axis"], examples.op.inputs[0].shape
    rank = examples.rank()
    if not axis:
        # Without axes the static shape must tell which sizes are 1, since the rank of the result depends on them.
        if not shape.is_fully_known:
            return one_by_one(examples)
        axis = [i for i, size in enumerate(shape) if size == 1]
    axes = shift_axis(tuple(axis), rank)
    return examples.copy(examples.spread(0), axis=axes) if axes else [examples.spread(0)]


def transpose_examples(examples: Examples) -> Sequence[Tensor]:
    """Permute the axes of an example."""
    rank, perm = examples.rank(), examples.op.attrs["perm"]
    order = range(rank - 1, -1, -1) if perm is None else perm
    return examples.copy(examples.spread(0), perm=(0, *shift_axis(tuple(order), rank)))


def permute_examples(examples: Examples) -> Sequence[Tensor]:
    """Permute the axes of an example by a tensor."""
    perm = examples.shared(1)
    rank = apply("Cast", constant(np.int32(examples.rank())), dtype=perm.dtype)
    return examples.copy(examples.spread(0), join_sizes(0, perm % rank + 1))


def reverse_examples(examples: Examples) -> Sequence[Tensor]:
    """Reverse axes of an example."""
    return examples.copy(examples.spread(0), axis=shift_axis(examples.op.attrs["axis"], examples.rank()))


def roll_examples(examples: Examples) -> Sequence[Tensor]:
    """Roll an example along axes."""
    if examples.batched[1]:
        return one_by_one(examples)
    return examples.copy(*examples.operands, axis=shift_axis(examples.op.attrs["axis"], examples.rank()))


def tile_examples(examples: Examples) -> Sequence[Tensor]:
    """Repeat an example."""
    return examples.copy(examples.spread(0), join_sizes(1, examples.shared(1)))


def tile_grad_examples(examples: Examples) -> Sequence[Tensor]:
    """Add up the repetitions of an example."""
    return examples.copy(examples.spread(0), join_sizes(1, examples.shared(1)), examples.with_count(2))


def pad_examples(examples: Examples) -> Sequence[Tensor]:
    """Pad an example; a padding value of its own is selected afterwards."""
    if examples.batched[1]:  # as in the gradient of a slice with a begin of its own
        return one_by_one(examples)
    pairs = _pairs_with_none(examples.shared(1))
    if not any(examples.batched[2:]):
        return examples.copy(examples.spread(0), pairs, *examples.operands[2:])
    zero = constant(np.zeros((), examples.spread(0).dtype.numpy))
    inside = apply("Pad", apply("Fill", sizes_of(examples.spread(0)).all, constant(True)), pairs, constant(False))
    padded = apply("Pad", examples.spread(0), pairs, zero)
    return [apply("Where", inside, padded, raise_rank(examples.spread(2), examples.rank()))]


def mirror_pad_examples(examples: Examples) -> Sequence[Tensor]:
    """Pad an example by its own elements, or undo this for a cotangent."""
    return examples.copy(examples.spread(0), _pairs_with_none(examples.shared(1)))


def _pairs_with_none(pairs: Tensor) -> Tensor:
    """Return pairs of paddings with no padding for the examples in front."""
    return apply("Concat", [constant(np.zeros((1, 2), pairs.dtype.numpy)), pairs], axis=0)


def ensure_shape_examples(examples: Examples) -> Sequence[Tensor]:
    """Check the shape of an example."""
    return examples.copy(examples.spread(0), shape=Shape([None]) + Shape(examples.op.attrs["shape"]))


def diag_examples(examples: Examples) -> Sequence[Tensor]:
    """Make a diagonal tensor of each example."""
    sizes = sizes_of(examples.spread(0))[1:]
    flat = apply("Reshape", examples.spread(0), join_sizes(examples.count, multiply_sizes(sizes)))
    matrices = apply("MatrixDiag", flat, k=(0, 0))
    return [apply("Reshape", matrices, join_sizes(examples.count, sizes, sizes))]


def diag_part_examples(examples: Examples) -> Sequence[Tensor]:
    """Take the diagonal of the tensor of each example."""
    half = examples.rank() // 2
    sizes = sizes_of(examples.spread(0))[1 : 1 + half]
    number = multiply_sizes(sizes)
    matrices = apply("Reshape", examples.spread(0), join_sizes(examples.count, number, number))
    return [apply("Reshape", apply("MatrixDiagPart", matrices, k=(0, 0)), join_sizes(examples.count, sizes))]


def matmul_examples(examples: Examples) -> Sequence[Tensor]:
    """Multiply matrices of each example; matrices on the left of a shared matrix become rows of a single matrix."""
    op, (a, b) = examples.op, examples.operands
    ranks = [known_rank(t) for t in op.inputs]
    if examples.batched == [True, False] and ranks[1] == 2 and not op.attrs["transpose_a"]:
        sizes = sizes_of(a)
        rows = apply("Reshape", a, join_sizes(multiply_sizes(sizes[:-1]), sizes[-1]))
        (flat,) = examples.copy(rows, b)
        columns = sizes_of(b)[0 if op.attrs["transpose_b"] else 1]
        return [apply("Reshape", flat, join_sizes(sizes[:-1], columns))]
    if ranks == [2, 2] and op.inputs[0].shape[0 if op.attrs["transpose_a"] else 1] == 1:
        return [_outer_products(examples)]
    rank = max(ranks)
    triples = zip((a, b), ranks, examples.batched, strict=True)
    return examples.copy(*(raise_rank(x, rank - r) if batched else x for x, r, batched in triples))


def _outer_products(examples: Examples) -> Tensor:
    """Return the products of a column and a row of each example, elementwise instead of by matrix."""
    attrs = examples.op.attrs
    a, b = examples.spread(0), examples.spread(1)
    column = join_sizes(examples.count, sizes_of(a)[2 if attrs["transpose_a"] else 1], 1)
    row = join_sizes(examples.count, 1, sizes_of(b)[1 if attrs["transpose_b"] else 2])
    product: Tensor = apply("Mul", apply("Reshape", a, column), apply("Reshape", b, row))
    return product


def draw_for_examples(examples: Examples) -> Sequence[Tensor]:
    """Draw numbers for each example: the shape, operand 0, gets a dimension for the examples."""
    if any(examples.batched):
        return one_by_one(examples)
    return examples.copy(examples.with_count(0), *examples.operands[1:])


def reverse_sequence_examples(examples: Examples) -> Sequence[Tensor]:
    """Reverse the beginnings of sequences of each example, as a single batch of sequences."""
    rank = examples.rank()
    batch, seq = (examples.op.attrs[k] % rank + 1 for k in ("batch_axis", "seq_axis"))
    order = [0, batch, *(i for i in range(1, rank + 1) if i != batch)]
    x = apply("Transpose", examples.spread(0), perm=tuple(order))
    sizes = sizes_of(x)
    flat = apply("Reshape", x, join_sizes(multiply_sizes(sizes[:2]), sizes[2:]))
    lengths = apply("Reshape", examples.spread(1), constant([-1], dtypes.int32))
    (turned,) = examples.copy(flat, lengths, batch_axis=0, seq_axis=order.index(seq) - 1)
    back = tuple(int(i) for i in np.argsort(order))
    return [apply("Transpose", apply("Reshape", turned, sizes.all), perm=back)]


def reduce_join_examples(examples: Examples) -> Sequence[Tensor]:
    """Join the strings of each example along axes; all of them from the last to the first, as for a single example."""
    axis, rank = examples.op.attrs["axis"], examples.rank()
    return examples.copy(examples.spread(0), axis=shift_axis(range(rank - 1, -1, -1) if axis is None else axis, rank))


def steps_of(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index expression of an example for all examples."""
    return (slice(None), *spec)
