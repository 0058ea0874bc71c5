"""Connectionist temporal classification: the loss of labels at unknown times (Graves et al., 2006)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..array.layout import transpose
from ..support.arguments import index_tensor, static_int
from ..support.literals import Array, f64, i32, i64
from ..support.vectorizing.families import one_by_one
from .ctc_paths import Paths, states_of

_LOGITS = f64([[0.5, -1, 0.25], [1, 0.75, -0.5], [-0.25, 0.5, 2], [0, 1, -1]])[:, None] * [[1.0], [-0.75]]
_LABELS, _LENGTHS, _TIMES = i32([[1, 2], [1, 1]]), i32([2, 2]), i32([4, 3])
_IMPOSSIBLE = [_LOGITS, _LABELS, i32([2, 2]), i32([1, 2])]


def _check_ctc_inputs(logits: Any, labels: Array, label_length: Array, logit_length: Array, blank: int) -> None:
    """Raise ValueError for shapes or lengths that do not fit the logits, IndexError for labels out of range."""
    time, batch, classes = logits.shape
    if not labels.shape[:1] == label_length.shape == logit_length.shape == (batch,):
        raise ValueError(
            f"ctc_loss: labels {labels.shape}, label_length {label_length.shape} and logit_length {logit_length.shape} "
            f"do not fit logits {logits.shape}"
        )
    for what, lengths, limit in (("label_length", label_length, labels.shape[1]), ("logit_length", logit_length, time)):
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= limit:
            raise ValueError(f"ctc_loss: {what} has to be in [0, {limit}], got {lengths.tolist()}")
    # Padding after the length of a row may hold any number.
    used = labels[np.arange(labels.shape[1]) < label_length[:, None]]
    if used.size and (used.min() < 0 or used.max() >= classes or (used == blank).any()):
        raise IndexError(f"ctc_loss: labels have to be in [0, {classes}), and not {blank}, which is the blank")


def _ctc_paths(xp: Any, logits: Any, directions: Any, *rest: Any, blank: int) -> Paths:
    labels, label_length, logit_length = rest
    _check_ctc_inputs(logits, labels, label_length, logit_length, blank)
    return Paths(xp, logits, list(directions), states_of(labels, label_length, blank), logit_length)


def _compute_ctc_loss(xp: Any, logits: Any, *rest: Any, blank: int) -> Any:
    # Without directions the jets hold the values alone.
    paths = _ctc_paths(xp, logits, [], *rest, blank=blank)
    return -paths.total(paths.forward()[-1])[0, :, 0].astype(logits.dtype)


def _loss_shape(op: Operation) -> Shape:
    logits, labels, *lengths = (t.shape for t in op.inputs[:4])
    batch = Shape([logits.with_rank(3)[1]]).merge(Shape([labels.with_rank(2)[0]]))
    for each in lengths:
        batch = batch.merge(each)
    _check_blank(op.attrs["blank"], logits)
    return batch


def _check_blank(blank: int, logits: Shape) -> None:
    """Raise GraphError unless the blank is a class of the logits, as far as known."""
    classes = logits[2] if logits.rank else None
    if blank < 0 or (classes is not None and blank >= classes):
        raise GraphError(
            "there is no such class for the blank",
            wanted="0 or more, as the number of classes is not known" if classes is None else f"0 to {classes - 1}",
            got=blank,
            hint="leave blank_index out for class 0; set_shape says what is known of a tensor",
        )


def _weight_rows(g: Tensor, x: Tensor) -> Tensor:
    """Weight `x`, of the shape of the logits, by the number in `g` of each row of the batch."""
    return apply("Mul", apply("ExpandDims", g, axis=-1), x)


def _loss_gradient(op: Operation, g: Tensor) -> list[Any]:
    logits, *rest = op.inputs
    return [_weight_rows(g, apply("CTCLossGrad", logits, *rest, [], blank=op.attrs["blank"])), None, None, None]


def _compute_ctc_gradient(
    xp: Any, logits: Any, labels: Any, label_length: Any, logit_length: Any, *directions: Any, blank: int
) -> Any:
    return (
        _ctc_paths(xp, logits, directions, labels, label_length, logit_length, blank=blank)
        .gradient()[-1]
        .astype(logits.dtype)
    )


def _grad_gradient(op: Operation, g: Tensor) -> list[Any]:
    """Return the derivative along `g` as well, and for each direction the derivative along `g` in its place."""
    logits, labels, label_length, logit_length, *directions = op.inputs

    def gradient_along(directions: list[Tensor]) -> Tensor:
        rest = (labels, label_length, logit_length, directions)
        return apply("CTCLossGrad", logits, *rest, blank=op.attrs["blank"])

    # The operation is linear in each direction, and symmetric: the order of directions does not matter.
    others = [[*directions[:i], *directions[i + 1 :], g] for i in range(len(directions))]
    return [gradient_along([*directions, g]), None, None, None, *map(gradient_along, others)]


def _ctc_elements(logits: Any, labels: Array, *_: Any, **attrs: Any) -> int:
    return int(logits.size + math.prod(logits.shape[:2]) * (2 * labels.shape[1] + 1) * 8)


_LOSS = "logits: T, labels: host I, label_length: host J, logit_length: host K"
_WHERE = {"T": (dtypes.float32, dtypes.float64), "I": dtypes.INDEX, "J": dtypes.INDEX, "K": dtypes.INDEX}


def _all_paths(logits: Array, labels: Array, label_length: Array, logit_length: Array) -> Array:
    """Compute the loss by enumerating all readings of the labels; the blank is class 0."""
    result = []
    for row, (count, time) in enumerate(zip(label_length, logit_length, strict=True)):
        p = np.exp(logits[:time, row])
        p /= p.sum(1, keepdims=True)
        wanted, total = labels[row, :count].tolist(), 0.0
        for reading in itertools.product(range(p.shape[1]), repeat=int(time)):
            if [c for c, _ in itertools.groupby(reading) if c] == wanted:
                total += np.prod(p[np.arange(time), list(reading)])
        result.append(-np.log(total) if total else np.inf)
    return f64(result)


define(
    "CTCLoss",
    f"{_LOSS} -> loss: T",
    where=_WHERE,
    attrs={"blank": REQUIRED},
    shape=_loss_shape,
    rules=[Vectorize(one_by_one), Elements(_ctc_elements), ReadsValues()],
    kernel=_compute_ctc_loss,
    gradient=_loss_gradient,
    samples=[
        Sample([_LOGITS, _LABELS, _LENGTHS, _TIMES], _all_paths, {"blank": 0}),
        Sample([_LOGITS, i64([[2, 0], [0, 0]]), i64([1, 0]), i64([4, 2])], _all_paths, {"blank": 0}),
        Sample([_LOGITS[:1], i32([[2], [0]]), i32([1, 0]), i32([1, 0])], _all_paths, {"blank": 0}),
        Sample(_IMPOSSIBLE, f64([np.inf, np.inf]), {"blank": 0}, differentiable=False),
        Sample([np.zeros((0, 1, 2)), i32([[1]]), i32([0]), i32([0])], f64([0]), {"blank": 0}),
    ],
)


def _logit_shape(op: Operation) -> Shape:
    batch = _loss_shape(op)
    shape = op.inputs[0].shape.merge(Shape([None, *batch, None]))
    for direction in op.inputs[4:]:
        shape = shape.merge(direction.shape)
    return shape


def _of_two_steps(logits: Array, *rest: Any) -> Array:
    """Return the Hessian of ``-log(1 - p * q)`` times a direction, with blanks of probabilities p, q in two steps."""
    (p, q), (v, w) = 1 / (1 + np.exp(logits[:, 0, 1] - logits[:, 0, 0])), rest[-1][0][:, 0, 0] - rest[-1][0][:, 0, 1]
    left, of_p, of_q = 1 - p * q, p * (1 - p), q * (1 - q)
    slopes = []
    for one, two, mine, other, here, there in ((of_p * q, p, v, w, of_p, of_q), (of_q * p, q, w, v, of_q, of_p)):
        slope = one / left
        slopes.append((slope * (1 - 2 * two) + slope**2) * mine + here * there / left**2 * other)
    return np.stack([slopes, np.negative(slopes)], 1)[:, None]


def _of_one_step(logits: Array, *_: Any) -> Array:
    """Return the gradient where a single step counts: the loss is its cross-entropy with label 1."""
    p = np.exp(logits[0]) / np.exp(logits[0]).sum()
    return np.stack([p - f64([0, 1, 0]), np.zeros((1, 3))])


define(
    "CTCLossGrad",
    f"{_LOSS}, directions: *T -> dlogits: T",
    where=_WHERE,
    attrs={"blank": REQUIRED},
    shape=_logit_shape,
    rules=[Vectorize(one_by_one), Elements(_ctc_elements), ReadsValues()],
    kernel=_compute_ctc_gradient,
    gradient=_grad_gradient,
    samples=[
        Sample([_LOGITS[:2, :1], i32([[1]]), i32([1]), i32([1]), []], _of_one_step, {"blank": 0}),
        Sample([*_IMPOSSIBLE, []], np.zeros((4, 2, 3)), {"blank": 0}, differentiable=False),
        Sample(
            [np.zeros((3, 1, 2)), i32([[1]]), i32([1]), i32([2]), []],
            f64([[[1, -1]], [[1, -1]], [[0, 0]]]) / 6,
            {"blank": 0},
        ),
        Sample(
            [f64([[[0.5, -0.25]], [[1, 1.5]]]), i32([[1]]), i32([1]), i32([2]), [f64([[[1, 0]], [[2, -0.5]]])]],
            _of_two_steps,
            {"blank": 0},
        ),
    ],
)


@public
def ctc_loss(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Loss of labels in a known order, at unknown times (Graves et al., 2006).

    A reading has a class for each time step; without repetitions, and then without blanks, a reading becomes labels.
    The loss is the negative logarithm of the probability of all readings that become the labels. Derivatives of any
    order are exact.

    Parameters
    ----------
    labels : int32 or int64 Tensor of shape [batch, most labels]
        Classes; elements after the length of a row are ignored.
    logits : Tensor of dtype float32 or float64, of shape [time, batch, classes]
        Unnormalised log probabilities.
    label_length, logit_length : int32 or int64 vector of length batch
        Number of labels, and of time steps, of each row.
    logits_time_major : bool
        False if the first two dimensions of `logits` are batch and time.
    blank_index : int, optional
        The class for no label: 0 by default; negative numbers count from the last class.

    Returns
    -------
    Tensor
        Of the dtype of `logits` and shape [batch], in nats. Labels without a reading, because of too few time steps,
        have an infinite loss and a gradient of 0.

    Raises
    ------
    ShapeError
        If the shapes are known not to fit.
    GraphError
        If no class has the number `blank_index`, or if `blank_index` is negative and the number of classes unknown.
    OpError
        In a step, if a label or length is out of range, or a label is the blank.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> logits = np.log([[[0.5, 0.5]], [[0.25, 0.75]]])
    >>> loss = tg.function(lambda x: tg.ctc_loss([[1]], x, [1], [2]))
    >>> np.exp(-loss.sync(logits))
    array([0.875])
    """
    x = convert_to_tensor(logits)
    x.shape.with_rank(3)
    if not logits_time_major:
        x = transpose(x, [1, 0, 2])
    blank = 0 if blank_index is None else static_int(blank_index, "blank_index")
    # With an unknown number of classes the blank stays negative, which `_check_blank` rejects.
    if blank < 0 and x.rank == 3 and x.shape[2] is not None:
        blank += x.shape[2]
    given = map(index_tensor, (labels, label_length, logit_length))
    return apply("CTCLoss", x, *given, name=name, blank=blank)
