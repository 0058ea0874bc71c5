"""The trace of a Python kernel: its steps, and the arrays of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import fourier, functions, linalg, sorting  # noqa: F401  (they register handlers)
from .arrays import Filled, Traced, dispatch
from .draws import TracedPhilox
from .interface import Answers, Array, Asked, Tape, Untraceable

_HERE = str(Path(__file__).parent)
_ERRORS = (ValueError, LookupError, ArithmeticError)  # raised by kernels that refuse values
_MOST_TRIES = 24  # of answers to the questions of a kernel
_MAKERS = frozenset({"zeros", "empty", "ones"})


class TracedNumpy:
    """NumPy for a kernel that is traced: functions that make arrays, or turn something into one, know traced ones."""

    stands_for_numpy = True

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if name == "full":
            return self._fill_array
        if name == "random":
            return SimpleNamespace(Philox=partial(TracedPhilox, self._tape))
        if name in _MAKERS:
            return lambda *arguments, **options: Filled(self._tape, function(*arguments, **options))
        return _copy_to if name == "copyto" else dispatch(function)

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

    A kernel may ask for a truth value to check its inputs: if one answer always ends in an error, the other is assumed,
    and a step checks it in each iteration.

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
    found: tuple[bool, ...] | None = None
    waiting: list[tuple[bool, ...]] = [()]
    tries = 0
    while waiting:
        answers = waiting.pop()
        tries += 1
        try:
            results = _run_kernel(tape, bind, inputs, changing, answers)
        except Asked:
            waiting += [(*answers, True), (*answers, False)]
        except _ERRORS:
            continue
        else:
            if found is not None:  # it is no check for errors: either answer is usual
                raise Untraceable
            found = answers
        if tries > _MOST_TRIES:
            raise Untraceable
    if found is None:
        raise Untraceable
    return results if answers == found else _run_kernel(tape, bind, inputs, changing, found)


def _run_kernel(
    tape: Tape,
    bind: Callable[[Any], Callable[..., Any]],
    inputs: Sequence[Array],
    changing: Sequence[bool],
    answers: tuple[bool, ...],
) -> list[Array]:
    """Run a kernel from its beginning, with assumed truth values."""
    tape.restart()
    tape.answers = Answers(answers)
    given = [Traced(tape, x) if changes else x for x, changes in zip(inputs, changing, strict=True)]
    result = bind(TracedNumpy(tape) if any(changing) else np)(*given)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [_as_result(each, inputs) for each in results]


def describe_failure(error: Exception) -> str:
    """Return why a kernel was not traced: the line of the kernel that failed under tracing."""
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename.endswith(".py")]
    line = next((frame.line for frame in reversed(frames) if not frame.filename.startswith(_HERE)), None)
    cause = "" if isinstance(error, Untraceable) else f", which raises {type(error).__name__}"
    return f"no step does `{line}`{cause}" if line else "no step does its kernel as a whole"


def _as_result(result: Any, inputs: Sequence[Array]) -> Array:
    """Return the array of a result; a copy if it is a view, or an input."""
    if not isinstance(result, Traced):
        return np.array(result)
    is_own = result.array.base is None and result.array.flags.c_contiguous
    if is_own and not any(result.array is x for x in inputs):
        return result.array
    return result.copy().array
