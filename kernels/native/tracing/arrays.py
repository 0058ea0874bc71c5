"""Arrays with which a Python kernel runs once, to find the inner loops and copies that it is made of.

A kernel is a function of arrays. Called with `Traced` arrays, which stand for memory whose elements change from
iteration to iteration, it computes nothing: each universal function that it calls, and each copy that it makes, becomes
a step of the run, and what it only looks at in another way (a transposed array, a slice) needs no step. So a kernel
written with NumPy's functions runs natively, in the order and with the bits of its definition. Truth values that it
asks for are assumed (`trace_kernel`). A kernel that asks for another value of such an array, or calls a function that
is not known here, raises `Untraceable`, and is called instead.

See docs/design/0057-no-cliffs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .interface import Array, Operand, Tape, Untraceable

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

_HANDLERS: dict[Any, Handler] = {}  # of NumPy's functions
_MOST_PLACES = 1 << 16  # elements of an array of which some are moved, each with its place

# Ufuncs that raise an error, or warn, for some integers.
_RAISING = frozenset({np.power, np.floor_divide, np.remainder, np.fmod, np.divmod})

# Attributes and methods of arrays, by what becomes of them.
_FACTS = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes"})
_VIEWS = frozenset({"T", "mT", "real", "imag"})
_VIEW_METHODS = frozenset({"transpose", "swapaxes", "squeeze", "diagonal", "view"})
_FLATTENING = frozenset({"ravel", "flatten"})
# Reductions whose C kernels have the bits of NumPy's.
REDUCTIONS = frozenset({"sum", "prod", "mean", "max", "min", "any", "all"})
_CONJUGATING = frozenset({"conj", "conjugate"})


def handles(*functions: Any) -> Callable[[H], H]:
    """Return a decorator that registers the handler of NumPy's functions for traced arrays."""

    def register(handler: H) -> H:
        _HANDLERS.update(dict.fromkeys(functions, handler))
        return handler

    return register


def dispatch(function: Any) -> Any:
    """Return a NumPy function that looks for traced arrays in all arguments; NumPy itself looks at some only."""
    handler = _HANDLERS.get(function)
    if handler is None:
        return function

    def call(*arguments: Any, **options: Any) -> Any:
        is_traced = any(isinstance(x, Traced) for x in (*arguments, *options.values()))
        return (handler if is_traced else function)(*arguments, **options)

    return call


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
            return self.as_view(getattr(self.own_memory(), name))
        if name in _VIEW_METHODS:
            return lambda *arguments, **options: self.as_view(getattr(self.own_memory(), name)(*arguments, **options))
        if name in _FLATTENING:
            return lambda order="C": self.reshape(-1, order=order)
        if name in REDUCTIONS:
            return partial(getattr(np, name), self)
        if name in _CONJUGATING:
            return lambda: np.conjugate(self)
        raise Untraceable

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        if self.size != 1 or self.dtype.kind != "b":
            raise Untraceable
        return self.tape.answers.answer(self.tape, self.array)

    # ---- what it may not

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise Untraceable

    __int__ = __float__ = __complex__ = __index__ = __iter__ = __array__

    # ---- views and copies

    def own_memory(self) -> Array:
        """Return the array itself, to write to it or to make views, which may be written to."""
        return self.array

    def as_view(self, array: Array) -> Traced:
        """Return a view of this memory as an array of its own."""
        if not np.may_share_memory(array, self.array) and array.size:
            raise Untraceable
        return Traced(self.tape, array)

    def in_order(self) -> Traced:
        """Return this array if its elements lie in order, or a copy of which that is true."""
        return self if self.array.flags.c_contiguous else self.copy()

    def item(self) -> Traced:
        """Return the only element, in the dtype of a Python number."""
        if self.size != 1:
            raise Untraceable
        return self.reshape(()).astype(np.result_type(self.dtype, np.float64 if self.dtype.kind == "f" else np.int64))

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
        is_truncated = self.dtype.char in "fd" and dtype.char in "il"
        if not is_truncated and not np.can_cast(self.dtype, dtype, "same_kind"):
            raise Untraceable
        made = np.zeros(self.shape, dtype)
        if dtype.kind in "iu" and self.dtype.kind in "iu" and dtype.itemsize == self.itemsize:
            self.tape.copy_elements(self.array.view(dtype), made)
        elif dtype.kind == "c" and self.dtype.kind != "c":
            self.tape.copy_elements(self.astype(made.real.dtype, copy=False).array, made.real)
        else:
            self.tape.cast_elements(self.array, made)
        return Traced(self.tape, made)

    def reshape(self, *shape: Any, order: str = "C") -> Traced:
        if order != "C":
            raise Untraceable
        in_order = self.in_order()
        return in_order.as_view(in_order.own_memory().reshape(*shape))

    def __getitem__(self, key: Operand) -> Any:
        if _is_basic(key):
            return self.as_view(self.own_memory()[_with_rest(key)])
        if _has_traced(key):
            return self.take_by(key)
        return self.gather_moved(lambda array: array[key])

    def __setitem__(self, key: Operand, value: Operand) -> None:
        if not _is_basic(key):
            self._put_rows(key, value)
            return
        target = self.own_memory()[_with_rest(key)]
        source = value if isinstance(value, Traced) else np.asarray(value)
        if isinstance(source, Traced):
            if source.dtype != self.dtype:
                source = source.astype(self.dtype)
            self.tape.copy_elements(np.broadcast_to(source.array, target.shape), target)
        else:
            self.tape.copy_elements(np.broadcast_to(source.astype(self.dtype), target.shape), target)

    def _numbers_of(self, key: Operand) -> list[Array]:
        """Return the numbers of rows that an index of arrays asks for: for each of the first dimensions one array."""
        arrays = [part if isinstance(part, Traced) else np.asarray(part) for part in _without_rest(key)]
        if not arrays or len(arrays) > self.ndim or any(x.dtype.kind not in "iu" for x in arrays):
            raise Untraceable
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        spread = [np.broadcast_to(as_dtype(x, np.dtype(np.int64)), shape) for x in arrays]
        return [Traced(self.tape, x).in_order().array for x in spread]

    def take_by(self, key: Operand) -> Traced:
        """Append a copy of the rows that an index of arrays asks for."""
        numbers = self._numbers_of(key)
        made = np.empty(numbers[0].shape + self.shape[len(numbers) :], self.dtype)
        self.tape.take_rows(self.in_order().array, numbers, made)
        return Traced(self.tape, made)

    def _put_rows(self, key: Operand, value: Operand, ufunc: np.ufunc | None = None) -> None:
        """Append writes to rows, each of which is joined with what is there by a ufunc, if one is given."""
        numbers = self._numbers_of(key)
        table = self.own_memory()
        if not table.flags.c_contiguous:
            raise Untraceable
        shape = numbers[0].shape + self.shape[len(numbers) :]
        source = np.broadcast_to(as_dtype(value, self.dtype), shape)
        self.tape.put_rows(table, numbers, Traced(self.tape, source).in_order().array, ufunc)

    def join_rows(self, ufunc: np.ufunc, key: Operand, value: Operand) -> None:
        """Append the steps of ``ufunc.at``."""
        if ufunc in _RAISING and self.dtype.kind != "f":
            raise Untraceable
        self._put_rows(key, value, ufunc)

    def check_below(self, limit: int) -> None:
        """Append a check that these integers are in [0, limit)."""
        self.tape.check_rows(Traced(self.tape, as_dtype(self, np.dtype(np.int64))).in_order().array, limit)

    def gather_moved(self, move: Callable[[Array], Array]) -> Traced:
        """Append a gather of the elements that a function moves, or drops: their places are found by moving places."""
        if self.size > _MOST_PLACES:
            raise Untraceable
        places = move(np.arange(1, self.size + 1).reshape(self.shape))
        made = np.empty(places.shape, self.dtype)
        self.tape.gather_elements(self.in_order().array, np.ascontiguousarray(places), made)
        return Traced(self.tape, made)

    # ---- functions

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "at" and isinstance(inputs[0], Traced) and len(inputs) == 3:
            inputs[0].join_rows(ufunc, inputs[1], inputs[2])
            return None
        handler = _HANDLERS.get(ufunc)
        if handler is not None and method == "__call__":
            return handler(*inputs, **options)
        out = options.pop("out", None)
        if method != "__call__" or options or ufunc.signature is not None:
            raise Untraceable
        _refuse_raising(ufunc, inputs)
        dtypes = ufunc.resolve_dtypes((*map(dtype_or_kind, inputs), *(None,) * ufunc.nout))
        operands = [as_dtype(x, dtype) for x, dtype in zip(inputs, dtypes)]
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        made = [np.empty(shape, dtype) for dtype in dtypes[ufunc.nin :]]
        self.tape.apply_ufunc(ufunc, [np.broadcast_to(x, shape) for x in operands], made)
        results = _write_results([Traced(self.tape, array) for array in made], out)
        return results[0] if ufunc.nout == 1 else tuple(results)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        handler = _HANDLERS.get(function)
        if handler is None:
            raise Untraceable
        return handler(*arguments, **options)


class Filled(Traced):
    """A new array that the kernel may still write to; until then it is a constant."""

    is_written = False

    def own_memory(self) -> Array:
        """Fill memory anew in each iteration, since the kernel may write to some of it; return the array."""
        if not self.is_written:
            self.is_written, constant = True, self.array
            self.array = np.empty_like(constant)
            self.tape.copy_elements(constant, self.array)
        return self.array


def _refuse_raising(ufunc: np.ufunc, inputs: Sequence[Any]) -> None:
    """Refuse ufuncs of integers that raise an error, or warn, for some of them: quotients by others than constants."""
    if ufunc not in _RAISING or dtype_or_kind(inputs[0]) in (float, complex):
        return
    if all(isinstance(x, (Traced, np.ndarray)) and x.dtype.kind in "fc" for x in inputs[:1]):
        return
    if ufunc is np.power or isinstance(inputs[1], Traced) or not np.all(np.asarray(inputs[1]) > 0):
        raise Untraceable


def _write_results(results: list[Traced], out: Any) -> list[Traced]:
    """Append copies of results to the arrays of ``out``, if it was given; return the arrays of the results."""
    for place, result in zip(out or (), results, strict=out is not None):
        if not isinstance(place, Traced):
            raise Untraceable
        place[...] = result
    return results if out is None else list(out)


def _is_basic(key: Operand) -> bool:
    """Return True for an index that makes a view."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(
        part is None or part is ... or (isinstance(part, (slice, int, np.integer)) and not isinstance(part, bool))
        for part in parts
    )


def _has_traced(key: Operand) -> bool:
    """Return True for an index with an array that changes."""
    return any(isinstance(part, Traced) for part in (key if isinstance(key, tuple) else (key,)))


def _with_rest(key: Operand) -> Any:
    """Return a basic index with an ellipsis, so that a single element is an array too."""
    parts = key if isinstance(key, tuple) else (key,)
    return parts if any(part is ... for part in parts) else (*parts, ...)


def _without_rest(key: Operand) -> list[Any]:
    """Return the parts of an index without those at its end that take whole dimensions."""
    parts = list(key) if isinstance(key, tuple) else [key]
    while parts and (parts[-1] is ... or (isinstance(parts[-1], slice) and parts[-1] == slice(None))):
        parts.pop()
    return parts


def dtype_or_kind(x: Operand) -> Any:
    """Return the dtype of an operand; the type of a Python number, whose dtype follows from the others."""
    if isinstance(x, Traced):
        return x.dtype
    return type(x) if type(x) in (int, float, complex) else np.asarray(x).dtype


def as_dtype(x: Operand, dtype: np.dtype[Any]) -> Array:
    """Return the elements of a traced array, or of values, in a dtype."""
    if isinstance(x, Traced):
        return x.array if x.dtype == dtype else x.astype(dtype).array
    return np.asarray(x, dtype)


def tape_of(*values: Any) -> Tape:
    """Return the tape of the first traced array among values."""
    return next(x.tape for x in values if isinstance(x, Traced))


def as_traced(tape: Tape, x: Operand) -> Traced:
    """Return a traced array for a traced or another one."""
    return x if isinstance(x, Traced) else Traced(tape, np.asarray(x))
