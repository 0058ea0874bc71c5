"""A cell that attends to its own latest outputs."""

from __future__ import annotations

from typing import Any

from ....base import nest
from ....base.errors import GraphError
from ....ir.apply import convert_to_tensor
from ....ir.tensor import Tensor
from ....nn.cell_wrappers import CellWrapper
from ....nn.dense import Dense
from ....ops.array.concat import concat
from ....ops.array.shapes import expand_dims, reshape
from ....ops.math.reductions import reduce_sum
from ....ops.math.trigonometry import tanh
from ....ops.nn.losses import softmax
from ....ops.support.arguments import static_int


class AttentionCellWrapper(CellWrapper):
    """A cell that attends to its own latest outputs by additive attention (Cheng et al., 2016).

    A linear layer of the input and the preceding reading is the cell's input. The cell's next state is the query of the
    new reading; a linear layer of the cell's output and the reading is the output, which enters the window.

    Parameters
    ----------
    cell : RNNCell
        A cell whose output is a tensor of shape [batch, size].
    attn_length : int
        Number of outputs in the window.
    attn_size : int, optional
        Size of the output and of the reading; the size of the cell's output by default.
    attn_vec_size : int, optional
        Depth of the comparison of query and outputs; `attn_size` by default.
    input_size : int, optional
        Size of the cell's input; the size of the input by default.
    name : str, optional

    Attributes
    ----------
    state_size : tuple
        The cell's state, the reading, and the window: ``attn_length * attn_size`` numbers, oldest output first.
    output_size : int

    Raises
    ------
    GraphError
        If `cell` is not a cell, its output is a structure, or a size is not positive.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     cell = tg.compat.tf1.AttentionCellWrapper(tg.nn.GRUCell(4), attn_length=3)
    ...     output, state = cell(tg.ones([2, 5]), cell.zero_state(2))
    >>> output.shape, [part.shape for part in state]
    (Shape(2, 4), [Shape(2, 4), Shape(2, 4), Shape(2, 12)])
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(cell, name)
        if attn_size is None and not isinstance(cell.output_size, int):
            raise GraphError(
                "the output of a cell with attention to its outputs is one tensor",
                wanted="a cell whose output_size is an int",
                got=cell.output_size,
                hint="give attn_size, or another cell",
            )
        self.length = _require_positive(attn_length, "attn_length")
        self.size = _require_positive(cell.output_size if attn_size is None else attn_size, "attn_size")
        # The window is stored flat, because sizes of a state are ints: [batch, length * size].
        self.state_size = (cell.state_size, self.size, self.size * self.length)
        self.output_size = self.size
        depth = self.size if attn_vec_size is None else _require_positive(attn_vec_size, "attn_vec_size")
        self.input_size = None if input_size is None else _require_positive(input_size, "input_size")
        self.input_layer: Dense | None = None
        self.query_layer = Dense(depth, name="query")
        self.key_layer = Dense(depth, use_bias=False, name="key")
        self.score_layer = Dense(1, use_bias=False, name="score")
        self.output_layer = Dense(self.size, name="output")

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> Any:
        """Return the cell's zero state, a reading of zeros, and a window of zeros.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        tuple
        """
        # Skip CellWrapper's, which returns only the cell's state: these zeros follow from `state_size`.
        read, window = super(CellWrapper, self).zero_state(batch_size, dtype)[1:]
        return self.cell.zero_state(batch_size, dtype), read, window

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the output, and the next state with the new reading and the output in the window.

        Parameters
        ----------
        inputs : Tensor of shape [batch, size]
        state : tuple

        Returns
        -------
        output : Tensor of shape [batch, attn_size]
        state : tuple
        """
        before, read, window = state
        x = convert_to_tensor(inputs)
        output, after = self.cell(self._mixed_input(x)(concat([x, read], -1)), before)
        outputs = reshape(window, [-1, self.length, self.size])
        # The query is the whole new state of the cell.
        read = self._read_window(concat(nest.flatten(after), -1), outputs)
        mixed = self.output_layer(concat([output, read], -1))
        # The oldest output leaves the window, and the new output is its last.
        outputs = concat([outputs[:, 1:], expand_dims(mixed, 1)], 1)
        return mixed, (after, read, reshape(outputs, [-1, self.length * self.size]))

    def _mixed_input(self, x: Tensor) -> Dense:
        """Return the layer of the cell's input, made when the first input shows its size."""
        if self.input_layer is None:
            size = self.input_size or x.shape[-1]
            if size is None:
                raise GraphError(
                    "a cell with attention to its outputs needs to know how large its input is",
                    wanted="inputs of shape [batch, size]",
                    got=x.shape,
                    operation=x.op,
                    hint="set the shape of the inputs, or give input_size",
                )
            self.input_layer = Dense(size, name="input")
        return self.input_layer

    def _read_window(self, query: Tensor, outputs: Tensor) -> Tensor:
        """Return the mean of the window's outputs, weighted by the softmax of their scores for the query."""
        hidden = tanh(self.key_layer(outputs) + expand_dims(self.query_layer(query), 1))
        return reduce_sum(softmax(self.score_layer(hidden), 1) * outputs, 1)


def _require_positive(value: Any, what: str) -> int:
    size = static_int(value, what)
    if size < 1:
        raise GraphError(f"'{what}' is a number of elements", wanted="1 or more", got=size, hint="leave it out")
    return size
