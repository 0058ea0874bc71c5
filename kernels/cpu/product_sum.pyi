"""Sums of products that a loop makes, of which many are multiplied at once."""

from typing import Any

class ProductSum:
    """A matrix plus products ``a.T @ b``, some of which may not have been multiplied yet."""

    def __init__(self, total: Any) -> None: ...
    def add(self, a: Any, b: Any) -> None:
        """Add ``a.T @ b`` at once, for `a` of shape (rows, m) and `b` of shape (rows, n)."""

    def gather_views(self, a: Any, b: Any) -> None:
        """Add ``a.T @ b`` as the C kernel adds plain matrices: multiply at once, or gather the rows for later."""

    def value(self) -> Any:
        """Return the sum, after multiplying the gathered rows."""

    def replace(self, total: Any) -> None:
        """Set the sum to a matrix; drop gathered rows."""
