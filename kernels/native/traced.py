"""Arrays with which a Python kernel runs once, to find the inner loops and copies that it is made of.

A kernel is a function of arrays. Called with `Traced` arrays, which stand for memory whose elements change from
iteration to iteration, it computes nothing: each universal function that it calls, and each copy that it makes, becomes
a step of the run, and what it only looks at in another way (a transposed array, a slice) needs no step. So a kernel
written with NumPy's functions runs natively, in the order and with the bits of its definition. A kernel that asks for a
value of such an array, or calls a function that is not known here, raises `Untraceable`, and is called instead.

See docs/design/0057-no-cliffs.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Array = np.ndarray[Any, Any]


_CLIP = import_module("numpy._core.umath").clip  # the ufunc that numpy.clip calls
_LINALG = import_module("numpy.linalg._umath_linalg")
_MOST_SIDE = 128  # rows of a matrix: functions of larger ones take long, beside which others should run
_MOST_PLACES = 1 << 16  # elements of an array of which some are moved, each with its place


# Attributes and methods of arrays, and functions that make arrays, by what becomes of them.
_FACTS = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes"})
_VIEWS = frozenset({"T", "mT", "real", "imag"})
_VIEW_METHODS = frozenset({"transpose", "swapaxes", "squeeze", "diagonal", "view"})
_FLATTENING = frozenset({"ravel", "flatten"})
# Reductions whose C kernels have the bits of NumPy's.
_REDUCTIONS = frozenset({"sum", "prod", "mean", "max", "min", "any", "all"})
_CONJUGATING = frozenset({"conj", "conjugate"})
_MAKERS = frozenset({"zeros", "empty", "ones"})


class Untraceable(Exception):
    """A kernel does something that no step does."""


class Tape(Protocol):
    """The steps of a run, to which those of a kernel are appended; arrays are over memory of the run."""

    def apply_ufunc(self, ufunc: np.ufunc, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Append the inner loop of a ufunc for the dtypes of the arrays, all of which have the shape of the outputs."""
        ...

    def choose_elements(self, condition: Array, x: Array, y: Array, output: Array) -> None:
        """Append an elementwise choice."""
        ...

    def cast_elements(self, source: Array, target: Array) -> None:
        """Append a copy of elements to another dtype."""
        ...

    def copy_elements(self, source: Array, target: Array) -> None:
        """Append a copy of elements of one dtype and shape."""
        ...

    def gather_elements(self, source: Array, places: Array, target: Array) -> None:
        """Append a copy of the elements at places of an array in order, counted from 1; 0 stands for zero."""
        ...

    def take_rows(self, table: Array, numbers: list[Array], target: Array) -> None:
        """Append a copy of rows of an array, by numbers that change; the program gives up where one is out of range."""
        ...

    def put_rows(self, table: Array, numbers: list[Array], source: Array, ufunc: np.ufunc | None = None) -> None:
        """Append a copy to rows of an array, or a ufunc that joins rows with them, one after the other."""
        ...

    def check_rows(self, numbers: Array, count: int) -> None:
        """Append a check that numbers are in [0, count); the program gives up where one is not."""
        ...

    def apply_gufunc(
        self, ufunc: np.ufunc, ranks: list[int], sizes: list[int], arrays: list[Array], checks: bool
    ) -> None:
        """Append a generalised ufunc of inputs and outputs.

        Parameters
        ----------
        ufunc : numpy.ufunc
        ranks : list of int
            For each array, how many of its last axes belong to the function.
        sizes : list of int
            Sizes of the function's axes, in the order of its signature.
        arrays : list of numpy.ndarray
            All with the same other axes.
        checks : bool
            True if the program gives up where the function reports an error.
        """
        ...

    def accumulate(self, ufunc: np.ufunc, source: Array, target: Array) -> None:
        """Append a running sum, or product, along the last axis."""
        ...

    def operate(self, type: str, attrs: dict[str, Any], inputs: list[Array], dtype: np.dtype[Any]) -> Array:
        """Append the work of the C kernel of an operation with one output; return the output."""
        ...


class Traced(NDArrayOperatorsMixin):
    """An array that changes, over memory of a run."""

    def __init__(self, tape: Tape, array: Array) -> None:
        self.tape = tape
        self.array = array

    def __getattr__(self, name: str) -> Any:
        """Return what depends on shape and dtype alone, a view, or a method that returns a view; refuse the rest."""
        if name in _FACTS:
            return getattr(self.array, name)
        if name in _VIEWS:
            return self._as_view(getattr(self.array, name))
        if name in _VIEW_METHODS:
            return lambda *arguments, **options: self._as_view(getattr(self.array, name)(*arguments, **options))
        if name in _FLATTENING:
            return lambda order="C": self.reshape(-1, order=order)
        if name in _REDUCTIONS:
            return partial(getattr(np, name), self)
        if name in _CONJUGATING:
            return lambda: np.conjugate(self)
        raise Untraceable

    def __len__(self) -> int:
        return len(self.array)

    # ---- what it may not

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise Untraceable

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __iter__ = __array__

    # ---- views and copies

    def _as_view(self, array: Array) -> Traced:
        """Return a view of this memory as an array of its own."""
        if not np.may_share_memory(array, self.array) and array.size:
            raise Untraceable
        return Traced(self.tape, array)

    def in_order(self) -> Traced:
        """Return this array if its elements lie in order, or a copy of which that is true."""
        return self if self.array.flags.c_contiguous else self.copy()

    def copy(self, order: str = "C") -> Traced:
        made = np.empty(self.shape, self.dtype)
        self.tape.copy_elements(self.array, made)
        return Traced(self.tape, made)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Traced:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self.copy() if copy else self
        if not np.can_cast(self.dtype, dtype, "same_kind"):
            raise Untraceable
        made = np.zeros(self.shape, dtype)
        if dtype.kind == "c" and self.dtype.kind != "c":
            self.tape.copy_elements(self.astype(made.real.dtype, copy=False).array, made.real)
        else:
            self.tape.cast_elements(self.array, made)
        return Traced(self.tape, made)

    def reshape(self, *shape: Any, order: str = "C") -> Traced:
        if order != "C":
            raise Untraceable
        in_order = self.in_order()
        return in_order._as_view(in_order.array.reshape(*shape))

    def __getitem__(self, key: Any) -> Any:
        if _is_basic(key):
            return self._as_view(self.array[_with_rest(key)])
        if _has_traced(key):
            return self._take_rows(key)
        return _gather_moved(lambda array: array[key], (self,), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        if not _is_basic(key):
            self._put_rows(key, value)
            return
        target = self.array[_with_rest(key)]
        source = value if isinstance(value, Traced) else np.asarray(value)
        if isinstance(source, Traced):
            if source.dtype != self.dtype:
                source = source.astype(self.dtype)
            self.tape.copy_elements(np.broadcast_to(source.array, target.shape), target)
        else:
            self.tape.copy_elements(np.broadcast_to(source.astype(self.dtype), target.shape), target)

    def _numbers_of(self, key: Any) -> list[Array]:
        """Return the numbers of rows that an index of arrays asks for: for each of the first dimensions one array."""
        parts = list(key) if isinstance(key, tuple) else [key]
        while parts and (parts[-1] is ... or (isinstance(parts[-1], slice) and parts[-1] == slice(None))):
            parts.pop()
        arrays = [part if isinstance(part, Traced) else np.asarray(part) for part in parts]
        if not arrays or len(arrays) > self.ndim or any(x.dtype.kind not in "iu" for x in arrays):
            raise Untraceable
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        spread = [np.broadcast_to(_as_dtype(x, np.dtype(np.int64)), shape) for x in arrays]
        return [Traced(self.tape, x).in_order().array for x in spread]

    def _take_rows(self, key: Any) -> Traced:
        numbers = self._numbers_of(key)
        made = np.empty(numbers[0].shape + self.shape[len(numbers) :], self.dtype)
        self.tape.take_rows(self.in_order().array, numbers, made)
        return Traced(self.tape, made)

    def _put_rows(self, key: Any, value: Any, ufunc: np.ufunc | None = None) -> None:
        """Append writes to rows, each of which is joined with what is there by a ufunc, if one is given."""
        numbers = self._numbers_of(key)
        if not self.array.flags.c_contiguous:
            raise Untraceable
        shape = numbers[0].shape + self.shape[len(numbers) :]
        source = np.broadcast_to(_as_dtype(value, self.dtype), shape)
        self.tape.put_rows(self.array, numbers, Traced(self.tape, source).in_order().array, ufunc)

    def join_rows(self, ufunc: np.ufunc, key: Any, value: Any) -> None:
        """Append what ``ufunc.at`` does."""
        self._put_rows(key, value, ufunc)

    def check_below(self, limit: int) -> None:
        """Append a check that these integers are in [0, limit)."""
        self.tape.check_rows(Traced(self.tape, _as_dtype(self, np.dtype(np.int64))).in_order().array, limit)

    # ---- functions

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "at" and isinstance(inputs[0], Traced) and len(inputs) == 3:
            inputs[0].join_rows(ufunc, inputs[1], inputs[2])
            return None
        out = options.pop("out", None)
        if method != "__call__" or options or ufunc.signature is not None:
            raise Untraceable
        dtypes = ufunc.resolve_dtypes((*map(_dtype_or_kind, inputs), *(None,) * ufunc.nout))
        operands = [_as_dtype(x, dtype) for x, dtype in zip(inputs, dtypes)]
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        made = [np.empty(shape, dtype) for dtype in dtypes[ufunc.nin :]]
        self.tape.apply_ufunc(ufunc, [np.broadcast_to(x, shape) for x in operands], made)
        results: list[Any] = [Traced(self.tape, array) for array in made]
        if out is not None:
            for place, result in zip(out, results, strict=True):
                if not isinstance(place, Traced):
                    raise Untraceable
                place[...] = result
            results = list(out)
        return results[0] if ufunc.nout == 1 else tuple(results)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        handler = _HANDLERS.get(function)
        if handler is None:
            raise Untraceable
        return handler(*arguments, **options)


class Filled(Traced):
    """A new array that the kernel may still write to; until then it is a constant."""

    is_written = False

    def _fill_anew(self) -> None:
        """Fill memory anew in each iteration, since the kernel writes to some of it."""
        if not self.is_written:
            self.is_written, constant = True, self.array
            self.array = np.empty_like(constant)
            self.tape.copy_elements(constant, self.array)

    def __getattr__(self, name: str) -> Any:
        if name in _VIEWS or name in _VIEW_METHODS:
            self._fill_anew()  # what is written to a view is written here
        return super().__getattr__(name)

    def __getitem__(self, key: Any) -> Any:
        self._fill_anew()
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._fill_anew()
        super().__setitem__(key, value)

    def reshape(self, *shape: Any, order: str = "C") -> Traced:
        self._fill_anew()
        return super().reshape(*shape, order=order)

    def join_rows(self, ufunc: np.ufunc, key: Any, value: Any) -> None:
        self._fill_anew()
        super().join_rows(ufunc, key, value)


class TracedNumpy:
    """NumPy for a kernel that is traced: functions that make arrays, or turn something into one, know traced ones."""

    stands_for_numpy = True

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if name == "full":
            return self._fill_array
        if name in _MAKERS:
            return lambda *arguments, **options: Filled(self._tape, function(*arguments, **options))
        return _copy_to if name == "copyto" else function

    def _fill_array(self, shape: Any, value: Any, dtype: Any = None) -> Traced:
        """Return a new array of one value, which may change."""
        if not isinstance(value, Traced):
            return Filled(self._tape, np.full(shape, value, dtype))
        made = Traced(self._tape, np.empty(shape, value.dtype if dtype is None else dtype))
        made[...] = value
        return made

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        if not isinstance(x, Traced):
            return np.asarray(x, dtype)
        return x if dtype is None else x.astype(dtype, copy=False)

    def ascontiguousarray(self, x: Any) -> Any:
        return x.in_order() if isinstance(x, Traced) else np.ascontiguousarray(x)


def _copy_to(target: Any, source: Any, where: Any = True) -> None:
    """Copy to an array, or to the elements of it for which a condition is true, in place of ``numpy.copyto``."""
    if isinstance(target, Traced):
        target[...] = source if where is True else np.where(where, source, target)
    elif isinstance(where, Traced):
        raise Untraceable
    else:
        np.copyto(target, source, where=where)


def trace_kernel(
    tape: Tape, bind: Callable[[Any], Callable[..., Any]], inputs: Sequence[Array], changing: Sequence[bool]
) -> list[Array]:
    """Append the steps of a kernel to a tape; return the arrays of the results, in order and with memory of their own.

    Parameters
    ----------
    tape : Tape
    bind : callable
        ``bind(xp)`` returns the kernel, a function of arrays, which computes with the functions of an array library.
    inputs : sequence of numpy.ndarray
    changing : sequence of bool
        For each input, True if its elements change from iteration to iteration.

    Raises
    ------
    Untraceable
        If the kernel does something that no step does; the tape may have some steps of it then.
    """
    given = [Traced(tape, x) if changes else x for x, changes in zip(inputs, changing, strict=True)]
    result = bind(TracedNumpy(tape))(*given)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [_as_result(each, inputs) for each in results]


def _as_result(result: Any, inputs: Sequence[Array]) -> Array:
    """Return the array of a result; a copy if it is a view, or an input."""
    if not isinstance(result, Traced):
        return np.array(result)
    is_own = result.array.base is None and result.array.flags.c_contiguous
    if is_own and not any(result.array is x for x in inputs):
        return result.array
    return result.copy().array


def _is_basic(key: Any) -> bool:
    """Return True for an index that makes a view."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(
        part is None or part is ... or (isinstance(part, (slice, int, np.integer)) and not isinstance(part, bool))
        for part in parts
    )


def _has_traced(key: Any) -> bool:
    """Return True for an index with an array that changes."""
    return any(isinstance(part, Traced) for part in (key if isinstance(key, tuple) else (key,)))


def _with_rest(key: Any) -> Any:
    """Return a basic index with an ellipsis, so that a single element is an array too."""
    parts = key if isinstance(key, tuple) else (key,)
    return parts if any(part is ... for part in parts) else (*parts, ...)


def _dtype_or_kind(x: Any) -> Any:
    """Return the dtype of an operand; the type of a Python number, whose dtype follows from the others."""
    if isinstance(x, Traced):
        return x.dtype
    return type(x) if type(x) in (int, float, complex) else np.asarray(x).dtype


def _as_dtype(x: Any, dtype: np.dtype[Any]) -> Array:
    if isinstance(x, Traced):
        return x.array if x.dtype == dtype else x.astype(dtype).array
    return np.asarray(x, dtype)


def _tape_of(*values: Any) -> Tape:
    """Return the tape of the first traced array among values."""
    return next(x.tape for x in values if isinstance(x, Traced))


def _choose_where(condition: Any, x: Any, y: Any) -> Any:
    """Append an elementwise choice, between arrays or numbers of any dtypes."""
    tape = _tape_of(condition, x, y)
    dtype = np.result_type(*(each.dtype if isinstance(each, Traced) else each for each in (x, y)))
    if _dtype_or_kind(condition) != np.dtype(bool):
        raise Untraceable
    operands = [_as_dtype(condition, np.dtype(bool)), _as_dtype(x, dtype), _as_dtype(y, dtype)]
    shape = np.broadcast_shapes(*(each.shape for each in operands))
    made = np.empty(shape, dtype)
    chosen, first, second = (np.broadcast_to(each, shape) for each in operands)
    tape.choose_elements(chosen, first, second, made)
    return Traced(tape, made)


def _join_arrays(arrays: Any, axis: int | None = 0, **options: Any) -> Any:
    """Append copies of arrays to parts of a new one."""
    if options or axis is None:
        raise Untraceable
    tape = _tape_of(*arrays)
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


def _stack_arrays(arrays: Any, axis: int = 0, **options: Any) -> Any:
    arrays = [x if isinstance(x, Traced) else np.asarray(x) for x in arrays]
    axis = range(arrays[0].ndim + 1)[axis]
    return _join_arrays([x[(*(slice(None),) * axis, None)] for x in arrays], axis, **options)


def _clip_values(x: Any, low: Any = None, high: Any = None, **options: Any) -> Any:
    if options or low is None or high is None:
        raise Untraceable
    return _CLIP(x, low, high)


def _of_shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function that looks at shapes and dtypes alone."""

    def handler(x: Any, *arguments: Any, **options: Any) -> Any:
        return function(x.array if isinstance(x, Traced) else x, *arguments, **options)

    return handler


def _handle_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function that returns views of its first argument, or of a copy in order."""

    def handler(x: Traced, *arguments: Any, **options: Any) -> Any:
        found = function(x.array, *arguments, **options)
        if isinstance(found, (list, tuple)):
            return [x._as_view(each) for each in found]
        if found.size and not np.may_share_memory(found, x.array):
            if x.array.flags.c_contiguous:
                raise Untraceable
            return handler(x.copy(), *arguments, **options)
        return x._as_view(found)

    return handler


def _handle_moves(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the handler of a function whose result has elements of its first argument, or zeros."""
    return lambda *arguments, **options: _gather_moved(function, arguments, options)


def _gather_moved(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Append a gather of the elements that a function moves: their places are found by moving places."""
    x, *others = arguments
    if (
        not isinstance(x, Traced)
        or x.size > _MOST_PLACES
        or any(isinstance(each, Traced) for each in (*others, *options.values()))
    ):
        raise Untraceable
    places = function(np.arange(1, x.size + 1).reshape(x.shape), *others, **options)
    made = np.empty(places.shape, x.dtype)
    x.tape.gather_elements(x.in_order().array, np.ascontiguousarray(places), made)
    return Traced(x.tape, made)


def _take_elements(x: Any, indices: Any, axis: int | None = None, **options: Any) -> Any:
    """Append what ``numpy.take`` does along an axis."""
    if not isinstance(indices, Traced):
        return _gather_moved(np.take, (x, indices, axis), options)
    if options or axis is None:
        raise Untraceable
    x = x if isinstance(x, Traced) else Traced(indices.tape, np.asarray(x))
    axis = range(x.ndim)[axis]
    taken = np.moveaxis(x, axis, 0)[indices]
    count = indices.ndim
    return np.moveaxis(taken, list(range(count)), list(range(axis, axis + count)))


def _take_along(x: Any, indices: Any, axis: int = -1) -> Any:
    """Append what ``numpy.take_along_axis`` does."""
    tape = _tape_of(x, indices)
    x = x if isinstance(x, Traced) else Traced(tape, np.asarray(x))
    axis = range(x.ndim)[axis]
    others = np.ogrid[tuple(slice(n) for n in indices.shape)]
    return x._take_rows(tuple(indices if d == axis else others[d] for d in range(x.ndim)))


def _pad_array(x: Any, width: Any, mode: Any = "constant", **options: Any) -> Any:
    if not isinstance(mode, str) or mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise Untraceable
    if np.any(np.asarray(options.get("constant_values", 0)) != 0):
        raise Untraceable
    return _gather_moved(np.pad, (x, width, mode), options)


def _handle_reduction(name: str) -> Callable[..., Any]:
    """Return the handler of a reduction of an array to another of the same dtype."""

    def reduce_array(x: Traced, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        keepdims = options.pop("keepdims", False)
        is_sum = name in ("sum", "prod", "mean")
        if options or (dtype is not None and np.dtype(dtype) != x.dtype) or x.dtype.kind not in "fib" or not x.size:
            raise Untraceable
        if (is_sum and x.dtype.kind != "f" and x.dtype != np.int64) or (name in ("any", "all") and x.dtype.kind != "b"):
            raise Untraceable
        if name == "mean" and x.dtype.kind != "f":
            raise Untraceable
        axes = None if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (int(axis),)
        if name == "prod" and x.ndim > 1 and len(axes or ()) != 1:  # NumPy multiplies in another order
            raise Untraceable
        attrs = {"axis": axes, "keepdims": bool(keepdims)}
        return Traced(x.tape, x.tape.operate(name.capitalize(), attrs, [x.in_order().array], x.dtype))

    return reduce_array


def _handle_running(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the handler of a running sum or product along an axis."""

    def accumulate_array(x: Traced, axis: Any = None, dtype: Any = None) -> Any:
        is_wide = x.dtype.kind == "f" or dtype is not None or x.dtype == np.int64
        if axis is None or x.dtype.kind not in "fi" or not is_wide or np.dtype(dtype or x.dtype) != x.dtype:
            raise Untraceable
        made = np.empty(x.shape, x.dtype)
        if x.size:
            x.tape.accumulate(ufunc, np.moveaxis(x.array, axis, -1), np.moveaxis(made, axis, -1))
        return Traced(x.tape, made)

    return accumulate_array


def _call_linalg(
    name: str, operands: Sequence[Any], shapes: Sequence[tuple[int, ...]], checks: bool = True
) -> list[Traced]:
    """Append a function of NumPy's linear algebra on stacked matrices, computed in float64 as NumPy does.

    Parameters
    ----------
    name : str
        Name of the generalised ufunc.
    operands : sequence of Traced or numpy.ndarray
    shapes : sequence of tuple of int
        Shapes of the results.
    checks : bool
        True if an invalid operation is an error.
    """
    ufunc = getattr(_LINALG, name, None)
    dtype = operands[0].dtype
    is_small = all(max(x.shape[-2:], default=0) <= _MOST_SIDE for x in operands)
    if ufunc is None or dtype not in (np.float32, np.float64) or not is_small or not operands[0].size:
        raise Untraceable
    if any(x.dtype != dtype for x in operands):
        raise Untraceable
    tape = _tape_of(*operands)
    given, made = [_as_dtype(x, np.dtype(np.float64)) for x in operands], [np.empty(shape) for shape in shapes]
    axes = [names.split(",") if names else [] for names in re.findall(r"\(([^)]*)\)", ufunc.signature)]
    ranks = list(map(len, axes))
    sizes: dict[str, int] = {}
    for names, array in zip(axes, [*given, *made], strict=True):
        for axis, size in zip(names, array.shape[array.ndim - len(names) :], strict=True):
            if sizes.setdefault(axis, size) != size:
                raise Untraceable
    outer = np.broadcast_shapes(*(x.shape[: x.ndim - rank] for x, rank in zip(given, ranks)))
    spread = [np.broadcast_to(x, outer + x.shape[x.ndim - rank :]) for x, rank in zip(given, ranks)]
    tape.apply_gufunc(ufunc, ranks, list(sizes.values()), [*spread, *made], checks)
    return [Traced(tape, array).astype(dtype, copy=False) for array in made]


def _decompose_cholesky(a: Any, **options: Any) -> Any:
    if any(options.values()):
        raise Untraceable
    return _call_linalg("cholesky_lo", [a], [a.shape])[0]


def _solve_equations(a: Any, b: Any) -> Any:
    if b.ndim < 2:
        raise Untraceable
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _call_linalg("solve", [a, b], [outer + b.shape[-2:]])[0]


def _decompose_singular(x: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    (m, n), outer = x.shape[-2:], x.shape[:-2]
    values = (*outer, min(m, n))
    if hermitian:
        raise Untraceable
    if not compute_uv:
        return _call_linalg("svd", [x], [values])[0]
    columns, rows = (m, n) if full_matrices else (min(m, n), min(m, n))
    return _call_linalg("svd_f" if full_matrices else "svd_s", [x], [(*outer, m, columns), values, (*outer, rows, n)])


def _eigenvalues_of(x: Any, UPLO: str = "L", with_vectors: bool = False) -> Any:
    """Append the eigenvalues of symmetric matrices, by their lower triangles, or these and the eigenvectors."""
    if UPLO != "L":
        raise Untraceable
    if with_vectors:
        return _call_linalg("eigh_lo", [x], [x.shape[:-1], x.shape])
    return _call_linalg("eigvalsh_lo", [x], [x.shape[:-1]])[0]


def _is_complex(x: Any) -> bool:
    return bool(x.dtype.kind == "c")


_HANDLERS: dict[Any, Callable[..., Any]] = {
    np.where: _choose_where,
    np.concatenate: _join_arrays,
    np.stack: _stack_arrays,
    np.clip: _clip_values,
    np.pad: _pad_array,
    **{getattr(np, name): _handle_reduction(name) for name in _REDUCTIONS},
    np.linalg.cholesky: _decompose_cholesky,
    np.linalg.inv: lambda a: _call_linalg("inv", [a], [a.shape])[0],
    np.linalg.det: lambda a: _call_linalg("det", [a], [a.shape[:-2]], checks=False)[0],
    np.linalg.slogdet: lambda a: _call_linalg("slogdet", [a], [a.shape[:-2]] * 2, checks=False),
    np.linalg.solve: _solve_equations,
    np.linalg.svd: _decompose_singular,
    np.linalg.eigh: partial(_eigenvalues_of, with_vectors=True),
    np.linalg.eigvalsh: _eigenvalues_of,
    np.angle: lambda z: np.arctan2(z.imag, z.real),
    np.take: _take_elements,
    np.take_along_axis: _take_along,
    np.cumsum: _handle_running(np.add),
    np.cumprod: _handle_running(np.multiply),
    np.copy: lambda x, **options: x.copy(),
    np.iscomplexobj: _is_complex,
    np.isrealobj: lambda x: not _is_complex(x),
    np.result_type: lambda *given: np.result_type(*(x.dtype if isinstance(x, Traced) else x for x in given)),
    **{
        function: _of_shape(function)
        for function in (np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like, np.full_like)
    },
    **{
        function: _handle_views(function)
        for function in (
            *(np.reshape, np.ravel, np.transpose, np.moveaxis, np.swapaxes, np.rollaxis, np.expand_dims, np.squeeze),
            *(np.broadcast_to, np.flip, np.flipud, np.fliplr, np.real, np.imag, np.diagonal, np.split, np.array_split),
            *(np.rot90, np.atleast_1d, np.atleast_2d),
        )
    },
    **{
        function: _handle_moves(function)
        for function in (np.roll, np.tile, np.repeat, np.tril, np.triu, np.diag, np.diagflat, np.delete)
    },
}
