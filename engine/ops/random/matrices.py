"""Random matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ..math.random import _copied_in, _seed, generator
from ..support.arguments import only_scalars
from ..support.context import KernelContext

Array = np.ndarray[Any, Any]


def _orthogonal(
    xp: Any, context: KernelContext, rows: Any, columns: Any, *instance: Any, dtype: DType, seed: int
) -> Array:
    size = max(int(rows), int(columns)), min(int(rows), int(columns))
    wide = np.float64 if dtype is dtypes.float64 else np.float32
    q, r = np.linalg.qr(generator(context, seed, instance).standard_normal(size, wide))
    signs = np.where(np.diagonal(r) < 0, -1, 1)  # so that no orthogonal matrix is likelier than another
    q = (q * signs).astype(wide)
    return _copied_in(xp, q if rows >= columns else q.T, dtype)


def _orthogonal_shape(op: Operation) -> Shape:
    only_scalars(op, 0, 1)
    known = [static_value(t) for t in op.inputs[:2]]
    return Shape([None if d is None else int(d) for d in known])


define(
    "RandomOrthogonal",
    "rows: host I, columns: host I, instance: host *int64 -> matrix: @dtype",
    where={"I": dtypes.INDEX},
    attrs={"dtype": dtypes.float32, "seed": REQUIRED},
    shape=_orthogonal_shape,
    elements=lambda rows, columns, *_, **attrs: int(rows) * int(columns) * min(int(rows), int(columns)),
    kernel=_orthogonal,
    gradient=NotDifferentiable("a draw has no continuous inputs"),
    effects=Effect.RANDOM,
)


@public
def random_orthogonal(
    rows: Any, columns: Any, dtype: Any = "float32", seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draw a matrix with orthonormal columns, or rows if they are fewer, all as likely (Stewart, 1980).

    Parameters
    ----------
    rows, columns : int32 or int64 scalar
        Shape of the result.
    dtype : dtype-like
        A floating dtype.
    seed : int, optional
        As for `random_uniform`.

    Returns
    -------
    Tensor
        Of `dtype` and shape [rows, columns]; another one in each step, iteration and frame.

    Examples
    --------
    >>> import numpy as np, tagflow as tg
    >>> q = tg.function(lambda: tg.random_orthogonal(4, 2, "float64")).sync()
    >>> np.allclose(q.T @ q, np.eye(2))
    True
    """
    wanted = dtypes.as_dtype(dtype)
    return apply("RandomOrthogonal", rows, columns, [], name=name, dtype=wanted, seed=_seed(seed))  # type: ignore[no-any-return]
