"""Moves of array elements, and operations on shapes, in kernels of native programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..program import Computation, Instruction
from .emitting import emits_operations
from .values import NotWritten, Shape, Strided, Value, broadcast, row_strides

if TYPE_CHECKING:
    from .writer import Writer


def _shape_from(array: np.ndarray[Any, Any]) -> Shape:
    """Return the shape in an array of sizes."""
    return tuple(map(int, array.reshape(-1)))


@emits_operations("Shape", "Size", "Rank")
def _emit_shape(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Compute the result while the kernel is written."""
    (value,) = values
    result = {"Shape": value.shape, "Size": value.size, "Rank": len(value.shape)}[computation.type]
    w.values[each.outputs[0]] = w.add_constant(np.asarray(result, w.dtype_of(each.outputs[0])))


@emits_operations("Reshape", shapes=(1,))
def _emit_reshape(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    sizes = _shape_from(w.known_value(each.inputs[1]))
    # NumPy resolves -1 and checks the sizes, on a single element seen as an array of the shape
    shape = np.broadcast_to(np.int8(0), values[0].shape).reshape(sizes).shape
    w.alias(each.outputs[0], values[0], shape)


@emits_operations("ExpandDims", "Squeeze")
def _emit_dimensions_of_one(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    axis = computation.attrs["axis"]
    like = np.broadcast_to(np.int8(0), values[0].shape)
    reshaped = np.expand_dims(like, axis) if computation.type == "ExpandDims" else np.squeeze(like, axis)
    w.alias(each.outputs[0], values[0], reshaped.shape)


@emits_operations("Transpose")
def _emit_transpose(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    (x,) = values
    perm = computation.attrs["perm"]
    axes = tuple(reversed(range(len(x.shape)))) if perm is None else tuple(perm)
    strides = row_strides(x.shape)
    w.copy_elements(each.outputs[0], x, Strided(tuple(x.shape[a] for a in axes), tuple(strides[a] for a in axes)))


@emits_operations("BroadcastTo", shapes=(1,))
def _emit_broadcast_to(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    shape = _shape_from(w.known_value(each.inputs[1]))
    w.copy_elements(each.outputs[0], values[0], broadcast(values[0], shape))


@emits_operations("Fill", shapes=(0,))
def _emit_fill(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    shape = _shape_from(w.known_value(each.inputs[0]))
    w.copy_elements(each.outputs[0], values[1], Strided(shape, (0,) * len(shape)))


@emits_operations("Unreduce", shapes=(1,))
def _emit_unreduce(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Repeat the elements of a reduction's result along the reduced axes."""
    shape, y = _shape_from(w.known_value(each.inputs[1])), values[0]
    axis = computation.attrs["axis"]
    reduced = set(range(len(shape))) if axis is None else {a % len(shape) for a in axis}
    # the reduction may have dropped its axes: as with keepdims they have size 1
    unreduced = Value(y.dtype, tuple(1 if a in reduced else d for a, d in enumerate(shape)), y.code, y.memory)
    if unreduced.size != y.size:
        raise NotWritten(f"{computation.name} repeats what has another shape")
    w.copy_elements(each.outputs[0], y, broadcast(unreduced, shape))


@emits_operations("Concat")
def _emit_concat(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Copy each value to its part of the result."""
    axis = computation.attrs["axis"] % len(values[0].shape)
    before, after = values[0].shape[:axis], values[0].shape[axis + 1 :]
    if any((v.shape[:axis], v.shape[axis + 1 :]) != (before, after) for v in values):
        raise NotWritten(f"{computation.name} joins what does not go together")
    made = w.make(each.outputs[0], (*before, sum(v.shape[axis] for v in values), *after))
    strides, start = row_strides(made.shape), 0
    # element i of a value is another element of the result, perhaps computed by another thread
    w.note_access(made, each_own=False, written=True)
    for value in values:
        w.note_access(value)
        place = Strided(value.shape, strides, str(start * strides[axis])).index("i")
        w.add_loop(value.size, [f"{made.code}[{place}] = {value.at('i')};"])
        start += value.shape[axis]


@emits_operations("Split")
def _emit_split(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    total, count = values[0].shape[computation.attrs["axis"]], computation.attrs["num"]
    _copy_parts(w, computation, values[0], [total // count] * count, each)


@emits_operations("SplitV", shapes=(1,))
def _emit_split_by_sizes(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    total, sizes = values[0].shape[computation.attrs["axis"]], _shape_from(w.known_value(each.inputs[1]))
    rest = total - sum(size for size in sizes if size >= 0)
    _copy_parts(w, computation, values[0], [rest if size < 0 else size for size in sizes], each)


def _copy_parts(w: Writer, computation: Computation, x: Value, sizes: Sequence[int], each: Instruction) -> None:
    """Copy adjacent parts of `x` along the axis, of the given sizes, to the outputs."""
    axis = computation.attrs["axis"] % len(x.shape)
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise NotWritten(f"{computation.name} cuts {x.shape[axis]} into {list(sizes)}")
    strides, start = row_strides(x.shape), 0
    for register, size in zip(each.outputs, sizes, strict=True):
        part = Strided((*x.shape[:axis], size, *x.shape[axis + 1 :]), strides, str(start * strides[axis]))
        w.copy_elements(register, x, part)
        start += size


@emits_operations("StridedSlice")
def _emit_strided_slice(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Copy the elements of a basic index. Indices may be computed by the program, bounds of slices must be known.

    `spec` has an integer, slice, Ellipsis or None for each part of the index; parts and bounds that are inputs of the
    operation take the next of `values[1:]`, in order.
    """
    x, bounds = values[0], iter(values[1:])
    strides = iter(zip(x.shape, row_strides(x.shape), strict=True))
    shape, steps, offset = [], [], []
    for part in _expand_ellipsis(computation.attrs["spec"], len(x.shape)):
        if part is None:
            shape.append(1)
            steps.append(0)
            continue
        size, stride = next(strides)
        if isinstance(part, slice):
            known = (_known_bound(bound, bounds) for bound in (part.start, part.stop, part.step))
            start, stop, step = slice(*known).indices(size)
            shape.append(len(range(start, stop, step)))
            steps.append(step * stride)
            offset.append(str(start * stride))
        else:
            offset.append(_write_index_offset(w, part, bounds, size, stride))
    terms = [term for term in offset if term != "0"]
    w.copy_elements(each.outputs[0], x, Strided(tuple(shape), tuple(steps), " + ".join(terms) or "0"))


def _expand_ellipsis(spec: Sequence[Any], rank: int) -> Iterator[Any]:
    """Yield the integer or slice for each of `rank` dimensions, and None for each new dimension."""
    # without an ellipsis, all dimensions that are not named are taken whole at the end
    parts = list(spec) if any(part is Ellipsis for part in spec) else [*spec, Ellipsis]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    for part in parts:
        yield from [slice(None)] * (rank - used) if part is Ellipsis else [part]


def _known_bound(bound: object, bounds: Iterator[Value]) -> int | None:
    """Return a bound of a slice: itself, or the known value of the next input; NotWritten if that is unknown."""
    if bound is None or isinstance(bound, int):
        return bound
    known = next(bounds).known
    if known is None:
        raise NotWritten("the bounds of a slice change")
    return int(known)


def _write_index_offset(w: Writer, part: object, bounds: Iterator[Value], size: int, stride: int) -> str:
    """Return C of the offset, in elements, of an index along a dimension of a size and stride."""
    if isinstance(part, (int, np.integer)):
        if not -size <= part < size:
            raise NotWritten("an index is out of range")
        return str(int(part) % size * stride)
    index = f"(long long){next(bounds).code}"
    w.fail_if(f"{index} < -{size} || {index} >= {size}")
    return f"({index} < 0 ? {index} + {size} : {index}) * {stride}"


@emits_operations("Gather")
def _emit_gather(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Take parts along an axis; an index out of range is an error."""
    x, indices = values
    axis, batch = computation.attrs["axis"] % len(x.shape), computation.attrs["batch_dims"]
    if batch:
        raise NotWritten(f"{computation.name} gathers in batches")
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    made = w.make(each.outputs[0], (*before, *indices.shape, *after))
    inner, size = int(np.prod(after, dtype=int)), x.shape[axis]
    w.note_access(x, each_own=False)
    w.note_access(indices, each_own=False)
    w.note_access(made, written=True)
    if made.is_element:
        w.fail_if(f"{indices.code} < 0 || {indices.code} >= {size}")
        w.add_line(f"{made.code} = {x.code}[{indices.code}];")
        return
    # element i of the result, (outer, number of an index, inner), is element (outer, index, inner) of x
    number = indices.at(f"i / {inner} % {indices.size}")
    row = f"(i / {inner * indices.size} * {size}LL + index) * {inner} + i % {inner}"
    # all threads must reach the next barrier: a bad index reads element 0, and the run gives up later
    check = f"if (index < 0 || index >= {size}) {{ {w.fail_later()}; index = 0; }}"
    lines = [f"long long index = {number};", check, f"{made.code}[i] = {x.code}[{row}];"]
    w.add_loop(made.size, lines if size else [f"{w.fail_later()};"])
