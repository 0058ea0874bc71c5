"""Results of asynchronous instances that go on as calls of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Continuation:
    """Result of an asynchronous instance that has waited for its inputs: a call to make like that of a kernel.

    Parameters
    ----------
    call : callable
        Without arguments. If it is refused memory it is called again later.
    """

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
