"""Sequences of different lengths in a tensor, and elements repeated or rolled along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.kernels import Elements, ReadsValues
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.arguments import axis_within, check_rank, index_tensor, static_int, static_ints
from ..support.common import shape_of, size_along
from ..support.interpreter import repeated_numbers
from ..support.late_axes import axis_to_end, late_axis, permute_dimensions
from ..support.literals import f64, i32, i64
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import one_by_one
from ..support.vectorizing.shapes import reverse_sequence_examples, roll_examples

_X = np.arange(12.0).reshape(2, 3, 2)


@public
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None) -> Tensor:
    """Mark the places before the end of each sequence: ``range(maxlen) < lengths[..., None]``.

    Parameters
    ----------
    lengths : int32 or int64 Tensor of any shape
    maxlen : int32 or int64 scalar, optional
        Number of places; the length of the longest sequence when None.
    dtype : dtype-like
        Bool, or any numeric dtype for 1 and 0.

    Returns
    -------
    Tensor
        Of shape ``lengths.shape + [maxlen]``.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.sequence_mask([1, 3, 0])).sync()
    array([[ True, False, False],
           [ True,  True,  True],
           [False, False, False]])
    """
    tensor = index_tensor(lengths)
    if maxlen is None:
        zero = constant(np.zeros(1, tensor.dtype.numpy))
        flat = apply("Reshape", tensor, constant(i32([-1])))
        # the zero is the maximum of no lengths
        longest = apply("Max", apply("Concat", [flat, zero], axis=0))
    else:
        longest = cast(index_tensor(maxlen), tensor.dtype)
    zero, one = (constant(np.asarray(v, tensor.dtype.numpy)) for v in (0, 1))
    places = apply("Range", zero, longest, one)
    mask: Tensor = apply("Less", places, apply("ExpandDims", tensor, axis=-1), name=name)
    return cast(mask, dtype)


def _two_axes(op: Operation) -> tuple[int, int] | None:
    """Return the axes of sequences and batch from 0 up, None for an unknown rank; ShapeError for equal axes."""
    rank = op.inputs[0].rank
    if rank is None:
        return None
    axis, batch = (axis_within(op.attrs[key], rank, key) for key in ("seq_axis", "batch_axis"))
    if axis == batch:
        raise ShapeError(
            "reverse_sequence turns sequences along one axis, which another axis counts",
            wanted="two axes",
            got=f"seq_axis={axis}, batch_axis={batch}",
            operation=op,
            hint="without a batch use reverse",
        )
    return axis, batch


def _reversed_shape(op: Operation) -> Shape:
    """Return the shape of the input; ShapeError unless there is a length for each sequence."""
    x, lengths = (t.shape for t in op.inputs)
    axes = _two_axes(op)
    if axes is not None and not lengths.is_compatible_with(Shape([x[axes[1]]])):
        raise ShapeError(
            "reverse_sequence takes a length for each sequence",
            wanted=Shape([x[axes[1]]]),
            got=lengths,
            operation=op,
            hint="batch_axis is the dimension that counts the sequences",
        )
    return x


def _reverse_sequences(xp: Any, x: Any, lengths: Any, seq_axis: int, batch_axis: int) -> Any:
    """Gather each sequence by reversed positions up to its length; ValueError for invalid lengths."""
    size, ends = x.shape[seq_axis], lengths[:, None]
    if lengths.shape != (x.shape[batch_axis],):
        raise ValueError(f"reverse_sequence: {x.shape[batch_axis]} lengths are needed, got {lengths.shape}")
    if lengths.size and not (int(lengths.min()) >= 0 and int(lengths.max()) <= size):
        raise ValueError(f"reverse_sequence: lengths have to be in [0, {size}], got {lengths.min()} to {lengths.max()}")
    places = xp.arange(size)
    # [batch, size]: mirrored before the end of each sequence, unchanged from there on
    sources = xp.where(places < ends, ends - 1 - places, places)
    # the axes of the batch and of the sequences come first, for the index arrays
    rows = xp.moveaxis(x, (batch_axis % x.ndim, seq_axis % x.ndim), (0, 1))
    turned = rows[xp.arange(lengths.size)[:, None], sources]
    return xp.ascontiguousarray(xp.moveaxis(turned, (0, 1), (batch_axis % x.ndim, seq_axis % x.ndim)))


define(
    "ReverseSequence",
    "input: T, seq_lengths: I -> output: T",
    where={"I": dtypes.INDEX},
    attrs={"seq_axis": REQUIRED, "batch_axis": 0},
    shape=_reversed_shape,
    rules=[Vectorize(reverse_sequence_examples), ReadsValues()],
    kernel=_reverse_sequences,
    gradient=lambda op, g: [
        # the reversal is a permutation that is its own inverse, so that it is its own adjoint as well
        apply("ReverseSequence", g, op.inputs[1], seq_axis=op.attrs["seq_axis"], batch_axis=op.attrs["batch_axis"]),
        None,
    ],
    samples=[
        Sample([_X, i32([2, 3])], f64([[[2, 3], [0, 1], [4, 5]], [[10, 11], [8, 9], [6, 7]]]), {"seq_axis": 1}),
        Sample([_X[0], i64([3, 0])], f64([[4, 1], [2, 3], [0, 5]]), {"seq_axis": 0, "batch_axis": -1}),
        Sample([np.zeros((0, 3)), i32([])], np.zeros((0, 3)), {"seq_axis": 1}),
    ],
)


@public
def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None
) -> Tensor:
    """Reverse each sequence of a batch up to its length; the elements after the length stay.

    Parameters
    ----------
    input : Tensor of any dtype, of rank at least 2
    seq_lengths : int32 or int64 Tensor of shape ``[input.shape[batch_axis]]``
        From 0 to ``input.shape[seq_axis]``.
    seq_axis : int
        Axis along the sequences.
    batch_axis : int, optional
        Axis across the sequences; 0 when None.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        If `seq_axis` is not given.
    ShapeError
        If the axes are the same, or there are not as many lengths as sequences.
    OpError
        When the step runs, if a length is out of range.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1)).sync()
    array([[2, 1, 3],
           [6, 5, 4]], dtype=int32)
    """
    axis, batch = static_int(seq_axis, "seq_axis"), 0 if batch_axis is None else static_int(batch_axis, "batch_axis")
    lengths = index_tensor(seq_lengths)
    return apply("ReverseSequence", input, lengths, name=name, seq_axis=axis, batch_axis=batch)


def _rolled_shape(op: Operation) -> Shape:
    """Return the shape of the input; ShapeError unless there is a shift for each axis."""
    x, axes = op.inputs[0].shape, op.attrs["axis"]
    if x.rank is not None:
        for axis in axes:
            axis_within(axis, x.rank)
    shifts = op.inputs[1].shape
    if not shifts.is_compatible_with(Shape([len(axes)])):
        raise ShapeError(
            "roll takes a shift for each axis",
            wanted=Shape([len(axes)]),
            got=shifts,
            operation=op,
            hint="give two lists of one length, or two numbers",
        )
    return x


def _compute_roll(xp: Any, x: Any, shift: Any, axis: Any) -> Any:
    if len(shift) != len(axis):
        raise ValueError(f"roll takes a shift for each axis: there are {len(axis)} axes and {len(shift)} shifts")
    return xp.roll(x, tuple(shift.tolist()), axis)


define(
    "Roll",
    "input: T, shift: host I -> output: T",
    where={"I": dtypes.INDEX},
    attrs={"axis": REQUIRED},
    shape=_rolled_shape,
    kernel=_compute_roll,
    rules=[Vectorize(roll_examples), LINEAR_IN_FIRST],
    gradient=lambda op, g: [apply("Roll", g, -op.inputs[1], axis=op.attrs["axis"]), None],
    samples=[
        Sample([_X[0], i32([1])], f64([[4, 5], [0, 1], [2, 3]]), {"axis": (0,)}),
        Sample([_X[0], i64([-1, 1])], f64([[3, 2], [5, 4], [1, 0]]), {"axis": (0, -1)}),
        Sample([_X[0], i32([2, 2])], f64([[4, 5], [0, 1], [2, 3]])[[0, 1, 2]], {"axis": (0, 0)}),
        Sample([np.zeros((0, 2)), i32([1])], np.zeros((0, 2)), {"axis": (0,)}),
    ],
)


@public
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Roll elements along axes; elements pushed out at an end come in at the other end.

    Parameters
    ----------
    input : Tensor of any dtype, of rank at least 1
    shift : int32 or int64 scalar, or vector
        Number of places for each axis; negative shifts move towards the front.
    axis : int or sequence of int, or int32 or int64 scalar
        A repeated axis is rolled by the sum of its shifts.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    ShapeError
        If there are not as many shifts as axes, or an axis does not exist.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.roll([0, 1, 2, 3, 4], shift=2, axis=0)).sync()
    array([3, 4, 0, 1, 2], dtype=int32)
    """
    shifts = index_tensor(shift)
    if shifts.rank == 0:
        shifts = apply("ExpandDims", shifts, axis=0)
    late = late_axis(axis)
    if late is not None:
        moved, back = axis_to_end(convert_to_tensor(input), late)
        return permute_dimensions(apply("Roll", moved, shifts, axis=(-1,)), back, name)
    return apply("Roll", input, shifts, name=name, axis=static_ints(axis))


def _repeated_shape(op: Operation) -> Shape:
    """Infer the sum of the counts; ShapeError for negative counts or a rank other than 1."""
    counts = static_value(op.inputs[0])
    if op.inputs[0].rank not in (1, None) or (counts is not None and (counts < 0).any()):
        raise ShapeError(
            "repeat takes how often each element is repeated",
            wanted="a number of 0 or more, or a vector of such",
            got=op.inputs[0].shape if counts is None else counts.tolist(),
            operation=op,
            hint="with a list give an element for each row of the axis",
        )
    return Shape([None if counts is None else int(counts.sum())])


def _repeat_row_numbers(xp: Any, repeats: Any) -> Any:
    check_rank(repeats, 1, 1, "repeat takes a number, or a vector of them")
    if repeats.size and int(repeats.min()) < 0:
        raise ValueError(f"repeat: an element cannot be repeated {int(repeats.min())} times")
    return xp.asarray(repeated_numbers(repeats))


define(
    "RepeatIndices",
    "repeats: host I -> indices: int64",
    where={"I": dtypes.INDEX},
    shape=_repeated_shape,
    rules=[
        Vectorize(one_by_one),
        Elements(lambda repeats: max(repeats.size, int(repeats[:1024].sum()))),
    ],  # an estimate, made on the event loop
    kernel=_repeat_row_numbers,
    gradient=NotDifferentiable("its results are positions"),
    samples=[Sample([i32([2, 0, 3])], i64([0, 0, 2, 2, 2])), Sample([i64([])], i64([]))],
)


@public
def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Repeat each element, or each row along an axis, next to itself; `tile` repeats the whole tensor.

    Parameters
    ----------
    input : Tensor of any dtype
    repeats : int32 or int64 scalar, or vector
        A count for all elements, or for each.
    axis : int, optional
        The tensor is flattened when None.

    Returns
    -------
    Tensor
        Same dtype; the axis has as many elements as `repeats` adds up to.

    Raises
    ------
    ShapeError
        If a count is known to be negative, or the axis does not exist.
    OpError
        When the step runs, if there is not a count for each element.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.repeat([7, 8, 9], [2, 0, 1])).sync()
    array([7, 7, 9], dtype=int32)
    >>> tg.function(lambda: tg.repeat([[1, 2], [3, 4]], 2, axis=1)).sync()
    array([[1, 1, 2, 2],
           [3, 3, 4, 4]], dtype=int32)
    """
    x, counts = convert_to_tensor(input), index_tensor(repeats)
    if axis is None:
        x, axis = apply("Reshape", x, constant(i32([-1]))), 0
    elif x.rank == 0:
        x = apply("ExpandDims", x, axis=0)
    place = static_int(axis)
    place = place if x.rank is None else axis_within(place, x.rank)
    if counts.rank == 1 and counts.shape[0] == 1:  # a single count applies to all rows, as in NumPy
        known = static_value(counts)
        counts = apply("Squeeze", counts, axis=(0,)) if known is None else constant(known[0])
    if counts.rank == 0 and x.rank is not None:
        # equal counts need no indices: a broadcast and a reshape suffice
        return _repeated_alike(x, counts, place, name)
    places = apply("RepeatIndices", _for_each(counts, x, place))
    return apply("Gather", x, places, axis=place, batch_dims=0, name=name)


def _for_each(counts: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return a count for each row of an axis; where lengths are unknown, a step checks by broadcasting."""
    known = None if counts.rank != 1 or x.rank is None else counts.shape[0]
    if known is not None and known == x.shape[axis]:
        return counts
    # a vector of another length fails to broadcast; a single count is repeated for all rows
    size = apply("ExpandDims", size_along(x, axis), axis=0)
    return apply("BroadcastTo", counts, size)


def _repeated_alike(x: Tensor, count: Tensor, axis: int, name: str | None) -> Tensor:
    """Repeat all rows of an axis equally often: broadcast along a new axis after `axis`, and merge both axes."""
    known, sizes = static_value(count), shape_of(x)
    if known is not None and int(known) < 0:
        raise ShapeError(
            "repeat takes how often each element is repeated",
            wanted="0 or more",
            got=int(known),
            hint="0 leaves all out",
        )
    times = apply("ExpandDims", cast(count, dtypes.int32), axis=0)
    wide = apply("Concat", [sizes[: axis + 1], times, sizes[axis + 1 :]], axis=0)
    merged = apply("Concat", [sizes[:axis], sizes[axis : axis + 1] * times, sizes[axis + 1 :]], axis=0)
    many = apply("BroadcastTo", apply("ExpandDims", x, axis=axis + 1), wide)
    result: Tensor = apply("Reshape", many, merged, name=name)
    length = None if known is None or x.shape[axis] is None else int(known) * x.shape[axis]
    # computed sizes hide the static shape from Reshape
    result.set_shape(Shape([length if i == axis else d for i, d in enumerate(x.shape)]))
    return result
