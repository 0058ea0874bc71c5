"""Recurrent layers: cells and their loops in one module."""

from __future__ import annotations

from typing import Any

from ..base.errors import GraphError
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from .cell_dropout import checked_keep, drop_elements
from .cells import GRUCell
from .lstm_cells import LSTMCell
from .module import Module
from .recurrent import bidirectional_dynamic_rnn, dynamic_rnn


class RecurrentLayers(Module):
    """Base of stacked recurrent layers, each with a cell, or a cell per direction."""

    cell_type: type[LSTMCell] | type[GRUCell]

    def __init__(
        self,
        num_units: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        keep_prob: Any = 1.0,
        time_major: bool = False,
        name: str | None = None,
        **cell: Any,
    ) -> None:
        super().__init__(name)
        if not isinstance(num_layers, int) or num_layers < 1:
            raise GraphError(
                f"{type(self).__name__} is made of layers",
                wanted="an int of at least 1",
                got=repr(num_layers),
                hint="leave num_layers out for one",
            )
        self.cells: list[GRUCell | LSTMCell] = [self.cell_type(num_units, **cell) for _ in range(num_layers)]
        self.backward_cells: list[GRUCell | LSTMCell] = [
            self.cell_type(num_units, **cell) for _ in range(num_layers if bidirectional else 0)
        ]
        self.keep_prob: Any = checked_keep(keep_prob, "keep_prob")
        self.time_major: bool = time_major

    def forward(self, inputs: Any, sequence_length: Any = None, initial_state: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs of the last layer, and the last states.

        Parameters
        ----------
        inputs : Tensor of shape [batch, time, depth]
        sequence_length : int32 Tensor of shape [batch], optional
            As for `dynamic_rnn`.
        initial_state : tuple, optional
            States in the structure of the returned states.

        Returns
        -------
        outputs : Tensor of shape [batch, time, num_units]
            With two directions, concatenated: [batch, time, 2 * num_units].
        states : tuple
            A state for each layer; with two directions, a pair for each layer.
        """
        # None for a layer lets `dynamic_rnn` begin with the cell's zero state.
        begin = [None] * len(self.cells) if initial_state is None else initial_state
        if len(begin) != len(self.cells):
            raise GraphError(
                f"{type(self).__name__} '{self.name}' begins with a state for each layer",
                wanted=f"{len(self.cells)} states",
                got=f"{len(begin)} states",
                hint="give a tuple of them, as it is returned",
            )
        states, outputs = [], inputs
        for k in range(len(self.cells)):
            # Between layers only: neither the inputs nor the last outputs are dropped.
            x = outputs if not k else drop_elements(outputs, self.keep_prob, None)
            outputs, state = self._run_layer(k, x, sequence_length, begin[k])
            states.append(state)
        return outputs, tuple(states)

    def _run_layer(self, k: int, x: Any, lengths: Any, begin: Any) -> tuple[Tensor, Any]:
        if not self.backward_cells:
            return dynamic_rnn(self.cells[k], x, lengths, begin, time_major=self.time_major)
        forth, back = (None, None) if begin is None else begin
        cells = (self.cells[k], self.backward_cells[k])
        outputs, states = bidirectional_dynamic_rnn(*cells, x, lengths, forth, back, time_major=self.time_major)
        # Features are the last of three dimensions in either order of batch and time.
        return concat(list(outputs), 2), states


class LSTM(RecurrentLayers):
    """Layers of long short-term memory over whole sequences.

    Parameters
    ----------
    num_units : int
    num_layers : int
    bidirectional : bool
        If True, each layer has a second cell, which runs backward.
    keep_prob : float or scalar Tensor
        Probability of keeping an element between two layers.
    time_major : bool
        If True, inputs and outputs have the shape [time, batch, depth].
    name : str, optional
    **cell
        Arguments of each `LSTMCell`.

    Attributes
    ----------
    cells, backward_cells : list of LSTMCell
        Cells of the layers; `backward_cells` is empty unless `bidirectional`.

    Raises
    ------
    GraphError
        If a number is below 1, or `keep_prob` is not in (0, 1]; on a call, if the number of initial states is not the
        number of layers.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     lstm = tg.nn.LSTM(4, num_layers=2, bidirectional=True)
    ...     outputs, states = lstm(tg.ones([3, 7, 5]), sequence_length=[7, 2, 0])
    >>> outputs.shape, states[1][0].h.shape
    (Shape(3, 7, 8), Shape(3, 4))
    """

    cell_type = LSTMCell


class GRU(RecurrentLayers):
    """Layers of gated recurrent units over whole sequences.

    Parameters
    ----------
    num_units, num_layers, bidirectional, keep_prob, time_major, name
        As for `LSTM`.
    **cell
        Arguments of each `GRUCell`.

    Attributes
    ----------
    cells, backward_cells : list of GRUCell
        As for `LSTM`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     gru = tg.nn.GRU(4, num_layers=2)
    ...     outputs, states = gru(tg.ones([3, 7, 5]))
    >>> outputs.shape, [state.shape for state in states]
    (Shape(3, 7, 4), [Shape(3, 4), Shape(3, 4)])
    """

    cell_type = GRUCell
