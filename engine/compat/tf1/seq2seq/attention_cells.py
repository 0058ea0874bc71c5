"""A cell that attends to a memory at each step."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import InitVar
from typing import Any, NamedTuple

from ....base import nest
from ....base.errors import GraphError
from ....frontend.state.tensor_array import TensorArray
from ....ir.tensor import Tensor
from ....nn.cell_wrappers import CellWrapper
from ....nn.dense import Dense
from ....nn.module import module_of_fields
from ....ops.array.concat import concat
from ....ops.array.creation import zeros
from ....ops.array.shapes import expand_dims
from ....ops.math.reductions import reduce_sum


class AttentionWrapperState(NamedTuple):
    """State of an AttentionWrapper.

    Attributes
    ----------
    cell_state : structure of Tensor
        State of the cell.
    attention : Tensor of shape [batch, attention]
        Attention of the preceding step.
    time : int32 scalar Tensor
    alignments : Tensor of shape [batch, places], or tuple of them
        Share of each place in `attention`.
    alignment_history : TensorArray, or tuple of them
        Alignments of all steps; () unless kept.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.compat.tf1.AttentionWrapperState._fields
    ('cell_state', 'attention', 'time', 'alignments', 'alignment_history')
    """

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any


def _join_attention(inputs: Any, attention: Any) -> Tensor:
    return concat([inputs, attention], -1)


@module_of_fields
class AttentionWrapper(CellWrapper):
    """A cell that attends to a memory at each step.

    The cell's input includes the preceding attention. The cell's output is the query of the attention mechanism; a
    linear layer of output and read context, or else the context alone, is the new attention.

    Parameters
    ----------
    cell : RNNCell
    attention_mechanism : AttentionMechanism, or sequence of them
    attention_layer_size : int, or sequence of int, optional
        Units of the linear layer, without bias, from the cell's output and the read context to the attention. By
        default the attention is the context.
    alignment_history : bool
        If True, the state has the alignments of all steps.
    cell_input_fn : callable, optional
        ``cell_input_fn(inputs, attention)`` returns the cell's input, by default ``concat([inputs, attention], -1)``.
    output_attention : bool
        If True, the output is the attention, else the cell's output.
    initial_cell_state : structure of Tensor, optional
        Cell state in the result of `zero_state`.
    name : str, optional

    Raises
    ------
    GraphError
        If `cell` is not a cell, or the number of layer sizes is not the number of mechanisms.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     attention = tg.compat.tf1.LuongAttention(4, tg.ones([2, 5, 3]))
    ...     cell = tg.compat.tf1.AttentionWrapper(tg.nn.GRUCell(4), attention, attention_layer_size=6)
    ...     output, state = cell(tg.ones([2, 7]), cell.zero_state(2))
    >>> output.shape, state.alignments.shape
    (Shape(2, 6), Shape(2, 5))
    """

    cell: Any
    attention_mechanism: InitVar[Any]
    attention_layer_size: InitVar[Any] = None
    alignment_history: bool = False
    cell_input_fn: Callable[[Any, Any], Any] | None = None
    output_attention: bool = True
    initial_cell_state: Any = None
    name: InitVar[str | None] = None

    def __post_init__(self, attention_mechanism: Any, attention_layer_size: Any, name: str | None) -> None:
        super().__init__(self.cell, name)
        self.is_single: bool = not isinstance(attention_mechanism, (list, tuple))
        self.mechanisms: list[Any] = [attention_mechanism] if self.is_single else list(attention_mechanism)
        self.layers: list[Dense] | None = self._make_layers(attention_layer_size)
        # Without layers the attention is the contexts themselves, as deep as the memories.
        depths = [m.values.shape[-1] for m in self.mechanisms]
        self.attention_size: int = sum(depths if self.layers is None else [layer.units for layer in self.layers])
        self.output_size = self.attention_size if self.output_attention else self.cell.output_size
        self.by_rows = False  # the rows of the memory are not permuted with those of the batch
        sizes = tuple(m.alignments_size for m in self.mechanisms)
        # Arrays have no size: `state_size` has an empty tuple where the state has an array.
        history = () if self.is_single or not self.alignment_history else tuple(() for _ in sizes)
        alignments = sizes[0] if self.is_single else sizes
        # The [] is the shape of the scalar `time`.
        self.state_size = AttentionWrapperState(self.cell.state_size, self.attention_size, [], alignments, history)

    def _make_layers(self, sizes: Any) -> list[Dense] | None:
        """Return a linear layer for each mechanism, None without sizes."""
        if sizes is None:
            return None
        wanted = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        if len(wanted) != len(self.mechanisms):
            raise GraphError(
                "an AttentionWrapper has one layer for each attention mechanism",
                wanted=f"{len(self.mechanisms)} sizes",
                got=sizes,
                hint="give attention_layer_size a list, or None",
            )
        return [Dense(size, use_bias=False, name="attention_layer") for size in wanted]

    def with_memory(
        self, memory: Any, memory_sequence_length: Any = None, initial_cell_state: Any = None
    ) -> AttentionWrapper:
        """Return a cell with the same variables that attends to another memory, for beam search.

        Parameters
        ----------
        memory : Tensor of shape [batch, places, depth], or sequence of them
            A memory for each attention mechanism, as for `AttentionMechanism.with_memory`.
        memory_sequence_length : int32 Tensor of shape [batch], or sequence of them, optional
        initial_cell_state : structure of Tensor, optional
            Cell state in the result of the new cell's `zero_state`.

        Returns
        -------
        AttentionWrapper

        Raises
        ------
        GraphError
            If the number of memories is not the number of mechanisms.

        Examples
        --------
        >>> import tagloom as tg
        >>> with tg.Graph().as_default():
        ...     memory = tg.ones([2, 5, 3])
        ...     cell = tg.compat.tf1.AttentionWrapper(tg.nn.GRUCell(4), tg.compat.tf1.LuongAttention(4, memory), 6)
        ...     output, _ = cell(tg.ones([2, 7]), cell.zero_state(2))
        ...     searching = cell.with_memory(tg.compat.tf1.tile_batch(memory, 10))
        ...     outputs, _ = searching(tg.ones([20, 7]), searching.zero_state(20))
        >>> outputs.shape, searching.cell is cell.cell
        (Shape(20, 6), True)
        """
        memories = list(memory) if isinstance(memory, (list, tuple)) else [memory]
        is_listed = isinstance(memory_sequence_length, (list, tuple)) and not self.is_single
        lengths = list(memory_sequence_length) if is_listed else [memory_sequence_length] * len(self.mechanisms)
        if len(memories) != len(self.mechanisms) or len(lengths) != len(self.mechanisms):
            raise GraphError(
                "an AttentionWrapper reads a memory for each attention mechanism",
                wanted=f"{len(self.mechanisms)} memories",
                got=f"{len(memories)} memories and {len(lengths)} vectors of lengths",
                hint="give a list of memories in the order of the mechanisms",
            )
        other = copy(self)  # shallow: cell and layers, and so their variables, are shared
        pairs = zip(self.mechanisms, memories, lengths, strict=True)
        other.mechanisms = [mechanism.with_memory(m, n) for mechanism, m, n in pairs]
        other.initial_cell_state = initial_cell_state
        alignments = tuple(m.alignments_size for m in other.mechanisms)
        other.state_size = self.state_size._replace(alignments=other._one_or_all(list(alignments)))
        return other

    def zero_state(self, batch_size: Any, dtype: Any = "float32") -> AttentionWrapperState:
        """Return a state of zero attention, with `initial_cell_state` if not None.

        Parameters
        ----------
        batch_size : int or int32 scalar
        dtype : dtype-like

        Returns
        -------
        AttentionWrapperState
        """
        cell_state = self.initial_cell_state
        if cell_state is None:
            cell_state = self.cell.zero_state(batch_size, dtype)
        first = [m.initial_alignments(batch_size, dtype) for m in self.mechanisms]
        # The arrays grow, because the number of steps is unknown here.
        arrays = [TensorArray(dtype, 0, True, element_shape=a.shape) for a in first] if self.alignment_history else []
        return AttentionWrapperState(
            cell_state,
            zeros([batch_size, self.attention_size], dtype),
            zeros([], "int32"),
            self._one_or_all(first),
            self._one_or_all(arrays),
        )

    def _one_or_all(self, each: list[Any]) -> Any:
        return each[0] if self.is_single and each else tuple(each)

    def forward(self, inputs: Any, state: AttentionWrapperState) -> tuple[Any, AttentionWrapperState]:
        """Return the attention, or the cell's output, and the next state.

        Parameters
        ----------
        inputs : Tensor of shape [batch, depth]
        state : AttentionWrapperState

        Returns
        -------
        output : structure of Tensor
        state : AttentionWrapperState
        """
        # The input has the preceding attention, since the new one depends on the cell's output.
        join_inputs = self.cell_input_fn or _join_attention
        output, cell_state = self.cell(join_inputs(inputs, state.attention), state.cell_state)
        before = [state.alignments] if self.is_single else state.alignments
        alignments = [m(output, a) for m, a in zip(self.mechanisms, before, strict=True)]
        attention = concat([self._read_memory(k, output, a) for k, a in enumerate(alignments)], -1)
        history = nest.flatten(state.alignment_history)
        # Not strict: without history there is no array to write.
        history = [array.write(state.time, a) for array, a in zip(history, alignments, strict=False)]
        after = AttentionWrapperState(
            cell_state, attention, state.time + 1, self._one_or_all(alignments), self._one_or_all(history)
        )
        return attention if self.output_attention else output, after

    def _read_memory(self, k: int, output: Tensor, alignments: Tensor) -> Tensor:
        context = reduce_sum(self.mechanisms[k].values * expand_dims(alignments, 2), 1)
        # Luong et al., 2015, equation 5, without its tanh: the layer reads output and context together.
        return context if self.layers is None else self.layers[k](concat([output, context], 1))
