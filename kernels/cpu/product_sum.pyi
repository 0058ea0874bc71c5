"""Sums of products that a loop makes, of which many are multiplied at once."""

from typing import Any

class ProductSum:
    """A matrix to which products ``a.T @ b`` are added, at any time before it is looked at."""

    def __init__(self, total: Any) -> None: ...
    def add(self, a: Any, b: Any) -> None:
        """Add ``a.T @ b`` at once."""

    def value(self) -> Any:
        """Return the sum."""

    def replace(self, total: Any) -> None:
        """Let the sum be another matrix, whatever was added."""
