"""Accumulation of the gradients of several steps into one update."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..base.dtypes import int32
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..frontend.control.conditional import cond
from ..frontend.control.scopes import control_dependencies
from ..frontend.state.variables import Variable
from ..ir import scopes
from ..ir.apply import constant
from ..ir.entry import public
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from ..ops.array.creation import zeros_like
from ..ops.control.effects import group
from ..ops.control.placeholders import no_op
from ..ops.support.indexed_slices import IndexedSlices
from .optimizer import Gradient, Optimizer, cast_hyperparameter


class GradientAccumulator(Optimizer):
    """An optimizer that applies the mean gradient of every `steps` steps by another optimizer.

    The effective batch may thus exceed the memory. Sparse gradients are kept as a growing list of rows, so that
    no array of the whole variable's size is made.

    Parameters
    ----------
    optimizer : Optimizer
        Applies the accumulated gradients.
    steps : int
        Number of steps per update, at least 1.
    average : bool, optional
        If False, apply the sum of the gradients.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom.training import GradientAccumulator, GradientDescentOptimizer
    >>> with tg.Graph().as_default() as graph:
    ...     w, x = tg.Variable(0.0, name="w"), tg.placeholder("float32", [])
    ...     train = GradientAccumulator(GradientDescentOptimizer(1.0), steps=2).minimize(w * x)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     [(session.run(train, {x: value}), float(session.run(w)))[1] for value in (2.0, 4.0, 1.0, 1.0)]
    [0.0, -3.0, -3.0, -4.0]
    """

    def __init__(
        self, optimizer: Optimizer, steps: int, average: bool = True, name: str = "GradientAccumulator"
    ) -> None:
        if not isinstance(steps, int) or steps < 1:
            raise GraphError("gradients are accumulated over steps", wanted="1 or more", got=steps, hint="give steps=4")
        super().__init__(None, name)
        self.optimizer = optimizer
        self._steps = steps
        self._average = average

    @public
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that accumulates gradients, and applies them at every `steps`-th step.

        Parameters
        ----------
        grads_and_vars : iterable of (Tensor, IndexedSlices or None, Variable)
            As `compute_gradients` returns them.
        global_step : Variable of an integer dtype, optional
            Counts the updates: one per `steps` steps.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation
            Makes one step when run.

        Raises
        ------
        GraphError
            If every gradient is None; if a variable with a sparse gradient has rows of unknown shape; if a variable
            has a sparse gradient in one call and a dense gradient in another.
        """
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            return self.optimizer.apply_gradients(pairs, global_step, name)  # raises the GraphError
        # All variables share one counter, a slot of the first: they are accumulated and applied together.
        count = self._step_counter(pairs[0][1])
        kept = [self._get_sums(g, v) for g, v in pairs]
        with control_dependencies([_add_beside_variable(k, g, v) for k, (g, v) in zip(kept, pairs, strict=True)]):
            counted = count.assign_add(1)

        def update() -> Operation:
            means = [(k.value(self._gradient_scale), v) for k, (_, v) in zip(kept, pairs, strict=True)]
            # Clearing waits for the update, which reads the sums.
            with control_dependencies([self.optimizer.apply_gradients(means, global_step)]):
                return group(*(k.clear() for k in kept), count.assign(0))

        return group(cond(counted >= self._steps, update, no_op), name=name or self.name)

    @property
    def _gradient_scale(self) -> float:
        return 1 / self._steps if self._average else 1.0

    def _step_counter(self, var: Variable) -> Variable:
        return self.slot(var, "count", 0, dtype=int32)

    def _get_sums(self, gradient: Any, var: Variable) -> _Kept:
        """Return the sum of a variable's gradients, dense or rows; its slots are made on the first call."""
        is_rows = isinstance(gradient, IndexedSlices)
        if self.get_slot(var, "accumulated" if is_rows else "accumulated_rows") is not None:
            raise GraphError(
                "sparse and dense gradients of a variable cannot be accumulated together",
                wanted="one kind of gradient of each variable",
                got="rows" if is_rows else "all of it",
                operation=var.op,
                hint="convert_to_tensor(gradient) makes all of rows; or use two accumulators",
            )
        if not is_rows:
            return _Kept(self.zeros_slot(var, "accumulated"))
        row = var.shape[1:]
        if not row.is_fully_known:
            raise GraphError(
                "rows of an unknown shape cannot be accumulated",
                wanted="a variable whose rows have a known shape",
                got=var.shape,
                operation=var.op,
                hint="convert_to_tensor(gradient) accumulates the whole variable",
            )
        # No rows at first; the slot's first dimension is None, because its length changes with each step.
        none = np.zeros((0, *row.as_tuple()), var.dtype.numpy)
        values = self.slot(var, "accumulated_rows", none, Shape([None]) + row)
        kind = gradient.indices.dtype
        indices = self.slot(var, "accumulated_indices", np.zeros(0, kind.numpy), [None], kind)
        return _KeptRows(values, indices, gradient.dense_shape)


def _add_beside_variable(kept: _Kept, gradient: object, var: Variable) -> Any:
    # Beside the variable and its slots, whatever device is current.
    with scopes.within(device=(var.device,) if var.device else scopes.current().device):
        return kept.add(gradient)


class _Kept:
    """Running sum of a variable's dense gradients."""

    def __init__(self, total: Variable) -> None:
        self._total = total

    def add(self, gradient: object) -> Any:
        return self._total.assign_add(gradient)

    def value(self, scale: float) -> Gradient:
        return self._total.value() * cast_hyperparameter(scale, self._total.dtype)

    def clear(self) -> Any:
        return self._total.assign(zeros_like(self._total.value()))


class _KeptRows(_Kept):
    """Rows of a variable's sparse gradients, concatenated in the order of the steps."""

    def __init__(self, values: Variable, indices: Variable, dense_shape: Tensor | None) -> None:
        super().__init__(values)
        self._indices = indices
        self._dense_shape = dense_shape

    def add(self, gradient: Any) -> Any:
        indices = concat([self._indices.value(), gradient.indices], 0)
        return group(
            self._total.assign(concat([self._total.value(), gradient.values], 0)), self._indices.assign(indices)
        )

    def value(self, scale: float) -> Gradient:
        values = self._total.value() * cast_hyperparameter(scale, self._total.dtype)
        return IndexedSlices(values, self._indices.value(), self._dense_shape)

    def clear(self) -> Any:
        none = constant(np.zeros((0, *self._total.shape[1:].as_tuple()), self._total.dtype.numpy))
        return group(self._total.assign(none), self._indices.assign(constant(np.zeros(0, self._indices.dtype.numpy))))
