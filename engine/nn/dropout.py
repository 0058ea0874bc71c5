"""Dropout: random elements set to zero in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import GraphError
from ..base.shapes import Shape
from ..frontend.control.conditional import smart_cond
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.shapes import shape
from ..ops.math.casting import cast
from ..ops.nn.dropout import dropout
from .module import Module


class Dropout(Module):
    """Dropout: random elements set to zero in training, the others divided by ``1 - rate`` (Srivastava et al., 2014).

    The choice depends on the seed, the step, and the loop iteration, as for `random_uniform`, so a gradient, or a loop
    that recomputes values, has the same zeros.

    Parameters
    ----------
    rate : float or floating scalar Tensor
        Fraction of elements set to zero, in [0, 1).
    noise_shape : sequence of int or None, optional
        Shape of the mask, broadcast to the inputs: 1 for a common choice along a dimension, None for the dimension's
        size.
    seed : int, optional
    name : str, optional

    Raises
    ------
    GraphError
        If `rate` is a number outside of [0, 1).

    Examples
    --------
    >>> import tagloom as tg
    >>> drop = tg.nn.Dropout(0.75)
    >>> drawn = tg.function(lambda: drop(tg.ones([1000]), training=True)).sync()
    >>> sorted(set(drawn.tolist())), bool(200 < (drawn > 0).sum() < 300)
    ([0.0, 4.0], True)
    >>> tg.function(lambda: drop([5.0])).sync()
    array([5.], dtype=float32)
    """

    def __init__(self, rate: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None) -> None:
        super().__init__(name)
        if isinstance(rate, (int, float, np.number)) and not 0 <= rate < 1:
            raise GraphError("no such rate of dropout", wanted="a number in [0, 1)", got=rate, hint="0.1 drops a tenth")
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def forward(self, inputs: Any, training: Any = False) -> Tensor:
        """Return the inputs, with dropout if `training`, a bool or a bool scalar tensor, is True."""
        x = convert_to_tensor(inputs)
        # Without dropout there is no branch on `training` either.
        if isinstance(self.rate, (int, float)) and self.rate == 0:
            return x
        return smart_cond(training, lambda: self._drop_elements(x), lambda: x)

    def _drop_elements(self, x: Tensor) -> Tensor:
        rate = cast(self.rate, x.dtype) if hasattr(self.rate, "dtype") else self.rate
        return dropout(x, rate=rate, noise_shape=self._infer_noise_shape(x), seed=self.seed)

    # A None in `noise_shape` is the input's size, taken statically where known.
    def _infer_noise_shape(self, x: Tensor) -> Any:
        if self.noise_shape is None:
            return None
        known = Shape([None] * len(self.noise_shape)).merge(x.shape)
        return [
            (known[i] if known[i] is not None else shape(x)[i]) if d is None else d
            for i, d in enumerate(self.noise_shape)
        ]
