"""Dropout whose random elements depend on a key alone."""

from __future__ import annotations

from typing import Any

from ...ir.entry import public
from ...ir.tensor import Tensor
from ..random.stateless import stateless_random_uniform
from .dropout import drop_elements


@public
def stateless_dropout(x: Any, rate: Any, seed: Any, noise_shape: Any = None, name: str | None = None) -> Tensor:
    """Set elements to 0, chosen by a key alone, and scale the others up, to keep the mean.

    Parameters
    ----------
    x, rate, noise_shape
        As for `dropout`.
    seed : int32 or int64 vector of 2
        As for `stateless_random_uniform`.

    Returns
    -------
    Tensor
        Same dtype and shape. The gradient of dropped elements is 0.

    Raises
    ------
    GraphError
        If `rate` is out of range; a DtypeError if `x` is not of a floating dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> f = tg.function(lambda key: tg.stateless_dropout(tg.ones([1000]), 0.5, key))
    >>> bool((f.sync([7, 1]) == f.sync([7, 1])).all()), sorted(set(f.sync([7, 1]).tolist()))
    (True, [0.0, 2.0])
    """
    return drop_elements(
        x, None, rate, noise_shape, lambda size, dtype: stateless_random_uniform(size, seed, dtype=dtype), name
    )
