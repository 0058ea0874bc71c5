"""Softmax loss over all classes, with weights in shards on several devices (Chilimbi et al., 2014)."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.array.concat import split
from ...ops.array.gather import gather
from ...ops.array.where import where
from ...ops.math.arithmetic import add_n
from ...ops.math.casting import cast
from ...ops.math.comparison import equal
from ...ops.math.linear import matmul
from ...ops.math.reductions import reduce_logsumexp
from ...ops.nn.losses import sparse_softmax_cross_entropy_with_logits
from ...ops.support.arguments import index_tensor
from ...ops.support.common import one_for_each
from ..state.partitioned import MOD
from .embedding import Shards, classes_of, name_in_scope


@public
def full_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    partition_strategy: str | None = None,
    name: str = "full_softmax_loss",
) -> Tensor:
    """Cross-entropy of class numbers under a softmax over all classes, computed on the devices of the weights.

    Each shard computes the logits of its classes, and the logarithm of the sum of their exponentials. Only the sum and
    the label's logit are copied between devices, two numbers per example and shard; for the gradient, also the
    cotangent of `inputs`. The matrix of logits is never assembled. In Python::

        logits = inputs @ transpose(weights) + biases
        sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)

    Parameters
    ----------
    weights : Tensor, list of Tensor, or PartitionedVariable
        Shape ``[num_classes, dim]``, whole or in shards, as for `embedding_lookup`.
    biases : Tensor, list of Tensor, or PartitionedVariable
        Shape ``[num_classes]``, whole or in the same shards.
    labels : int32 or int64 Tensor of shape [batch]
        Class numbers, from 0 up to below the number of classes; always checked when the step runs.
    inputs : floating Tensor of shape [batch, dim]
        Features from which the classes are predicted.
    partition_strategy : {'mod', 'div'}, optional
        Assignment of rows to shards, as for `embedding_lookup`.

    Returns
    -------
    Tensor
        Shape ``[batch]``, of the dtype of `inputs`: nats per example.

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    GraphError
        If the shards do not form a table, or biases and weights are in different shards.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     halves = tg.fixed_size_partitioner(2)
    ...     weights = tg.PartitionedVariable(tg.zeros, halves, shape=[8, 3], devices=["/cpu:0", "/cpu:1"])
    ...     loss = tg.full_softmax_loss(weights, tg.zeros([8]), [7, 2], tg.ones([2, 3]))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph, devices=2) as session:
    ...     session.run(init)
    ...     np.exp(-session.run(loss))
    array([0.125, 0.125], dtype=float32)
    """
    with scopes.within(name=name_in_scope(name)):
        table, offsets = classes_of(weights, biases, partition_strategy)
        classes, x = convert_to_tensor(index_tensor(labels)), convert_to_tensor(inputs)
        _require_label_vector(classes, x)
        pieces = _split_biases(offsets, table)
        # A single shard has all logits, so the ordinary loss applies.
        if len(table.parts) == 1:
            with table.beside(0):
                logits = _compute_logits(x, table.parts[0], pieces[0])
                return sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)
        numbers, rows = table.assign_to_shards(classes)
        sums, chosen = [], []
        for number, (piece, size) in enumerate(zip(pieces, table.sizes(), strict=True)):
            if isinstance(size, int) and not size:
                continue  # a shard without classes has neither a sum nor labels
            with table.beside(number):
                logits = _compute_logits(x, table.parts[number], piece)
                sums.append(reduce_logsumexp(logits, 1))
                chosen.append(_of_label(logits, equal(numbers, number), rows))
        # The logsumexp over the shards' results is the logsumexp over all classes; all shards but the label's add 0.
        return reduce_logsumexp(apply("Stack", sums, axis=0), 0) - add_n(chosen)


def _compute_logits(inputs: Tensor, weights: Any, biases: Any) -> Tensor:
    w, b = cast(weights, inputs.dtype), cast(biases, inputs.dtype)
    logits = matmul(inputs, w, transpose_b=True)
    return logits + one_for_each(b, logits, 1)


def _of_label(logits: Tensor, is_here: Tensor, rows: Tensor) -> Tensor:
    """Return the logit of each example's label if it is a class of this shard, else 0."""
    mine = gather(logits, where(is_here, rows, 0), batch_dims=1)
    # A label of another shard reads this shard's row 0, as gather requires valid indices; the result is masked.
    return where(is_here, mine, 0)


def _split_biases(biases: Shards, weights: Shards) -> list[Any]:
    """Return the biases of each shard of the weights."""
    count = len(weights.parts)
    if len(biases.parts) == count and (count == 1 or biases.strategy == weights.strategy):
        return list(biases.parts)
    if len(biases.parts) > 1:
        raise GraphError(
            "the biases are in other shards than the weights",
            wanted=f"one, or {count} shards by '{weights.strategy}'",
            got=f"{len(biases.parts)} by '{biases.strategy}'",
            hint="make both with one partitioner and one partition_strategy",
        )
    # A whole vector of biases is cut as the weights are.
    whole = convert_to_tensor(biases.parts[0])
    if weights.strategy == MOD:
        return [whole[number::count] for number in range(count)]
    return list(split(whole, weights.sizes()))


def _require_label_vector(labels: Tensor, inputs: Tensor) -> None:
    """Raise ShapeError unless labels are a vector with an entry for each example."""
    examples = Shape(None) if inputs.rank is None else inputs.shape[:1]
    if labels.rank not in (1, None) or not labels.shape.is_compatible_with(examples):
        raise ShapeError(
            "each example has one label",
            wanted=examples if inputs.rank else "[batch]",
            got=labels.shape,
            hint="reshape both so that examples are along one dimension",
        )
