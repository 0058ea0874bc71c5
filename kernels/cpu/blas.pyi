"""Products by BLAS."""

from collections.abc import Callable

def load_blas() -> None:
    """Import SciPy's BLAS unless loaded already, and call the listeners before BLAS computes any product."""

def is_blas_loaded() -> bool:
    """Return True if products may be computed by BLAS from now on."""

def on_load_of_blas(listener: Callable[[], None]) -> None:
    """Register a function to call when BLAS is loaded, before its first product, in the loading thread."""
