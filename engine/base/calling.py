"""Calls of a user's function while a graph is built, with errors for unsuitable functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import GraphError


def call(function: object, arguments: Sequence[Any], what: str, named: Mapping[str, Any] | None = None) -> Any:
    """Call a function of the user and return its result.

    Parameters
    ----------
    function : callable
        Functions with ``async def`` or yield are refused, and so are other objects.
    arguments : sequence
    what : str
        Description of the function, such as "the body of while_loop".
    named : mapping, optional
        Arguments by name.

    Raises
    ------
    GraphError
        If the object is no function, does not take these arguments, or returns an awaitable or a generator. Errors
        raised by the function itself propagate unchanged.
    """
    if not callable(function):
        raise GraphError(
            f"{what} is not a function",
            wanted=_describe_wanted_function(arguments),
            got=repr(function),
            hint=f"write {_lambda_prefix(arguments)}: it is called once, while the graph is built",
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise _not_plain(function, what)
    try:
        result = function(*arguments, **(named or {}))
    except TypeError as error:
        # A TypeError raised by the call itself has no frame below this one.
        if error.__traceback__ is None or error.__traceback__.tb_next or takes(function, arguments, named):
            raise
        raise GraphError(
            f"{what} does not take what it is given",
            wanted=_describe_wanted_function(arguments),
            got=f"{_name_of(function)}{inspect.signature(function, follow_wrapped=False)}",
            hint=f"give it as many parameters, as in {_lambda_prefix(arguments)}",
        ) from error
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if (close := getattr(result, "close", None)) is not None:
            close()  # prevents the warning that the coroutine was never awaited
        raise _not_plain(function, what)
    return result


def takes(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any] | None = None) -> bool:
    """True if a function takes the arguments, or if Python cannot tell."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments, **(named or {}))
    except TypeError:
        return False
    return True


def _not_plain(function: Callable[..., Any], what: str) -> GraphError:
    return GraphError(
        f"{what} is async, or a generator",
        wanted="a plain function that returns tensors; it is called once, while the graph is built",
        got=_name_of(function),
        hint="await what has to be awaited in a py_function, which steps call",
    )


def _describe_wanted_function(arguments: Sequence[Any]) -> str:
    count = len(arguments)
    return f"a function of {count or 'no'} argument{'' if count == 1 else 's'}"


def _lambda_prefix(arguments: Sequence[Any]) -> str:
    """Return the beginning of a function with such parameters: ``lambda a, b: ...``."""
    names = ", ".join("abcdefgh"[: len(arguments)]) if len(arguments) <= 8 else "*values"
    return f"lambda {names}: ..." if names else "lambda: ..."


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
