"""Checks of users' times in seconds."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError


def check_seconds(seconds: Any, name: str = "timeout") -> None:
    """Raise GraphError unless a value is a number of seconds: 0, ``math.inf`` or anything between.

    Parameters
    ----------
    seconds : object
    name : str, optional
        Name of the argument, for the error.
    """
    # Strings and booleans would convert to float as well, but are mistakes.
    try:
        is_fine = not isinstance(seconds, (str, bytes, bool)) and float(seconds) >= 0.0
    except (TypeError, ValueError):
        is_fine = False
    if not is_fine:
        raise GraphError(
            f"{name} is no number of seconds",
            wanted="0 or more, math.inf for no end",
            got=repr(seconds),
            hint=f"{name}=2.5, or leave it out",
        )
