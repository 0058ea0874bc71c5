"""Base of the optimizers: gradients paired with variables, slots, one operation for all updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base import nest
from ..base.dtypes import DType
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..frontend.control.scopes import control_dependencies
from ..frontend.state.variables import Variable, trainable_variables
from ..gradients import gradients
from ..ir import scopes
from ..ir.apply import convert_to_tensor
from ..ir.entry import public
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.array.creation import zeros_like
from ..ops.control.effects import group
from ..ops.math.casting import cast
from ..ops.support.indexed_slices import IndexedSlices

Gradient = Tensor | IndexedSlices | None


class Optimizer:
    """Base of the optimizers: a subclass defines by `apply_dense` the update of one variable by one gradient.

    Updates run inside the graph. Every gradient of a step is computed from the values of the variables at the
    beginning of the step. Clip between ``compute_gradients`` and ``apply_gradients``.

    A subclass may also define `apply_sparse`, and `prepare` and `finish`, which run before and after all updates.
    State between steps is kept in slots (`zeros_slot`, `slot`); `rate` returns the learning rate.

    Parameters
    ----------
    learning_rate : float, floating scalar Tensor, or callable
        Step size; a tensor may change from step to step, a callable is called when the update is built.
    name : str
        First part of the slots' names, after the name of the variable.

    Examples
    --------
    RMSProp, whose steps are divided by a running root mean square of the gradient:

    >>> import tagloom as tg
    >>> from tagloom.training import Optimizer
    >>> class RMSProp(Optimizer):
    ...     def __init__(self, learning_rate=0.001, decay=0.9, epsilon=1e-7, name="RMSProp"):
    ...         super().__init__(learning_rate, name)
    ...         self.decay, self.epsilon = decay, epsilon
    ...
    ...     def apply_dense(self, gradient, var):
    ...         slot = self.zeros_slot(var, "rms")
    ...         mean = slot.assign(self.decay * slot + (1 - self.decay) * tg.square(gradient))
    ...         return var.assign_sub(self.rate(var.dtype) * gradient * tg.rsqrt(mean + self.epsilon))
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable([1.0, -2.0], name="w")
    ...     train = RMSProp(0.1).minimize(tg.reduce_sum(tg.square(w)))
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     for _ in range(30):
    ...         session.run(train)
    ...     bool(abs(session.run(w)).max() < 0.1)
    True
    """

    def __init__(self, learning_rate: Any, name: str) -> None:
        self.name = name
        self._learning_rate = learning_rate
        self._slots: dict[tuple[Tensor, str], Variable] = {}  # by the variable's handle, which is of one graph

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, learning_rate={self._learning_rate!r}: {len(self._slots)} slots>"

    @public
    def minimize(
        self,
        loss: Any,
        global_step: Variable | None = None,
        var_list: Variable | Sequence[Variable] | None = None,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """Return an operation that changes variables to decrease `loss`.

        Parameters
        ----------
        loss : floating Tensor
            The value to minimize; the sum of its elements, if several.
        global_step : Variable of an integer dtype, optional
            Counts the updates.
        var_list : Variable or sequence of Variable, optional
            Variables to change, sharded variables included; all trainable variables of the graph by default.
        name : str, optional
            Name of the operation.
        grad_loss : Tensor, optional
            Cotangent of `loss`.

        Returns
        -------
        Operation
            Makes one step when run.

        Raises
        ------
        GraphError
            If there is no variable, or `loss` depends on no variable.
        """
        pairs = self.compute_gradients(loss, var_list, grad_loss)
        return self.apply_gradients(pairs, global_step, name)

    @public
    def compute_gradients(
        self, loss: Any, var_list: Variable | Sequence[Variable] | None = None, grad_loss: Any = None
    ) -> list[tuple[Gradient, Variable]]:
        """Return a (gradient, variable) pair for each variable.

        Parameters
        ----------
        loss, var_list, grad_loss
            As for `minimize`.

        Returns
        -------
        list of (Tensor, IndexedSlices or None, Variable)
            None where `loss` does not depend on the variable.
        """
        variables = flat_variables(var_list)
        found = gradients([loss], variables, grad_ys=None if grad_loss is None else [grad_loss])
        return list(zip(found, variables, strict=True))

    @public
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that applies gradients.

        Parameters
        ----------
        grads_and_vars : iterable of (Tensor, IndexedSlices or None, Variable)
            As `compute_gradients` returns them; pairs whose gradient is None are skipped.
        global_step : Variable of an integer dtype, optional
            Counts the updates.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation
            Makes one step when run.

        Raises
        ------
        GraphError
            If every gradient is None, or an entry is not a pair of a gradient and a variable.
        """
        pairs = _checked_pairs(grads_and_vars)
        updated = [(g, v) for g, v in pairs if g is not None]
        if not updated:
            raise GraphError(
                "no variable has a gradient",
                wanted="a loss that depends on one of them",
                got=", ".join(v.name for _, v in pairs) or "none",
                hint="look for stop_gradient or an integer cast",
            )
        self.prepare([v for _, v in updated])
        # Built after all gradients, whose reads of the variables therefore precede the updates.
        updates = [self._apply_gradient(g, v) for g, v in updated]
        with control_dependencies(updates):
            # Counters advance after all updates, which may read them.
            after = self.finish()
            if global_step is not None:
                after.append(global_step.assign_add(1))
        return group(*updates, *after, name=name or self.name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots made so far."""
        return sorted({name for _, name in self._slots})

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot `name` of the variable `var`, or None where the slot does not exist."""
        return self._slots.get((var.handle, name))

    def variables(self) -> list[Variable]:
        """Return all slots, the variables made by the optimizer."""
        return list(self._slots.values())

    def _apply_gradient(self, gradient: Any, var: Variable) -> Tensor | Operation:
        with scopes.within(device=(var.device,) if var.device else scopes.current().device):
            # Beside the variable, whatever device is current, so that only the gradient is copied.
            if isinstance(gradient, IndexedSlices):
                return self.apply_sparse(gradient, var)
            return self.apply_dense(gradient, var)

    # ---- hooks of subclasses, and their helpers

    def prepare(self, variables: list[Variable]) -> None:
        """Prepare the updates of `variables`; called before all of them. Does nothing here."""

    def apply_dense(self, gradient: Tensor, var: Variable) -> Tensor | Operation:
        """Return the update of one variable. Subclasses define this method.

        Parameters
        ----------
        gradient : Tensor of the shape and dtype of the variable
        var : Variable

        Returns
        -------
        Tensor or Operation
            From an operation that changes `var`, such as ``var.assign_sub(...)``, placed on the variable's device.
            All gradients are computed from the variables' values before the step.
        """
        raise NotImplementedError

    def apply_sparse(self, gradient: IndexedSlices, var: Variable) -> Tensor | Operation:
        """Return the update of one variable from a sparse gradient; here by making the gradient dense.

        Parameters
        ----------
        gradient : IndexedSlices
            Rows may repeat; their gradients add up.
        var : Variable

        Returns
        -------
        Tensor or Operation
            As for `apply_dense`.
        """
        return self.apply_dense(gradient._as_tensor(), var)

    def finish(self) -> list[Any]:
        """Return the updates that follow all others, such as of counters. None here."""
        return []

    def rate(self, dtype: DType) -> Tensor:
        """Return the learning rate.

        Parameters
        ----------
        dtype : DType
            Dtype of the updated variable.

        Returns
        -------
        Tensor
            A scalar of `dtype`.
        """
        rate = self._learning_rate
        return cast_hyperparameter(rate() if callable(rate) else rate, dtype)

    def zeros_slot(self, var: Variable, name: str) -> Variable:
        """Return a slot with the shape and dtype of a variable that begins as zeros.

        Parameters
        ----------
        var : Variable
        name : str

        Returns
        -------
        Variable
        """
        return self.slot(var, name, lambda: _make_zeros(var), var.shape)

    def slot(self, var: Variable, name: str, initial: Any, shape: Any = None, dtype: DType | None = None) -> Variable:
        """Return a slot: a value kept for a variable between steps, made on the first call.

        Parameters
        ----------
        var : Variable
            The variable; the slot is on its device.
        name : str
            Name for ``get_slot``, and the last part of the slot's full name.
        initial : array-like, Tensor or callable
            As for a Variable.
        shape : sequence of int or None, optional
            As for a Variable.
        dtype : DType, optional
            The dtype of `var` by default.

        Returns
        -------
        Variable
            Not trainable. A later `global_variables_initializer` includes the slot.
        """
        key = (var.handle, name)
        if key not in self._slots:
            # Whatever scopes are open, the name follows from the variable alone, so that checkpoints find the slot.
            with scopes.within(name="", device=(), colocate=var.op):
                full = f"{var.name}/{self.name}/{name}"
                self._slots[key] = Variable(initial, trainable=False, name=full, dtype=dtype or var.dtype, shape=shape)
        return self._slots[key]


def _checked_pairs(grads_and_vars: Any) -> list[tuple[Any, Any]]:
    """Return pairs of gradients and variables; refuse other entries, such as swapped pairs."""
    pairs = list(grads_and_vars)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or isinstance(pair[1], Tensor):
            raise GraphError(
                "apply_gradients takes pairs of a gradient and its variable",
                wanted="(gradient, variable)",
                got=repr(pair),
                hint="optimizer.apply_gradients(zip(gradients(loss, variables), variables))",
            )
    return pairs


def flat_variables(var_list: object) -> list[Variable]:
    """Return the variables to optimize, one per shard: all trainable variables if `var_list` is None."""
    found: list[Variable] = nest.flatten(nest.with_shards(trainable_variables() if var_list is None else var_list))
    if not found:
        raise GraphError("there is no variable to optimize", hint="make one with trainable=True, or pass var_list")
    return found


def check_number(name: str, value: object, fits: Callable[[Any], bool], wanted: str) -> None:
    """Raise GraphError if a hyperparameter is a number out of range; tensors are not checked."""
    if isinstance(value, (int, float, np.number)) and not fits(value):
        raise GraphError(f"{name} is out of range", wanted=wanted, got=value, hint="leave it out for the default")


def cast_hyperparameter(value: object, dtype: DType) -> Tensor:
    """Return a hyperparameter cast to the dtype of a variable."""
    # A Python number is converted to `dtype` directly: by way of float32 a float64 would lose digits.
    tensor = convert_to_tensor(value) if hasattr(value, "dtype") else convert_to_tensor(value, dtype)
    return cast(tensor, dtype)


def _make_zeros(var: Variable) -> Any:
    shape: Shape = var.shape
    if shape.is_fully_known:
        return np.zeros(shape.as_tuple(), var.dtype.numpy)
    # The shape is only known when the initial value is computed.
    return zeros_like(var.initial_value)
