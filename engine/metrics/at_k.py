"""Precision, recall and average precision of the k best classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..base.docstrings import Family, name_function
from ..base.dtypes import float32, int32, int64
from ..base.errors import DtypeError, GraphError, ShapeError
from ..frontend.control.scopes import name_scope
from ..ir.apply import apply, convert_to_tensor
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.ranking import top_k
from ..ops.array.shapes import expand_dims
from ..ops.control.assertions import assert_equal
from ..ops.control.weights import in_dtype, tensor_after_checks
from ..ops.math.arithmetic import div_no_nan, minimum
from ..ops.math.comparison import equal, greater, logical_and, logical_not
from ..ops.math.cumulative import cumsum
from ..ops.math.reductions import reduce_any, reduce_sum
from ..ops.sparse.dense import sparse_tensor_to_dense
from ..ops.sparse.sparse_tensor import SparseTensor, SparseTensorValue
from ..ops.support.arguments import known_rank, static_int
from ..ops.support.common import shape_of
from .family import RESULT, SHARED, metric
from .streaming import Collections, Metric, apply_weights, stream_metric

_MISSING = np.iinfo(np.int64).min  # padding of shorter rows of sparse labels; never a class number

RANKED = Family(
    {
        "labels": """int32 or int64 Tensor or SparseTensor
    Of shape [..., num_labels]: the right classes of each row, repetitions ignored; or of shape [...], a class for each
    row. Numbers out of the range of classes, such as a padding of -1, are never predicted.""",
        "predictions": """Tensor of a floating dtype, of shape [..., num_classes]
    The score of each class; of equal scores, the class of the lower number is better.""",
        "predictions_idx": """int32 or int64 Tensor of shape [..., k]
    The best classes of each row, the best first.""",
        "k": "int\n    Number of best classes to consider.",
        "class_id": "int, optional\n    Count this class alone.",
        **SHARED,
        "weights": "Tensor of any real dtype, optional\n    Weight of each row, 1 by default.",
    },
    RESULT,
    {
        "ShapeError": "If the shapes are known not to fit.",
        "GraphError": "If a rank is unknown.",
        "OpError": "When a step runs the operation, if labels and predictions differ in their rows.",
    },
)


_OF_RANKS = replace(
    RANKED,
    parameters={
        **RANKED.parameters,
        "k": "int, optional\n    Number of best classes to use from each row; all when None.",
    },
)


class _Sets:
    """The best classes and the right classes of each row, without repetitions.

    Attributes
    ----------
    best, right : bool Tensor
        True at the class numbers to count, of shapes [..., k] and [..., num_labels].
    matches : bool Tensor of shape [..., k, num_labels]
        True for each best class equal to a right class.
    """

    def __init__(self, labels: object, best: Tensor, class_id: int | None) -> None:
        classes = _right_classes(labels, best)
        self.best: Tensor = _is_first_occurrence(best)
        self.right: Tensor = logical_and(_is_first_occurrence(classes), logical_not(equal(classes, _MISSING)))
        if class_id is not None:
            wanted = np.int64(static_int(class_id, "class_id"))
            self.best = logical_and(self.best, equal(best, wanted))
            self.right = logical_and(self.right, equal(classes, wanted))
        # pairs of [..., k, 1] and [..., 1, num_labels]: each side keeps its own mask of classes to count
        counted = logical_and(expand_dims(self.best, -1), expand_dims(self.right, -2))
        self.matches: Tensor = logical_and(counted, equal(expand_dims(best, -1), expand_dims(classes, -2)))

    def count_outcomes(self, *kinds: str) -> Mapping[str, Tensor]:
        """Return each row's number of true positives, false positives or false negatives."""
        # Over the labels for each of the best classes, and over these for each label.
        is_right, is_found = reduce_any(self.matches, -1), reduce_any(self.matches, -2)
        outcomes = {
            "true_positives": is_right,
            "false_positives": logical_and(self.best, logical_not(is_right)),
            "false_negatives": logical_and(self.right, logical_not(is_found)),
        }
        return {kind: reduce_sum(in_dtype(outcomes[kind], float32), -1) for kind in kinds}


def _right_classes(labels: object, best: Tensor) -> Tensor:
    """Return the right classes as int64 numbers of shape [..., num_labels]."""
    if isinstance(labels, (SparseTensor, SparseTensorValue)):
        values = _to_class_numbers(labels.values, "labels")
        # unordered indices are accepted, because the order of the labels in a row has no meaning
        labels = sparse_tensor_to_dense(
            SparseTensor(labels.indices, values, labels.dense_shape), convert_to_tensor(np.int64(_MISSING)), False
        )
        labels.set_shape([None] * known_rank(best, "a metric at k"))
    classes = _to_class_numbers(labels, "labels")
    rank = known_rank(classes, "a metric at k")
    if best.rank == rank + 1:
        # One class for each row, without an axis of labels.
        classes, rank = expand_dims(classes, -1), rank + 1
    if rank != best.rank or not classes.shape[:-1].is_compatible_with(best.shape[:-1]):
        raise ShapeError(
            "labels and predictions have other rows",
            wanted=f"[..., num_labels] with the first dimensions of {best.shape}",
            got=classes.shape,
            operation=classes.op,
            hint="labels have a row for each row of predictions",
        )
    if classes.shape[:-1].is_fully_known and best.shape[:-1].is_fully_known:
        return classes
    ours, theirs = shape_of(classes)[:-1], shape_of(best)[:-1]  # else a single row would broadcast to all rows
    return tensor_after_checks(classes, [assert_equal(ours, theirs, "rows of labels and predictions")])


def _to_class_numbers(value: object, what: str) -> Tensor:
    tensor = convert_to_tensor(value)
    if not tensor.dtype.is_integer:
        raise DtypeError(
            f"{what} are numbers of classes", wanted="int32 or int64", got=tensor.dtype, hint="argmax of one-hot rows"
        )
    return in_dtype(tensor, int64)


def _is_first_occurrence(numbers: Tensor) -> Tensor:
    """Return True for each number at its first occurrence in its row."""
    # all pairs are compared: rows are short, and sorting would lose the ranks
    places = apply("Range", *(convert_to_tensor(bound, int32) for bound in (0, shape_of(numbers)[-1], 1)))
    is_before = greater(expand_dims(places, -1), places)
    same = equal(expand_dims(numbers, -1), expand_dims(numbers, -2))
    return logical_not(reduce_any(logical_and(same, is_before), -1))


def _find_best_classes(predictions: ArrayLike, k: object) -> Tensor:
    """Return the numbers of the k best classes of each row, best first."""
    count = static_int(k, "k")
    if count < 1:
        raise GraphError("'k' is a number of classes", wanted="1 or more", got=count, hint="as k=5")
    scores = convert_to_tensor(predictions)
    if not scores.dtype.is_floating:
        raise DtypeError("scores are of a floating dtype", wanted="float32", got=scores.dtype, hint="cast them")
    return in_dtype(top_k(scores, count)[1], int64)


def _share_of_both(part: Tensor, rest: Tensor) -> Tensor:
    return div_no_nan(part, part + rest)


def _count_kinds(
    kinds: tuple[str, str], labels: object, best: Tensor, class_id: int | None, weights: ArrayLike | None
) -> dict[str, Tensor]:
    """Return the weights of the outcomes of two kinds in a step."""
    counts = _Sets(labels, best, class_id).count_outcomes(*kinds)
    return {kind: reduce_sum(apply_weights(count, weights)[0]) for kind, count in counts.items()}


_SCORES = "[[0.1, 0.7, 0.2], [0.3, 0.1, 0.6]]"


class AtK(Protocol):
    """Public function of a metric of the k best classes by scores."""

    def __call__(
        self,
        labels: Any,
        predictions: ArrayLike,
        k: int,
        class_id: int | None = None,
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric: ...


class AtTopK(Protocol):
    """Public function of a metric of ranked classes."""

    def __call__(
        self,
        labels: Any,
        predictions_idx: ArrayLike,
        k: int | None = None,
        class_id: int | None = None,
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric: ...


# The share of true positives among them and these is the precision, or the recall.
_PRECISION, _RECALL = "false_positives", "false_negatives"


def _define_at_k(name: str, others: str, call: str, shown: str, summary: str) -> AtK:
    """Return the public function `name`, for the share of true positives among them and the outcomes `others`."""

    def share_at_k(
        labels: Any,
        predictions: ArrayLike,
        k: int,
        class_id: int | None = None,
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        with name_scope(name, share_at_k.__name__):
            best = _find_best_classes(predictions, k)
            counts = _count_kinds(("true_positives", others), labels, best, class_id, weights)
            return stream_metric(_share_of_both, counts, float32, metrics_collections, updates_collections)

    return metric(call, shown, family=RANKED)(name_function(share_at_k, name, summary))


def _define_at_top_k(name: str, others: str, call: str, shown: str, summary: str) -> AtTopK:
    """Return the public function `name`; see `_define_at_k`."""

    def share_at_top_k(
        labels: Any,
        predictions_idx: ArrayLike,
        k: int | None = None,
        class_id: int | None = None,
        weights: ArrayLike | None = None,
        metrics_collections: Collections = None,
        updates_collections: Collections = None,
        name: str | None = None,
    ) -> Metric:
        with name_scope(name, share_at_top_k.__name__):
            best = _take_first_classes(predictions_idx, k)
            counts = _count_kinds(("true_positives", others), labels, best, class_id, weights)
            return stream_metric(_share_of_both, counts, float32, metrics_collections, updates_collections)

    return metric(call, shown, family=_OF_RANKS)(name_function(share_at_top_k, name, summary))


precision_at_k: AtK = _define_at_k(
    "precision_at_k",
    _PRECISION,
    f"[[0], [2]], {_SCORES}, k=2",
    "0.25",
    "Fraction of right classes among the k best classes of all rows.",
)
precision_at_top_k: AtTopK = _define_at_top_k(
    "precision_at_top_k",
    _PRECISION,
    "[[0], [2]], [[1, 2], [2, 0]]",
    "0.25",
    "Fraction of right classes among the best classes of all rows, given by `predictions_idx`.",
)
recall_at_k: AtK = _define_at_k(
    "recall_at_k",
    _RECALL,
    f"[[0, 1], [2, 0]], {_SCORES}, k=1",
    "0.5",
    """Fraction of the right classes of all rows found among the k best.

    With a single label in each row this is the accuracy of the k best classes.
    """,
)
recall_at_top_k: AtTopK = _define_at_top_k(
    "recall_at_top_k",
    _RECALL,
    "[[0, 1], [2, 0]], [[1], [2]]",
    "0.5",
    "Fraction of the right classes of all rows found among the best, given by `predictions_idx`.",
)


@metric(f"[[0, 1], [2, 0]], {_SCORES}, k=3", "0.9167", "round(float(session.run(update)), 4)", family=RANKED)
def average_precision_at_k(
    labels: Any,
    predictions: ArrayLike,
    k: int,
    weights: ArrayLike | None = None,
    metrics_collections: Collections = None,
    updates_collections: Collections = None,
    name: str | None = None,
) -> Metric:
    """Mean over all rows of the average precision: the precision at the rank of each right class, averaged.

    The precisions of a row are added up over the right classes among its k best, and divided by the number of its
    labels, or k if less; a row without labels counts as 0.
    """
    with name_scope(name, "average_precision_at_k"):
        sets = _Sets(labels, _find_best_classes(predictions, k), None)
        is_right = in_dtype(reduce_any(sets.matches, -1), float32)
        # Ranks skip repeated classes.
        places = cumsum(in_dtype(sets.best, float32), axis=-1)
        precisions = reduce_sum(is_right * div_no_nan(cumsum(is_right, axis=-1), places), -1)
        # a perfect ranking has so many right classes among its k best, and a precision of 1 at each
        most = minimum(reduce_sum(in_dtype(sets.right, float32), -1), convert_to_tensor(float(static_int(k, "k"))))
        products, factors = apply_weights(div_no_nan(precisions, most), weights)
        sums = {"total": reduce_sum(products), "count": reduce_sum(factors)}
        return stream_metric(div_no_nan, sums, float32, metrics_collections, updates_collections)


def _take_first_classes(predictions_idx: ArrayLike, k: int | None) -> Tensor:
    """Return the first k of the best classes; all when k is None."""
    best = _to_class_numbers(predictions_idx, "predictions_idx")
    return best if k is None else best[..., : static_int(k, "k")]
