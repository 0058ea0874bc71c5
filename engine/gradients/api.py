"""``gradients`` and ``hessians``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import nest
from ..base.dtypes import int64
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.shapes import SCALAR
from ..base.sources import user_source
from ..ir import scopes
from ..ir.build import apply, constant, convert_to_tensor
from ..ir.region import Region
from ..ir.structured import make_while, new_region, save_series
from ..ir.tensor import Tensor
from ..ops import gradient_arrays
from ..ops.common import ones_like, shape_of
from . import conditional, loops, series  # noqa: F401  (they add their rules to the walk)
from .activity import active_tensors
from .backward import Backward
from .cotangents import Cotangents, densify
from .zeros import zeros_for

NONE, ZERO = "none", "zero"


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    stop_gradients: Any = None,
    unconnected_gradients: str = NONE,
) -> Any:
    """Build the gradient of the sum of `ys` with respect to each of `xs` (seed 000, section 5.1).

    Reverse mode, through ``cond``, ``while_loop`` of any length, TensorArrays and any nesting of them; the result
    can be differentiated again. Values the backward loops need are saved by the forward loops from now on.

    Parameters
    ----------
    ys : Tensor or structure of Tensor
        Real or complex floating dtype.
    xs : Tensor, Variable or structure of them
        What to differentiate with respect to.
    grad_ys : structure of Tensor or None, optional
        Cotangent of each y; ones by default.
    name : str, optional
        Name scope of the new operations.
    stop_gradients : structure of Tensor, optional
        Tensors taken as constants.
    unconnected_gradients : {'none', 'zero'}, optional
        What to give for an x that the ys do not depend on.

    Returns
    -------
    structure
        In the structure of `xs` (a list for a single x): Tensors of each x's shape and dtype, IndexedSlices where
        only rows were used, or None.

    Raises
    ------
    GraphError
        If the path goes through a hand-made loop, or out of a loop that is still being built.
    DtypeError
        If a y is not of a differentiable dtype.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default():
    ...     x = tg.constant(3.0)
    ...     (g,) = tg.gradients(x * x, [x])
    """
    outputs = [convert_to_tensor(y) for y in nest.flatten(ys)]
    inputs = [_key(x) for x in nest.flatten(xs)]
    stops = {_key(t) for t in nest.flatten(stop_gradients)} if stop_gradients is not None else set()
    seeds = nest.flatten(grad_ys) if grad_ys is not None else [None] * len(outputs)
    if len(seeds) != len(outputs):
        raise GraphError("grad_ys must have one entry for each y", wanted=len(outputs), got=len(seeds))
    if unconnected_gradients not in (NONE, ZERO):
        raise GraphError(
            "no such choice of unconnected_gradients", wanted="'none' or 'zero'", got=unconnected_gradients
        )
    with scopes.within(name=scopes.current().name and f"{scopes.current().name}/{name}" or name):
        found = _reverse(outputs, inputs, seeds, stops)
        if unconnected_gradients == ZERO:
            found = [zeros_for(x) if g is None else g for x, g in zip(inputs, found, strict=True)]
    return found if nest.children(xs) is None else nest.pack_as(xs, found)


def _key(x: Any) -> Tensor:
    """Return the tensor whose cotangent stands for x: of a variable, its handle."""
    if isinstance(getattr(x, "handle", None), Tensor) and x.handle.op.type == "VariableHandle":
        return x.handle  # type: ignore[no-any-return]
    if not isinstance(x, Tensor):
        raise GraphError("can only differentiate with respect to tensors and variables", got=repr(x))
    return x


def _reverse(ys: Sequence[Tensor], xs: Sequence[Tensor], seeds: Sequence[Any], stops: set[Tensor]) -> list[Any]:
    here = scopes.current_region()
    walk = Backward(active_tensors(xs, stops, here), stops)
    cotangents = Cotangents()
    with gradient_arrays.scope(_array_maker(here)):
        for y, seed in zip(ys, seeds, strict=True):
            walk.contribute(cotangents, y, _seed(y, seed))
        for region in here.ancestors():
            walk.walk(region.operations, cotangents)
        return [cotangents.sum(x) for x in xs]


def _seed(y: Tensor, seed: Any) -> Tensor:
    if not y.dtype.is_differentiable:
        raise DtypeError(
            "only floating and complex tensors have gradients", wanted="float or complex", got=y.dtype, operation=y.op,
            hint="cast it before the computation that should be differentiated",
        )  # fmt: skip
    if seed is None:
        return ones_like(y)
    tensor = convert_to_tensor(densify(seed), y.dtype)
    if not tensor.shape.is_compatible_with(y.shape):
        raise ShapeError("an entry of grad_ys does not have the shape of its y", wanted=y.shape, got=tensor.shape)
    return tensor


def _array_maker(home: Region) -> Any:
    """Return what makes gradient arrays: one for each forward array and run of this gradient (rule 111)."""

    def make(handle: Tensor) -> Tensor:
        region = _mirror_of(handle, home)
        with scopes.inside(region):
            gradient, _ = apply("TensorArrayGrad", region.resolve(handle), constant(0.0), source=None)
        return gradient  # type: ignore[no-any-return]

    return make


def _mirror_of(handle: Tensor, home: Region) -> Region:
    for region in scopes.current_region().ancestors():
        mirror = getattr(region.resolver, "__self__", None)
        if region is home or (mirror is not None and mirror.forward is handle.region):
            return region
    return home


def hessians(ys: Any, xs: Any, name: str = "hessians") -> list[Tensor]:
    """Build the matrix of second derivatives of the sum of `ys` with respect to each x.

    Each row is the gradient of one element of the gradient; the rows are computed by a loop in the graph.

    Parameters
    ----------
    ys : Tensor or structure of Tensor
    xs : Tensor, Variable or sequence of them
        Of shape s.

    Returns
    -------
    list of Tensor
        For each x a tensor of shape s + s.
    """
    values = nest.flatten(xs)
    first = gradients(ys, values, name=name)
    return [_hessian(g, x, name) for g, x in zip(first, values, strict=True)]


def _hessian(gradient: Any, x: Any, name: str) -> Tensor:
    key = _key(x)
    if gradient is None:
        zeros = zeros_for(key)
        both = apply("Concat", [shape_of(zeros), shape_of(zeros)], axis=0)
        return apply("Fill", both, apply("Cast", constant(0), dtype=zeros.dtype))  # type: ignore[no-any-return]
    gradient = densify(gradient)
    flat = apply("Reshape", gradient, constant([-1], "int32"))
    count = apply("Cast", apply("Size", gradient), dtype=int64)
    cond, body = new_region("loop predicate"), new_region("loop body")
    for region in (cond, body):
        region.add_param(int64, SCALAR, f"{name}/row")
    with scopes.inside(cond):
        cond.results.append(cond.params[0] < count)
    with scopes.inside(body):
        row = gradients(flat[body.params[0]], [x], unconnected_gradients=ZERO)[0]
        rows = apply("ExpandDims", densify(row), axis=0)
        body.results.append(body.params[0] + 1)
    loop = make_while(
        [constant(0, int64)], cond, body, name=name, source=user_source(), parallel_iterations=32, back_prop=True,
        swap_memory=False,
    )  # fmt: skip
    shape = shape_of(gradient)
    stacked = apply(
        "SeriesConcat", save_series(loop, rows), apply("Concat", [constant([0], "int32"), shape], axis=0),
        dtype=gradient.dtype, shape=rows.shape,
    )  # fmt: skip
    return apply("Reshape", stacked, apply("Concat", [shape, shape], axis=0))  # type: ignore[no-any-return]
