"""Losses over many classes, estimated from a sample of the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...base.docstrings import Family, name_function
from ...base.dtypes import float32
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.array.concat import concat, split
from ...ops.array.creation import fill, ones_like, zeros_like
from ...ops.array.shapes import expand_dims, reshape, shape
from ...ops.array.where import where
from ...ops.control.placeholders import stop_gradient
from ...ops.math.casting import cast
from ...ops.math.comparison import equal
from ...ops.math.elementwise import log
from ...ops.math.linear import matmul
from ...ops.math.reductions import reduce_any, reduce_sum
from ...ops.nn.losses import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits
from ...ops.random.candidates import log_uniform_candidate_sampler
from ...ops.support.arguments import index_tensor
from ...ops.support.common import ensure_sizes, size_along
from .embedding import Shards, classes_of, name_in_scope


@public
def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the sampled classes among the true classes of each example.

    Parameters
    ----------
    true_classes : int32 or int64 Tensor of shape [batch, num_true]
    sampled_candidates : int32 or int64 Tensor of shape [num_sampled]
    num_true : int
        True classes of each example.
    seed : int, optional
        Ignored; present for TensorFlow's argument order.

    Returns
    -------
    indices : int32 Tensor of shape [hits]
        The example of each hit.
    ids : int64 Tensor of shape [hits]
        Position in `sampled_candidates` of each hit.
    weights : float32 Tensor of shape [hits]
        The least float32, to add to the logit of each hit.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> hits = tg.function(lambda: tg.compute_accidental_hits([[5], [7], [3]], [3, 9, 5], 1))
    >>> [part.tolist() for part in hits.sync()[:2]]
    [[0, 2], [2, 0]]
    """
    classes, sampled = _convert_classes(true_classes, num_true), _as_int64(sampled_candidates)
    indices = where(_match_classes(classes, sampled))
    # Each row of `indices` is an example, the number of one of its true classes, and a place in the sample.
    examples, ids = indices[:, 0], indices[:, 2]
    # Added to the logit of a hit, the least float makes its probability 0.
    weights = fill(shape(ids), constant(float32.min, float32))
    return cast(examples, "int32"), cast(ids, "int64"), apply("Identity", weights, name=name)


class SampledLoss(Protocol):
    """Public function of a loss over a sample of the classes."""

    def __call__(
        self,
        weights: Any,
        biases: Any,
        labels: Any,
        inputs: Any,
        num_sampled: int,
        num_classes: int,
        num_true: int = 1,
        sampled_values: Sequence[Any] | None = None,
        remove_accidental_hits: bool = ...,
        partition_strategy: str | None = None,
        name: str = ...,
        seed: int | None = None,
    ) -> Tensor: ...


_SAMPLED = Family(
    {
        "weights": """Tensor, list of Tensor, or PartitionedVariable
    Shape ``[num_classes, dim]``, whole or in shards, as for `embedding_lookup`: rows are gathered on their devices.""",
        "biases": """Tensor, list of Tensor, or PartitionedVariable
    Shape ``[num_classes]``, whole or in shards.""",
        "labels": """int32 or int64 Tensor of shape [batch, num_true]
    The true classes.""",
        "inputs": """floating Tensor of shape [batch, dim]
    Features from which the classes are predicted.""",
        "num_sampled": "int\n    Number of classes drawn, once for the whole batch.",
        "num_classes": "int",
        "sampled_values": """(sampled, true_expected_count, sampled_expected_count), optional
    Results of a candidate sampler, of shapes ``[num_sampled]``, ``[batch, num_true]`` and ``[num_sampled]``; by
    default of `log_uniform_candidate_sampler` without repetition, for classes in descending order of frequency.""",
        "partition_strategy": """{'mod', 'div'}, optional
    Assignment of rows to shards, as for `embedding_lookup`.""",
        "seed": "int, optional\n    Seed of the default sampler.",
    },
    raises={"ShapeError": "If the shapes do not fit.", "GraphError": "If the shards do not form a table."},
)


def _define_sampled_loss(
    function: str, removes_hits: bool, loss_of: Callable[[Tensor, Tensor], Tensor], text: str, examples: str
) -> SampledLoss:
    """Return the public function of a sampled loss.

    Parameters
    ----------
    function, text, examples : str
        Its name, the beginning of its docstring, and the examples.
    removes_hits : bool
        Default of `remove_accidental_hits`.
    loss_of : callable
        ``loss_of(logits, targets)`` returns the loss of each example, from one logit for each true and sampled class.
    """

    def sampled_loss(
        weights: Any,
        biases: Any,
        labels: Any,
        inputs: Any,
        num_sampled: int,
        num_classes: int,
        num_true: int = 1,
        sampled_values: Sequence[Any] | None = None,
        remove_accidental_hits: bool = removes_hits,
        partition_strategy: str | None = None,
        name: str = function,
        seed: int | None = None,
    ) -> Tensor:
        with scopes.within(name=name_in_scope(name)):
            classes, x = _convert_classes(labels, num_true), convert_to_tensor(inputs)
            sample = _convert_sample(sampled_values, classes, num_true, num_sampled, num_classes, seed)
            tables = classes_of(weights, biases, partition_strategy)
            logits, targets = _sampled_logits(*tables, classes, x, sample, remove_accidental_hits)
            return loss_of(logits, stop_gradient(targets))

    return public(_SAMPLED.complete(name_function(sampled_loss, function, text), examples))


sampled_softmax_loss: SampledLoss = _define_sampled_loss(
    "sampled_softmax_loss",
    removes_hits=True,
    loss_of=lambda logits, targets: softmax_cross_entropy_with_logits(labels=targets, logits=logits),
    text="""Cross-entropy of a softmax over the true classes and a sample of the others (Jean et al., 2015).

    For training only: the loss takes `num_sampled` products for each example instead of `num_classes`, and
    underestimates the value of `full_softmax_loss`. Logits are reduced by the logarithm of their class's expected count
    in the sample, so that the gradient tends to the gradient of the full softmax.

    Parameters
    ----------
    num_true : int
        True classes of each example; the target distributes the probability equally.
    remove_accidental_hits : bool
        Leave sampled classes out of an example's loss if they are among its true classes.

    Returns
    -------
    Tensor
        Shape ``[batch]``, of the dtype of `inputs`: nats per example.
    """,
    examples=""">>> import numpy as np, tagloom as tg
>>> with tg.Graph().as_default() as graph:
...     sample = [3, 0], np.ones((1, 1), np.float32), np.ones(2, np.float32)
...     weights, biases, inputs = tg.zeros([4, 5]), tg.zeros([4]), tg.ones([1, 5])
...     loss = tg.sampled_softmax_loss(weights, biases, [[0]], inputs, 2, 4, sampled_values=sample)
>>> with tg.SyncSession(graph) as session:
...     np.exp(-session.run(loss))  # one of two classes: that the sample has it too does not count
array([0.5], dtype=float32)""",
)

nce_loss: SampledLoss = _define_sampled_loss(
    "nce_loss",
    removes_hits=False,
    # A binary decision for each class, true or sampled, unlike the single choice of a softmax.
    loss_of=lambda logits, targets: reduce_sum(sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), 1),
    text="""Noise-contrastive estimation: tell the true classes from a sample of others (Gutmann and Hyvärinen, 2010).

    Each true and each sampled class is a separate binary question: true or noise.

    Parameters
    ----------
    num_true : int
        True classes of each example, each weighted by ``1 / num_true``.
    remove_accidental_hits : bool
        Leave sampled classes out of an example's loss if they are among its true classes; they are then no noise.

    Returns
    -------
    Tensor
        Shape ``[batch]``, of the dtype of `inputs`: the sum of the cross-entropies of an example's questions, in nats.
    """,
    examples=""">>> import numpy as np, tagloom as tg
>>> with tg.Graph().as_default() as graph:
...     sample = [3, 1], np.ones((1, 1), np.float32), np.ones(2, np.float32)
...     weights, biases, inputs = tg.zeros([4, 5]), tg.zeros([4]), tg.ones([1, 5])
...     loss = tg.nce_loss(weights, biases, [[0]], inputs, 2, 4, sampled_values=sample)
>>> with tg.SyncSession(graph) as session:
...     np.exp(-session.run(loss))  # three questions, each answered with one half
array([0.125], dtype=float32)""",
)


def _convert_sample(
    given: Any, classes: Tensor, num_true: int, num_sampled: int, num_classes: int, seed: int | None
) -> list[Tensor]:
    """Return sampled classes, and expected counts of true and sampled classes, all without a gradient."""
    if given is None:
        # A log-uniform sample fits classes numbered by descending frequency, as in a sorted vocabulary.
        given = log_uniform_candidate_sampler(classes, num_true, num_sampled, True, num_classes, seed=seed)
    sampled, true_expected, sampled_expected = (stop_gradient(convert_to_tensor(values)) for values in given)
    _check_sample("sampled classes", sampled, Shape([num_sampled]))
    _check_sample("true_expected_count", true_expected, classes.shape)
    _check_sample("sampled_expected_count", sampled_expected, Shape([num_sampled]))
    return [_as_int64(sampled), true_expected, sampled_expected]


def _check_sample(name: str, values: Tensor, wanted: Shape) -> None:
    """Raise ShapeError if a result of a candidate sampler has another shape."""
    if not values.shape.is_compatible_with(wanted):
        raise ShapeError(
            f"{name} are not as many as num_sampled and the labels say",
            wanted=wanted,
            got=values.shape,
            operation=values.op,
            hint="give sampled, true_expected_count and sampled_expected_count, as a candidate sampler does",
        )


def _sampled_logits(
    weights: Shards, biases: Shards, labels: Tensor, inputs: Tensor, sample: list[Tensor], remove: bool
) -> tuple[Tensor, Tensor]:
    """Return the logits of true and sampled classes, [batch, num_true + num_sampled], and their targets."""
    sampled, true_expected, sampled_expected = sample
    num_true = labels.shape[1]
    # A single lookup for true and sampled classes: each shard is visited once.
    ids, sizes = _join_vectors(reshape(labels, [-1]), sampled)
    true_rows, sampled_rows = split(cast(weights.lookup(ids), inputs.dtype), sizes)
    true_biases, sampled_biases = split(cast(biases.lookup(ids), inputs.dtype), sizes)
    width = size_along(true_rows, 1) if true_rows.shape[1] is None else true_rows.shape[1]
    per_example = reshape(true_rows, [-1, num_true, width])
    # Each example has true classes of its own, while all share the sampled classes: there one product serves all.
    of_true = reduce_sum(expand_dims(inputs, 1) * per_example, 2) + reshape(true_biases, [-1, num_true])
    of_sampled = matmul(inputs, sampled_rows, transpose_b=True) + sampled_biases
    # The correction for unequal sampling: without it frequent classes would be penalized.
    of_true = of_true - _log_in(inputs, true_expected)
    of_sampled = of_sampled - _log_in(inputs, sampled_expected)
    if remove:
        # A sampled class is a hit of an example if it equals any of the true classes.
        hits = reduce_any(_match_classes(labels, sampled), 1)
        none = constant(inputs.dtype.min / 2, inputs.dtype)  # stays finite where the largest logit is subtracted
        of_sampled = where(hits, none, of_sampled)
    # All true classes together have the probability 1; sampled classes have 0.
    targets = concat([ones_like(of_true) / num_true, zeros_like(of_sampled)], 1)
    return concat([of_true, of_sampled], 1), targets


def _join_vectors(first: Tensor, second: Tensor) -> tuple[Tensor, list[Any]]:
    """Concatenate two vectors of row numbers, and return the sizes that split the result again."""
    sizes = [size_along(t, 0) if t.shape[0] is None else t.shape[0] for t in (first, second)]
    return concat([first, second], 0), sizes


def _match_classes(classes: Tensor, sampled: Tensor) -> Tensor:
    """Compare each true class with each sampled class: bool [batch, num_true, num_sampled]."""
    return equal(expand_dims(classes, 2), sampled)


def _log_in(inputs: Tensor, expected: Tensor) -> Tensor:
    """Return logarithms in the dtype of the inputs; small expected counts would underflow if cast to float16 first."""
    return cast(log(expected if expected.dtype.is_floating else cast(expected, float32)), inputs.dtype)


def _as_int64(values: Any) -> Tensor:
    return cast(index_tensor(values), "int64")


def _convert_classes(labels: Any, num_true: int) -> Tensor:
    """Return true classes as int64 [batch, num_true]."""
    classes = _as_int64(labels)
    expected = Shape([None, num_true])
    if not classes.shape.is_compatible_with(expected):
        raise ShapeError(
            "the true classes of an example are as many as num_true says",
            wanted=expected,
            got=classes.shape,
            hint="labels have a column for each true class; expand_dims(labels, 1) for one",
        )
    return ensure_sizes(classes, None, num_true)
