"""Gradients of several steps added up, to be applied at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..base.dtypes import int32
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..frontend.conditional import cond
from ..frontend.scopes import control_dependencies
from ..frontend.variables import Variable
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
from .optimizer import Gradient, Optimizer, scalar


class GradientAccumulator(Optimizer):
    """An optimizer that applies, every so many steps, the mean of the gradients of these steps by another optimizer.

    So batches are as large as is wanted, whatever the memory holds. A sparse gradient is kept as the rows that came,
    without their table.

    Parameters
    ----------
    optimizer : Optimizer
        Makes the updates.
    steps : int
        How many steps go into one update, at least 1.
    average : bool, optional
        If false, apply the sum.
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
        """Return an operation that adds gradients to those kept, and applies them when they are enough.

        Parameters
        ----------
        grads_and_vars : iterable of (Tensor, IndexedSlices or None, Variable)
            As `compute_gradients` gives them.
        global_step : Variable of an integer dtype, optional
            Counts the updates: one in so many steps.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation
            Run it to make one step.

        Raises
        ------
        GraphError
            If every gradient is None; if the rows of a variable have no known shape; if a variable has a gradient of
            rows here, and one of all of it in another call.
        """
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            return self.optimizer.apply_gradients(pairs, global_step, name)  # which says what is wrong
        count = self._count(pairs[0][1])
        kept = [self._kept(g, v) for g, v in pairs]
        with control_dependencies([_added(k, g, v) for k, (g, v) in zip(kept, pairs, strict=True)]):
            counted = count.assign_add(1)

        def update() -> Operation:
            means = [(k.value(self._scale), v) for k, (_, v) in zip(kept, pairs, strict=True)]
            with control_dependencies([self.optimizer.apply_gradients(means, global_step)]):
                return group(*(k.clear() for k in kept), count.assign(0))

        return group(cond(counted >= self._steps, update, no_op), name=name or self.name)

    @property
    def _scale(self) -> float:
        return 1 / self._steps if self._average else 1.0

    def _count(self, var: Variable) -> Variable:
        return self.slot(var, "count", 0, dtype=int32)

    def _kept(self, gradient: Any, var: Variable) -> _Kept:
        is_rows = isinstance(gradient, IndexedSlices)
        if self.get_slot(var, "accumulated" if is_rows else "accumulated_rows") is not None:
            raise GraphError(
                "rows of a variable and all of it can not be accumulated together",
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
                "rows of an unknown shape can not be accumulated",
                wanted="a variable whose rows have a known shape",
                got=var.shape,
                operation=var.op,
                hint="convert_to_tensor(gradient) accumulates the whole variable",
            )
        none = np.zeros((0, *row.as_tuple()), var.dtype.numpy)
        values = self.slot(var, "accumulated_rows", none, Shape([None]) + row)
        kind = gradient.indices.dtype
        indices = self.slot(var, "accumulated_indices", np.zeros(0, kind.numpy), [None], kind)
        return _KeptRows(values, indices, gradient.dense_shape)


def _added(kept: _Kept, gradient: Any, var: Variable) -> Any:
    with scopes.within(device=(var.device,) if var.device else scopes.current().device):
        return kept.add(gradient)


class _Kept:
    """The sum of the gradients of a variable."""

    def __init__(self, total: Variable) -> None:
        self._total = total

    def add(self, gradient: Any) -> Any:
        return self._total.assign_add(gradient)

    def value(self, scale: float) -> Gradient:
        return self._total.value() * scalar(scale, self._total.dtype)

    def clear(self) -> Any:
        return self._total.assign(zeros_like(self._total.value()))


class _KeptRows(_Kept):
    """The rows of the gradients of a variable, one after the other."""

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
        values = self._total.value() * scalar(scale, self._total.dtype)
        return IndexedSlices(values, self._indices.value(), self._dense_shape)

    def clear(self) -> Any:
        none = constant(np.zeros((0, *self._total.shape[1:].as_tuple()), self._total.dtype.numpy))
        return group(self._total.assign(none), self._indices.assign(constant(np.zeros(0, self._indices.dtype.numpy))))
