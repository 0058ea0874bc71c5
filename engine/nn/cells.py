"""Recurrent cells: one step of a recurrent network, as a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..base import nest
from ..base.errors import GraphError
from ..base.shapes import Shape
from ..frontend.control.scopes import name_scope
from ..frontend.state.variables import Variable
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.concat import concat, split
from ..ops.array.creation import zeros
from ..ops.math.elementwise import clip_by_value
from ..ops.math.linear import matmul
from ..ops.nn.activations import sigmoid
from .building import Lazy
from .by_name import as_activation
from .module import Module


class RNNCell(Module):
    """Base of the cells. A cell is called as ``output, state = cell(inputs, state)``, for one step of a batch.

    A subclass defines the sizes of state and output per row, `state_size` and `output_size`, and the computation of a
    step, ``forward(inputs, state)``. Variables are made in ``__init__``, or at the first call, which shows the size of
    the input.

    Parameters
    ----------
    name : str, optional
        As for `Module`.

    Attributes
    ----------
    state_size : structure of int
        Last dimension of each tensor of the state; a list for all dimensions after the batch.
    output_size : structure of int
    by_rows : bool
        True if each row of output and next state depends only on variables and the same row of inputs and state:
        `dynamic_rnn` may then run the rows of a batch in blocks. False unless a subclass sets it.

    Examples
    --------
    A cell that sums its inputs:

    >>> import tagloom as tg
    >>> class Sum(tg.nn.RNNCell):
    ...     state_size = output_size = 2
    ...
    ...     def forward(self, inputs, state):
    ...         return state + inputs, state + inputs
    >>> x = [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]
    >>> tg.function(lambda: tg.nn.dynamic_rnn(Sum(), x)[0]).sync().tolist()
    [[[1.0, 2.0], [4.0, 6.0], [9.0, 12.0]]]
    """

    state_size: Any = None
    output_size: Any = None
    by_rows: bool = False

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return a state of zeros.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        structure of Tensor
            As `state_size`, each of shape ``[batch_size, size]``.
        """
        if self.state_size is None:
            raise GraphError(
                f"{type(self).__name__} does not say how large its state is",
                wanted="state_size",
                got="None",
                hint="let the class have state_size and output_size, ints or structures of them",
            )
        with name_scope(f"{self.name}_zero_state"):
            return map_sizes(lambda size: zeros([batch_size, *size], dtype), self.state_size)


def map_sizes(function: Callable[[list[int]], Any], sizes: Any) -> Any:
    """Apply a function to each size in a structure, an int or a list of dimensions."""
    if isinstance(sizes, int):
        return function([sizes])
    # A list is a size of several dimensions, never a structure of sizes.
    if isinstance(sizes, (list, Shape)):
        dims: list[Any] = list(sizes)
        return function(dims)
    parts = nest.children(sizes)
    values = [map_sizes(function, size) for size in (sizes if parts is None else [part for _, part in parts])]
    return tuple(values) if parts is None else nest.rebuild_as(sizes, values)


class LSTMStateTuple(NamedTuple):
    """State of an LSTM.

    Attributes
    ----------
    c : Tensor
        The cell state, of shape [batch, units].
    h : Tensor
        The output.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.nn.LSTMCell(3).state_size
    LSTMStateTuple(c=3, h=3)
    """

    c: Any
    h: Any


class WeightedCell(RNNCell, Lazy):
    """Base of cells with units, whose variables are made when the first input shows its size."""

    # The output and state of a row depend only on this row, so `dynamic_rnn` may sort rows and run them in blocks.
    by_rows = True

    def __init__(self, num_units: Any, activation: Any, initializer: Any, name: str | None) -> None:
        super().__init__(name, None, None)
        self.units: int = checked_units(num_units, self)
        self.activation = as_activation("tanh" if activation is None else activation)
        self.initializer: Any = initializer


class BasicRNNCell(WeightedCell):
    """The simplest cell, ``output = state = activation([inputs, state] @ kernel + bias)`` (Elman, 1990).

    Parameters
    ----------
    num_units : int
    activation : callable or str, optional
        A function of a tensor, or a name, such as ``"relu"``; `tanh` when None.
    initializer : callable, str or array-like, optional
        Of `kernel`, as `initializer` of `get_variable`; when None the variable scope's, else
        ``"glorot_uniform"``.
    name : str, optional

    Attributes
    ----------
    kernel : Variable of shape [depth + num_units, num_units]
    bias : Variable of shape [num_units]

    Raises
    ------
    GraphError
        If a number of units is not a positive int.
    ShapeError
        On a call, if the depth of the inputs is unknown, or differs from earlier calls.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.nn.BasicRNNCell(3)
    ...     output, state = cell(tg.ones([2, 5]), cell.zero_state(2))
    >>> output.shape, cell.kernel.shape
    (Shape(2, 3), Shape(8, 3))
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        initializer: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_units, activation, initializer, name)
        self.state_size = self.output_size = self.units
        self.kernel: Variable | None = None
        self.bias: Variable | None = None

    def build(self, size: int) -> None:
        self.kernel = self.variable("kernel", [size + self.units, self.units], self.initializer)
        self.bias = self.variable("bias", [self.units], "zeros")

    def forward(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        """Return the output, [batch, num_units], which is the next state too.

        Parameters
        ----------
        inputs : Tensor of shape [batch, depth]
        state : Tensor of shape [batch, num_units]

        Returns
        -------
        output, state : Tensor
        """
        output = self.activation(matmul(concat([self.ready(inputs), state], 1), self.kernel) + self.bias)
        return output, output


class GRUCell(WeightedCell):
    """Gated recurrent units (Cho et al., 2014).

    ``output = state = u * state + (1 - u) * candidate``, where gates r and u are sigmoids, and the candidate is
    ``activation([inputs, r * state] @ kernel + bias)``.

    Parameters
    ----------
    num_units : int
    activation : callable or str, optional
        A function of a tensor, or a name, such as ``"relu"``; `tanh` when None.
    initializer : callable, str or array-like, optional
        Of the kernels, as `initializer` of `get_variable`; when None the variable scope's, else
        ``"glorot_uniform"``.
    reset_after : bool
        If True, the state is multiplied by its weights before r, as in cuDNN and PyTorch:
        ``activation(inputs @ kernel + bias + r * (state @ recurrent_kernel + recurrent_bias))``.
    name : str, optional

    Attributes
    ----------
    gate_kernel : Variable of shape [depth + num_units, 2 * num_units]
        Columns of r, then of u.
    gate_bias : Variable of shape [2 * num_units]
        Initially ones.
    candidate_kernel, candidate_bias : Variable
        Of shapes [depth + num_units, num_units] (with `reset_after` [depth, num_units]) and [num_units].
    recurrent_kernel, recurrent_bias : Variable or None
        None without `reset_after`.

    Raises
    ------
    GraphError
        If a number of units is not a positive int.
    ShapeError
        On a call, if the depth of the inputs is unknown, or differs from earlier calls.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.nn.GRUCell(3)
    ...     output, state = cell(tg.ones([2, 5]), cell.zero_state(2))
    >>> cell.gate_kernel.shape, cell.candidate_kernel.shape
    (Shape(8, 6), Shape(8, 3))
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        initializer: Any = None,
        name: str | None = None,
        *,
        reset_after: bool = False,
    ) -> None:
        super().__init__(num_units, activation, initializer, name)
        self.state_size = self.output_size = self.units
        self.reset_after = reset_after
        self.gate_kernel: Variable | None = None
        self.gate_bias: Variable | None = None
        self.candidate_kernel: Variable | None = None
        self.candidate_bias: Variable | None = None
        self.recurrent_kernel: Variable | None = None
        self.recurrent_bias: Variable | None = None

    def build(self, size: int) -> None:
        n, begin = self.units, self.initializer
        self.gate_kernel = self.variable("gate_kernel", [size + n, 2 * n], begin)
        # Gates begin at sigmoid(1) = 0.73, so that a new cell keeps most of its state.
        self.gate_bias = self.variable("gate_bias", [2 * n], "ones")
        rows = size if self.reset_after else size + n
        self.candidate_kernel = self.variable("candidate_kernel", [rows, n], begin)
        self.candidate_bias = self.variable("candidate_bias", [n], "zeros")
        if self.reset_after:
            self.recurrent_kernel = self.variable("recurrent_kernel", [n, n], begin)
            self.recurrent_bias = self.variable("recurrent_bias", [n], "zeros")

    def forward(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        """Return the output, [batch, num_units], which is the next state too.

        Parameters
        ----------
        inputs : Tensor of shape [batch, depth]
        state : Tensor of shape [batch, num_units]

        Returns
        -------
        output, state : Tensor
        """
        x, h = self.ready(inputs), convert_to_tensor(state)
        r, u = split(sigmoid(matmul(concat([x, h], 1), self.gate_kernel) + self.gate_bias), 2, axis=1)
        if self.reset_after:
            # The bias is inside of the product with r, as in cuDNN, so trained weights can be exchanged.
            before = r * (matmul(h, self.recurrent_kernel) + self.recurrent_bias)
            candidate = self.activation(matmul(x, self.candidate_kernel) + self.candidate_bias + before)
        else:
            product = matmul(concat([x, r * h], 1), self.candidate_kernel)
            candidate = self.activation(product + self.candidate_bias)
        # `u` weights the old state, as in Cho et al., 2014, and cuDNN; other texts exchange u and 1 - u.
        output = u * h + (1.0 - u) * candidate
        return output, output


def checked_units(units: Any, cell: Module) -> int:
    """Return a number of units; raise GraphError unless a positive int."""
    if not isinstance(units, int) or isinstance(units, bool) or units < 1:
        raise GraphError(
            f"{type(cell).__name__} needs a number of units",
            wanted="an int of at least 1",
            got=repr(units),
            hint="give it the size of its output",
        )
    return units


def clip_symmetrically(x: Tensor, bound: float | None) -> Tensor:
    """Return `x` clipped to ``[-bound, bound]``; unchanged if `bound` is None."""
    return x if bound is None else clip_by_value(x, -bound, bound)
