"""What a metric keeps from step to step, and how it begins anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import DType, float32, float64
from ..base.errors import GraphError, ShapeError
from ..frontend.variables import Variable
from ..ir import scopes
from ..ir.apply import convert_to_tensor
from ..ir.entry import builds
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.array.shapes import expand_dims
from ..ops.control.effects import group
from ..ops.control.weights import fitting_weights, in_dtype, spread_weights, without_last

Collections = str | Sequence[str] | None
Metric = tuple[Tensor, Tensor]  # a value, and the operation that takes one step in
_COLLECTION = "metric_variables"


@builds
def metric_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables that the metrics of the current graph keep their sums in.

    `global_variables_initializer` initializes them too.

    Parameters
    ----------
    scope : str, optional
        Only those whose names begin with a match of this regular expression.

    Returns
    -------
    list of Variable
        Not trainable; float64, so that counts of any size are exact.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     value, update = tg.metrics.mean([1.0, 2.0], name="loss")
    ...     tg.metrics.metric_variables()
    [<Variable loss/total float64[]>, <Variable loss/count float64[]>]
    """
    made = scopes.get_default_graph().collections.get(_COLLECTION, [])
    return [v for v in made if scope is None or re.match(scope, v.name)]


@builds
def reset(scope: str | None = None, name: str = "reset_metrics") -> Operation:
    """Return an operation after which metrics begin anew, as for another pass through a data set.

    Parameters
    ----------
    scope : str, optional
        Only those whose names begin with a match of this regular expression; of those built so far.
    name : str, optional

    Returns
    -------
    Operation

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [])
    ...     mean, update = tg.metrics.mean(x)
    ...     reset = tg.metrics.reset()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(reset)
    ...     found = [float(session.run(update, {x: value})) for value in (1.0, 4.0)]
    ...     session.run(reset)
    ...     found, float(session.run(mean))
    ([1.0, 2.5], 0.0)
    """
    return group(*(v.initializer for v in metric_variables(scope)), name=name)


def _kept(name: str, increment: Tensor) -> Variable:
    """Return a variable for the sum of what comes, which is zeros at first."""
    if not increment.shape.is_fully_known:
        raise ShapeError(
            "a metric keeps sums of a known shape",
            wanted="a known shape",
            got=increment.shape,
            operation=increment.op,
            hint="set the shape of what is averaged",
        )
    zeros = np.zeros(increment.shape.as_tuple(), np.float64)
    made = Variable(zeros, trainable=False, name=name)
    noted = made.graph.collections.setdefault(_COLLECTION, [])
    if all(v is not made for v in noted):  # as when a function is traced again
        noted.append(made)
    return made


def streamed(
    compute: Callable[..., Tensor],
    increments: Mapping[str, Tensor],
    dtype: DType | None,
    metrics_collections: Collections,
    updates_collections: Collections,
    updated: Callable[..., Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a metric, and the operation that takes this step in.

    Parameters
    ----------
    compute : callable
        Takes the sums of the increments over all steps; gives the metric.
    increments : mapping of str to Tensor
        What is to be summed, by the names of the variables that hold the sums.
    dtype : DType or None
        Of the results; None leaves them as they are.
    metrics_collections, updates_collections : str or sequence of str, optional
        Collections of the graph that the results are added to.
    updated : callable, optional
        As `compute`, for what the update gives, if that is something else.

    Returns
    -------
    value : Tensor
        Behind the update, in a step that does both.
    update : Tensor
    """
    kept = [_kept(name, increment) for name, increment in increments.items()]
    sums = [v.assign_add(in_dtype(x, float64)) for v, x in zip(kept, increments.values(), strict=True)]
    update, value = (updated or compute)(*sums), compute(*(v.value() for v in kept))
    if dtype is not None:
        update, value = in_dtype(update, dtype), in_dtype(value, dtype)
    _add_to(metrics_collections, value)
    _add_to(updates_collections, update)
    return value, update


def _add_to(collections: Collections, tensor: Tensor) -> None:
    names = [collections] if isinstance(collections, str) else collections or ()
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
        raise GraphError(
            "collections of a graph have names",
            wanted="a name, or a list of names",
            got=repr(collections),
            hint="updates_collections='updates'",
        )
    for name in names:
        tensor.graph.collections.setdefault(name, []).append(tensor)


def result_dtype(*values: Tensor) -> DType:
    """Return the dtype of a metric: float64 of values in that, else float32."""
    return float64 if any(v.dtype is float64 for v in values) else float32


def weighted(values: Tensor, weights: Any) -> tuple[Tensor, Tensor]:
    """Return values times their weights, and a weight for each of them; 1 where `weights` is None.

    Weights may have a last dimension of 1 more than the values, or lack the last one: then they are of rows.
    """
    factor = in_dtype(1.0 if weights is None else weights, values.dtype)
    factor = without_last(factor, values.rank)
    if factor.rank and values.rank == factor.rank + 1:
        factor = expand_dims(factor, -1)
    factor = fitting_weights(factor, values)
    return values * factor, spread_weights(factor, values)


def same_ranks(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Return labels and predictions, without a last dimension of 1 that only one of them has."""
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    labels = without_last(labels, predictions.rank)
    return labels, without_last(predictions, labels.rank)
