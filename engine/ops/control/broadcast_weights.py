"""Public operations on weights, labels and predictions, as used by losses and metrics."""

from __future__ import annotations

from typing import Any

from ...ir.apply import convert_to_tensor
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ..array.creation import ones_like
from ..array.shapes import squeeze
from ..math.arithmetic import multiply
from ..support.arguments import static_int
from .effects import group
from .weights import check_weights, tensor_after_checks


@public
def assert_broadcastable(weights: Any, values: Any, name: str | None = None) -> Operation:
    """Check that weights are a scalar, or have the rank of the values and dimensions which are equal or 1.

    Broadcasting of operations is laxer: weights per column would be accepted where weights per row are meant.

    Parameters
    ----------
    weights, values : Tensor of any dtype
    name : str, optional
        Name of the operation.

    Returns
    -------
    Operation
        For `control_dependencies`; does nothing if the static shapes fit.

    Raises
    ------
    ShapeError
        If the static shapes do not fit.
    OpError
        When a step runs the check, if the shapes do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     _ = tg.assert_broadcastable([[1.0], [2.0]], tg.ones([2, 3]))
    ...     try:
    ...         tg.assert_broadcastable([1.0, 2.0, 3.0], tg.ones([2, 3]))
    ...     except tg.ShapeError as error:
    ...         print(error.wanted)
    [], or [2,3] with 1 in the place of some dimensions
    """
    return group(*check_weights(convert_to_tensor(weights), convert_to_tensor(values)), name=name)


@public
def broadcast_weights(weights: Any, values: Any, name: str | None = None) -> Tensor:
    """Return the weights broadcast to the shape of the values.

    Parameters
    ----------
    weights : Tensor of any numeric dtype
        A scalar, or of the rank of `values` with dimensions which are equal or 1.
    values : Tensor of any dtype
    name : str, optional
        Name of the operation.

    Returns
    -------
    Tensor
        Of the dtype of `weights` and the shape of `values`. Gradients reach `weights`.

    Raises
    ------
    ShapeError
        If the static shapes do not fit.
    OpError
        When a step runs the check, if the shapes do not fit.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.broadcast_weights([[1.0], [2.0]], tg.ones([2, 3]))).sync()
    array([[1., 1., 1.],
           [2., 2., 2.]], dtype=float32)
    """
    w, y = convert_to_tensor(weights), convert_to_tensor(values)
    spread = multiply(tensor_after_checks(w, check_weights(w, y)), ones_like(y, w.dtype), name=name)
    spread.set_shape(y.shape)
    return spread


@public
def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Remove a surplus last dimension of size 1 from the labels or the predictions.

    Parameters
    ----------
    labels, predictions : Tensor of any dtype
    expected_rank_diff : int
        Rank of the resulting predictions minus rank of the resulting labels: 1 for one score per class.
    name : str, optional
        Name of the operation.

    Returns
    -------
    labels, predictions : Tensor
        Unchanged if a rank is unknown: the results' ranks do not depend on the values of a step.

    Raises
    ------
    OpError
        When a step runs the squeeze, if an unknown last dimension is not 1.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     labels, predictions = tg.remove_squeezable_dimensions(tg.ones([4]), tg.ones([4, 1]))
    >>> labels.shape, predictions.shape
    (Shape(4), Shape(4))
    """
    y, p = convert_to_tensor(labels), convert_to_tensor(predictions)
    if y.rank is None or p.rank is None:
        return y, p
    surplus = p.rank - y.rank - static_int(expected_rank_diff, "expected_rank_diff")
    if surplus == 1 and p.shape[-1] in (1, None):
        p = squeeze(p, -1, name=name)
    elif surplus == -1 and y.shape[-1] in (1, None):
        y = squeeze(y, -1, name=name)
    return y, p
