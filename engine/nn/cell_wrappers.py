"""Cells made of cells: stacks, residuals, devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import nest
from ..base.errors import GraphError, ShapeError
from ..frontend.control.scopes import device
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from .cells import RNNCell


class CellWrapper(RNNCell):
    """Base of cells that wrap another cell."""

    def __init__(self, cell: Any, name: str | None = None) -> None:
        super().__init__(name)
        self.cell: Any = checked_cell(cell)
        self.state_size, self.output_size = cell.state_size, cell.output_size
        self.by_rows = getattr(cell, "by_rows", False)

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return the cell's zero state.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        structure of Tensor
        """
        return self.cell.zero_state(batch_size, dtype)


def checked_cell(cell: Any) -> Any:
    """Return a cell; raise GraphError for anything else."""
    if not callable(cell) or any(getattr(cell, n, None) is None for n in ("state_size", "output_size")):
        raise GraphError(
            "this is no recurrent cell",
            wanted="an RNNCell: called with inputs and state, and with state_size and output_size",
            got=repr(cell),
            hint="use tagloom.nn.LSTMCell, or a subclass of tagloom.nn.RNNCell",
        )
    return cell


class MultiRNNCell(RNNCell):
    """A stack of cells: the output of each is the input of the next.

    Parameters
    ----------
    cells : sequence of RNNCell
    name : str, optional

    Attributes
    ----------
    cells : list of RNNCell
    state_size : tuple
        The state sizes of the cells.

    Raises
    ------
    GraphError
        If `cells` is empty, or has an item twice or an item that is not a cell.

    Examples
    --------
    >>> import tagloom as tg
    >>> cell = tg.nn.MultiRNNCell([tg.nn.LSTMCell(4), tg.nn.GRUCell(3)])
    >>> cell.state_size, cell.output_size
    ((LSTMStateTuple(c=4, h=4), 3), 3)
    """

    def __init__(self, cells: Sequence[Any], name: str | None = None) -> None:
        super().__init__(name)
        self.cells: list[Any] = [checked_cell(cell) for cell in cells]
        # The same cell twice would share its weights between layers.
        if not self.cells or len({id(cell) for cell in self.cells}) < len(self.cells):
            raise GraphError(
                "a MultiRNNCell is made of cells, each with weights of its own",
                wanted="at least one cell, and each once",
                got=f"{len(self.cells)} cells",
                hint="make one for each layer, as in [LSTMCell(8) for _ in range(2)]",
            )
        self.state_size = tuple(cell.state_size for cell in self.cells)
        self.output_size = self.cells[-1].output_size
        self.by_rows = all(getattr(cell, "by_rows", False) for cell in self.cells)

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return a tuple of the cells' states.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        tuple
        """
        # By the cells, not by `state_size`: the state of an AttentionWrapper may begin with other values than zeros.
        return tuple(cell.zero_state(batch_size, dtype) for cell in self.cells)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the output of the last cell and the next states of all.

        Parameters
        ----------
        inputs : structure of Tensor
        state : tuple

        Returns
        -------
        output : structure of Tensor
        state : tuple
        """
        states = []
        for cell, before in zip(self.cells, state, strict=True):
            inputs, after = cell(inputs, before)
            states.append(after)
        return inputs, tuple(states)


class ResidualWrapper(CellWrapper):
    """A cell whose input is added to its output (Wu et al., 2016, section 3.1).

    Parameters
    ----------
    cell : RNNCell
        A cell with inputs and outputs of equal size.
    residual_fn : callable, optional
        ``residual_fn(inputs, outputs)`` returns the output instead.
    name : str, optional

    Raises
    ------
    ShapeError
        On a call, if the sizes of input and output differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Echo(tg.nn.RNNCell):
    ...     state_size = output_size = 1
    ...
    ...     def forward(self, inputs, state):
    ...         return inputs * 10.0, state
    >>> cell = tg.nn.ResidualWrapper(Echo())
    >>> tg.function(lambda: cell(tg.constant([[2.0]]), cell.zero_state(1))[0]).sync()
    array([[22.]], dtype=float32)
    """

    def __init__(self, cell: Any, residual_fn: Callable[..., Any] | None = None, name: str | None = None) -> None:
        super().__init__(cell, name)
        self.residual_fn = residual_fn
        # A user's function may mix rows.
        self.by_rows = self.by_rows and residual_fn is None

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the sum of the cell's inputs and output, and its next state.

        Parameters
        ----------
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        output, state : structure of Tensor
        """
        outputs, after = self.cell(inputs, state)
        if self.residual_fn is not None:
            return self.residual_fn(inputs, outputs), after
        pairs = zip(nest.flatten_as(outputs, inputs), nest.flatten(outputs), strict=True)
        return nest.pack_as(
            outputs, [_add_residual(convert_to_tensor(x), convert_to_tensor(y)) for x, y in pairs]
        ), after


def _add_residual(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of two tensors of compatible shapes; raise ShapeError for others."""
    # Without this check a size of 1 would be broadcast silently.
    if not x.shape.is_compatible_with(y.shape):
        raise ShapeError(
            "input and output of a cell with a residual have one size",
            wanted=x.shape,
            got=y.shape,
            operation=y.op,
            hint="give residual_fn, which makes one of the other's size, or the cell as many units",
        )
    return x + y


class DeviceWrapper(CellWrapper):
    """A cell on a device, with its variables.

    Parameters
    ----------
    cell : RNNCell
    device : str, callable or None
        As for `device`.
    name : str, optional

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.nn.DeviceWrapper(tg.nn.GRUCell(2), "/cpu:1")
    ...     output, _ = cell(tg.ones([1, 2]), cell.zero_state(1))
    >>> output.device, cell.cell.gate_kernel.device
    ('/device:CPU:1', '/device:CPU:1')
    """

    def __init__(self, cell: Any, device: Any, name: str | None = None) -> None:
        super().__init__(cell, name)
        self.device = device

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return the cell's zero state, on the device.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        structure of Tensor
        """
        with device(self.device):
            return self.cell.zero_state(batch_size, dtype)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the cell's output and next state, computed on the device.

        Parameters
        ----------
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        output, state : structure of Tensor
        """
        with device(self.device):
            result: tuple[Any, Any] = self.cell(inputs, state)
            return result
