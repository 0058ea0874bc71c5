"""``raw_rnn``: a recurrent loop with inputs, outputs and end chosen by a function at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import nest
from ..base.dtypes import DType
from ..base.errors import GraphError
from ..frontend.control.loops import while_loop
from ..frontend.control.scopes import name_scope
from ..ir.apply import constant, convert_to_tensor
from ..ir.entry import public
from ..ir.tensor import Tensor
from ..ops.array.creation import zeros
from ..ops.array.shapes import shape
from ..ops.math.casting import cast
from ..ops.math.comparison import logical_not, logical_or
from ..ops.math.reductions import reduce_all
from .batches import array_like, loop_options, rows_chosen, state_dtype, tensor_or_array
from .cell_wrappers import checked_cell
from .cells import map_sizes

_PARTS = "(finished, next_input, next_state, emit_output, loop_state)"


@public
def raw_rnn(
    cell: Any,
    loop_fn: Callable[..., Any],
    parallel_iterations: int | str | None = None,
    swap_memory: bool = False,
    name: str | None = None,
) -> tuple[Any, Any, Any]:
    """Run a cell in a loop whose inputs and end a function computes, for example from the outputs.

    In Python, for one sequence::

        time = 0
        finished, x, state, emit, loop_state = loop_fn(0, None, None, None)
        while not finished:
            output, state = cell(x, state)
            time += 1
            finished, x, state, emit, loop_state = loop_fn(time, output, state, loop_state)
            emitted.append(emit)

    Parameters
    ----------
    cell : RNNCell
    loop_fn : callable
        ``loop_fn(time, cell_output, cell_state, loop_state)`` returns
        ``(finished, next_input, next_state, emit_output, loop_state)``. `finished` is bool, of shape [batch]. The
        first call has None for all arguments except the time, and returns the first input and state; its
        `emit_output` is a structure of tensors like one row of later emissions, or None for the cell's output. A
        returned `loop_state` of None means no change.
    parallel_iterations, swap_memory
        As for `while_loop`.
    name : str, optional

    Returns
    -------
    emitted : structure of TensorArray
        An element for each step; zeros in rows that ended before.
    state : structure of Tensor
        The last state of each row.
    loop_state
        The last loop state.

    Raises
    ------
    GraphError
        If `loop_fn` does not return five values.

    Examples
    --------
    Powers of two, until they are above 100:

    >>> import tagloom as tg
    >>> class Double(tg.nn.RNNCell):
    ...     state_size = output_size = 1
    ...
    ...     def forward(self, inputs, state):
    ...         return inputs * 2.0, state
    >>> def loop_fn(time, output, state, loop_state):
    ...     if output is None:
    ...         return tg.constant([False]), tg.ones([1, 1]), tg.zeros([1, 1]), None, None
    ...     return output[:, 0] > 100.0, output, state, output, None
    >>> tg.function(lambda: tg.nn.raw_rnn(Double(), loop_fn)[0].stack()).sync().ravel().tolist()
    [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    """
    checked_cell(cell)
    with name_scope(name or "raw_rnn"):
        loop = _Loop(cell, loop_fn)
        options = loop_options(parallel_iterations, swap_memory)
        end = while_loop(_goes_on, loop.build_step, loop.start, name="time", **options)
        # The loop's values are in the order of `start`: time, flags, inputs, state, arrays, loop state.
        return nest.pack_as(loop.empty, end[4]), end[3], end[5] if loop.has_state else None


def _goes_on(time: Tensor, ended: Tensor, *_: Any) -> Tensor:
    return logical_not(reduce_all(ended))


class _Loop:
    """The loop of `raw_rnn`: its initial values and its body."""

    def __init__(self, cell: Any, loop_fn: Callable[..., Any]) -> None:
        self.cell, self.loop_fn = cell, loop_fn
        finished, x, state, emit, loop_state = _require_five_values(loop_fn(constant(0), None, None, None))
        if state is None:
            raise GraphError(
                "the first call of loop_fn returns the initial state of the loop",
                wanted=_PARTS,
                got="no next_state",
                hint="return cell.zero_state(batch_size) as the third value",
            )
        ended, state = convert_to_tensor(finished), nest.map_structure(tensor_or_array, state)
        rows = ended.shape[0] if ended.rank and ended.shape[0] is not None else shape(ended)[0]
        first = nest.map_structure(convert_to_tensor, x)
        self.empty = _emitted_zeros(cell, emit, state_dtype(state, nest.flatten(first)[0]), rows)
        arrays = [array_like(z) for z in nest.flatten(self.empty)]
        if emit is None:  # the cell's first output determines the dtype
            arrays = [a.of_first_written() for a in arrays]
        self.has_state = loop_state is not None
        # A loop variable cannot be None, so 0 stands for no loop state.
        kept = loop_state if self.has_state else 0
        self.start = (0, ended, first, state, arrays, kept)

    def build_step(self, time: Tensor, ended: Tensor, x: Any, state: Any, arrays: list[Any], kept: Any) -> Any:
        """Build one step of the loop."""
        output, after = self.cell(x, state)
        made = self.loop_fn(time + 1, output, after, kept if self.has_state else None)
        fresh, x, after, emit, new = _require_five_values(made)
        emit = output if emit is None else emit
        pairs = zip(nest.flatten(self.empty), nest.flatten_as(self.empty, emit), strict=True)
        # The first call may not have known the dtype of the emission.
        empty = [cast(z, getattr(y, "dtype", z.dtype)) for z, y in pairs]
        # `ended` is of the preceding step: a row emits in the step in which it ends, and zeros afterwards.
        emitted = _select_rows(ended, nest.pack_as(self.empty, empty), emit)
        arrays = [a.write(time, e) for a, e in zip(arrays, emitted, strict=True)]
        state = nest.pack_as(state, _select_rows(ended, state, after))
        # Ended rows stay ended, whatever loop_fn returns; None keeps the loop state.
        return time + 1, logical_or(ended, fresh), x, state, arrays, kept if new is None else new


def _require_five_values(result: Any) -> Any:
    """Return the result of `loop_fn`; raise GraphError unless five values."""
    if not isinstance(result, (tuple, list)) or len(result) != 5:
        raise GraphError(
            "loop_fn returns five values",
            wanted=_PARTS,
            got=result,
            hint="emit_output and loop_state may be None",
        )
    return result


def _emitted_zeros(cell: Any, emit: Any, dtype: DType, rows: Any) -> Any:
    """Return zeros like the emission of a step for all rows, of `dtype` where the cell's output is emitted."""
    if emit is None:
        return map_sizes(lambda size: zeros([rows, *size], dtype), cell.output_size)
    return nest.map_structure(lambda e: _rows_like(convert_to_tensor(e), rows), emit)


def _rows_like(e: Tensor, rows: Any) -> Tensor:
    dims = [shape(e)[i] if d is None else d for i, d in enumerate(e.shape)]
    return zeros([rows, *dims], e.dtype)


def _select_rows(ended: Tensor, old: Any, new: Any) -> list[Any]:
    """Return leaves with old values in ended rows and new values elsewhere; arrays and scalars are new."""
    pairs = zip(nest.flatten(old), nest.flatten_as(old, new), strict=True)
    return [y if hasattr(y, "with_flow") else rows_chosen(ended, x, convert_to_tensor(y)) for x, y in pairs]
