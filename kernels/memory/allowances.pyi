"""Calls made by other threads for the event loop's thread."""

from collections.abc import Callable
from typing import Any

from .pool import Pool

class AllowedCall:
    """A function that takes memory of a pool, on the account and within the limit of the AllowedCall's creator."""

    def __init__(self, pool: Pool, function: Callable[..., Any]) -> None: ...
    def __call__(self, *arguments: Any) -> Any: ...
