"""State of metrics across steps, and its reset."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..base.dtypes import DType, float32, float64
from ..base.errors import GraphError, ShapeError
from ..frontend.state.variables import Variable
from ..ir import scopes
from ..ir.apply import convert_to_tensor
from ..ir.entry import builds
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ir.typed import ArrayLike
from ..ops.array.shapes import expand_dims
from ..ops.control.effects import group
from ..ops.control.weights import fitting_weights, in_dtype, spread_weights, without_last

Collections = str | Sequence[str] | None
Metric = tuple[Tensor, Tensor]  # the value, and the operation that adds a step
_COLLECTION = "metric_variables"


@builds
def metric_variables(scope: str | None = None) -> list[Variable]:
    """Return the variables of the current graph that hold the sums of metrics.

    `global_variables_initializer` initializes them too.

    Parameters
    ----------
    scope : str, optional
        Regular expression matching the beginning of the names; all variables by default.

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
    variables = scopes.get_default_graph().collections.get(_COLLECTION, [])
    return [v for v in variables if scope is None or re.match(scope, v.name)]


@builds
def reset(scope: str | None = None, name: str = "reset_metrics") -> Operation:
    """Return an operation that resets metrics, as for another pass through a data set.

    Parameters
    ----------
    scope : str, optional
        Regular expression matching the beginning of variables' names; all variables built so far by default.
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


def _make_sum_variable(name: str, increment: Tensor) -> Variable:
    """Return a variable for the sum of the increments, initially zero."""
    if not increment.shape.is_fully_known:
        raise ShapeError(
            "a metric keeps sums of a known shape",
            wanted="a known shape",
            got=increment.shape,
            operation=increment.op,
            hint="set the shape of what is averaged",
        )
    # float32 counts would stop growing at 2**24.
    zeros = np.zeros(increment.shape.as_tuple(), np.float64)
    variable = Variable(zeros, trainable=False, name=name)
    noted = variable.graph.collections.setdefault(_COLLECTION, [])
    if all(v is not variable for v in noted):  # a function traced again gets the same variable
        noted.append(variable)
    return variable


def stream_metric(
    compute: Callable[..., Tensor],
    increments: Mapping[str, Tensor],
    dtype: DType | None,
    metrics_collections: Collections,
    updates_collections: Collections,
    updated: Callable[..., Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a metric's value, and the operation that adds this step.

    Parameters
    ----------
    compute : callable
        Computes the metric from the sums of the increments over all steps.
    increments : mapping of str to Tensor
        Tensors to sum, by the names of the variables that hold the sums.
    dtype : DType or None
        Of the results; None leaves the dtypes unchanged.
    metrics_collections, updates_collections : str or sequence of str, optional
        Collections of the graph to which the results are added.
    updated : callable, optional
        Computes the result of the update from the sums; `compute` by default.

    Returns
    -------
    value : Tensor
        Read after the update, in a step that runs both.
    update : Tensor
    """
    variables = [_make_sum_variable(name, increment) for name, increment in increments.items()]
    sums = [v.assign_add(in_dtype(x, float64)) for v, x in zip(variables, increments.values(), strict=True)]
    # Accesses of a variable are ordered as built: value() reads after assign_add in a step that runs both.
    update, value = (updated or compute)(*sums), compute(*(v.value() for v in variables))
    if dtype is not None:
        update, value = in_dtype(update, dtype), in_dtype(value, dtype)
    _add_to(metrics_collections, value)
    _add_to(updates_collections, update)
    return value, update


def _add_to(collections: Collections, tensor: Tensor) -> None:
    """Add a tensor to collections of its graph; GraphError for anything but names."""
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
    """Return the dtype of a metric: float64 if any value is float64, else float32."""
    return float64 if any(v.dtype is float64 for v in values) else float32


def apply_weights(values: Tensor, weights: ArrayLike | None) -> tuple[Tensor, Tensor]:
    """Return values times their weights, and a weight for each value; 1 where `weights` is None.

    Weights may have an additional last dimension of 1, or lack the last dimension of the values: then of whole rows.
    """
    factor = in_dtype(1.0 if weights is None else weights, values.dtype)
    factor = without_last(factor, values.rank)
    # A weight for each row, beside values with one dimension more.
    if factor.rank and values.rank == factor.rank + 1:
        factor = expand_dims(factor, -1)
    factor = fitting_weights(factor, values)
    return values * factor, spread_weights(factor, values)


def same_ranks(labels: ArrayLike, predictions: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return labels and predictions, without a last dimension of 1 present in only one of the two."""
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    labels = without_last(labels, predictions.rank)
    return labels, without_last(predictions, labels.rank)
