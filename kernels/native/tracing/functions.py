"""NumPy's functions for arrays that are traced: elementwise choices, joins, moves of elements, reductions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .arrays import REDUCTIONS, Filled, Traced, as_dtype, as_traced, dtype_or_kind, handles, tape_of
from .interface import Operand, Untraceable

_WIDENING = ("sum", "prod")  # reductions that NumPy computes in int64 for narrower integers
_DOUBLE = np.dtype(np.float64)
_CLIP = import_module("numpy._core.umath").clip  # the ufunc that numpy.clip calls

# Functions that look at shapes and dtypes alone, and those of them that make arrays.
_OF_SHAPES: tuple[Any, ...] = (np.shape, np.ndim, np.size)
_MAKING: tuple[Any, ...] = (np.zeros_like, np.ones_like, np.empty_like, np.full_like)
# Functions that return views of their first argument, or of a copy in order.
_VIEWING: tuple[Any, ...] = (
    *(np.reshape, np.ravel, np.transpose, np.moveaxis, np.swapaxes, np.rollaxis, np.expand_dims, np.squeeze),
    *(np.broadcast_to, np.flip, np.flipud, np.fliplr, np.real, np.imag, np.diagonal, np.split, np.array_split),
    *(np.rot90, np.atleast_1d, np.atleast_2d),
)
# Functions whose result has elements of the first argument, or zeros.
_MOVING: tuple[Any, ...] = (np.roll, np.tile, np.repeat, np.tril, np.triu, np.diag, np.diagflat, np.delete)


@handles(np.where)
def _choose_where(condition: Operand, x: Operand, y: Operand) -> Any:
    """Append an elementwise choice, between arrays or numbers of any dtypes."""
    tape = tape_of(condition, x, y)
    dtype = np.result_type(*(each.dtype if isinstance(each, Traced) else each for each in (x, y)))
    if dtype_or_kind(condition) != np.dtype(bool):
        raise Untraceable
    operands = [as_dtype(condition, np.dtype(bool)), as_dtype(x, dtype), as_dtype(y, dtype)]
    shape = np.broadcast_shapes(*(each.shape for each in operands))
    made = np.empty(shape, dtype)
    chosen, first, second = (np.broadcast_to(each, shape) for each in operands)
    tape.choose_elements(chosen, first, second, made)
    return Traced(tape, made)


@handles(np.concatenate)
def _join_arrays(arrays: Operand, axis: int | None = 0, **options: Any) -> Any:
    """Append copies of arrays to parts of a new one."""
    if options or axis is None:
        raise Untraceable
    tape = tape_of(*arrays)
    arrays = [x if isinstance(x, Traced) else np.asarray(x) for x in arrays]
    dtype = np.result_type(*(x.dtype for x in arrays))
    shape = list(arrays[0].shape)
    axis = range(len(shape))[axis]
    shape[axis] = sum(x.shape[axis] for x in arrays)
    made = Traced(tape, np.empty(shape, dtype))
    start = 0
    for x in arrays:
        end = start + x.shape[axis]
        made[(*(slice(None),) * axis, slice(start, end))] = x
        start = end
    return made


@handles(np.stack)
def _stack_arrays(arrays: Operand, axis: int = 0, **options: Any) -> Any:
    arrays = [x if isinstance(x, Traced) else np.asarray(x) for x in arrays]
    axis = range(arrays[0].ndim + 1)[axis]
    return _join_arrays([x[(*(slice(None),) * axis, None)] for x in arrays], axis, **options)


@handles(np.clip)
def _clip_values(x: Operand, low: Operand = None, high: Operand = None, **options: Any) -> Any:
    if options or low is None or high is None:
        raise Untraceable
    return _CLIP(x, low, high)


@handles(np.linspace)
def _space_evenly(start: Operand, stop: Operand, num: int = 50, **options: Any) -> Any:
    """Append the steps of ``numpy.linspace`` between numbers of float64."""
    if options or np.ndim(start) or np.ndim(stop) or {dtype_or_kind(x) for x in (start, stop)} - {float, _DOUBLE}:
        raise Untraceable
    delta, counts = np.subtract(stop, start), np.arange(num, dtype=np.float64)
    if num < 2:
        return counts * delta + start
    step = delta / float(num - 1)
    y = np.where(step == 0, counts / (num - 1) * delta, counts * step) + start
    return np.concatenate([y[:-1], np.reshape(as_traced(tape_of(start, stop), stop), 1)])


@handles(np.angle)
def _take_angle(z: Operand) -> Any:
    return np.arctan2(z.imag, z.real)


@handles(np.copy)
def _copy_array(x: Traced, **options: Any) -> Traced:
    return x.copy()


# ---- shapes, views and moves


@handles(np.iscomplexobj)
def _is_complex(x: Operand) -> bool:
    return bool(x.dtype.kind == "c")


@handles(np.isrealobj)
def _is_real(x: Operand) -> bool:
    return not _is_complex(x)


@handles(np.result_type)
def _find_common_dtype(*given: Any) -> np.dtype[Any]:
    return np.result_type(*(x.dtype if isinstance(x, Traced) else x for x in given))


def _handle_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function that looks at shapes and dtypes alone."""

    def handler(x: Operand, *arguments: Any, **options: Any) -> Any:
        return function(x.array if isinstance(x, Traced) else x, *arguments, **options)

    return handler


def _handle_makers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function that makes an array like another one."""

    def handler(x: Traced, *arguments: Any, **options: Any) -> Any:
        return Filled(x.tape, function(x.array, *arguments, **options))

    return handler


def _handle_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function that returns views of its first argument, or of a copy in order."""

    def handler(x: Traced, *arguments: Any, **options: Any) -> Any:
        memory = x.own_memory()
        found = function(memory, *arguments, **options)
        if isinstance(found, (list, tuple)):
            return [x.as_view(each) for each in found]
        if found.size and not np.may_share_memory(found, memory):
            if memory.flags.c_contiguous:
                raise Untraceable
            return handler(x.copy(), *arguments, **options)
        return x.as_view(found)

    return handler


def _handle_moves(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function whose result has elements of its first argument, or zeros."""

    def handler(x: Operand, *arguments: Any, **options: Any) -> Any:
        if not isinstance(x, Traced) or any(isinstance(each, Traced) for each in (*arguments, *options.values())):
            raise Untraceable
        return x.gather_moved(lambda places: function(places, *arguments, **options))

    return handler


for _function in _OF_SHAPES:
    handles(_function)(_handle_shapes(_function))
for _function in _MAKING:
    handles(_function)(_handle_makers(_function))
for _function in _VIEWING:
    handles(_function)(_handle_views(_function))
for _function in _MOVING:
    handles(_function)(_handle_moves(_function))
_take_moved = _handle_moves(np.take)
_pad_moved = _handle_moves(np.pad)


@handles(np.pad)
def _pad_array(x: Operand, width: Any, mode: Any = "constant", **options: Any) -> Any:
    if not isinstance(mode, str) or mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise Untraceable
    if np.any(np.asarray(options.get("constant_values", 0)) != 0):
        raise Untraceable
    return _pad_moved(x, width, mode, **options)


@handles(np.take)
def _take_elements(x: Operand, indices: Operand, axis: int | None = None, **options: Any) -> Any:
    """Append the steps of ``numpy.take`` along an axis."""
    if not isinstance(indices, Traced):
        return _take_moved(x, indices, axis, **options)
    if options or axis is None:
        raise Untraceable
    x = as_traced(indices.tape, x)
    axis = range(x.ndim)[axis]
    taken = np.moveaxis(x, axis, 0)[indices]
    count = indices.ndim
    return np.moveaxis(taken, list(range(count)), list(range(axis, axis + count)))


@handles(np.take_along_axis)
def _take_along(x: Operand, indices: Operand, axis: int = -1) -> Any:
    """Append the steps of ``numpy.take_along_axis``."""
    x = as_traced(tape_of(x, indices), x)
    axis = range(x.ndim)[axis]
    others = np.ogrid[tuple(slice(n) for n in indices.shape)]
    return x.take_by(tuple(indices if d == axis else others[d] for d in range(x.ndim)))


# ---- reductions and scans


def _handle_reduction(name: str) -> Callable[..., Any]:
    """Return the handler of a reduction of an array to another of the same dtype."""

    def reduce_array(x: Traced, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        keepdims = options.pop("keepdims", False)
        if options or not x.size:
            raise Untraceable
        if name in _WIDENING:
            x = _widen(x, dtype)
        axes = None if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (int(axis),)
        if (dtype is not None and np.dtype(dtype) != x.dtype) or not _keeps_bits(name, x, axes):
            raise Untraceable
        attrs = {"axis": axes, "keepdims": bool(keepdims)}
        return Traced(x.tape, x.tape.operate(name.capitalize(), attrs, [x.in_order().array], x.dtype))

    return reduce_array


def _keeps_bits(name: str, x: Traced, axes: tuple[int, ...] | None) -> bool:
    """Return True if the C kernel of a reduction has the bits of NumPy's result of that dtype."""
    kind: str = x.dtype.kind
    if name in ("any", "all"):
        return kind == "b"
    if name == "mean":
        return kind == "f"
    if name == "prod" and kind == "f" and x.ndim > 1 and len(axes or ()) != 1:  # NumPy multiplies in another order
        return False
    return kind in "fi" if name in _WIDENING else kind in "fiu"


def _widen(x: Traced, dtype: Any) -> Traced:
    """Return bools and integers in the dtype in which NumPy adds or multiplies them, int64 unless `dtype` is given."""
    wide = np.dtype(np.int64 if dtype is None else dtype)
    return x.astype(wide, copy=False) if x.dtype.kind in "bi" and wide.kind == "i" else x


for _name in REDUCTIONS:
    handles(getattr(np, _name))(_handle_reduction(_name))


def _handle_running(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the handler of a running sum or product along an axis."""

    def accumulate_array(x: Traced, axis: Any = None, dtype: Any = None) -> Any:
        x = _widen(x, dtype)
        if axis is None or x.dtype.kind not in "fic" or np.dtype(dtype or x.dtype) != x.dtype:
            raise Untraceable
        made = np.empty(x.shape, x.dtype)
        if x.size:
            x.tape.accumulate(ufunc, np.moveaxis(x.array, axis, -1), np.moveaxis(made, axis, -1))
        return Traced(x.tape, made)

    return accumulate_array


handles(np.cumsum)(_handle_running(np.add))
handles(np.cumprod)(_handle_running(np.multiply))


@handles(np.argmax)
def _find_largest(x: Traced, axis: Any = None, **options: Any) -> Any:
    """Append a search for the place of the first of the largest elements along an axis."""
    if options or axis is None or not x.size:
        raise Untraceable
    attrs = {"axis": int(axis), "output_type": np.dtype(np.int64)}
    return Traced(x.tape, x.tape.operate("ArgMax", attrs, [x.in_order().array], np.dtype(np.int64)))
