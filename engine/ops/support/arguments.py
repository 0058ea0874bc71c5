"""Readers of shape-like and axis-like arguments of array operations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import INDEX, DType, as_dtype
from ...base.errors import DtypeError, GraphError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, as_symbolic, as_typed, constant, convert_to_tensor
from ...ir.operation import Operation
from ...ir.static_values import static_shape, static_value
from ...ir.tensor import Tensor


def index_tensor(value: Any) -> Tensor:
    """Return an integer argument (nested lists may hold scalar tensors) as an int32 or int64 tensor."""
    if isinstance(value, Shape):
        value = value.as_tuple()
    # A list with a tensor in it: the step stacks its elements.
    if isinstance(value, (list, tuple)) and as_symbolic(value):
        return apply("Stack", [index_tensor(v) if _is_nested(v) else v for v in value], axis=0)
    if as_symbolic(value):
        return convert_to_tensor(value)
    return constant(_index_array(value))


def shape_vector(value: Any) -> Tensor:
    """Return a shape-like argument as an int32 or int64 vector; a single integer makes a vector of length 1."""
    return index_tensor([value] if isinstance(value, (int, np.integer)) else value)


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _index_array(value: Any) -> np.ndarray[Any, Any]:
    """Return integers as an int32 array if all fit, else int64; int32 and int64 arrays keep their dtype."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        # An array of objects, which the next check refuses.
        array = np.asarray(None)
    # An empty list is float64 for NumPy, and no error.
    if array.size and array.dtype.kind not in "iu":
        raise DtypeError(
            "this has to be integers",
            wanted="int32 or int64",
            got=repr(value),
            hint="a size that only a step knows is shape(x)[0]; of the sizes of reshape one may be -1",
        )
    if isinstance(value, (np.ndarray, np.generic)) and array.dtype in (np.int32, np.int64):
        return array
    small = not array.size or (array.min() >= -(2**31) and array.max() < 2**31)
    return array.astype(np.int32 if small else np.int64)


def convert_alike(*values: Any, default: DType | None = None) -> list[Tensor]:
    """Return operands as tensors; literals take the dtype of the first typed operand, else the `default`."""
    typed = [as_typed(value) for value in values]
    # A tensor, or an array with a dtype, decides for all literals.
    known = next((t.dtype for t in typed if t is not None), default)
    return [convert_to_tensor(v, known) if t is None else t for v, t in zip(values, typed, strict=True)]


def one_of(value: Any, allowed: Sequence[Any], what: str) -> Any:
    """Return a value among the `allowed` values; GraphError, naming the argument by `what`, for any other."""
    if isinstance(value, Tensor) or value not in allowed:
        raise GraphError(
            f"there is no such {what}", wanted=" or ".join(map(repr, allowed)), got=repr(value), hint="leave it out"
        )
    return value


def known_rank(x: Tensor, what: str) -> int:
    """Return the rank of `x`; GraphError, naming `what` as the user of the rank, if unknown."""
    if x.rank is None:
        raise GraphError(
            f"{what} needs to know the rank while the graph is built",
            wanted="a shape with dimensions, which may be open",
            got=x.shape,
            operation=x.op,
            hint="set_shape says it, as x.set_shape([None, None])",
        )
    return x.rank


def static_fraction(value: Any, name: str) -> float:
    """Return a number from 0 to 1, known while the graph is built; GraphError for anything else."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or not 0 <= value <= 1:
        raise GraphError(f"{name} is a fraction", wanted="a number from 0 to 1", got=value, hint=f"as {name}=0.1")
    return float(value)


def static_int(value: Any, what: str = "axis") -> int:
    """Return an integer or constant tensor as an int, known while the graph is built; GraphError for anything else."""
    known = static_value(value) if isinstance(value, Tensor) else value
    # `item` raises ValueError for more than one element.
    try:
        return operator.index(known.item() if isinstance(known, np.ndarray) else known)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise GraphError(
            f"'{what}' has to be an integer known while the graph is built",
            got=repr(value),
            wanted="an integer or a constant",
            hint="give a Python integer",
        ) from None


def static_ints(value: Any, what: str = "axis") -> tuple[int, ...]:
    """Return an integer, or a list of integers, as a tuple."""
    known = static_value(value) if isinstance(value, Tensor) else value
    if isinstance(known, np.ndarray):
        known = known.tolist()
    return tuple(static_int(v, what) for v in (known if isinstance(known, (list, tuple)) else [known]))


def index_dtype(value: Any, what: str) -> DType:
    """Return the dtype requested for indices; GraphError unless int32 or int64."""
    wanted = as_dtype(value)
    if wanted not in INDEX:
        raise GraphError(
            f"'{what}' is the dtype of indices", wanted="int32 or int64", got=wanted, hint="cast the result to others"
        )
    return wanted


def check_rank(array: Any, least: int, most: int | None, what: str) -> None:
    """Raise ValueError in a kernel if an array has the wrong rank, which was unknown while the graph was built."""
    if not least <= array.ndim <= (array.ndim if most is None else most):
        wanted = f"rank {least} or more" if most is None else f"rank {least}" + (f" to {most}" if most > least else "")
        raise ValueError(f"{what}: wanted {wanted}, got shape {list(array.shape)}")


def check_same_shape(what: str, *arrays: Any) -> None:
    """Raise ValueError in a kernel if shapes differ; they were unknown while the graph was built."""
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ValueError(f"{what} takes arrays of one shape, got {' and '.join(str(list(a.shape)) for a in arrays)}")


def axis_within(axis: int, rank: int, what: str = "axis") -> int:
    """Return a possibly negative axis as a number from 0 up; ShapeError if out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"there is no such {what}",
            wanted=f"{-rank} to {rank - 1}" if rank else "rank >= 1",
            got=axis,
            hint="negative numbers count from the end",
        )
    return axis % rank


def same_with_axis(op: Operation) -> Shape:
    """Return the common static shape of all inputs; ShapeError if the attribute `axis` is out of range."""
    shape: Shape = op.inputs[0].shape
    for tensor in op.inputs[1:]:
        shape = shape.merge(tensor.shape)
    if shape.rank is not None:
        axis_within(op.attrs["axis"], shape.rank)
    return shape


def with_dimension(shape: Shape, axis: int, size: int | None) -> Shape:
    """Return `shape` with the size of an axis replaced."""
    return Shape([size if i == axis else d for i, d in enumerate(shape)])


def partial_values(tensor: Tensor) -> list[int | None] | None:
    """Return the elements of an integer vector, None for unknown elements; None if the length is unknown too."""
    known = static_value(tensor)
    if known is not None:
        return known.ravel().tolist()
    shape = static_shape(tensor)
    return None if shape.rank is None else list(shape)


def as_sizes(vector: Any) -> tuple[int, ...]:
    """Return a shape, passed to a kernel as an array, as a tuple."""
    return tuple(vector.tolist())


def shape_in(index: int) -> Callable[..., int]:
    """Return the rule for the size of a kernel's output whose shape (or size) is input `index`."""
    return lambda *arrays, **_: math.prod(arrays[index].ravel().tolist())


def only_scalars(op: Operation, *which: int) -> None:
    """Raise ShapeError if an input at these indices is known not to be a scalar."""
    for i in which:
        if op.inputs[i].rank not in (0, None):
            raise ShapeError(
                f"input {i} of {op.type} has to be a scalar",
                wanted="[]",
                got=op.inputs[i].shape,
                hint="take one element of it, as t[0]",
            )


def sum_of(sizes: Sequence[int | None]) -> int | None:
    """Add dimensions; None if a dimension is unknown."""
    known = [d for d in sizes if d is not None]
    return sum(known) if len(known) == len(sizes) else None


def list_argument(values: Any, function: str, what: str = "tensors", example: str = "[a, b]") -> list[Any]:
    """Return an iterable argument as a list; GraphError for a tensor, a string, a dict or a non-iterable."""
    if isinstance(values, (Tensor, str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise GraphError(
            f"{function} takes a list of {what}",
            wanted=f"a list or tuple of {what}",
            got=repr(values),
            hint=f"{function}({example})",
        )
    return list(values)
