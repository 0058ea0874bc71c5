"""Products with the bits of `linear.pyx`, of views that its kernel declines; and which products have such bits."""

from typing import Any

def is_own_product(terms: int) -> bool:
    """Return True if sums of `terms` terms are computed by vector instructions of our own, and in one piece."""

def has_equal_rows(terms: int, columns: int) -> bool:
    """Return True if a row of a product of floats has the same bits for any number of rows: not those of BLAS."""

def multiply_views(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, total: Any = None) -> Any:
    """Return the product of two matrices, added to a total, with the bits of the kernel for plain matrices."""
