"""The elements of a TensorArray."""

from collections.abc import Sequence
from typing import Any, final

@final
class Element:
    """A slot of an array; ``writer`` and ``reader`` are (operation, iteration) of its first write and read, or None."""

    value: Any
    shape: tuple[int, ...] | None
    owned: bool
    writer: tuple[str, int] | None
    reader: tuple[str, int] | None

class Elements:
    """The elements and settings of a TensorArray that the kernels use."""

    dtype: Any
    exact: tuple[int, ...] | None
    any_shape: bool
    clear_after_read: bool
    closed: bool
    swapper: Any
    swappable: bool

    @property
    def elements(self) -> list[Element]:
        """All of them, as objects."""

    @property
    def count(self) -> int:
        """Number of elements."""

    whole: Any
    adds: bool

    def likely_shape(self) -> tuple[int, ...] | None:
        """Return the shape of elements that are still to be written, as far as earlier ones tell, or None."""

    def written_shape(self) -> tuple[int, ...] | None:
        """Return the shape of the first element that was written, or None."""

    def may_grow(self) -> bool:
        """Return True if elements may be written after the last one."""

    def most_elements(self, wanted: int) -> int:
        """Return how many elements a loop that runs about `wanted` times finds, or is likely to make."""

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return True if values of a shape may be written."""

    def begin_writing(self, size: int, shape: tuple[int, ...]) -> None:
        """Make room for `size` elements, some of which will be written with values of a shape."""

    def begin(self, count: int) -> None:
        """Begin with elements to which nothing was done."""

    def grow(self, count: int) -> None:
        """Make room for `count` elements, if there are fewer."""

    def arrays(self) -> list[Any]:
        """Return the arrays with the values."""

    def write_rows_quickly(self, rows: Any, name: str, iteration: int) -> int:
        """Write rows, of a shape that may be written, to the elements from 0 on; return how many were written."""

    def read_many_quickly(self, indices: Sequence[Any], name: str, iteration: int) -> list[Any]:
        """Read elements as far as there is nothing special; return the values."""
