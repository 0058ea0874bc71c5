"""Edit distances between sequences, and sequences without repetitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape
from ...ir.tensor import Tensor
from ...kernels.cpu.sequences import edit_distances
from ..array.concat import concat, stack
from ..array.creation import range as numbers
from ..array.index_vectors import scatter_nd
from ..array.shapes import expand_dims
from ..array.slicing import boolean_mask
from ..array.unique import numbers_of_equal
from ..math.casting import cast
from ..math.cumulative import cumsum
from ..math.reductions import reduce_max, reduce_sum
from ..support.arguments import index_tensor
from ..support.common import one_for_each, size_along
from ..support.literals import Array, f32, i32, i64
from ..support.vectorizing.families import one_by_one


def _sequence_numbers(indices: Array, count: int, sizes: tuple[int, ...]) -> Array:
    """Return the flat number of the sequence of each value of a sparse tensor, in an array of `sizes` sequences."""
    if indices.shape != (count, len(sizes) + 1):
        raise ValueError(f"edit_distance: indices {indices.shape} do not fit {count} values, rank {len(sizes) + 1}")
    places = np.zeros(count, np.int64)
    for size, column in zip(sizes, indices[:, :-1].T, strict=True):
        if count and not 0 <= int(column.min()) <= int(column.max()) < size:
            raise ValueError(f"edit_distance: an index of a sequence is not in [0, {size})")
        places = places * size + column
    return places


def _compute_edit_distances(xp: Any, *parts: Array, normalize: bool) -> Array:
    """Compute the distances between the sequences of two sparse tensors, each as indices, values and dense shape."""
    (_, mine, size), (_, theirs, other) = parts[:3], parts[3:]
    if size.shape != other.shape or not size.size:
        raise ValueError(f"edit_distance: the dense shapes are of different ranks: {size.tolist()}, {other.tolist()}")
    # Sequences beyond the smaller of both tensors are empty in it.
    shape = tuple(np.maximum(size[:-1], other[:-1]).tolist())
    # Symbols of any dtype become numbers, the same for both tensors.
    names = numbers_of_equal(np, np.concatenate([mine, theirs]))
    sequences: list[Array] = []
    for indices, symbols in ((parts[0], names[: mine.size]), (parts[3], names[mine.size :])):
        places = _sequence_numbers(indices, symbols.size, shape)
        # Values of a sparse tensor may be in any order.
        order = np.lexsort((indices[:, -1], places))
        sequences += [symbols[order], np.cumsum(np.bincount(places, minlength=math.prod(shape)))]
    result = edit_distances(*sequences).astype(np.float32)
    if normalize:
        lengths = np.diff(sequences[3], prepend=0)
        # Of truths of length 0: 0 for an empty hypothesis, else infinite.
        unequal = np.where(result > 0, np.float32(np.inf), np.float32(0))
        result = np.divide(result, lengths, out=unequal, where=lengths > 0, casting="same_kind")
    return result.reshape(shape)


def _distance_shape(op: Operation) -> Shape:
    """Return the larger of both dense shapes, without the last dimension."""
    shapes = [static_shape(op.inputs[i]) for i in (2, 5)]
    ranks = {shape.rank for shape in shapes if shape.rank is not None}
    if len(ranks) > 1:
        raise ShapeError(
            "the sequences are in shapes of different ranks",
            wanted="equal ranks",
            got=f"{shapes[0]} and {shapes[1]}",
            hint="the last dimension is that of the sequences",
        )
    # One known rank is the rank of both.
    if any(shape.rank is None for shape in shapes):
        return Shape([None] * (ranks.pop() - 1)) if ranks else Shape(None)
    pairs = zip(shapes[0][:-1], shapes[1][:-1], strict=True)
    return Shape([None if a is None or b is None else max(a, b) for a, b in pairs])


_WORDS = np.array(list("kittensitting"), np.dtypes.StringDType())


def _row_indices(count: int, row: int = 0) -> Array:
    return i64([[row, i] for i in range(count)]).reshape(-1, 2)


define(
    "EditDistance",
    "hypothesis_indices: host int64, hypothesis: host T, hypothesis_shape: host int64, "
    "truth_indices: host int64, truth: host T, truth_shape: host int64 -> distance: host float32",
    attrs={"normalize": True},
    shape=_distance_shape,
    rules=[Vectorize(one_by_one), Elements(lambda *parts, normalize: parts[1].size * parts[4].size), ReadsValues()],
    kernel=_compute_edit_distances,
    gradient=NotDifferentiable("it counts"),
    samples=[
        Sample(
            [_row_indices(6), _WORDS[:6], i64([1, 6]), _row_indices(7), _WORDS[6:], i64([1, 7])],
            f32([3]),
            {"normalize": False},
        ),
        Sample(
            [_row_indices(2, 1), i32([7, 8]), i64([3, 2]), i64([[0, 0], [1, 0]]), i32([7, 8]), i64([2, 1])],
            f32([1, 1, 0]),
        ),
        Sample([_row_indices(2), i32([7, 8]), i64([1, 2]), _row_indices(0), i32([]), i64([1, 0])], f32([np.inf])),
        Sample(
            [_row_indices(4), i32([1, 2, 3, 4]), i64([1, 4]), _row_indices(4), i32([2, 3, 9, 4]), i64([1, 4])],
            f32([0.5]),
        ),
        Sample([i64([[1], [0]]), i32([5, 4]), i64([2]), i64([[0]]), i32([4]), i64([1])], f32(1)),
    ],
)


def _sparse_parts(sparse: Any, what: str) -> list[Any]:
    """Return the indices, values and shape of a sparse tensor, or of a sequence of these three parts."""
    if hasattr(sparse, "dense_shape"):
        sparse = (sparse.indices, sparse.values, sparse.dense_shape)
    if not isinstance(sparse, (tuple, list)) or len(sparse) != 3:
        raise GraphError(
            f"'{what}' has to be a sparse tensor",
            wanted="(indices, values, dense_shape)",
            got=repr(sparse),
            hint="ctc_greedy_decoder gives such parts",
        )
    indices, values, shape = sparse
    return [
        cast(index_tensor(indices), dtypes.int64),
        convert_to_tensor(values),
        cast(index_tensor(shape), dtypes.int64),
    ]


@public
def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str | None = None) -> Tensor:
    """Count the insertions, deletions and replacements between pairs of sequences (Levenshtein, 1966).

    Parameters
    ----------
    hypothesis, truth : sequence of three Tensor: indices, values and dense shape
        The parts of a sparse tensor, such as a result of `ctc_beam_search_decoder`. Both have values of the same dtype,
        which may be any; sequences lie along the last dimension.
    normalize : bool
        Divide by the length of the truth; infinite for an empty truth and a hypothesis with elements.

    Returns
    -------
    Tensor
        Of dtype float32, and of the larger of the dense shapes, without the last dimension.

    Raises
    ------
    GraphError
        If an argument is no sparse tensor.
    ShapeError
        If the ranks are known to differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> said = ([[0, 0], [0, 1]], ["to", "see"], [1, 2])
    >>> meant = ([[0, 0], [0, 1], [0, 2]], ["the", "to", "sea"], [1, 3])
    >>> tg.function(lambda: tg.edit_distance(said, meant, normalize=False)).sync()
    array([2.], dtype=float32)
    """
    parts = [*_sparse_parts(hypothesis, "hypothesis"), *_sparse_parts(truth, "truth")]
    return apply("EditDistance", *parts, name=name, normalize=bool(normalize))


@public
def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Remove repetitions from sequences.

    Parameters
    ----------
    labels : Tensor of an integer dtype, of shape [batch, time]
    seq_length : int32 or int64 vector of length batch
        Number of labels of each row.

    Returns
    -------
    collapsed : Tensor
        Of the dtype of `labels`, of shape [batch, most remaining labels]; 0 after the end of a row.
    lengths : Tensor
        Of the dtype of `seq_length`: the number of remaining labels of each row.

    Raises
    ------
    ShapeError
        If `labels` is no matrix, or the number of lengths is known to differ from the number of rows.

    Examples
    --------
    >>> import tagloom as tg
    >>> labels, lengths = tg.function(lambda: tg.collapse_repeated([[1, 1, 2, 2, 1], [1, 2, 3, 3, 3]], [5, 2])).sync()
    >>> labels.tolist(), lengths.tolist()
    ([[1, 2, 1], [1, 2, 0]], [3, 2])
    """
    x, limits = convert_to_tensor(labels), index_tensor(seq_length)
    x.shape.with_rank(2)
    limits = one_for_each(limits, x, 0)
    # The first label of a row repeats nothing: a slice equals itself, and is empty where rows are.
    is_new = concat([apply("Equal", x[:, :1], x[:, :1]), apply("NotEqual", x[:, 1:], x[:, :-1])], 1)
    places = cast(numbers(size_along(x, 1)), limits.dtype)
    kept = is_new & (places < expand_dims(limits, 1))
    count = cumsum(cast(kept, dtypes.int32), 1)
    rows = cast(apply("NonZero", kept)[:, 0], dtypes.int32)
    lengths = reduce_sum(cast(kept, limits.dtype), 1)
    longest = cast(reduce_max(concat([lengths, cast(i32([0]), limits.dtype)], 0)), dtypes.int32)
    # The column of a remaining label is the number of remaining labels before.
    at = stack([rows, boolean_mask(count, kept) - 1], 1)
    return scatter_nd(at, boolean_mask(x, kept), stack([size_along(x, 0), longest]), name), lengths
