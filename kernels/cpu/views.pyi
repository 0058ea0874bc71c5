"""Products of views whose elements lie apart."""

from typing import Any

def multiply_views(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, total: Any = None) -> Any:
    """Return the product of two matrices, added to a total, with the bits of the kernel for plain matrices."""
