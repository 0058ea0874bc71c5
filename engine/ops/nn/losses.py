"""Softmax and the cross-entropies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.fusing import Fusion, StepWriter
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ...kernels.elementary.functions import elementary_function
from ..math.reductions import log_sum_exp, reduce_sum, reduced_shape
from ..support.arguments import axis_within, same_with_axis, static_int
from ..support.array_library import cast_to_accumulator
from ..support.batching import batch_along
from ..support.common import shape_of
from ..support.families import keep_dtype
from ..support.fusing import is_along_last, is_register
from ..support.literals import f64, i32, i64
from ..support.vectorizing.families import along, leading
from .activations import softplus

_X = f64([[1, -0.5, 2], [0.25, 3, -1]])
_P = f64([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])


def _softmax_gradient(op: Operation, g: Tensor) -> list[Any]:
    y = op.outputs[0]
    # The Jacobian is diag(y) - y @ y^T, which is never made.
    return [(g - reduce_sum(g * y, op.attrs["axis"], keepdims=True)) * y]


@keep_dtype
def _compute_softmax(xp: Any, x: Any, axis: int) -> Any:
    """Compute the softmax along an axis; elements of two bytes in float32."""
    axis_within(axis, x.ndim)
    # NumPy has no maximum of no elements.
    if not x.size:
        return x
    x = cast_to_accumulator(xp, x)
    # Subtracting the maximum keeps exponentials from overflowing.
    e = elementary_function(xp, "exp")(x - xp.max(x, axis, keepdims=True))
    return e / xp.sum(e, axis, keepdims=True)


def _softmax_steps(op: Operation, writer: StepWriter) -> None:
    (x,) = op.inputs
    exponentials = writer.add("exp", [writer.add("subtract", [x, writer.add("max", [x])])])
    writer.add("divide", [exponentials, writer.add("sum", [exponentials])], op.outputs[0])


define(
    "Softmax",
    "logits: T -> softmax: T",
    rules=[
        Vectorize(along()),
        Batch(batch_along()),
        Fusion(lambda op: is_along_last(op) and is_register(op.inputs[0].shape), _softmax_steps),
    ],
    where={"T": dtypes.FLOATING},
    attrs={"axis": -1},
    shape=same_with_axis,
    kernel=_compute_softmax,
    gradient=_softmax_gradient,
    samples=[
        Sample([_X], lambda x: np.exp(x) / np.exp(x).sum(1)[:, None]),
        Sample([_X], lambda x: np.exp(x) / np.exp(x).sum(0), {"axis": 0}),
        Sample([f64([1000, 1000])], f64([0.5, 0.5])),
    ],
)


@public
def softmax(logits: Any, axis: Any = -1, name: str | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along an axis, without overflow.

    Parameters
    ----------
    logits : Tensor of a floating dtype, of rank at least 1
    axis : int
        The axis that will sum to 1.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.softmax(np.array([[1.0, 1.0], [1000.0, 0.0]]))).sync()
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    return apply("Softmax", logits, name=name, axis=static_int(axis))


def _log_softmax_gradient(op: Operation, g: Tensor) -> list[Any]:
    # The softmax is the exponential of the result, which needs no second reduction.
    return [g - apply("Exp", op.outputs[0]) * reduce_sum(g, op.attrs["axis"], keepdims=True)]


@keep_dtype
def _log_softmax(xp: Any, x: Any, axis: int) -> Any:
    axis_within(axis, x.ndim)
    return x - log_sum_exp(xp, x, axis, True) if x.size else x


define(
    "LogSoftmax",
    "logits: T -> log_softmax: T",
    rules=[Vectorize(along()), Batch(batch_along())],
    where={"T": dtypes.FLOATING},
    attrs={"axis": -1},
    shape=same_with_axis,
    kernel=_log_softmax,
    gradient=_log_softmax_gradient,
    samples=[
        Sample([_X], lambda x: np.log(np.exp(x) / np.exp(x).sum(1)[:, None])),
        Sample([_X], lambda x: np.log(np.exp(x) / np.exp(x).sum(0)), {"axis": 0}),
        Sample([f64([1000, 1000])], np.log([0.5, 0.5])),
    ],
)


@public
def log_softmax(logits: Any, axis: Any = -1, name: str | None = None) -> Tensor:
    """Logarithm of `softmax`, without overflow.

    Parameters
    ----------
    logits : Tensor of a floating dtype, of rank at least 1
    axis : int
        The axis over which probabilities sum to 1.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.log_softmax(np.array([1000.0, 0.0]))).sync()
    array([    0., -1000.])
    """
    return apply("LogSoftmax", logits, name=name, axis=static_int(axis))


def _cross_entropy_shape(op: Operation) -> Shape:
    """Return the common shape of labels and logits without the axis of classes."""
    labels, logits = (t.shape for t in op.inputs)
    if not labels.is_compatible_with(logits):
        raise ShapeError(
            "labels and logits differ in shape",
            wanted=logits,
            got=labels,
            operation=op,
            hint="for labels that are class numbers use sparse_softmax_cross_entropy_with_logits",
        )
    return reduced_shape(labels.merge(logits), (op.attrs["axis"],), keepdims=False)


@keep_dtype
def _cross_entropy(xp: Any, labels: Any, logits: Any, axis: int) -> Any:
    if labels.shape != logits.shape:
        raise ValueError(f"labels and logits differ in shape: {labels.shape} and {logits.shape}")
    # The negative log_softmax, which does not overflow.
    surprise = log_sum_exp(xp, logits, axis, True) - logits if logits.size else logits
    return xp.sum(labels * surprise, axis, dtype=surprise.dtype)


def _cross_entropy_gradient(op: Operation, g: Tensor) -> list[Any]:
    labels, logits = op.inputs
    axis = op.attrs["axis"]
    g = apply("ExpandDims", g, axis=axis)
    # Labels need not sum to 1.
    surplus = softmax(logits, axis) * reduce_sum(labels, axis, keepdims=True) - labels
    return [-(g * log_softmax(logits, axis)), g * surplus]


define(
    "SoftmaxCrossEntropyWithLogits",
    "labels: T, logits: T -> loss: T",
    where={"T": dtypes.FLOATING},
    attrs={"axis": -1},
    shape=_cross_entropy_shape,
    rules=[Vectorize(along())],
    kernel=_cross_entropy,
    gradient=_cross_entropy_gradient,
    samples=[
        Sample([_P, _X], lambda p, x: -(p * np.log(np.exp(x) / np.exp(x).sum(1)[:, None])).sum(1)),
        Sample([_P, _X], lambda p, x: -(p * np.log(np.exp(x) / np.exp(x).sum(0))).sum(0), {"axis": 0}),
    ],
)


@public
def softmax_cross_entropy_with_logits(*, labels: Any, logits: Any, axis: Any = -1, name: str | None = None) -> Tensor:
    """Cross-entropy between given probabilities and the softmax of `logits`; gradients go to both.

    Parameters
    ----------
    labels, logits : Tensor of a floating dtype
        Same dtype and shape.
    axis : int
        The axis of classes.

    Returns
    -------
    Tensor
        Same dtype, without the axis: nats per example.

    Raises
    ------
    ShapeError
        If the shapes differ.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> loss = tg.function(lambda p, x: tg.softmax_cross_entropy_with_logits(labels=p, logits=x))
    >>> loss.sync(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 100.0]]))
    array([ 0.69314718, -0.        ])
    """
    return apply("SoftmaxCrossEntropyWithLogits", labels, logits, name=name, axis=static_int(axis))


def _sparse_shape(op: Operation) -> Shape:
    """Return the shape of the labels, which is the shape of the logits without classes."""
    labels, logits = (t.shape for t in op.inputs)
    if logits.rank == 0 or not labels.is_compatible_with(logits[:-1]):
        raise ShapeError(
            "labels do not fit logits",
            wanted=f"{logits[:-1]}: the shape of logits without its last dimension",
            got=labels,
            operation=op,
            hint="labels are class numbers, not probabilities",
        )
    return labels.merge(logits[:-1])


def _sparse_kernel(xp: Any, labels: Any, logits: Any) -> Any:
    """Compute the cross-entropies; ValueError for shapes that do not fit, IndexError for labels out of range."""
    classes = logits.shape[-1]
    if labels.shape != logits.shape[:-1]:
        raise ValueError(f"labels of shape {labels.shape} do not fit logits of shape {logits.shape}")
    if labels.size and not (xp.min(labels) >= 0 and xp.max(labels) < classes):
        raise IndexError(f"labels have to lie in 0 to {classes - 1}; found {xp.min(labels)} to {xp.max(labels)}")
    # Indices out of range are refused above: negative ones would count from the end.
    chosen = xp.take_along_axis(logits, labels[..., None].astype(xp.int64), -1)[..., 0]
    return xp.asarray(log_sum_exp(xp, logits, -1, False) - chosen, logits.dtype)


def _class_numbers(labels: Tensor, logits: Tensor) -> Tensor:
    count = logits.shape[-1] if logits.rank is not None else None
    # A constant where the number of classes is known: steps need no Range.
    if count is not None:
        return constant(np.arange(count, dtype=labels.dtype.numpy))
    numbers = apply("Range", 0, shape_of(logits)[-1], 1)
    return apply("Cast", numbers, dtype=labels.dtype)


def _sparse_gradient(op: Operation, g: Tensor) -> list[Any]:
    labels, logits = op.inputs
    mine = apply("Equal", apply("ExpandDims", labels, axis=-1), _class_numbers(labels, logits))
    surplus = softmax(logits) - apply("Cast", mine, dtype=logits.dtype)
    return [None, apply("ExpandDims", g, axis=-1) * surplus]


define(
    "SparseSoftmaxCrossEntropyWithLogits",
    "labels: I, logits: T -> loss: T",
    where={"T": dtypes.FLOATING, "I": dtypes.INDEX},
    shape=_sparse_shape,
    rules=[Vectorize(leading), ReadsValues()],
    kernel=_sparse_kernel,
    gradient=_sparse_gradient,
    samples=[
        Sample([i32([2, 1]), _X], lambda i, x: -np.log(np.exp(x) / np.exp(x).sum(1)[:, None])[[0, 1], i]),
        Sample([i64(0), _X[0]], lambda i, x: np.log(np.exp(x).sum()) - x[0]),
    ],
)


@public
def sparse_softmax_cross_entropy_with_logits(*, labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Cross-entropy of class numbers under the softmax of `logits`.

    Parameters
    ----------
    labels : Tensor of dtype int32 or int64
        Class numbers, from 0 up to below the last dimension of `logits`.
    logits : Tensor of a floating dtype
        Of the shape of `labels`, and a last dimension of classes.

    Returns
    -------
    Tensor
        Of the dtype of `logits` and shape of `labels`: nats per example.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> loss = tg.function(lambda k, x: tg.sparse_softmax_cross_entropy_with_logits(labels=k, logits=x))
    >>> loss.sync(np.array([3, 1]), np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 100.0, 0.0, 0.0]]))
    array([1.38629436, 0.        ])
    """
    return apply("SparseSoftmaxCrossEntropyWithLogits", labels, logits, name=name)


@public
def sigmoid_cross_entropy_with_logits(*, labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """Cross-entropy of independent yes/no probabilities with ``sigmoid(logits)``, elementwise.

    Parameters
    ----------
    labels, logits : Tensor of a floating dtype
        Same dtype; shapes broadcast.

    Returns
    -------
    Tensor
        Of the operands' dtype and broadcast shape, in nats.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> loss = tg.function(lambda p, x: tg.sigmoid_cross_entropy_with_logits(labels=p, logits=x))
    >>> loss.sync(np.array([1.0, 0.0]), np.array([0.0, 100.0]))
    array([  0.69314718, 100.        ])
    """
    logits = convert_to_tensor(logits)
    # log(sigmoid(x)) is x - softplus(x), and log(1 - sigmoid(x)) is -softplus(x).
    return apply("Sub", softplus(logits), logits * labels, name=name)
