"""Entry points for users: functions building in the graph of their arguments, and explaining misspelt arguments.

Every building function and method for users is marked by :func:`public`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from ..base import nest
from . import scopes
from .graph import Graph
from .misuse import BARE, misuse, usage_of
from .region import Region

F = TypeVar("F", bound=Callable[..., Any])

PUBLIC: dict[str, Callable[..., Any]] = {}  # the functions of `tagloom` itself, by their names
KEYWORDS = {  # what TensorFlow 1, PyTorch and NumPy call an argument, and what it is called here
    "dim": "axis",
    "dims": "axis",
    "dimension": "axis",
    "concat_dim": "axis",
    "split_dim": "axis",
    "squeeze_dims": "axis",
    "reduction_indices": "axis",
    "keep_dims": "keepdims",
    "keepdim": "keepdims",
    "fn1": "true_fn",
    "fn2": "false_fn",
    "feed_dict": "feeds",
}


def public(function: F) -> F:
    """Mark a building function or method for users (see `builds`); a function also becomes a name of `tagloom`."""
    called = builds(function)
    # The qualified name of a method differs from its name: only functions become names of the package.
    if function.__qualname__ == function.__name__:
        PUBLIC[function.__name__] = called
    return called


def builds(function: F) -> F:
    """Mark a building function for users, in any module.

    Without an open graph, the function builds in the graph of its arguments. An unknown or missing argument is a
    TypeError with a note on the function's usage. An argument of an unchecked kind is a GraphError: see `misuse`.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if scopes.is_open() or (graph := graph_of((args, kwargs))) is None:
                return function(*args, **kwargs)
            with scopes.within(region=graph.root):
                return function(*args, **kwargs)
        except BARE as error:
            _add_usage_note(function, error)
            told = misuse(function, error, args, kwargs)
            if told is None:
                raise
            raise told from error

    return cast(F, called)


def explained(function: F) -> F:
    """Mark a method for running steps: TypeErrors carry a note on the method's usage, as for `public`."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            try:
                running = function(*args, **kwargs)
                del args, kwargs  # the method itself decides how long its arguments live
                return await running
            except TypeError as error:
                _add_usage_note(function, error)
                raise

        return cast(F, awaited)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            _add_usage_note(function, error)
            raise

    return cast(F, called)


def graph_of(values: object) -> Graph | None:
    """Return the graph of the first tensor, variable, array or operation in a structure; None without any."""
    found = (getattr(leaf, "graph", None) for leaf in nest.flatten(values))
    return next((graph for graph in found if isinstance(graph, Graph)), None)


def region_for(values: object) -> Region:
    """Return the open region, else the root of the graph of `values`; GraphError without either."""
    graph = None if scopes.is_open() else graph_of(values)
    return scopes.current_region() if graph is None else graph.root


def opened_for(values: Iterable[Any]) -> Any:
    """Open the graph of `values`; GraphError if they belong to no graph."""
    return scopes.within(region=region_for(values))


def _add_usage_note(function: Callable[..., Any], error: Exception) -> None:
    """Add a note on a function's usage to a TypeError of the call itself: its traceback has no line of the function."""
    if not isinstance(error, TypeError) or error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    usage = usage_of(function)
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    names = [p.name for p in parameters]
    # Names of other libraries first: they are certain, similar spellings are guesses.
    near = [KEYWORDS.get(unknown[1], ""), *get_close_matches(unknown[1], names, 1)] if unknown else []
    meant = next((each for each in near if each in names), None)
    error.add_note(f"  try: {meant}=, as in {usage}" if meant else f"  try: {usage}")
