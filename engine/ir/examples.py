"""An operation of a vectorized function, with its operands for all examples; see `engine/vectorize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import DType, int32
from ..base.errors import VectorizationError
from ..base.shapes import Shape
from .apply import apply, build, constant
from .operation import Operation
from .static_values import static_value
from .tensor import Tensor


class Examples:
    """An operation of the function for a single example, and its operands for all examples.

    Parameters
    ----------
    op : Operation
        The operation for a single example.
    operands : sequence of Tensor
        Its operands; the batched ones have a first dimension for the examples.
    batched : sequence of bool
        For each operand, True if different in each example.
    count : Tensor of int32, scalar
        Number of examples.
    """

    def __init__(self, op: Operation, operands: Sequence[Tensor], batched: Sequence[bool], count: Tensor) -> None:
        self.op = op
        self.operands: list[Tensor] = list(operands)
        self.batched: list[bool] = list(batched)
        self.count = count
        self._spread: dict[int, Tensor] = {}

    def __getitem__(self, i: int) -> Tensor:
        return self.operands[i]

    def rank(self, i: int = 0) -> int:
        """Return the rank of an operand for a single example."""
        return known_rank(self.op.inputs[i])

    def spread(self, i: int) -> Tensor:
        """Return an operand for all examples, an operand shared by the examples repeated."""
        if self.batched[i]:
            return self.operands[i]
        if i not in self._spread:
            self._spread[i] = spread(self.operands[i], self.count)
        return self._spread[i]

    def shared(self, i: int) -> Tensor:
        """Return an operand common to all examples; VectorizationError for an operand of each example."""
        if self.batched[i]:
            raise VectorizationError(
                f"operand {i} of {self.op.type} differs between the examples of a vectorized function",
                wanted="the same value for all examples, since it decides a shape or an order",
                got=f"{self.op.inputs[i].name}, computed from the mapped arguments",
                operation=self.op,
                source=self.op.source,
                hint="compute it from arguments that are not mapped, or use map_fn",
            )
        return self.operands[i]

    def copy(self, *operands: Tensor, **changed: Any) -> list[Tensor]:
        """Build an operation of the same type on other operands, with some attributes changed."""
        return build(self.op.type, list(operands), **{**self.op.own_attrs, **changed}).outputs

    def with_count(self, i: int, *between: int) -> Tensor:
        """Return the vector of sizes in operand `i` with the number of examples, and sizes `between`, in front."""
        return join_sizes(self.count, *between, self.shared(i))


def known_rank(tensor: Tensor) -> int:
    """Return the rank of a tensor of a vectorized function; VectorizationError if unknown."""
    if tensor.rank is None:
        raise VectorizationError(
            "a vectorized function needs the ranks of its tensors",
            wanted="a known rank",
            got=tensor.shape,
            operation=tensor.op,
            source=tensor.op.source,
            hint="give the number of dimensions with set_shape or ensure_shape, None for unknown sizes",
        )
    return tensor.rank


def join_sizes(*parts: int | Tensor) -> Tensor:
    """Return a vector of sizes from integers, scalars and vectors, in the dtype of the last part (int32 for integers).

    The result is a constant if all sizes are known.
    """
    last = parts[-1]
    dtype = last.dtype if isinstance(last, Tensor) else int32
    values = [_known_sizes(part) for part in parts]
    known = [np.reshape(value, -1).astype(dtype.numpy) for value in values if value is not None]
    if len(known) == len(parts):
        return constant(np.concatenate(known))
    return apply("Concat", [_as_vector(part, dtype) for part in parts], axis=0)


def _known_sizes(part: int | Tensor) -> Any:
    """Return an integer, or the known value of a tensor."""
    return static_value(part) if isinstance(part, Tensor) else part


def _as_vector(part: int | Tensor, dtype: DType) -> Tensor:
    """Return sizes as a vector of a dtype."""
    value = _known_sizes(part)
    if value is not None:
        return constant(np.reshape(value, -1).astype(dtype.numpy))
    assert isinstance(part, Tensor)
    tensor: Tensor = part if part.dtype is dtype else apply("Cast", part, dtype=dtype)
    return apply("ExpandDims", tensor, axis=0) if tensor.rank == 0 else tensor


class Sizes:
    """The sizes of a tensor, by index or slice: constants where known, whatever the other sizes."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, key: int | slice) -> Tensor:
        shape = self.tensor.shape
        if shape.rank is not None:
            part = shape.dims[key]
            known = part if isinstance(part, tuple) else (part,)
            if None not in known:
                return constant(np.asarray(part, np.int32))
        result: Tensor = apply("Shape", self.tensor)[key]
        return result

    @property
    def all(self) -> Tensor:
        """The shape as an int32 vector."""
        return self[:] if self.tensor.shape.is_fully_known else apply("Shape", self.tensor)


def sizes_of(tensor: Tensor) -> Sizes:
    """Return the sizes of a tensor."""
    return Sizes(tensor)


def multiply_sizes(sizes: Tensor) -> Tensor:
    """Return the product of a vector of sizes: a constant if known."""
    value = static_value(sizes)
    return apply("Prod", sizes, axis=None, keepdims=False) if value is None else constant(np.int32(np.prod(value)))


def spread(tensor: Tensor, count: Tensor) -> Tensor:
    """Return a tensor repeated for each example, along a new first dimension."""
    if tensor.rank == 0:
        result = apply("Fill", join_sizes(count), tensor)
    else:
        result = apply("BroadcastTo", tensor, join_sizes(count, sizes_of(tensor).all))
    result.shape = result.shape.merge(batched_shape(tensor.shape, count))
    return result


def batched_shape(shape: Shape, count: Tensor) -> Shape:
    """Return the shape of an example with the number of examples, if known, in front."""
    number = static_value(count)
    return Shape([None if number is None else int(number)]) + shape
