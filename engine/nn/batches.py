"""Batches of sequences for recurrent loops: time first, with masks for ended rows."""

from __future__ import annotations

from typing import Any

from ..base import nest
from ..base.dtypes import DType, bool_, int32
from ..base.errors import GraphError, ShapeError
from ..base.settings import WINDOW
from ..base.shapes import Shape
from ..frontend.control.loops import while_loop
from ..frontend.state.tensor_array import TensorArray
from ..ir.apply import convert_to_tensor
from ..ir.tensor import Tensor
from ..ops.array.concat import concat
from ..ops.array.layout import reverse, transpose
from ..ops.array.padding import pad
from ..ops.array.sequences import reverse_sequence
from ..ops.array.shapes import expand_dims, reshape, shape
from ..ops.array.where import where
from ..ops.math.arithmetic import minimum
from ..ops.math.casting import cast
from ..ops.math.reductions import reduce_max
from ..ops.support.common import one_for_each
from .cells import map_sizes
from .row_blocks import RowBlocks, choose_block_count

LoopOptions = dict[str, Any]


def loop_options(parallel_iterations: int | str | None, swap_memory: bool) -> LoopOptions:
    """Return the keyword arguments of a loop."""
    window = WINDOW if parallel_iterations is None else parallel_iterations
    return {"parallel_iterations": window, "swap_memory": swap_memory}


class Batch:
    """Sequences to run a cell over, time first, with their lengths and initial state."""

    def __init__(
        self, cell: Any, inputs: Any, sequence_length: Any, initial_state: Any, dtype: Any, time_major: bool
    ) -> None:
        self.cell: Any = cell
        self.time_major: bool = time_major
        given = convert_inputs(inputs)
        leaves = nest.flatten(given)
        for leaf in leaves:
            _require_sequences(leaf, time_major)
        self.lengths: Tensor | None = None if sequence_length is None else cast(sequence_length, int32)
        self.size: int | None = _static_batch(leaves, self.lengths, time_major)
        if self.lengths is not None:
            self.lengths = one_for_each(self.lengths, leaves[0], int(time_major))
        self.inputs: Any = given if time_major else nest.map_structure(swap_time_and_batch, given)
        first = nest.flatten(self.inputs)[0]
        self.steps: Any = first.shape[0] if first.shape[0] is not None else shape(first)[0]
        rows = self.size if self.size is not None else shape(first)[1]
        if initial_state is None:
            initial_state = cell.zero_state(rows, dtype or first.dtype)
        self.state: Any = nest.map_structure(tensor_or_array, initial_state)
        self.output_dtype: DType = state_dtype(
            self.state, first
        )  # if the outputs are literals; otherwise the outputs' own
        self.output_sizes = _list_sizes(cell.output_size)

    def count_blocks(self, asked: int | None) -> int:
        """Return the number of blocks of rows; raise GraphError if `asked` is impossible."""
        # Blocks are slices of static size; cells that mix rows need all rows at once.
        possible = self.lengths is not None and self.size is not None and getattr(self.cell, "by_rows", False)
        if asked is None:
            return choose_block_count(self.size) if possible else 1
        if asked != 1 and not (possible and 1 < asked <= (self.size or 0)):
            raise GraphError(
                "rows cannot be run in so many blocks",
                wanted="1; or with sequence_length, a cell that is by_rows and a batch that is known, at most its rows",
                got=asked,
                hint="leave blocks out",
            )
        return asked

    def run(self, options: LoopOptions) -> tuple[Any, Any]:
        """Run all rows to the end of the longest; return the outputs of all steps, time first, and the state."""
        if self.lengths is None:
            return self._run_loop(self.inputs, self.state, None, self.steps, options)
        # The 1 is for batches without rows, whose maximum would be undefined.
        steps = minimum(self.steps, reduce_max(concat([self.lengths, [1]], 0)))
        outputs, state = self._run_loop(self.inputs, self.state, self.lengths, steps, options)
        return nest.map_structure(self._pad_to_all_steps, outputs), state

    def run_in_blocks(self, count: int, options: LoopOptions) -> tuple[Any, Any]:
        """Run the rows sorted by length, without one more block of ended rows in each loop."""
        rows = RowBlocks(self.lengths, self.size or 0, count, self.steps)
        parts = [rows.split_by_loop(rows.sort_rows(x, 1)) for x in nest.flatten(self.inputs)]
        state: Any = nest.map_structure(lambda x: rows.sort_rows(x, 0), self.state)
        made: list[list[Tensor]] = []
        ended: list[list[Tensor]] = []
        for k in range(count):
            inputs = nest.pack_as(self.inputs, [part[k] for part in parts])
            outputs, state = self._run_loop(inputs, state, rows.lengths_left(k), rows.durations[k], options)
            made.append(nest.flatten(outputs))
            left = rows.rows_kept(k)
            # Rows that end with this loop have their last state.
            ended.append([x[left:] for x in nest.flatten(state)])
            state = nest.pack_as(state, [x[:left] for x in nest.flatten(state)])
        joined = [rows.unsort_rows(rows.join_parts(list(each)), 1) for each in zip(*made, strict=True)]
        # The shortest rows end first, so the parts are in reverse order.
        last = [rows.unsort_rows(concat(list(each[::-1]), 0), 0) for each in zip(*ended, strict=True)]
        return self._pack_outputs(joined), nest.pack_as(self.state, last)

    def _run_loop(self, inputs: Any, state: Any, lengths: Any, steps: Any, options: LoopOptions) -> tuple[Any, Any]:
        """Run rows for `steps` steps; return the stacked outputs, time first, and the state."""
        arrays_of = nest.flatten(inputs)
        arrays = [TensorArray(x.dtype, shape(x)[0]).unstack(x) for x in arrays_of]
        rows = self._static_batch_size(state) if lengths is None else lengths.shape
        # The first output decides the dtype of its array; `output_dtype` is a guess from the state.
        made = [
            TensorArray(self.output_dtype, steps, element_shape=[*rows, *s]).of_first_written()
            for s in self.output_sizes
        ]
        masks = Masks(lengths)

        def run_step(t: Any, written: Any, state: Any) -> tuple[Any, Any, Any]:
            output, after = self.cell(nest.pack_as(inputs, [a.read(t) for a in arrays]), state)
            fresh = [masks.select_running(t, x, 0) for x in nest.flatten(output)]
            after = nest.pack_as(
                state, masks.select_running_rows(t, nest.flatten_as(state, after), nest.flatten(state))
            )
            return t + 1, [a.write(t, x) for a, x in zip(written, fresh, strict=True)], after

        _, made, state = while_loop(lambda t, *_: t < steps, run_step, (0, made, state), name="time", **options)
        # Without any step nothing is written, so the shape of the zeros is passed to `stack_or`.
        batch = shape(arrays_of[0])[1:2]
        stacked = [a.stack_or(concat([batch, size], 0)) for a, size in zip(made, self.output_sizes, strict=True)]
        return self._pack_outputs(stacked), state

    def _static_batch_size(self, state: Any) -> Shape:
        """Return the static batch size of the state, or of the inputs if the state has none."""
        found = [leaf.shape[:1] for leaf in nest.flatten(state) if getattr(leaf, "rank", 0)]
        return found[0] if found else Shape([self.size])

    def _pack_outputs(self, leaves: list[Any]) -> Any:
        return nest.pack_as(map_sizes(lambda size: 0, self.cell.output_size), leaves)

    def _pad_to_all_steps(self, output: Tensor) -> Tensor:
        # The loop stops after the longest row; outputs of later steps are zeros, as of ended rows.
        missing = self.steps - shape(output)[0]
        result: Tensor = pad(output, [[0, missing], *[[0, 0]] * ((output.rank or 1) - 1)])
        result.set_shape([None, *output.shape[1:]])
        return result

    def as_given(self, output: Tensor) -> Tensor:
        """Return outputs with the dimensions in the order of the inputs."""
        steps = self.steps if isinstance(self.steps, int) else None
        output.set_shape([steps, self.size, *output.shape[2:]])
        return output if self.time_major else swap_time_and_batch(output)


class Masks:
    """Masks of the rows that have not ended before a step."""

    def __init__(self, lengths: Tensor | None) -> None:
        self.lengths = lengths
        # Computed once, outside of the loop; matrices are the common case.
        self.column: Tensor | None = None if lengths is None else expand_dims(lengths, 1)

    def select_running_rows(self, t: Tensor, fresh: list[Any], old: list[Any]) -> list[Any]:
        """Return new values in running rows, old values in ended rows."""
        return [self.select_running(t, x, before) for x, before in zip(fresh, old, strict=True)]

    def select_running(self, t: Tensor, fresh: Any, old: Any) -> Any:
        """Return the new value in running rows, the old value in ended rows; arrays and scalars unchanged."""
        if self.lengths is None or hasattr(fresh, "with_flow"):
            return fresh
        x = convert_to_tensor(fresh)
        if x.rank == 0:
            return x
        # The value of ended rows, 0, in the dtype of an output that is not numeric.
        if isinstance(old, int) and not x.dtype.is_numeric:
            old = False if x.dtype is bool_ else ""
        # NaN of rows that have ended must not remain, so `where` and not a product.
        result = where(t < (self.column if x.rank == 2 else along_rows(self.lengths, x)), x, old)
        result.set_shape(getattr(old, "shape", x.shape))
        return result


def along_rows(vector: Tensor, x: Tensor) -> Tensor:
    """Return a vector with one element per row, reshaped to broadcast to `x`; the rank must be known."""
    if x.rank is None:
        raise ShapeError(
            "a cell or decoder returns a tensor of unknown rank, whose rows cannot be found",
            wanted="outputs and state of shape [batch, ...]",
            got=x.shape,
            operation=x.op,
            hint="call set_shape on what it returns",
        )
    return vector if x.rank == 1 else reshape(vector, [-1, *[1] * (x.rank - 1)])


def rows_chosen(condition: Tensor, x: Any, y: Tensor) -> Tensor:
    """Return rows of `x` where a vector is true, of `y` elsewhere; a scalar `y` unchanged."""
    if y.rank == 0:
        return y
    result = where(along_rows(condition, y), x, y)
    result.set_shape(getattr(x, "shape", y.shape))
    return result


def convert_inputs(inputs: Any) -> Any:
    """Return inputs as a structure of tensors; nested lists of plain numbers are one tensor."""
    if all(isinstance(leaf, (bool, int, float, complex)) for leaf in nest.flatten(inputs)):
        return convert_to_tensor(inputs)
    return nest.map_structure(convert_to_tensor, inputs)


def _list_sizes(structure: Any) -> list[list[int]]:
    """Return the sizes in a structure, each as a list of dimensions."""
    found: list[list[int]] = []
    map_sizes(found.append, structure)
    return found


def swap_time_and_batch(x: Tensor) -> Tensor:
    """Return `x` with its first two dimensions exchanged."""
    return transpose(x, [1, 0, *range(2, x.shape.rank or 2)])


def reversed_in_time(inputs: Any, lengths: Any, time_major: bool) -> Any:
    """Return sequences reversed in time, each within its length; later elements stay in place."""
    given = convert_inputs(inputs)
    axis = 0 if time_major else 1
    if lengths is None:
        return nest.map_structure(lambda x: reverse(x, [axis]), given)
    return nest.map_structure(lambda x: reverse_sequence(x, cast(lengths, int32), axis, 1 - axis), given)


def _require_sequences(x: Tensor, time_major: bool) -> None:
    """Raise ShapeError unless a tensor has dimensions for batch and time."""
    if x.rank is None or x.rank < 2:
        raise ShapeError(
            "a recurrent network goes through sequences of a batch",
            wanted="[time, batch, ...]" if time_major else "[batch, time, ...]",
            got=x.shape,
            operation=x.op,
            hint="use expand_dims for one sequence; set_shape where the rank is not known",
        )


def _static_batch(leaves: list[Tensor], lengths: Tensor | None, time_major: bool) -> int | None:
    """Return the common static batch size, None if unknown; raise ShapeError if sizes differ."""
    known = Shape([None])
    for leaf in [*leaves, *([] if lengths is None else [lengths])]:
        if leaf is lengths and leaf.rank != 1:
            raise ShapeError(
                "sequence_length has one number for each row of the batch",
                wanted="[batch]",
                got=leaf.shape,
                operation=leaf.op,
                hint="reshape it to a vector",
            )
        size = leaf.shape[0 if leaf is lengths else int(time_major)]
        if not known.is_compatible_with(Shape([size])):
            raise ShapeError(
                "inputs and sequence_length have batches of different sizes",
                wanted=known[0],
                got=size,
                operation=leaf.op,
                hint="give one length for each row; time_major says which dimension is the batch",
            )
        known = known.merge(Shape([size]))
    size = known[0]
    return None if size is None else int(size)


def tensor_or_array(value: Any) -> Any:
    """Return a leaf of a state: a TensorArray unchanged, anything else as a tensor."""
    return value if hasattr(value, "with_flow") else convert_to_tensor(value)


def array_like(z: Tensor) -> TensorArray:
    """Return an array for elements like `z`, with the shape of `z` at run time even if nothing is written."""
    # Unstacking zero rows of `z` records the run-time element shape where the static shape is partial.
    array = TensorArray(z.dtype, 0, True, element_shape=z.shape)
    return array if z.shape.is_fully_known else array.unstack(expand_dims(z, 0)[:0])


def state_dtype(state: Any, inputs: Tensor) -> DType:
    """Return the dtype of outputs: of the state's first floating or complex tensor, else of its first tensor."""
    tensors = [leaf for leaf in nest.flatten(state) if not hasattr(leaf, "with_flow")]
    found = [leaf.dtype for leaf in tensors if leaf.dtype.is_floating or leaf.dtype.is_complex]
    dtypes: list[DType] = found or [leaf.dtype for leaf in tensors] or [inputs.dtype]
    return dtypes[0]
