"""Cells whose input is mixed into their output by a gate."""

from __future__ import annotations

from typing import Any

from ..base.errors import ShapeError
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from .cell_wrappers import CellWrapper
from .dense import Dense
from .initializers import constant_initializer


class HighwayWrapper(CellWrapper):
    """A cell whose output is ``carry * input + transform * output``, with gates of the input (Srivastava et al., 2015).

    Parameters
    ----------
    cell : RNNCell
        Its input and output are tensors of one size.
    couple_carry_transform_gates : bool
        Make the transform gate ``1 - carry``, without weights of its own.
    carry_bias_init : float
        Initial bias of the carry gate; that of a transform gate is its negative. From 1 up most is carried at first.
    name : str, optional

    Attributes
    ----------
    carry, transform : Dense
        The gates; no `transform` where they are coupled.

    Raises
    ------
    ShapeError
        When it is called, if input and output are known to have sizes that differ.

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

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return input and output of the cell, mixed, and its next state.

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
        if self.carry is None:
            self._make_gates(int(self.output_size), x)
        carry = self.carry(x)
        transform = 1.0 - carry if self.transform is None else self.transform(x)
        return carry * x + transform * y, after

    def _make_gates(self, size: int, x: Tensor) -> None:
        def gate(bias: float, name: str) -> Dense:
            return Dense(
                size, activation="sigmoid", bias_initializer=constant_initializer(bias), dtype=x.dtype, name=name
            )

        self.carry = gate(self._bias, "carry")
        if not self._is_coupled:
            self.transform = gate(-self._bias, "transform")
