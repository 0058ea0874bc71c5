"""Private contexts, where kernels run."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .pool import Pool

_P = ParamSpec("_P")
_R = TypeVar("_R")

class KernelContexts:
    """The private contexts of a device, with a pool for array data or with NumPy's own memory."""

    pool: Pool | None

    def __init__(self, pool: Pool | None = None) -> None: ...
    def run(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return ``function(*args, **kwargs)``, called in a private context; exceptions pass through."""

def outside(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return ``function(*args, **kwargs)``, called in the context that the innermost `run` was called in."""
