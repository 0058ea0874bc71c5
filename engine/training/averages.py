"""Running averages of variables and tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base import nest
from ..base.dtypes import DType, accumulator_dtype, int64
from ..base.errors import DtypeError, GraphError
from ..frontend.control.conditional import cond
from ..frontend.state.variables import Variable, global_variables, trainable_variables
from ..ir import scopes
from ..ir.apply import apply
from ..ir.entry import builds, public
from ..ir.operation import Operation
from ..ir.tensor import Tensor
from ..ops.control.effects import group
from ..ops.math.arithmetic import minimum
from ..ops.math.arithmetic import pow as power
from ..ops.math.casting import cast
from .optimizer import cast_hyperparameter

_COLLECTION = "moving_average_variables"


@builds
def moving_average_variables() -> list[Variable]:
    """Return the variables of the current graph that have averages, in the order of their first `apply`.

    Returns
    -------
    list of Variable

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     w = tg.Variable(1.0, name="w")
    ...     update = tg.training.ExponentialMovingAverage(0.9).apply([w])
    ...     tg.training.moving_average_variables()
    [<Variable w float32[]>]
    """
    return list(scopes.get_default_graph().collections.get(_COLLECTION, []))


class ExponentialMovingAverage:
    """Exponentially weighted running averages of variables and tensors.

    In Python: ``average -= (1 - decay) * (average - value)``.

    Averaged weights of a model often perform better than its final weights (Polyak and Juditsky, 1992). Run the
    operation that `apply` returns after each update of the variables. Averages are variables themselves.

    Parameters
    ----------
    decay : float or floating scalar Tensor
        Near 1, as 0.999.
    num_updates : Variable, Tensor or int, optional
        Number of updates so far: the decay is at most ``(1 + num_updates) / (10 + num_updates)``, so that averages
        move fast at first.
    zero_debias : bool, optional
        Divide the averages of tensors, which begin as 0, by ``1 - decay ** n`` after n updates: the total weight of
        the n values under a constant decay.
    name : str, optional
        Last part of the averages' names.

    Attributes
    ----------
    name : str

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(8.0, name="w")
    ...     ema = tg.training.ExponentialMovingAverage(0.5)
    ...     with tg.control_dependencies([w.assign_sub(4.0)]):
    ...         train = ema.apply([w])
    ...     init = tg.global_variables_initializer()
    ...     ema.variables_to_restore()  # what to load where averages are wanted
    {'w/ExponentialMovingAverage': <Variable w float32[]>}
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train)
    ...     float(session.run(w)), float(session.run(ema.average(w)))
    (4.0, 6.0)
    """

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        self.name = name
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._averages: dict[Any, Variable] = {}
        self._debiased: dict[Any, tuple[Variable, Variable]] = {}

    @public
    def apply(self, var_list: Sequence[Any] | None = None) -> Operation:
        """Return an operation that moves each average towards the current value of its variable or tensor.

        Parameters
        ----------
        var_list : sequence of Variable or Tensor, optional
            Of floating dtypes, shards one by one; all trainable variables by default. The average of a variable
            begins as the variable's value (its initial value, if uninitialized), the average of a tensor as 0.
            Repeated calls share one average per variable or tensor, and each returned operation moves the average.

        Returns
        -------
        Operation

        Raises
        ------
        DtypeError
            If a variable or tensor is not floating.
        GraphError
            If a tensor has an unknown shape.
        """
        followed = nest.flatten(nest.with_shards(trainable_variables() if var_list is None else list(var_list)))
        for x in followed:
            self._make_average(x)
        return group(*(self._move_average(x) for x in followed), name=self.name)

    def average(self, var: Variable | Tensor) -> Variable | None:
        """Return the variable that holds the average of `var`, or None where `var` has no average."""
        return self._averages.get(_key_of(var))

    def average_name(self, var: Variable | Tensor) -> str:
        """Return the name of the average of `var`, also before the average exists."""
        average = self.average(var)
        return f"{_name_of(var)}/{self.name}" if average is None else average.name

    def variables_to_restore(self, moving_avg_variables: Iterable[Variable] | None = None) -> dict[str, Variable]:
        """Return a map from saved names to variables that loads averages into the averaged variables.

        Parameters
        ----------
        moving_avg_variables : iterable of Variable, optional
            Variables to load from averages; by default the trainable and the averaged variables.

        Returns
        -------
        dict of str to Variable
            Keyed by the average's name for those variables, and by the own name for all other global variables.
        """
        chosen = moving_avg_variables
        # Trainable variables without an average here may have one in the checkpoint, so they count too.
        averaged = [*trainable_variables(), *moving_average_variables()] if chosen is None else list(chosen)
        names = {self.average_name(v): v for v in averaged}
        own = {v.name for v in averaged}
        others = {v.name: v for v in global_variables() if v.name not in own and v.name not in names}
        return {**names, **others}

    def _make_average(self, x: Any) -> None:
        """Make the average of a variable or tensor, unless the average exists."""
        if not x.dtype.is_floating:
            raise DtypeError(
                "averages are of floating numbers", wanted="float", got=x.dtype, hint="cast it, and average the result"
            )
        if _key_of(x) in self._averages:
            return
        if isinstance(x, Variable):
            x.graph.collections.setdefault(_COLLECTION, []).append(x)
        elif self._zero_debias:
            biased = self._make_variable(x, f"{self.name}/biased", _make_zeros(x))
            self._debiased[_key_of(x)] = biased, self._make_variable(x, f"{self.name}/local_step", 0, int64)
        initial = (lambda: _read_or_initial_value(x)) if isinstance(x, Variable) else _make_zeros(x)
        self._averages[_key_of(x)] = self._make_variable(x, self.name, initial)

    def _make_variable(self, x: Any, name: str, initial: Any, dtype: DType | None = None) -> Variable:
        with scopes.within(name="", device=(), colocate=x.op):
            # The name follows from the variable alone, so that `variables_to_restore` finds saved averages.
            return Variable(initial, trainable=False, name=f"{_name_of(x)}/{name}", dtype=dtype or x.dtype)

    def _move_average(self, x: Any) -> Tensor:
        """Move the average of a variable or tensor by one update; return the new average."""
        average, decay = self._averages[_key_of(x)], self._current_decay(accumulator_dtype(x.dtype))
        with scopes.within(device=(average.device,) if average.device else scopes.current().device):
            value = x.value() if isinstance(x, Variable) else x
            if _key_of(x) not in self._debiased:
                return _move_towards(average, value, decay)
            biased, steps = self._debiased[_key_of(x)]
            # The biased average is kept apart, since a division in place would accumulate.
            total = cast(_move_towards(biased, value, decay), decay.dtype)
            weight = 1 - power(decay, cast(steps.assign_add(1), decay.dtype))
            return average.assign(cast(total / weight, average.dtype))

    def _current_decay(self, dtype: DType) -> Tensor:
        decay = cast_hyperparameter(self._decay, dtype)
        if self._num_updates is None:
            return decay
        count = cast_hyperparameter(self._num_updates, dtype)
        # Early averages follow faster: the first decay is 1/10 at 0 updates, as in TensorFlow 1.
        return minimum(decay, (1 + count) / (10 + count))


def _move_towards(average: Variable, value: Tensor, decay: Tensor) -> Tensor:
    """Move an average towards a value; compute the difference in the dtype of the decay."""
    # In a dtype of two bytes, `1 - decay` near 0 would lose most of its digits.
    difference = cast(average.value(), decay.dtype) - cast(value, decay.dtype)
    return average.assign_sub(cast(difference * (1 - decay), average.dtype))


def _key_of(x: Variable | Tensor) -> Any:
    return x.handle if isinstance(x, Variable) else x


def _name_of(x: Variable | Tensor) -> str:
    return x.name if isinstance(x, Variable) else x.op.name


def _read_or_initial_value(var: Variable) -> Any:
    """Return a variable's current value, or its initial value where the variable is uninitialized."""
    return cond(var.is_initialized(), var.read_value, lambda: apply("Identity", var.initial_value))


def _make_zeros(x: Any) -> Any:
    """Return zeros in the shape and dtype of a tensor, whose shape must be known."""
    if not x.shape.is_fully_known:
        raise GraphError(
            "the average of a tensor begins as zeros of its shape",
            wanted="a known shape",
            got=x.shape,
            operation=x.op,
            hint="set its shape, or average a mean of it",
        )
    return np.zeros(x.shape.as_tuple(), x.dtype.numpy)
