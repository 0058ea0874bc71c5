"""AsyncResult: the result of an asynchronous kernel."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any

class AsyncResult:
    """The result of an asynchronous function; awaited once, or closed if its step ends first.

    Parameters
    ----------
    source : awaitable
        The function's return value.
    convert : callable
        Makes the kernel's outputs from the source's result, or raises OpError.
    give_up : callable, optional
        Called instead of `convert`, perhaps more than once, when the wait was cancelled, even if its result had come.
    in_order : bool
        True if the resource serves its waiters in order: later instances of the same operation with the same resource
        could only wait after this instance, and need not begin before.
    """

    source: Awaitable[Any]
    convert: Callable[[Any], Any]
    give_up: Callable[[], None] | None
    in_order: bool
    def __init__(
        self,
        source: Awaitable[Any],
        convert: Callable[[Any], Any],
        give_up: Callable[[], None] | None = None,
        in_order: bool = False,
    ) -> None: ...
    def then(self, function: Callable[[Any], Any]) -> AsyncResult:
        """Return an AsyncResult which applies a function to this result."""

    def __await__(self) -> Generator[Any, Any, Any]: ...
    def close(self) -> None:
        """Abandon the result: close a coroutine, cancel a future."""
