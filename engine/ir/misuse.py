"""Errors for unchecked arguments: bare errors of Python become GraphErrors naming the function."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from ..base.errors import GraphError, TagloomError
from ..base.wording import shorten_line

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = __name__.partition(".")[0]
BARE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
_MOST = 60  # characters of a value that a message shows


def refuses_misuse(function: F) -> F:
    """Mark a function or constructor whose bare errors for wrong arguments become GraphErrors."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BARE as error:
            told = misuse(function, error, args, kwargs)
            if told is None:
                raise
            raise told from error

    return cast(F, called)


def misuse(
    function: Callable[..., Any], error: BaseException, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TagloomError | None:
    """Return the error to raise in place of a bare error; None if the latter is clear or comes from the user's code.

    Must be called directly by the function called by the user: of nested functions, the outermost explains.
    """
    name = function.__qualname__.removesuffix(".__init__")
    if isinstance(error, TagloomError) or name.rpartition(".")[2].startswith("__"):
        return None  # Python calls such methods itself, and expects its own errors
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:
        return None  # the call itself failed: Python's text names the wrong argument
    # Frame 2 called the public function: if it is the package's own, an outer public function will explain.
    if _package_of(sys._getframe(2)) == _PACKAGE or not _is_from_here(trace.tb_next):
        return None
    return GraphError(
        f"{name} cannot use what it was given: {type(error).__name__}: {error}",
        wanted=f"arguments as in {usage_of(function)}",
        got=", ".join(_describe_arguments(function, args, kwargs)) or "no arguments",
        hint=f"help({name}) describes each argument",
    )


def usage_of(function: Callable[..., Any]) -> str:
    """Return the usage of a function as text, from its signature."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    taken = str(inspect.Signature(list(map(_abbreviate_parameter, parameters)))).replace("Ellipsis", "...")
    return function.__qualname__.removesuffix(".__init__") + taken


def _abbreviate_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter without its annotation, its default abbreviated if long."""
    is_long = parameter.default is not parameter.empty and len(repr(parameter.default)) > 20
    return parameter.replace(annotation=parameter.empty, default=... if is_long else parameter.default)


def _describe_arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a call as text, by the names of their parameters."""
    try:
        given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except TypeError:
        given = {f"argument {i}": value for i, value in enumerate(args)} | dict(kwargs)
    return [f"{name}={_shorten_value(value)}" for name, value in given.items() if name not in ("self", "cls")]


def _shorten_value(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype} {value.shape}"
    text = " ".join(repr(value).split())
    return shorten_line(text) if len(text) <= _MOST else f"{text[:_MOST]}..."


def _package_of(frame: FrameType) -> str:
    """Return the name of the package whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_from_here(trace: TracebackType | None) -> bool:
    """Return True if no frame of the traceback runs user code, such as a callback."""
    while trace is not None:
        root = _package_of(trace.tb_frame)
        # Errors of NumPy and the standard library are the package's own: it called them with unchecked arguments.
        if root not in (_PACKAGE, "numpy") and root not in sys.stdlib_module_names:
            return False
        trace = trace.tb_next
    return True
