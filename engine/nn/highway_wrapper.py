"""A cell with a gated mixture of input and output."""

from __future__ import annotations

from typing import Any

from ..base.errors import ShapeError
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from .cell_wrappers import CellWrapper
from .dense import Dense
from .initializers import constant_initializer


class HighwayWrapper(CellWrapper):
    """A highway cell: ``carry * input + transform * output``, gates computed from the input (Srivastava et al., 2015).

    Parameters
    ----------
    cell : RNNCell
        A cell with input and output tensors of equal size.
    couple_carry_transform_gates : bool
        If True, the transform gate is ``1 - carry``, without weights.
    carry_bias_init : float
        Initial bias of the carry gate; the transform gate's is its negative. From 1 up, most is carried at first.
    name : str, optional

    Attributes
    ----------
    carry, transform : Dense
        The gates; `transform` is None for coupled gates.

    Raises
    ------
    ShapeError
        On a call, if the static sizes of input and output differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.nn.HighwayWrapper(tg.nn.GRUCell(4))
    ...     output, state = cell(tg.ones([2, 4]), cell.zero_state(2))
    >>> output.shape, cell.carry.kernel.shape
    (Shape(2, 4), Shape(4, 4))
    """

    def __init__(
        self,
        cell: Any,
        couple_carry_transform_gates: bool = True,
        carry_bias_init: float = 1.0,
        name: str | None = None,
    ) -> None:
        super().__init__(cell, name)
        self._bias = float(carry_bias_init)
        self._is_coupled = bool(couple_carry_transform_gates)
        self.carry: Any = None
        self.transform: Any = None
        self._has_gates = False

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the mixture of the cell's input and output, and its next state.

        Parameters
        ----------
        inputs : Tensor of shape [batch, size]
        state : structure of Tensor

        Returns
        -------
        output, state : structure of Tensor
        """
        x = convert_to_tensor(inputs)
        output, after = self.cell(x, state)
        y = convert_to_tensor(output)
        if not x.shape.is_compatible_with(y.shape):
            raise ShapeError(
                "input and output of a cell with a highway have one size",
                wanted=x.shape,
                got=y.shape,
                operation=y.op,
                hint="give the cell as many units as the input has",
            )
        if not self._has_gates:
            self._make_gates(int(self.output_size), x)
        # The gates see the input, not the cell's output.
        carry = self.carry(x)
        transform = 1.0 - carry if self.transform is None else self.transform(x)
        return carry * x + transform * y, after

    def _make_gates(self, size: int, x: Tensor) -> None:
        """Make the gates, at the first call, whose input determines the dtype."""

        def make_gate(bias: float, name: str) -> Dense:
            return Dense(
                size, activation="sigmoid", bias_initializer=constant_initializer(bias), dtype=x.dtype, name=name
            )

        # With the default bias of 1 the carry begins near 0.73 and the transform near 0.27, so that a new cell mostly
        # copies its input.
        self.carry = make_gate(self._bias, "carry")
        if not self._is_coupled:
            self.transform = make_gate(-self._bias, "transform")
        self._has_gates = True
