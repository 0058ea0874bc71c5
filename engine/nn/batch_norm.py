"""Batch normalization, whose moving averages are updated by the step that trains."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from ..base.shapes import Shape
from ..frontend.control.conditional import smart_cond
from ..frontend.control.scopes import control_dependencies
from ..frontend.state.variables import Variable
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.array.shapes import reshape, size
from ..ops.array.where import where
from ..ops.control.placeholders import identity, stop_gradient
from ..ops.math.arithmetic import maximum
from ..ops.math.casting import cast
from ..ops.math.elementwise import rsqrt
from ..ops.nn.normalization import moments
from ..ops.support.arguments import static_int
from .building import as_number
from .module import module_of_fields
from .normalization import Normalization, broadcast_along, cast_to_wide


@module_of_fields
class BatchNorm(Normalization):
    """Normalize each channel over the batch and its pixels, then scale and shift (Ioffe and Szegedy, 2015).

    In training the layer normalizes by the moments of the batch and moves their running averages; otherwise the layer
    normalizes by the averages. The update of the averages needs no fetch: a result in training waits for the update,
    which runs once per computation of the result, in a loop once per iteration, in a branch only if taken. Later reads
    of the averages in the same step return the updated values. The averaged variance is the population's, ``n / (n -
    1)`` times the batch's, as in algorithm 2 of the paper.

    For two-byte dtypes the moments are computed in float32, the dtype of parameters and averages then.

    Parameters
    ----------
    axis : int
        Axis of the channels.
    momentum : float or floating scalar Tensor
        Weight of the old average in an update.
    epsilon : float
        Added to the variance.
    center, scale : bool
        If True, the layer has `beta`, or `gamma`.
    beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer
        As `initializer` of `get_variable`.
    input_size : int, optional
        Number of channels; by default the first input's.
    dtype : dtype-like, optional
        Dtype of the parameters.
    name : str, optional

    Attributes
    ----------
    gamma, beta : Variable of shape [channels], or None
    moving_mean, moving_variance : Variable of shape [channels]
        Not trained.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     norm = tg.nn.BatchNorm(momentum=0.5, epsilon=0.0)
    ...     y = norm([[1.0], [3.0]], training=True)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(y).ravel(), session.run([norm.moving_mean, norm.moving_variance])
    (array([-1.,  1.], dtype=float32), [array([1.], dtype=float32), array([1.5], dtype=float32)])
    """

    axis: InitVar[int] = -1
    momentum: Any = 0.99
    epsilon: float = 1e-3
    center: bool = True
    scale: bool = True
    beta_initializer: Any = "zeros"
    gamma_initializer: Any = "ones"
    moving_mean_initializer: Any = "zeros"
    moving_variance_initializer: Any = "ones"
    input_size: InitVar[int | None] = None
    dtype: InitVar[Any] = None
    name: InitVar[str | None] = None

    def __post_init__(self, axis: int, input_size: Any, dtype: Any, name: str | None) -> None:
        super().__post_init__(static_int(axis), input_size, dtype, name)

    def build(self, size: int) -> None:
        super().build(size)
        self.moving_mean: Variable = self.variable("moving_mean", [size], self.moving_mean_initializer, trainable=False)
        self.moving_variance = self.variable(
            "moving_variance", [size], self.moving_variance_initializer, trainable=False
        )

    def forward(self, inputs: Any, training: Any = False) -> Tensor:
        """Return the inputs normalized by moments of their own where `training`, a bool or a bool tensor, says so."""
        x = self.ready(inputs)
        axes = self.axes(x)

        def by_averages() -> Tensor:
            return self._normalize_and_scale(
                x, broadcast_along(self.moving_mean, axes, x), broadcast_along(self.moving_variance, axes, x)
            )

        return smart_cond(training, lambda: self._by_batch(x), by_averages)

    def _by_batch(self, x: Tensor) -> Tensor:
        # Over the batch and its pixels: all axes except the channels.
        over = [i for i in range(len(x.shape)) if i not in self.axes(x)]
        mean, variance = moments(cast_to_wide(x), over, keepdims=True)
        y = self._normalize_and_scale(x, mean, variance)
        # The result waits for the update, so that nobody can forget to run the update.
        with control_dependencies(self._update_averages(mean, variance, self._values_per_channel(x))):
            return identity(y)

    def _normalize_and_scale(self, x: Tensor, mean: Any, variance: Any) -> Tensor:
        return self.scaled((cast_to_wide(x) - mean) * rsqrt(variance + self.epsilon), x)

    def _values_per_channel(self, x: Tensor) -> Any:
        """Return the number of values per channel."""
        known = Shape([d for i, d in enumerate(x.shape) if i not in self.axes(x)]).num_elements
        return cast(size(x) // self.input_size if known is None else known, self.moving_mean.dtype)

    def _update_averages(self, mean: Tensor, variance: Tensor, count: Tensor) -> list[Operation]:
        # Averages hold the unbiased variance, for inference (Ioffe and Szegedy, 2015, algorithm 2), although a batch is
        # normalized by its biased variance.
        # For a single value the quotient would be infinite, and the variance is 0 anyway.
        population = variance * (count / maximum(count - 1, 1))
        pairs = ((self.moving_mean, mean), (self.moving_variance, population))
        return [self._move_average(average, reshape(stop_gradient(found), [-1]), count) for average, found in pairs]

    def _move_average(self, average: Variable, found: Tensor, count: Tensor) -> Operation:
        """Move an average towards the value of a batch, unless the batch is empty."""
        change = (average - found) * as_number(1 - self.momentum, average.dtype)
        # The moments of an empty batch are NaN, and would stay in the average forever.
        return average.assign_sub(where(count > 0, change, cast(0, average.dtype))).op
