"""Partial static shapes: a possibly unknown rank, and possibly unknown dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn, overload

from .errors import ShapeError, TagloomError

Dimension = int | None

_NAMES = {  # of TensorFlow's TensorShape
    "assert_has_rank": "shape.with_rank(rank)",
    "assert_is_compatible_with": "shape.merge(other)",
    "assert_is_fully_defined": "shape.as_tuple()",
    "is_fully_defined": "shape.is_fully_known",
    "merge_with": "shape.merge(other)",
    "value": "the dimension itself: it is an int, or None",
}


class Shape:
    """A tensor's static shape; ``Shape(None)`` has unknown rank, a ``None`` dimension is unknown.

    Parameters
    ----------
    dims : iterable of int or None, Shape, or None
        The dimensions.

    Raises
    ------
    ShapeError
        If a dimension is negative.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.Shape([None, 3]).merge(tg.Shape([2, None]))
    Shape(2, 3)
    >>> str(tg.Shape([None, 3])), str(tg.Shape(None))
    ('[?,3]', '[...]')
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Iterable[Any] | Shape | None) -> None:
        if isinstance(dims, Shape):
            self._dims: tuple[Dimension, ...] | None = dims._dims
        elif dims is None:
            self._dims = None
        elif isinstance(dims, Integral) and not isinstance(dims, bool):
            self._dims = (_parse_dimension(dims),)
        elif isinstance(spec := getattr(dims, "shape", None), Shape):  # of a TensorSpec
            self._dims = spec._dims
        else:
            self._dims = _parse_dimensions(dims)

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None when unknown."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The dimensions; ShapeError when the rank is unknown."""
        if self._dims is None:
            raise ShapeError("the rank of this shape is not known", hint="give the tensor a shape with reshape")
        return self._dims

    @property
    def is_fully_known(self) -> bool:
        """True if every dimension is known."""
        return self._dims is not None and None not in self._dims

    @property
    def num_elements(self) -> int | None:
        """Product of the dimensions, or None unless fully known."""
        return math.prod(self.as_tuple()) if self.is_fully_known else None

    def as_tuple(self) -> tuple[int, ...]:
        """Return the dimensions of a fully known shape."""
        if not self.is_fully_known:
            raise ShapeError(
                "this shape is not fully known",
                got=self,
                wanted="every dimension known",
                hint="use shape(t), which is known when the step runs",
            )
        return self.dims  # type: ignore[return-value]

    def as_list(self) -> list[Dimension]:
        """Return the dimensions, None for unknown ones; ShapeError when the rank is unknown."""
        return list(self.dims)

    def with_rank(self, rank: int) -> Shape:
        """Return the shape with a rank of `rank`; ShapeError when the rank is known to differ."""
        return self.merge(Shape([None] * rank))

    def with_rank_at_least(self, rank: int) -> Shape:
        """Return the shape unchanged; ShapeError when its rank is known to be less than `rank`."""
        if self.rank is not None and self.rank < rank:
            raise ShapeError(
                "this shape has too few dimensions",
                wanted=f"{rank} or more",
                got=self,
                hint="add some with reshape or expand_dims",
            )
        return self

    def is_compatible_with(self, other: Shape) -> bool:
        """True if some concrete shape fits both this shape and `other`."""
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other._dims, strict=True)
        )

    def includes(self, other: Shape) -> bool:
        """True if every concrete shape fitting `other` fits this shape."""
        if self._dims is None:
            return True
        if other._dims is None or len(self._dims) != len(other._dims):
            return False
        return all(a is None or a == b for a, b in zip(self._dims, other._dims, strict=True))

    def merge(self, other: Shape) -> Shape:
        """Return the combined knowledge of this shape and `other`; ShapeError when they contradict."""
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        if not self.is_compatible_with(other):
            raise ShapeError(
                "shapes contradict each other",
                wanted=self,
                got=other,
                hint="look where each of them comes from; None leaves a dimension open",
            )
        return Shape([b if a is None else a for a, b in zip(self._dims, other._dims, strict=True)])

    def relax(self, other: Shape) -> Shape:
        """Return the common knowledge of this shape and `other` (the static shape of a Merge, rule 56)."""
        if self._dims is None or other._dims is None or len(self._dims) != len(other._dims):
            return Shape(None)
        return Shape([a if a == b else None for a, b in zip(self._dims, other._dims, strict=True)])

    def broadcast(self, other: Shape) -> Shape:
        """Return the NumPy broadcast of this shape and `other`; ShapeError when they do not broadcast."""
        if self._dims is None or other._dims is None:
            return Shape(None)
        n = max(len(self._dims), len(other._dims))
        left = (1,) * (n - len(self._dims)) + self._dims
        right = (1,) * (n - len(other._dims)) + other._dims
        return Shape([_broadcast_dimension(a, b, self, other) for a, b in zip(left, right, strict=True)])

    def concatenate(self, other: Any) -> Shape:
        """Return the dimensions of this shape followed by the dimensions of `other`."""
        return self + Shape(other)

    def __add__(self, other: Shape) -> Shape:
        if self._dims is None or other._dims is None:
            return Shape(None)
        return Shape(self._dims + other._dims)

    if not TYPE_CHECKING:  # type checkers would accept any attribute of a class that defines __getattr__

        def __getattr__(self, name: str) -> NoReturn:
            hint = f"\n  try: {_NAMES[name]}" if name in _NAMES else ""
            raise AttributeError(f"a Shape has no attribute '{name}'{hint}", name=name)

    @overload
    def __getitem__(self, key: slice) -> Shape: ...
    @overload
    def __getitem__(self, key: int) -> Any: ...  # a Dimension, whose callers know that it is no None
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Shape(None) if self._dims is None else Shape(self._dims[key])
        return None if self._dims is None else self._dims[key]

    def __len__(self) -> int:
        return len(self.dims)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dims)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, tuple)):
            other = Shape(other)
        return isinstance(other, Shape) and self._dims == other._dims

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return "Shape(None)" if self._dims is None else f"Shape({', '.join(map(str, self._dims))})"

    def __str__(self) -> str:
        if self._dims is None:
            return "[...]"
        return "[" + ",".join("?" if d is None else str(d) for d in self._dims) + "]"


UNKNOWN = Shape(None)


def _parse_dimensions(dims: Any) -> tuple[Dimension, ...]:
    """Return dimensions as a tuple; ShapeError if they are no sequence of sizes."""
    try:
        # Iterable, but never meant as sizes.
        if isinstance(dims, (str, bytes, dict)):
            raise TypeError
        return tuple(_parse_dimension(d) for d in dims)
    except (TypeError, ValueError) as error:
        if isinstance(error, TagloomError):
            raise
        raise ShapeError(
            "this is not a shape",
            wanted="sizes of dimensions, None where one is open; None for any shape",
            got=repr(dims),
            hint="write [2, None] for two dimensions, [] for a scalar; of several shapes give a list, one for each",
        ) from None


def _parse_dimension(value: Any) -> Dimension:
    """Return a dimension as an int, or None if unknown; ShapeError if negative."""
    if value is None:
        return None
    size = int(value)
    if size < 0:
        raise ShapeError(
            "a dimension cannot be negative",
            got=size,
            hint="use None for an unknown dimension",
            wanted="0 or more",
        )
    return size


def _broadcast_dimension(a: Dimension, b: Dimension, left: Shape, right: Shape) -> Dimension:
    """Return the broadcast of two dimensions; None only if possibly 1; ShapeError if they do not broadcast."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    # Against a known size above 1, an unknown one must be 1 or equal: the result is known.
    if a is None:
        return b
    if b is None:
        return a
    raise ShapeError(
        "shapes do not broadcast",
        wanted="equal trailing dimensions, or 1",
        got=f"{left} and {right}",
        hint="reshape or expand_dims one of them",
    )


SCALAR = Shape(())
