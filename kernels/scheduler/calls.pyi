"""Calls of kernels written in Python."""

from collections.abc import Callable
from typing import Any

class Continuation:
    """What an asynchronous instance gives that has waited for its inputs: what is left, to be called like a kernel."""

    call: Callable[[], Any]

    def __init__(self, call: Callable[[], Any]) -> None: ...
