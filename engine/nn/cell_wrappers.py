"""Cells made of cells: several in a stack, with dropout, with residuals, on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import nest
from ..base.errors import GraphError
from ..frontend.scopes import device
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.creation import ones
from .cell_dropout import checked_keep, dropped, is_one
from .cells import LSTMStateTuple, RNNCell, map_sizes


class CellWrapper(RNNCell):
    """Base of what is a cell around another one."""

    def __init__(self, cell: Any, name: str | None = None) -> None:
        super().__init__(name)
        self.cell = checked_cell(cell)
        self.state_size, self.output_size = cell.state_size, cell.output_size
        self.by_rows = getattr(cell, "by_rows", False)

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return that of the cell.

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
    """Return a cell; GraphError if it is none."""
    if not callable(cell) or any(getattr(cell, n, None) is None for n in ("state_size", "output_size")):
        raise GraphError(
            "this is no recurrent cell",
            wanted="an RNNCell: called with inputs and state, and with state_size and output_size",
            got=repr(cell),
            hint="use tagflow.nn.LSTMCell, or a subclass of tagflow.nn.RNNCell",
        )
    return cell


class MultiRNNCell(RNNCell):
    """Cells one upon the other: the output of each is the input of the next.

    Parameters
    ----------
    cells : sequence of RNNCell
    name : str, optional

    Attributes
    ----------
    cells : list of RNNCell
    state_size : tuple
        That of each cell.

    Examples
    --------
    >>> import tagflow as tg
    >>> cell = tg.nn.MultiRNNCell([tg.nn.LSTMCell(4), tg.nn.GRUCell(3)])
    >>> cell.state_size, cell.output_size
    ((LSTMStateTuple(c=4, h=4), 3), 3)
    """

    def __init__(self, cells: Sequence[Any], name: str | None = None) -> None:
        super().__init__(name)
        self.cells = [checked_cell(cell) for cell in cells]
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
        Its input and output have one size.
    residual_fn : callable, optional
        ``residual_fn(inputs, outputs)`` returns the output instead.
    name : str, optional

    Examples
    --------
    >>> import tagflow as tg
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
        self.by_rows = self.by_rows and residual_fn is None

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return inputs and output of the cell added up, and its next state.

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
        given, made = nest.flatten(inputs), nest.flatten(outputs)
        sums = [convert_to_tensor(x) + y for x, y in zip(given, made, strict=True)]
        return nest.pack_as(outputs, sums), after


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
    >>> import tagflow as tg
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
        """Return that of the cell, on the device.

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
        """Return what the cell gives.

        Parameters
        ----------
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        output, state : structure of Tensor
        """
        with device(self.device):
            return self.cell(inputs, state)  # type: ignore[no-any-return]


class DropoutWrapper(CellWrapper):
    """A cell with dropout of its input, output and state (Zaremba et al., 2014).

    The cell state of an LSTM is never dropped. Draws differ from step to step, unless `variational_recurrent` is set:
    then one mask of elements, the same for all rows and time steps, is drawn when a session's step begins (Gal and
    Ghahramani, 2016), and the loop can run as a native program.

    Parameters
    ----------
    cell : RNNCell
    input_keep_prob, output_keep_prob, state_keep_prob : float or scalar Tensor
        Probability to keep an element; those that are kept are divided by it.
    variational_recurrent : bool
    input_size : structure of int, optional
        Last dimension of the input, which `variational_recurrent` needs where `input_keep_prob` is not 1.
    dtype : dtype-like, optional
        Of input, state and output, which `variational_recurrent` needs.
    seed : int, optional
    name : str, optional

    Raises
    ------
    GraphError
        If a probability is not above 0 and at most 1, or `input_size` or `dtype` are missing.

    Examples
    --------
    >>> import tagflow as tg
    >>> class Echo(tg.nn.RNNCell):
    ...     state_size = output_size = 100
    ...
    ...     def forward(self, inputs, state):
    ...         return inputs, state
    >>> def dropped():
    ...     cell = tg.nn.DropoutWrapper(Echo(), output_keep_prob=0.5)
    ...     return cell(tg.ones([1, 100]), cell.zero_state(1))[0]
    >>> sorted(set(tg.function(dropped).sync()[0].tolist()))
    [0.0, 2.0]
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(cell, name)
        self.keep = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        for what, keep in self.keep.items():
            checked_keep(keep, f"{what}_keep_prob")
        self.seed = seed
        self._masks: dict[str, list[Tensor]] | None = None
        if variational_recurrent:
            sizes = {"input": input_size, "output": cell.output_size, "state": cell.state_size}
            self._masks = {what: self._mask(what, size, dtype) for what, size in sizes.items()}

    def _mask(self, what: str, sizes: Any, dtype: Any) -> list[Tensor]:
        if is_one(self.keep[what]):
            return []
        if sizes is None or dtype is None:
            raise GraphError(
                "variational dropout draws its masks before the cell is called",
                wanted="dtype, and input_size if the input is dropped",
                got=f"dtype {dtype}, size of the {what} {sizes}",
                hint="pass dtype='float32' and input_size=, the last dimension of the input",
            )
        keep, seed = self.keep[what], self._seed(what)
        return nest.flatten(map_sizes(lambda size: dropped(ones([1, *size], dtype), keep, seed), sizes))

    def _seed(self, what: str) -> int | None:
        """Return a seed for each of input, output and state, which would be dropped alike with one."""
        return None if self.seed is None else 3 * self.seed + list(self.keep).index(what)

    def _dropped(self, what: str, values: Any) -> Any:
        if is_one(self.keep[what]):
            return values
        leaves = [leaf if hasattr(leaf, "with_flow") else convert_to_tensor(leaf) for leaf in nest.flatten(values)]
        spared = _spared(values) if what == "state" else [False] * len(leaves)
        for k, leaf in enumerate(leaves):
            if not spared[k]:
                leaves[k] = self._dropped_one(what, k, leaf)
        return nest.pack_as(values, leaves)

    def _dropped_one(self, what: str, k: int, x: Tensor) -> Tensor:
        if self._masks is not None:
            return x * self._masks[what][k]
        seed = self._seed(what)
        return dropped(x, self.keep[what], None if seed is None else seed + 1009 * k)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return output and next state of the cell, with some elements zero.

        Parameters
        ----------
        inputs : structure of Tensor
        state : structure of Tensor

        Returns
        -------
        output, state : structure of Tensor
        """
        output, after = self.cell(self._dropped("input", inputs), state)
        return self._dropped("output", output), self._dropped("state", after)


def _spared(state: Any) -> list[bool]:
    """Say of each leaf of a state whether it is never dropped: memory of an LSTM, arrays, what is no number."""
    if isinstance(state, LSTMStateTuple):
        return [True, False]
    parts = nest.children(state)
    if parts is not None:
        return [spared for _, part in parts for spared in _spared(part)]
    return [hasattr(state, "with_flow") or not convert_to_tensor(state).dtype.is_floating]
