"""Guards on values: checks for NaN and infinity, clipping by norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import dtypes
from ...base.errors import GraphError
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.edges import WarnsUnused
from ...ir.rules.kernels import ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ...ir.unused import must_be_used
from ..math.linear import l2_loss
from ..math.reductions import reduce_sum
from ..support.arguments import list_argument
from ..support.common import same_as
from ..support.literals import f64
from ..support.vectorizing.families import pointwise


def _check_numerics(xp: Any, x: Any, message: str) -> Any:
    if not xp.all(xp.isfinite(x)):
        found = [word for word, test in (("NaN", xp.isnan), ("Inf", xp.isinf)) if xp.any(test(x))]
        raise FloatingPointError(f"{message}: the tensor has {' and '.join(found)} values")
    return x


def _check_gradient(op: Operation, g: Tensor) -> list[Any]:
    message = f"gradient of {op.name}: {op.attrs['message']}"
    return [apply("CheckNumerics", g, message=message)]  # no `must_be_used`: only checks made by users warn when unused


define(
    "CheckNumerics",
    "tensor: T -> output: T",
    where={"T": dtypes.DIFFERENTIABLE},
    attrs={"message": REQUIRED},
    shape=same_as(0),
    rules=[
        Vectorize(pointwise),
        ReadsValues(),
        WarnsUnused(
            "nobody uses what this check_numerics returned, so nothing is checked: go on with that, as in "
            'x = check_numerics(x, "x")'
        ),
    ],
    kernel=_check_numerics,
    gradient=_check_gradient,
    samples=[Sample([f64([1, -2])], f64([1, -2]), {"message": "weights"})],
)


@public
def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """Return the tensor; NaN or infinity in it, or in its cotangent, fails the step.

    Parameters
    ----------
    tensor : Tensor of a floating or complex dtype
    message : str
        First words of the error.

    Returns
    -------
    Tensor
        The same value.

    Raises
    ------
    OpError
        While the step runs; the cause is a FloatingPointError which names NaN or Inf.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda x: tg.check_numerics(tg.log(x), "loss")).sync(0.0)
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: ...loss: the tensor has Inf values...
    """
    result: Tensor = apply("CheckNumerics", tensor, name=name, message=str(message))
    must_be_used(result.op, name)
    return result


@public
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Scale a tensor down to a Euclidean norm, if its own norm is larger.

    Parameters
    ----------
    t : Tensor of a floating dtype
    clip_norm : Tensor of the same dtype, scalar
        Largest norm allowed.
    axes : int or sequence of int, optional
        Axes of the vectors; all when None.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> clip = tg.function(lambda t: tg.clip_by_norm(t, 1.0))
    >>> clip.sync(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    >>> clip.sync(np.array([0.3, 0.4]))
    array([0.3, 0.4])
    """
    t = convert_to_tensor(t)
    squares = reduce_sum(apply("Square", t), axes, keepdims=True)
    # The square root has no finite slope at 0, and its slope is not needed there.
    positive = squares > 0
    length = apply("Where", positive, apply("Sqrt", apply("Where", positive, squares, 1)), squares)
    return apply("RealDiv", t * clip_norm, apply("Maximum", length, clip_norm), name=name)


@public
def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """Scale a tensor down to an average norm, if its own norm is larger.

    The average norm is the Euclidean norm divided by the number of elements.

    Parameters
    ----------
    t : Tensor of a floating dtype
    clip_norm : Tensor of the same dtype, scalar
        Largest average norm allowed.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.clip_by_average_norm(np.array([3.0, 4.0]), 0.5)).sync()  # a norm of 5, for 2 elements
    array([0.6, 0.8])
    """
    t = convert_to_tensor(t)
    count = apply("Cast", apply("Size", t), dtype=t.dtype)
    return clip_by_norm(t, convert_to_tensor(clip_norm, t.dtype) * count, name=name)


@public
def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the Euclidean norm of all values of several tensors.

    Parameters
    ----------
    t_list : sequence of Tensor of a floating dtype, or None
        Same dtype; None entries are skipped.

    Returns
    -------
    Tensor
        A scalar of that dtype.

    Raises
    ------
    GraphError
        If no tensor is given.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.global_norm([[3.0], None, [0.0, 4.0]])).sync()
    array(5., dtype=float32)
    """
    halves = [l2_loss(t) for t in list_argument(t_list, "global_norm") if t is not None]
    if not halves:
        raise GraphError(
            "there is no tensor to take the norm of", got=t_list, hint="give at least one that is not None"
        )
    # l2_loss is half of the sum of squares.
    return apply("Sqrt", apply("AddN", halves) * 2, name=name)


@public
def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Tensor | None], Tensor]:
    """Scale several tensors together so that their global norm is at most `clip_norm` (Pascanu et al., 2012).

    Parameters
    ----------
    t_list : sequence of Tensor of a floating dtype, or None
        Same dtype. Sparse gradients are made dense.
    clip_norm : Tensor of the same dtype, scalar
        Largest norm allowed.
    use_norm : Tensor of the same dtype, scalar, optional
        The norm, if computed already; else `global_norm` of the list.

    Returns
    -------
    list_clipped : list of Tensor or None
        Scaled entries of the list; all NaN if the norm is not finite.
    norm : Tensor
        The norm before clipping.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> a, b = np.array([3.0]), np.array([0.0, 4.0])
    >>> (a, b), norm = tg.function(lambda: tg.clip_by_global_norm([a, b], 1.0)).sync()
    >>> a, b, norm
    (array([0.6]), array([0. , 0.8]), array(5.))
    """
    given = list_argument(t_list, "clip_by_global_norm", example="[a, b], 1.0")
    tensors = [None if t is None else convert_to_tensor(t) for t in given]
    norm = global_norm(tensors) if use_norm is None else convert_to_tensor(use_norm)
    # 1 for norms within the limit.
    scale = apply("RealDiv", clip_norm, apply("Maximum", norm, clip_norm))
    # An infinite norm would scale finite gradients to 0 without a trace: NaN shows the failure.
    scale = apply("Where", apply("IsFinite", norm), scale, float("nan"), name=name)
    return [None if t is None else t * scale for t in tensors], norm
