"""A saved array, perhaps outside the device's memory."""

from typing import Any

class SwappableArray:
    """A saved array, perhaps outside the device's memory."""

    array: Any

    def __init__(self, array: Any) -> None: ...
    @property
    def nbytes(self) -> int:
        """Bytes of the device's memory taken by the array now."""

    def now(self) -> Any:
        """Return the array, read at once from its present place."""

    def copy_to(self, target: Any) -> None:
        """Copy the array at once, from its present place, to a contiguous array."""
