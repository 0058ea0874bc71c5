"""Moves of array elements, and operations on shapes, in kernels of native programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..program import Computation, Instruction
from .emitting import emits
from .values import NotWritten, Shape, Strided, Value, broadcast, row_strides

if TYPE_CHECKING:
    from .writer import Writer


def _sizes(array: np.ndarray[Any, Any]) -> Shape:
    return tuple(map(int, array.reshape(-1)))


@emits("Shape", "Size", "Rank")
def _about_shape(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Compute the result while the kernel is written."""
    (value,) = values
    found = {"Shape": value.shape, "Size": value.size, "Rank": len(value.shape)}[computation.type]
    w.values[each.outputs[0]] = w.constant(np.asarray(found, w.dtype_of(each.outputs[0])))


@emits("Reshape", shapes=(1,))
def _reshape(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    sizes = _sizes(w.known(each.inputs[1]))
    # NumPy resolves -1 and checks the sizes
    shape = np.broadcast_to(np.int8(0), values[0].shape).reshape(sizes).shape
    w.alias(each.outputs[0], values[0], shape)


@emits("ExpandDims", "Squeeze")
def _dimensions_of_one(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    axis = computation.attrs["axis"]
    like = np.broadcast_to(np.int8(0), values[0].shape)
    made = np.expand_dims(like, axis) if computation.type == "ExpandDims" else np.squeeze(like, axis)
    w.alias(each.outputs[0], values[0], made.shape)


@emits("Transpose")
def _transpose(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    (x,) = values
    perm = computation.attrs["perm"]
    axes = tuple(reversed(range(len(x.shape)))) if perm is None else tuple(perm)
    strides = row_strides(x.shape)
    w.copy(each.outputs[0], x, Strided(tuple(x.shape[a] for a in axes), tuple(strides[a] for a in axes)))


@emits("BroadcastTo", shapes=(1,))
def _broadcast_to(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    shape = _sizes(w.known(each.inputs[1]))
    w.copy(each.outputs[0], values[0], broadcast(values[0], shape))


@emits("Fill", shapes=(0,))
def _fill(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    shape = _sizes(w.known(each.inputs[0]))
    w.copy(each.outputs[0], values[1], Strided(shape, (0,) * len(shape)))


@emits("Unreduce", shapes=(1,))
def _unreduce(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Repeat the elements of a reduction's result along the reduced axes."""
    shape, y = _sizes(w.known(each.inputs[1])), values[0]
    axis = computation.attrs["axis"]
    gone = {a % len(shape) for a in range(len(shape))} if axis is None else {a % len(shape) for a in axis}
    kept = Value(y.dtype, tuple(1 if a in gone else d for a, d in enumerate(shape)), y.code, y.memory)
    if kept.size != y.size:
        raise NotWritten(f"{computation.name} repeats what has another shape")
    w.copy(each.outputs[0], y, broadcast(kept, shape))


@emits("Concat")
def _concat(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Copy each value to its part of the result."""
    axis = computation.attrs["axis"] % len(values[0].shape)
    before, after = values[0].shape[:axis], values[0].shape[axis + 1 :]
    if any((v.shape[:axis], v.shape[axis + 1 :]) != (before, after) for v in values):
        raise NotWritten(f"{computation.name} joins what does not go together")
    made = w.make(each.outputs[0], (*before, sum(v.shape[axis] for v in values), *after))
    strides, start = row_strides(made.shape), 0
    # element i of a value is another element of the result, of another thread
    w.uses(made, each_own=False, written=True)
    for value in values:
        w.uses(value)
        place = Strided(value.shape, strides, str(start * strides[axis])).index("i")
        w.each(value.size, [f"{made.code}[{place}] = {value.at('i')};"])
        start += value.shape[axis]


@emits("Split")
def _split_evenly(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    total, count = values[0].shape[computation.attrs["axis"]], computation.attrs["num"]
    _cut(w, computation, values[0], [total // count] * count, each)


@emits("SplitV", shapes=(1,))
def _split(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    total, sizes = values[0].shape[computation.attrs["axis"]], _sizes(w.known(each.inputs[1]))
    rest = total - sum(size for size in sizes if size >= 0)
    _cut(w, computation, values[0], [rest if size < 0 else size for size in sizes], each)


def _cut(w: Writer, computation: Computation, x: Value, sizes: Sequence[int], each: Instruction) -> None:
    """Copy parts of some sizes along an axis."""
    axis = computation.attrs["axis"] % len(x.shape)
    if sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise NotWritten(f"{computation.name} cuts {x.shape[axis]} into {list(sizes)}")
    strides, start = row_strides(x.shape), 0
    for register, size in zip(each.outputs, sizes, strict=True):
        part = Strided((*x.shape[:axis], size, *x.shape[axis + 1 :]), strides, str(start * strides[axis]))
        w.copy(register, x, part)
        start += size


@emits("StridedSlice")
def _strided_slice(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Copy a part; indices may be computed, bounds of slices are known."""
    x, bounds = values[0], iter(values[1:])
    strides = iter(zip(x.shape, row_strides(x.shape), strict=True))
    shape, steps, offset = [], [], []
    for part in _spread(computation.attrs["spec"], len(x.shape)):
        if part is None:
            shape.append(1)
            steps.append(0)
            continue
        size, stride = next(strides)
        if isinstance(part, slice):
            found = (_bound(bound, bounds) for bound in (part.start, part.stop, part.step))
            start, stop, step = slice(*found).indices(size)
            shape.append(len(range(start, stop, step)))
            steps.append(step * stride)
            offset.append(str(start * stride))
        else:
            offset.append(_index(w, part, bounds, size, stride))
    terms = [term for term in offset if term != "0"]
    w.copy(each.outputs[0], x, Strided(tuple(shape), tuple(steps), " + ".join(terms) or "0"))


def _spread(spec: Sequence[Any], rank: int) -> Iterator[Any]:
    """Yield the treatment of each dimension, with the ellipsis expanded, and None for new dimensions."""
    parts = list(spec) if any(part is Ellipsis for part in spec) else [*spec, Ellipsis]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    for part in parts:
        yield from [slice(None)] * (rank - used) if part is Ellipsis else [part]


def _bound(bound: Any, bounds: Iterator[Value]) -> int | None:
    """Return a bound of a slice."""
    if bound is None or isinstance(bound, int):
        return bound
    known = next(bounds).known
    if known is None:
        raise NotWritten("the bounds of a slice change")
    return int(known)


def _index(w: Writer, part: Any, bounds: Iterator[Value], size: int, stride: int) -> str:
    """Return C of the offset of an index."""
    if isinstance(part, (int, np.integer)):
        if not -size <= part < size:
            raise NotWritten("an index is out of range")
        return str(int(part) % size * stride)
    index = f"(long long){next(bounds).code}"
    w.fail_if(f"{index} < -{size} || {index} >= {size}")
    return f"({index} < 0 ? {index} + {size} : {index}) * {stride}"


@emits("Gather")
def _gather(w: Writer, computation: Computation, values: Sequence[Value], each: Instruction) -> None:
    """Take parts along an axis; an index out of range is an error."""
    x, indices = values
    axis, batch = computation.attrs["axis"] % len(x.shape), computation.attrs["batch_dims"]
    if batch:
        raise NotWritten(f"{computation.name} gathers in batches")
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    made = w.make(each.outputs[0], (*before, *indices.shape, *after))
    inner, size = int(np.prod(after, dtype=int)), x.shape[axis]
    w.uses(x, each_own=False)
    w.uses(indices, each_own=False)
    w.uses(made, written=True)
    if made.is_element:
        w.fail_if(f"{indices.code} < 0 || {indices.code} >= {size}")
        w.line(f"{made.code} = {x.code}[{indices.code}];")
        return
    number = indices.at(f"i / {inner} % {indices.size}")
    row = f"(i / {inner * indices.size} * {size}LL + index) * {inner} + i % {inner}"
    # all threads must reach the next barrier: a bad index reads element 0, and the run gives up later
    check = f"if (index < 0 || index >= {size}) {{ {w.fail_later()}; index = 0; }}"
    lines = [f"long long index = {number};", check, f"{made.code}[i] = {x.code}[{row}];"]
    w.each(made.size, lines if size else [f"{w.fail_later()};"])
