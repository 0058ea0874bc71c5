"""Parts of states, built when they are written, not when the state is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Deferred:
    """A part of a state, not built yet, of unchanging data, such as thousands of elements.

    Parameters
    ----------
    make : callable
        ``make()`` returns the part, a dict; any thread may call it, and more than once.
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self.make: Callable[[], dict[str, Any]] = make


def build_deferred(state: Any) -> Any:
    """Return a state with its deferred parts built.

    Examples
    --------
    >>> from tagloom.base.deferred import Deferred, build_deferred
    >>> build_deferred({"seed": 1, "buffer": Deferred(lambda: {"values": [2, 3]})})
    {'seed': 1, 'buffer': {'values': [2, 3]}}
    """
    if isinstance(state, Deferred):
        return state.make()
    if type(state) is dict:
        return {key: build_deferred(each) for key, each in state.items()}
    return type(state)(map(build_deferred, state)) if type(state) in (list, tuple) else state
