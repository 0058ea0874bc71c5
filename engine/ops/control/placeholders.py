"""Values without inputs (constants, placeholders, parameters of regions), and identities."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import OPTIONAL, REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.edges import Feedable
from ...ir.rules.gradients import TakesSlices
from ...ir.rules.kernels import PassesInputs
from ...ir.rules.shapes import ShapeVector
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ...ir.traits import Role
from ..support.common import infer_nothing, same_as
from ..support.tangents import LINEAR
from ..support.vectorizing.families import pointwise
from ..support.vectorizing.shapes import ensure_shape_examples

define(
    "Const",
    "-> value: @dtype",
    attrs={"value": REQUIRED},
    shape=lambda op: Shape(op.attrs["value"].shape),
    role=Role.CONST,
    rules=[ShapeVector(lambda op: Shape([None if d < 0 else d for d in op.attrs["value"].ravel().tolist()]))],
    kernel=None,
    gradient=NotDifferentiable("a constant has no inputs"),
)

define(
    "Param",
    "-> value: @dtype",
    attrs={"dtype": REQUIRED},
    shape=lambda op: op.outputs[0].shape,
    role=Role.PARAM,
    kernel=None,
    gradient=NotDifferentiable("a region's parameter gets its cotangent from the region's owner"),
)

define(
    "Feed",
    "-> value: @dtype",
    attrs={"dtype": REQUIRED, "index": REQUIRED, "key": OPTIONAL},
    shape=lambda op: op.outputs[0].shape,
    role=Role.FEED,
    kernel=None,
    gradient=NotDifferentiable("what is fed has no inputs"),
)

define(
    "Placeholder",
    "-> value: @dtype",
    attrs={"dtype": REQUIRED, "shape": Shape(None)},
    shape=lambda op: Shape(op.attrs["shape"]),
    role=Role.PLACEHOLDER,
    rules=[Feedable()],
    kernel=None,
    gradient=NotDifferentiable("a placeholder has no inputs"),
)


@public
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Declare a value which is fed when a step runs.

    Parameters
    ----------
    dtype : dtype-like
        Dtype of the fed values.
    shape : sequence of int or None, optional
        Static shape, None for an unknown dimension; None leaves the rank open too.

    Returns
    -------
    Tensor
        Feeding is checked against dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [None, 2], name="x")
    ...     rows = tg.reduce_sum(x, axis=1)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(rows, feeds={x: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    array([ 3.,  7., 11.], dtype=float32)
    """
    return apply("Placeholder", name=name, dtype=dtypes.as_dtype(dtype), shape=Shape(shape))


define(
    "PlaceholderWithDefault",
    "input: T -> output: T",
    attrs={"shape": Shape(None)},
    shape=lambda op: Shape(op.attrs["shape"]),
    rules=[Vectorize(ensure_shape_examples), PassesInputs(), Feedable()],
    kernel=lambda xp, x, shape: x,
    gradient=lambda op, g: [g],
    samples=[Sample([np.array([1, 2], np.float32)], np.array([1, 2], np.float32), {"shape": Shape([None])})],
)


@public
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Declare a value which may be fed, and defaults to `input`.

    Parameters
    ----------
    input : Tensor of any dtype
        The default.
    shape : sequence of int or None
        Static shape of the result; the default and fed values must have a compatible shape.

    Returns
    -------
    Tensor
        Of the default's dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     rate = tg.placeholder_with_default(0.5, [], name="rate")
    ...     y = rate * 8.0
    >>> with tg.SyncSession(graph) as session:
    ...     float(session.run(y)), float(session.run(y, feeds={rate: 0.25}))
    (4.0, 2.0)
    """
    return apply("PlaceholderWithDefault", input, name=name, shape=Shape(shape))


define(
    "Identity",
    "input: T -> output: T",
    where={"T": dtypes.ALL},
    shape=same_as(0),
    role=Role.IDENTITY,
    rules=[Vectorize(pointwise), LINEAR, TakesSlices()],
    kernel=lambda xp, x: x,
    gradient=lambda op, g: [g],
    samples=[Sample([np.array([1, 2], np.float64)], np.array([1, 2], np.float64))],
)


@public
def identity(input: Any, name: str | None = None) -> Tensor:
    """Return a tensor with the value of `input`.

    Parameters
    ----------
    input : Tensor of any dtype and shape

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.identity(tg.constant([1.0, 2.0]) * 3.0, name="y")
    >>> with tg.SyncSession(graph) as session:
    ...     session.run("y:0")
    array([3., 6.], dtype=float32)
    """
    return apply("Identity", input, name=name)


define(
    "StopGradient",
    "input: T -> output: T",
    shape=same_as(0),
    rules=[Vectorize(pointwise)],
    role=Role.IDENTITY,
    kernel=lambda xp, x: x,
    gradient=NotDifferentiable("it exists to stop gradients"),
    samples=[Sample([np.array([1, 2], np.float64)], np.array([1, 2], np.float64))],
)


@public
def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """Return `input`, with a zero gradient.

    Parameters
    ----------
    input : Tensor of any dtype and shape

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> float(tg.grad(lambda x: x * tg.stop_gradient(x)).sync(3.0))
    3.0
    """
    return apply("StopGradient", input, name=name)


def _refuse_gradient(op: Operation, g: Tensor) -> NoReturn:
    """Raise the error of a gradient through a PreventGradient."""
    message = op.attrs["message"]
    raise GraphError(
        f"no gradient may flow through this tensor{': ' + message if message else ''}",
        wanted="ys that do not depend on the xs through it",
        got=f"a gradient through {op.inputs[0].name}",
        operation=op,
        hint="use stop_gradient where the gradient should be zero, or differentiate what comes before it",
    )


define(
    "PreventGradient",
    "input: T -> output: T",
    attrs={"message": ""},
    shape=same_as(0),
    rules=[Vectorize(pointwise)],
    role=Role.IDENTITY,
    kernel=lambda xp, x, message: x,
    gradient=_refuse_gradient,
    samples=[
        Sample([np.array([1, 2], np.float64)], np.array([1, 2], np.float64), {"message": "no"}, differentiable=False)
    ],
)


@public
def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """Return `input`; a gradient through the result is an error, unlike the silent zero of `stop_gradient`.

    Parameters
    ----------
    input : Tensor of any dtype and shape
    message : str
        The reason, part of the error.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Raises
    ------
    GraphError
        In ``gradients()``, if a gradient would flow through the result; the error names the line of this call.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.grad(lambda x: tg.prevent_gradient(x, "it is going to be rounded")).sync(1.4)
    Traceback (most recent call last):
        ...
    tagloom.base.errors.GraphError: ...
    """
    return apply("PreventGradient", input, name=name, message=str(message))


define(
    "NoOp",
    "->",
    shape=infer_nothing,
    kernel=lambda xp: None,
    gradient=NotDifferentiable("it has no value"),
)


@public
def no_op(name: str | None = None) -> Operation:
    """Return an operation which does nothing, as a target of control dependencies.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     v = tg.Variable(1.0, name="v")
    ...     with tg.control_dependencies([v.assign(5.0)]):
    ...         done = tg.no_op()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(done), float(session.run(v))
    (None, 5.0)
    """
    return apply("NoOp", name=name)
