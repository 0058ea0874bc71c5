"""Shapes as values, and changes of shape without changes of elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.batching import Batch
from ...ir.rules.kernels import KeepsSize
from ...ir.rules.shapes import ShapeOnly, ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.static_values import static_shape, static_value
from ...ir.tensor import Tensor
from ..math.casting import cast
from ..support.arguments import as_sizes, axis_within, shape_vector, static_int, static_ints
from ..support.batching import to_known_shape
from ..support.common import infer_scalar, shape_of
from ..support.late_axes import expand_late_axis, late_axis
from ..support.literals import f64, i32
from ..support.tangents import LINEAR_IN_FIRST
from ..support.vectorizing.families import along
from ..support.vectorizing.shapes import rank_of_one, reshape_examples, shape_of_one, size_of_one, squeeze_examples

_X = np.arange(6.0).reshape(2, 3)
_DISCRETE = NotDifferentiable("shapes are integers")


def _shape_shape(op: Operation) -> Shape:
    return Shape([op.inputs[0].rank])


define(
    "Shape",
    "input: any -> output: host int32",
    shape=_shape_shape,
    kernel=lambda xp, x: np.asarray(x.shape, np.int32),
    gradient=_DISCRETE,
    rules=[Vectorize(shape_of_one), ShapeOnly(), ShapeVector(lambda op: op.inputs[0].shape)],
    samples=[Sample([_X], i32([2, 3])), Sample([np.float32(1)], i32([]))],
)

define(
    "Size",
    "input: any -> output: host int32",
    shape=infer_scalar,
    kernel=lambda xp, x: np.asarray(x.size, np.int32),
    gradient=_DISCRETE,
    rules=[Vectorize(size_of_one), ShapeOnly()],
    samples=[Sample([_X], np.int32(6))],
)

define(
    "Rank",
    "input: any -> output: host int32",
    shape=infer_scalar,
    kernel=lambda xp, x: np.asarray(x.ndim, np.int32),
    gradient=_DISCRETE,
    rules=[Vectorize(rank_of_one), ShapeOnly()],
    samples=[Sample([_X], np.int32(2))],
)


@public
def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the shape of a tensor as a value.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    out_type : dtype-like
        int32 or int64.

    Returns
    -------
    Tensor
        Vector of length rank; a constant when the static shape is fully known.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> f = tg.function(lambda x: tg.shape(x), input_signature=[tg.TensorSpec([None, 3])])
    >>> f.sync(np.zeros([5, 3]))
    array([5, 3], dtype=int32)
    """
    tensor = convert_to_tensor(input)
    known = tensor.shape.as_tuple() if tensor.shape.is_fully_known else None
    return _constant_or_computed("Shape", tensor, known, name, out_type)


@public
def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the number of elements of a tensor.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    out_type : dtype-like
        int32 or int64.

    Returns
    -------
    Tensor
        Scalar; a constant when the static shape is fully known.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.size([[1, 2, 3], [4, 5, 6]])).sync()
    array(6, dtype=int32)
    """
    tensor = convert_to_tensor(input)
    return _constant_or_computed("Size", tensor, tensor.shape.num_elements, name, out_type)


@public
def rank(input: Any, name: str | None = None) -> Tensor:
    """Return the number of dimensions of a tensor.

    Parameters
    ----------
    input : Tensor of any dtype and shape

    Returns
    -------
    Tensor
        Scalar int32; a constant when the rank is known.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.rank([[1, 2, 3], [4, 5, 6]])).sync()
    array(2, dtype=int32)
    """
    tensor = convert_to_tensor(input)
    return _constant_or_computed("Rank", tensor, tensor.rank, name, dtypes.int32)


def _constant_or_computed(type: str, tensor: Tensor, known: Any, name: str | None, dtype: Any) -> Tensor:
    """Return the numbers as a constant where they are known, otherwise apply the operation `type`."""
    if known is not None:
        return constant(np.asarray(known, dtypes.as_dtype(dtype).numpy), name=name or type)
    return cast(apply(type, tensor, name=name), dtype)


def _reshape_shape(op: Operation) -> Shape:
    """Infer the sizes, a single unknown size from the others; ShapeError if the number of elements changes."""
    _check_request(static_value(op.inputs[1]))
    target, total = static_shape(op.inputs[1]), op.inputs[0].shape.num_elements
    if target.rank is None or total is None:
        return target
    rest = math.prod(d for d in target if d is not None)
    unknown = sum(d is None for d in target)
    # known sizes have to multiply to the total; with unknown sizes, to a divisor, or to 0 for no elements
    if (rest != total) if not unknown else (total % rest if rest else total):
        raise ShapeError(
            "reshape has to keep the number of elements",
            wanted=f"{total} elements of {op.inputs[0].shape}",
            got=target,
            hint="use -1 for one size that follows from the others",
        )
    if unknown == 1 and rest:
        return Shape([total // rest if d is None else d for d in target])
    return target


def _check_request(sizes: Any) -> None:
    """Raise ShapeError unless the sizes, if known, are a vector with at most a single -1."""
    if sizes is None:
        return
    if sizes.ndim != 1 or (sizes < -1).any() or (sizes == -1).sum() > 1:
        raise ShapeError(
            "reshape needs a vector of sizes",
            wanted="sizes >= 0, at most one -1",
            got=sizes.tolist(),
            hint="give a list of integers",
        )


def _compute_reshape(xp: Any, x: Any, shape: Any) -> Any:
    _check_request(shape)
    return x.reshape(as_sizes(shape))


def _like_input(op: Operation, g: Tensor) -> list[Any]:
    return [apply("Reshape", g, shape_of(op.inputs[0])), *[None] * (len(op.inputs) - 1)]


define(
    "Reshape",
    "tensor: T, shape: host I -> output: T",
    rules=[Vectorize(reshape_examples), LINEAR_IN_FIRST, Batch(to_known_shape), KeepsSize()],
    where={"I": dtypes.INDEX},
    shape=_reshape_shape,
    kernel=_compute_reshape,
    gradient=_like_input,
    samples=[
        Sample([_X, i32([3, -1])], f64([[0, 1], [2, 3], [4, 5]])),
        Sample([f64([7]), np.zeros(0, np.int64)], np.float64(7)),
    ],
)


@public
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Return the same elements in another shape.

    Parameters
    ----------
    tensor : Tensor of any dtype and shape
    shape : int32 or int64 vector, or list of integers and scalar tensors
        The new sizes; a single -1 is computed from the others.

    Returns
    -------
    Tensor
        Of the new shape.

    Raises
    ------
    ShapeError
        If the number of elements would change.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.reshape(tg.range(6), [-1, 2])).sync()
    array([[0, 1],
           [2, 3],
           [4, 5]], dtype=int32)
    """
    return apply("Reshape", tensor, shape_vector(shape), name=name)


def _expand_shape(op: Operation) -> Shape:
    x = op.inputs[0].shape
    if x.rank is None:
        return x
    # counted among the dimensions of the result: -1 appends a dimension
    axis = axis_within(op.attrs["axis"], x.rank + 1)
    return Shape([*x.dims[:axis], 1, *x.dims[axis:]])


define(
    "ExpandDims",
    "input: T -> output: T",
    rules=[Vectorize(along(new_axes=1)), LINEAR_IN_FIRST, Batch(to_known_shape)],
    attrs={"axis": REQUIRED},
    shape=_expand_shape,
    kernel=lambda xp, x, axis: xp.expand_dims(x, axis),
    gradient=lambda op, g: [apply("Squeeze", g, axis=(op.attrs["axis"],))],
    samples=[
        Sample([_X], lambda x: x.reshape(2, 1, 3), {"axis": 1}),
        Sample([np.float64(2)], f64([2]), {"axis": -1}),
    ],
)


@public
def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """Insert a dimension of size 1.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    axis : int, or int32 or int64 scalar
        Position of the new dimension in the result; negative counts from the end.

    Returns
    -------
    Tensor
        With an additional dimension.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     x = tg.zeros([2, 3])
    ...     tg.expand_dims(x, 0).shape, tg.expand_dims(x, -1).shape
    (Shape(1, 2, 3), Shape(2, 3, 1))
    """
    late = late_axis(axis)
    if late is not None:
        return expand_late_axis(input, late, name)
    return apply("ExpandDims", input, name=name, axis=static_int(axis))


def _squeeze_shape(op: Operation) -> Shape:
    """Drop the axes, or all sizes of 1; ShapeError for an axis of another size."""
    x, axes = op.inputs[0].shape, op.attrs["axis"]
    if x.rank is None:
        return x
    if axes is None:
        # an unknown size may be 1, so even the rank is unknown then
        return Shape([d for d in x if d != 1]) if x.is_fully_known else Shape(None)
    drop = {axis_within(a, x.rank) for a in axes}
    for axis in drop:
        if x[axis] not in (1, None):
            raise ShapeError(
                "only dimensions of size 1 can be squeezed",
                wanted=1,
                got=f"{x[axis]} at axis {axis}",
                hint="use reduce_sum, or take one element, to drop another",
            )
    return Shape([d for i, d in enumerate(x) if i not in drop])


define(
    "Squeeze",
    "input: T -> output: T",
    rules=[Vectorize(squeeze_examples), LINEAR_IN_FIRST, Batch(to_known_shape)],
    attrs={"axis": None},
    shape=_squeeze_shape,
    kernel=lambda xp, x, axis: xp.squeeze(x, axis),
    gradient=_like_input,
    samples=[
        Sample([_X.reshape(1, 2, 1, 3)], _X, {"axis": None}),
        Sample([_X.reshape(1, 2, 1, 3)], lambda x: x.reshape(1, 2, 3), {"axis": (-2,)}),
    ],
)


@public
def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Drop dimensions of size 1.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    axis : int or sequence of int, optional
        The dimensions to drop; all of size 1 when None or empty.

    Returns
    -------
    Tensor
        Of lower rank.

    Raises
    ------
    ShapeError
        If a dimension in `axis` has another size.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     x = tg.zeros([1, 2, 1])
    ...     tg.squeeze(x).shape, tg.squeeze(x, axis=0).shape
    (Shape(2), Shape(2, 1))
    """
    # an empty list of axes means all axes of size 1, as in TensorFlow
    axes = None if axis is None else static_ints(axis) or None
    return apply("Squeeze", input, name=name, axis=axes)
