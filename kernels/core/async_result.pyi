"""What an asynchronous kernel returns."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any

class AsyncResult:
    """What an asynchronous function will return; awaited once, or closed when its step ends before.

    Parameters
    ----------
    source : awaitable
        What the function returned.
    convert : callable
        Makes the kernel's outputs from the source's result, or raises OpError.
    give_up : callable, optional
        Called instead of `convert`, perhaps more than once, when the wait was cancelled: also one that had its result.
    in_order : bool
        Whether what is waited for is given out in order: later instances of the same operation that want it of the same
        resource could only wait behind this one, and need not begin before.
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
        """Return what gives a function of this result."""

    def __await__(self) -> Generator[Any, Any, Any]: ...
    def close(self) -> None:
        """Give the result up: close a coroutine, cancel a future."""
