"""Attributes of an operation as one object, for kernels of operations with many attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def takes_attributes(kind: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of kernels: all attributes reach the kernel as one argument, ``attrs``.

    Parameters
    ----------
    kind : type
        A dataclass with a field for each attribute of the operation type.
    """

    def decorate_kernel(kernel: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(kernel)
        def call_kernel(*inputs: Any, **attrs: Any) -> Any:
            return kernel(*inputs, attrs=kind(**attrs))

        return call_kernel

    return decorate_kernel
