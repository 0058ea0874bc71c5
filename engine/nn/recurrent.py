"""Recurrent networks over batches of sequences: ``dynamic_rnn`` and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import nest
from ..base.errors import GraphError
from ..frontend.control.scopes import name_scope
from ..ir.apply import convert_to_tensor
from ..ir.entry import public
from ..ir.tensor import Tensor
from ..ops.array.shapes import shape
from ..ops.math.casting import cast
from .batches import Batch, Masks, loop_options, reversed_in_time
from .cell_wrappers import checked_cell


@public
def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | str | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    name: str | None = None,
    *,
    blocks: int | None = None,
) -> tuple[Any, Any]:
    """Run a cell over sequences in a loop whose length depends on the data.

    In Python, for one sequence::

        for x in inputs[:sequence_length]:
            output, state = cell(x, state)
            outputs.append(output)
        outputs += [0] * (len(inputs) - sequence_length)

    The loop ends with the longest sequence. Ended rows are dropped in blocks: if the cell computes rows independently
    (`RNNCell.by_rows`) and the batch size is static and not small, rows are sorted by length, and the loop continues
    without a block once the longest row of the block has ended.

    Parameters
    ----------
    cell : RNNCell
    inputs : Tensor of shape [batch, time, ...], or structure of such
    sequence_length : int32 or int64 Tensor of shape [batch], optional
        From 0 to time, by default time; later outputs are zero, and the state is unchanged there.
    initial_state : structure of Tensor, optional
        Zeros when None.
    dtype : dtype-like, optional
        Dtype of the state of zeros; the dtype of the inputs when None.
    parallel_iterations : int or 'auto', optional
        As for `while_loop`.
    swap_memory : bool
        As for `while_loop`.
    time_major : bool
        If True, inputs and outputs have the shape [time, batch, ...].
    name : str, optional
    blocks : int, optional
        Number of blocks of rows; 1 for none.

    Returns
    -------
    outputs : structure of Tensor
        As the cell's `output_size`, of shape ``[batch, time, *size]``.
    state : structure of Tensor
        The last state of each sequence.

    Raises
    ------
    GraphError
        If `cell` is not a cell, or the rows cannot be run in `count_blocks` blocks.
    ShapeError
        If inputs or lengths have another rank, or batches differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Sum(tg.nn.RNNCell):
    ...     state_size = output_size = 1
    ...
    ...     def forward(self, inputs, state):
    ...         return state + inputs, state + inputs
    >>> x = [[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]]]
    >>> outputs, state = tg.function(lambda: tg.nn.dynamic_rnn(Sum(), x, [3, 2])).sync()
    >>> outputs[..., 0].tolist(), state[:, 0].tolist()
    ([[1.0, 3.0, 6.0], [10.0, 30.0, 0.0]], [6.0, 30.0])
    """
    options = loop_options(parallel_iterations, swap_memory)
    with name_scope(name or "rnn"):
        batch = Batch(checked_cell(cell), inputs, sequence_length, initial_state, dtype, time_major)
        # Blocks are an optimization for batches of different lengths; their results are those of one loop.
        count = batch.count_blocks(blocks)
        outputs, state = batch.run(options) if count == 1 else batch.run_in_blocks(count, options)
        return nest.map_structure(batch.as_given, outputs), state


@public
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | str | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    name: str | None = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Run a cell over sequences forward, and another cell backward (Schuster and Paliwal, 1997).

    Parameters
    ----------
    cell_fw, cell_bw : RNNCell
    inputs, sequence_length, dtype, parallel_iterations, swap_memory, time_major
        As for `dynamic_rnn`.
    initial_state_fw, initial_state_bw : structure of Tensor, optional
        Zeros when None.
    name : str, optional

    Returns
    -------
    outputs : pair of structures of Tensor
        Outputs of both cells, each in the order of the inputs.
    states : pair of structures of Tensor
        The last states of both cells; `cell_bw` ends at the first time step.

    Examples
    --------
    >>> import tagloom as tg
    >>> class Sum(tg.nn.RNNCell):
    ...     state_size = output_size = 1
    ...
    ...     def forward(self, inputs, state):
    ...         return state + inputs, state + inputs
    >>> x = [[[1.0], [2.0], [3.0]], [[10.0], [20.0], [30.0]]]
    >>> build = lambda: tg.nn.bidirectional_dynamic_rnn(Sum(), Sum(), x, [3, 2])[0]
    >>> forward, backward = tg.function(build).sync()
    >>> backward[..., 0].tolist()
    [[6.0, 5.0, 3.0], [30.0, 20.0, 0.0]]
    """
    common = (dtype, parallel_iterations, swap_memory, time_major)
    with name_scope(name or "bidirectional_rnn"):
        forward, last = dynamic_rnn(cell_fw, inputs, sequence_length, initial_state_fw, *common, name="forward")
        # Reversed within the lengths, so that the padding stays at the end.
        turned = reversed_in_time(inputs, sequence_length, time_major)
        made, first = dynamic_rnn(cell_bw, turned, sequence_length, initial_state_bw, *common, name="backward")
        # The reversed network's last state belongs to the first element of a sequence.
        return (forward, reversed_in_time(made, sequence_length, time_major)), (last, first)


@public
def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    name: str | None = None,
) -> tuple[list[Any], Any]:
    """Run a cell over sequences of static length without a loop: the graph contains each step.

    Parameters
    ----------
    cell : RNNCell
    inputs : sequence of Tensor of shape [batch, depth], or of structures of such
        An input for each time step.
    initial_state : structure of Tensor, optional
        Zeros when None.
    dtype : dtype-like, optional
        Dtype of the state of zeros; the dtype of the inputs when None.
    sequence_length : int32 or int64 Tensor of shape [batch], optional
        As for `dynamic_rnn`, which computes less: here all steps are computed.
    name : str, optional

    Returns
    -------
    outputs : list of structures of Tensor
    state : structure of Tensor

    Raises
    ------
    GraphError
        If `inputs` is not a list or tuple, or is empty.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     outputs, state = tg.nn.static_rnn(tg.nn.GRUCell(4), [tg.ones([2, 3])] * 5)
    >>> len(outputs), outputs[0].shape, state.shape
    (5, Shape(2, 4), Shape(2, 4))
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise GraphError(
            "static_rnn goes through a list",
            wanted="a tensor for each time step, at least one",
            got=inputs,
            hint="use unstack, or dynamic_rnn with the whole tensor",
        )
    with name_scope(name or "rnn"):
        steps = [nest.map_structure(convert_to_tensor, x) for x in inputs]
        first = nest.flatten(steps[0])[0]
        rows = first.shape[0] if first.shape[0] is not None else shape(first)[0]
        state = checked_cell(cell).zero_state(rows, dtype or first.dtype) if initial_state is None else initial_state
        masks = Masks(None if sequence_length is None else cast(sequence_length, "int32"))
        outputs = []
        for t, x in enumerate(steps):
            output, after = cell(x, state)
            time: Tensor = convert_to_tensor(t)
            # As in `dynamic_rnn`: ended rows emit zeros and keep their state.
            outputs.append(nest.pack_as(output, [masks.select_running(time, y, 0) for y in nest.flatten(output)]))
            state = nest.pack_as(
                state, masks.select_running_rows(time, nest.flatten_as(state, after), nest.flatten(state))
            )
        return outputs, state
