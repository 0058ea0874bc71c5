"""Decoding of readings with blanks into their most probable labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..array.argminmax import argmax
from ..array.concat import concat, stack
from ..array.creation import range as numbers
from ..array.layout import transpose
from ..array.shapes import expand_dims
from ..array.slicing import boolean_mask
from ..math.casting import cast
from ..math.cumulative import cumsum
from ..math.reductions import reduce_max, reduce_sum
from ..support.arguments import check_rank, index_tensor, static_int
from ..support.common import one_for_each, size_along
from ..support.literals import Array, f64, i32, i64
from ..support.vectorizing.families import one_by_one
from .ctc_beams import search_beams


class SparseParts(NamedTuple):
    """The parts of a sparse tensor: rows of labels of different lengths.

    Attributes
    ----------
    indices : int64 Tensor of shape [n, rank]
        The index of each value, row by row.
    values : Tensor of shape [n]
        The values.
    dense_shape : int64 Tensor of shape [rank]
        The shape of the dense tensor.
    """

    indices: Any
    values: Any
    dense_shape: Any


def _read_logits(inputs: Any) -> Tensor:
    """Return the inputs as a tensor; ShapeError for another rank than 3."""
    x = convert_to_tensor(inputs)
    if x.rank not in (3, None):
        raise ShapeError(
            "a reading has time steps, rows and classes",
            wanted="[time, batch, classes]",
            got=x.shape,
            operation=x.op,
            hint="one row alone is x[:, None]",
        )
    return x


@public
def ctc_greedy_decoder(
    inputs: Any,
    sequence_length: Any,
    merge_repeated: bool = True,
    name: str | None = None,
    blank_index: int | None = None,
) -> tuple[list[SparseParts], Tensor]:
    """Take the most probable class of each time step, without repetitions, and then without blanks.

    Parameters
    ----------
    inputs : Tensor of a floating dtype, of shape [time, batch, classes]
        Unnormalised log probabilities.
    sequence_length : int32 or int64 vector of length batch
        Number of time steps of each row.
    merge_repeated : bool
        Merge repetitions without a blank between them into a label.
    blank_index : int, optional
        The class for no label: the last by default; negative numbers count from the end.

    Returns
    -------
    decoded : list of one SparseParts
        The labels as parts of a sparse tensor: `indices` (int64, of shape [n, 2]: row and position), `values` (int64)
        and `dense_shape` (batch, and the most labels of a row).
    neg_sum_logits : Tensor
        Of shape [batch, 1]: the negative sum of the largest logits.

    Raises
    ------
    ShapeError
        If `inputs` has another rank, or the number of lengths is known to differ from the number of rows.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     (labels,), _ = tg.ctc_greedy_decoder(tg.one_hot([[0], [0], [2], [0], [1]], 3), [5])
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(labels.values)
    array([0, 0, 1])
    """
    x, lengths = _read_logits(inputs), cast(index_tensor(sequence_length), dtypes.int64)
    lengths = one_for_each(lengths, x, 1)
    best, blank = argmax(x, 2), _read_blank_index(x, blank_index)
    is_step = expand_dims(numbers(cast(size_along(x, 0), dtypes.int64)), 1) < lengths
    kept = is_step & apply("NotEqual", best, blank)
    if merge_repeated:
        # The first step repeats nothing: a slice equals itself, and is empty where there are no steps.
        kept &= concat([apply("Equal", best[:1], best[:1]), apply("NotEqual", best[1:], best[:-1])], 0)
    # From here on row by row, [batch, time]: the order of the indices of a sparse tensor.
    kept, best = transpose(kept, [1, 0]), transpose(best, [1, 0])
    count = cumsum(cast(kept, dtypes.int64), 1)
    rows = apply("NonZero", kept)[:, 0]
    # The position of a label is the count of kept labels up to it in its row, less 1.
    indices = stack([rows, boolean_mask(count, kept) - 1], 1)
    # The 0 is the maximum of no rows.
    longest = reduce_max(concat([reduce_sum(cast(kept, dtypes.int64), 1), i64([0])], 0))
    shape = stack([cast(size_along(x, 1), dtypes.int64), longest])
    # Time steps after the end of a row add nothing to the score.
    score = apply("Where", is_step, reduce_max(x, 2), 0)
    total = apply("Neg", expand_dims(reduce_sum(score, 0), 1), name=name)
    return [SparseParts(indices, boolean_mask(best, kept), shape)], total


def _read_blank_index(x: Tensor, blank_index: int | None) -> Tensor:
    blank = -1 if blank_index is None else static_int(blank_index, "blank_index")
    known = cast(size_along(x, 2), dtypes.int64)
    return known + blank if blank < 0 else convert_to_tensor(np.int64(blank))


def _beam_shapes(op: Operation) -> list[Shape]:
    """Return the shapes of indices, values and dense shapes of each path, and of the scores."""
    logits, lengths, paths = op.inputs[0].shape.with_rank(3), op.inputs[1].shape, op.attrs["paths"]
    # Merged for its error: there must be a length for each row.
    Shape([logits[1]]).merge(lengths)
    if not 1 <= paths <= op.attrs["beam_width"]:
        raise GraphError(
            "a beam is at least as wide as there are paths wanted of it",
            wanted="1 <= top_paths <= beam_width",
            got=f"top_paths={paths}, beam_width={op.attrs['beam_width']}",
            hint="make beam_width larger",
        )
    return [Shape([None, 2])] * paths + [Shape([None])] * paths + [Shape([2])] * paths + [Shape([logits[1], paths])]


def _sparse_parts(rows: list[list[int]]) -> tuple[Array, Array, Array]:
    """Return the indices, values and dense shape of rows of labels."""
    places = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    longest = max(map(len, rows), default=0)
    return i64(places).reshape(-1, 2), i64([label for row in rows for label in row]), i64([len(rows), longest])


def _compute_beam_search(
    xp: Any, inputs: Array, lengths: Array, beam_width: int, paths: int, merge_repeated: bool
) -> list[Array]:
    """Search the best paths of each row of the batch; ValueError for lengths that do not fit."""
    check_rank(inputs, 3, 3, "ctc_beam_search_decoder takes [time, batch, classes]")
    if lengths.shape != inputs.shape[1:2] or (lengths.size and not 0 <= lengths.min() <= lengths.max() <= len(inputs)):
        raise ValueError(f"ctc_beam_search_decoder: for inputs of shape {inputs.shape}, sequence_length is {lengths}")
    if inputs.shape[2] < 1:
        raise ValueError("ctc_beam_search_decoder: there is no class, not even the blank")
    found = [search_beams(inputs[:n, row], beam_width, paths, merge_repeated) for row, n in enumerate(lengths.tolist())]
    parts = [_sparse_parts([each[path][0] for each in found]) for path in range(paths)]
    scores = np.asarray([[score for _, score in each] for each in found], inputs.dtype)
    return [*(p[0] for p in parts), *(p[1] for p in parts), *(p[2] for p in parts), scores.reshape(-1, paths)]


_READING = np.log(f64([[[0.4, 0.6]], [[0.4, 0.6]]]))
_CERTAIN = f64([[[9, 0, 0]], [[0, 0, 9]], [[9, 0, 0]], [[9, 0, 0]], [[0, 9, 0]]]) * 10

define(
    "CTCBeamSearch",
    "inputs: host T, sequence_length: host I -> indices: host paths*int64, values: host paths*int64, "
    "shapes: host paths*int64, log_probability: host T",
    where={"T": (dtypes.float32, dtypes.float64), "I": dtypes.INDEX},
    attrs={"beam_width": REQUIRED, "paths": REQUIRED, "merge_repeated": REQUIRED},
    shape=_beam_shapes,
    rules=[
        Vectorize(one_by_one),
        Elements(lambda x, lengths, beam_width, **_: 100 * x.size * beam_width),
        ReadsValues(),
    ],  # Python goes through the beams
    kernel=_compute_beam_search,
    gradient=NotDifferentiable("it chooses among finitely many; ctc_loss has the gradient of a probability"),
    samples=[
        Sample(
            [_READING, i32([2])],
            (
                i64([[0, 0]]),
                np.zeros((0, 2), np.int64),
                i64([0]),
                i64([]),
                i64([1, 1]),
                i64([1, 0]),
                np.log(f64([[0.16 + 2 * 0.24, 0.36]])),
            ),
            {"beam_width": 2, "paths": 2, "merge_repeated": False},
        ),
        Sample(
            [_CERTAIN, i64([5])],
            (i64([[0, 0], [0, 1], [0, 2]]), i64([0, 0, 1]), i64([1, 3]), f64([[0]])),
            {"beam_width": 4, "paths": 1, "merge_repeated": False},
        ),
        Sample(
            [_CERTAIN, i64([5])],
            (i64([[0, 0], [0, 1]]), i64([0, 1]), i64([1, 2]), f64([[0]])),
            {"beam_width": 4, "paths": 1, "merge_repeated": True},
        ),
        Sample(
            [_CERTAIN, i32([0])],
            (np.zeros((0, 2), np.int64), i64([]), i64([1, 0]), f64([[0]])),
            {"beam_width": 4, "paths": 1, "merge_repeated": True},
        ),
    ],
)


@public
def ctc_beam_search_decoder(
    inputs: Any,
    sequence_length: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    name: str | None = None,
) -> tuple[list[SparseParts], Tensor]:
    """Search for the most probable labels of readings with blanks (Graves and Jaitly, 2014).

    The blank is the last class. The probability of labels is the sum over their readings, as far as these were in the
    beam.

    Parameters
    ----------
    inputs : Tensor of dtype float32 or float64, of shape [time, batch, classes]
        Unnormalised log probabilities.
    sequence_length : int32 or int64 vector of length batch
        Number of time steps of each row.
    beam_width, top_paths : int
        Number of prefixes kept in each time step, and number of results.
    merge_repeated : bool
        Leave repeated labels out of the results, even with a blank between them.

    Returns
    -------
    decoded : list of SparseParts
        For each path, the best first, the labels as parts of a sparse tensor: `indices` (int64, of shape [n, 2]: row
        and position), `values` (int64) and `dense_shape` (batch, and the most labels of a row).
    log_probability : Tensor
        Of shape [batch, top_paths].

    Raises
    ------
    GraphError
        If `top_paths` is less than 1, or more than `beam_width`.
    OpError
        In a step, if a length is out of range, or a row has fewer paths.

    Examples
    --------
    Both steps are rather blank, but labels come from more readings than no labels:

    >>> import numpy as np, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     logits = np.log([[[0.4, 0.6]], [[0.4, 0.6]]])
    ...     (labels,), score = tg.ctc_beam_search_decoder(logits, [2])
    >>> with tg.SyncSession(graph) as session:
    ...     session.run([labels.values, tg.exp(score)])
    [array([0]), array([[0.64]])]
    """
    count = static_int(top_paths, "top_paths")
    attrs = {"beam_width": static_int(beam_width, "beam_width"), "paths": count, "merge_repeated": bool(merge_repeated)}
    *parts, score = apply("CTCBeamSearch", _read_logits(inputs), index_tensor(sequence_length), name=name, **attrs)
    # `parts` are all indices, then all values, then all shapes: those of a path are `count` places apart.
    return [SparseParts(*parts[i::count]) for i in range(count)], score
