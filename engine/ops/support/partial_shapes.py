"""Partially known shapes: known sizes are computed while building, the others by the step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant
from ...ir.tensor import Tensor
from .common import shape_of

Part = int | Tensor  # a size, or sizes in a vector


def leading_sizes(x: Tensor, count: int) -> list[Part]:
    """Return the first dimensions of a tensor, each as an integer if known."""
    known = [None] * count if x.rank is None else list(x.shape[:count])
    return [shape_of(x)[i] if d is None else d for i, d in enumerate(known)]


def trailing_sizes(x: Tensor, start: int) -> list[Part]:
    """Return the dimensions from `start` on; in a single vector if the rank is unknown."""
    return [shape_of(x)[start:]] if x.rank is None else leading_sizes(x, x.rank)[start:]


def join_parts(parts: Sequence[Part]) -> Tensor:
    """Return the shape made of parts, as an int32 vector."""
    if all(isinstance(part, int) for part in parts):
        return constant(np.asarray(parts, np.int32))
    return apply("Concat", [_as_vector(part) for part in parts], axis=0)


def _as_vector(part: Part) -> Tensor:
    if isinstance(part, int):
        return constant(np.asarray([part], np.int32))
    vector: Tensor = apply("ExpandDims", part, axis=0) if part.rank == 0 else part
    return vector


def multiply_parts(parts: Sequence[Part]) -> Part:
    """Return the number of elements of a shape made of parts."""
    known = [part for part in parts if isinstance(part, int)]
    if len(known) == len(parts):
        return math.prod(known)
    return apply("Prod", join_parts(parts), axis=(0,))


def divide_size(size: Part, divisor: int, x: Tensor, what: str) -> Part:
    """Divide a size; ShapeError if a known size is no multiple of the divisor."""
    if isinstance(size, int) and size % divisor:
        raise ShapeError(
            f"blocks do not fit the {what}",
            wanted=f"a multiple of {divisor}",
            got=f"{size} in {x.shape}",
            operation=x.op,
            hint="pad the tensor first, or take other blocks",
        )
    return size // divisor


def rearrange_dimensions(
    x: Tensor, apart: Sequence[Part], perm: tuple[int, ...], together: Sequence[Part], name: str | None = None
) -> Tensor:
    """Reshape `x` to the sizes `apart`, transpose by `perm`, and reshape to the sizes `together`."""
    moved = apply("Transpose", apply("Reshape", x, join_parts(apart)), perm=perm)
    return with_parts(apply("Reshape", moved, join_parts(together), name=name), together)


def with_parts(tensor: Tensor, parts: Sequence[Part]) -> Tensor:
    """Return a tensor with the static shape implied by its parts."""
    # A part that is a vector leaves the rank unknown.
    if not any(isinstance(part, Tensor) and part.rank != 0 for part in parts):
        tensor.set_shape(Shape([part if isinstance(part, int) else None for part in parts]))
    return tensor
