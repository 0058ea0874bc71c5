"""Stacked bidirectional recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import GraphError
from ..frontend.control.scopes import name_scope
from ..ir.entry import public
from ..ops.array.concat import concat
from .recurrent import bidirectional_dynamic_rnn


@public
def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | str | None = None,
    time_major: bool = False,
    swap_memory: bool = False,
    name: str | None = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Run stacked bidirectional layers; each layer sees both outputs of the preceding layer.

    Parameters
    ----------
    cells_fw, cells_bw : sequence of RNNCell
        A cell for each layer, whose outputs are tensors.
    inputs, dtype, sequence_length, parallel_iterations, time_major, swap_memory
        As for `dynamic_rnn`.
    initial_states_fw, initial_states_bw : sequence of structures of Tensor, optional
        A state for each layer; zeros when None.
    name : str, optional

    Returns
    -------
    outputs : Tensor
        Both outputs of the last layer, joined along the last dimension.
    states_fw, states_bw : tuple of structures of Tensor
        The last state of each layer.

    Raises
    ------
    GraphError
        If there is no layer, or the numbers of cells and states differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     forward, backward = ([tg.nn.GRUCell(units) for units in (3, 4)] for _ in range(2))
    ...     outputs, ends, starts = tg.nn.stack_bidirectional_dynamic_rnn(forward, backward, tg.ones([2, 5, 3]))
    >>> outputs.shape, [state.shape for state in ends]
    (Shape(2, 5, 8), [Shape(2, 3), Shape(2, 4)])
    """
    layers = len(cells_fw)
    states = [[None] * layers if each is None else list(each) for each in (initial_states_fw, initial_states_bw)]
    counts = [layers, len(cells_bw), *map(len, states)]
    if not layers or len(set(counts)) > 1:
        raise GraphError(
            "each layer has a cell for either end, and a state if there are any",
            wanted="lists of one length, at least 1",
            got=counts,
            hint="give as many cells_fw as cells_bw",
        )
    outputs, lasts, firsts = inputs, [], []
    with name_scope(name or "stack_bidirectional_rnn"):
        # `initial` is the pair of the layer's initial states.
        for i, (forward, backward, *initial) in enumerate(zip(cells_fw, cells_bw, *states, strict=True)):
            both, (last, first) = bidirectional_dynamic_rnn(
                forward,
                backward,
                outputs,
                sequence_length,
                initial[0],
                initial[1],
                dtype,
                parallel_iterations,
                swap_memory,
                time_major,
                f"layer_{i}",
            )
            # Along the last dimension, whichever dimension is time.
            outputs = concat(list(both), -1)
            lasts.append(last)
            firsts.append(first)
    return outputs, tuple(lasts), tuple(firsts)
