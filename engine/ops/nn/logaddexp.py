"""Logarithms of sums of exponentials, elementwise."""

from __future__ import annotations

from typing import Any

from ...base import dtypes
from ...ir.entry import public
from ...ir.tensor import Tensor
from ..array.broadcasting import broadcast_to
from ..array.concat import stack
from ..array.grids import broadcast_dynamic_shape, broadcast_static_shape
from ..array.shapes import shape
from ..math.reductions import reduce_logsumexp
from ..support.arguments import convert_alike


@public
def logaddexp(x: Any, y: Any, name: str | None = None) -> Tensor:
    """``log(exp(x) + exp(y))``, without overflow, elementwise with broadcasting.

    Parameters
    ----------
    x, y : Tensor of a floating dtype

    Returns
    -------
    Tensor
        Same dtype, of the broadcast shape; -inf for two -inf.

    Raises
    ------
    DtypeError
        If the dtypes differ or are not floating; a ShapeError if the shapes do not broadcast.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> tg.function(lambda: tg.logaddexp([np.log(1.0), -np.inf], np.log(3.0))).sync().round(4)
    array([1.3863, 1.0986], dtype=float32)
    """
    a, b = convert_alike(x, y, default=dtypes.float32)
    static = broadcast_static_shape(a.shape, b.shape)
    size: Any = static.as_list() if static.is_fully_known else broadcast_dynamic_shape(shape(a), shape(b))
    both = stack([broadcast_to(a, size), broadcast_to(b, size)])
    result = reduce_logsumexp(both, 0, name=name)
    result.set_shape(static)
    return result
