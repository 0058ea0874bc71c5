"""The function ``gradients``: reverse-mode differentiation of graphs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, overload

from ..base import nest
from ..base.errors import DtypeError, GraphError, ShapeError
from ..base.source_lines import user_source
from ..ir import scopes
from ..ir.apply import convert_to_tensor
from ..ir.entry import public
from ..ir.region import Region
from ..ir.tensor import Tensor
from ..ir.typed import AsTensor, NamedFields
from ..ops.control.custom import forward_loops
from ..ops.control.weights import of_one_shape
from ..ops.state.tensor_array import gradient_arrays
from ..ops.support.common import ones_like
from ..ops.support.indexed_slices import IndexedSlices
from . import arrays, conditional, segments, series  # noqa: F401  (they add their rules to the walk)
from .activity import active_tensors, stops_in_loop
from .backward import Backward
from .cotangents import Cotangents, densify
from .zeros import with_shape, zeros_for

NONE, ZERO = "none", "zero"
_THROUGH_LOOPS = (
    "gradients() in this gradient function also differentiates through the loop built by the function, in addition to "
    "the direct derivative at the loop's result\n  try: custom_gradient(through_loops=False), which takes results of "
    "loops as constants (implicit differentiation), or through_loops=True if this is meant"
)


K = TypeVar("K")
NT = TypeVar("NT", bound=NamedFields)
S = TypeVar("S")


class GradientOptions(TypedDict, total=False):
    """Keyword arguments of `gradients`."""

    name: str
    stop_gradients: Any
    unconnected_gradients: str


@overload
def gradients(ys: Any, xs: NT, grad_ys: Any = None, **options: Unpack[GradientOptions]) -> NT: ...
@overload
def gradients(
    ys: Any,
    xs: Tensor | AsTensor | list[Tensor] | list[AsTensor] | list[Any],
    grad_ys: Any = None,
    **options: Unpack[GradientOptions],
) -> list[Tensor]: ...
@overload
def gradients(
    ys: Any, xs: tuple[Tensor | AsTensor], grad_ys: Any = None, **options: Unpack[GradientOptions]
) -> tuple[Tensor]: ...
@overload
def gradients(
    ys: Any, xs: tuple[Tensor | AsTensor, Tensor | AsTensor], grad_ys: Any = None, **options: Unpack[GradientOptions]
) -> tuple[Tensor, Tensor]: ...
@overload
def gradients(
    ys: Any,
    xs: tuple[Tensor | AsTensor, Tensor | AsTensor, Tensor | AsTensor],
    grad_ys: Any = None,
    **options: Unpack[GradientOptions],
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def gradients(
    ys: Any, xs: Mapping[K, Tensor | AsTensor], grad_ys: Any = None, **options: Unpack[GradientOptions]
) -> dict[K, Tensor]: ...
@overload
def gradients(ys: Any, xs: S, grad_ys: Any = None, **options: Unpack[GradientOptions]) -> S: ...
@overload
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    stop_gradients: Any = None,
    unconnected_gradients: str = NONE,
) -> Any: ...
@public
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    stop_gradients: Any = None,
    unconnected_gradients: str = NONE,
) -> Any:
    """Build the gradient of the sum of `ys` with respect to each of `xs` (Yu et al., 2018, section 5.1).

    Reverse mode, through ``cond``, ``while_loop`` of any length, TensorArrays and any nesting of them; the result
    can be differentiated again. From now on, forward loops save the values needed by the backward loops.

    Parameters
    ----------
    ys : Tensor or structure of Tensor
        Real or complex floating dtype; tensors of other dtypes in the structure count as not connected.
    xs : Tensor, Variable, TensorArray or structure of them
        Tensors to differentiate with respect to. A PartitionedVariable stands for the list of its shards.
    grad_ys : structure of array-like or None, optional
        Cotangent of each y, in the structure of `ys`; ones by default.
    name : str, optional
        Name scope of the new operations.
    stop_gradients : structure of Tensor, optional
        Tensors taken as constants.
    unconnected_gradients : {'none', 'zero'}, optional
        Result for an x without a path to the ys: None, or zeros.

    Returns
    -------
    structure
        In the structure of `xs` (a list for a single x): Tensors of each x's shape and dtype, IndexedSlices where
        only rows were used, a TensorArray for a TensorArray, or None.

    Raises
    ------
    GraphError
        If the path goes through a hand-made loop, or out of a loop still under construction; if an x is inside a
        branch or loop and the gradient outside.
    DtypeError
        If no y is of a differentiable dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.constant(3.0)
    ...     (slope,) = tg.gradients(x * x * x, [x])
    ...     (curvature,) = tg.gradients(slope, [x])
    >>> with tg.SyncSession(graph) as session:
    ...     [float(value) for value in session.run([slope, curvature])]
    [27.0, 18.0]
    """
    if not isinstance(unconnected_gradients, str) or unconnected_gradients not in (NONE, ZERO):
        raise GraphError(
            "no such choice of unconnected_gradients",
            wanted="'none' or 'zero'",
            got=unconnected_gradients,
            hint="'zero' gives zeros where there is no path, 'none' gives None",
        )
    xs = nest.with_shards(xs)
    outputs, targets = [convert_to_tensor(y) for y in _flatten_leaves(ys)], nest.flatten(xs)
    seeds = [None] * len(outputs) if grad_ys is None else _make_seeds(*_as_lists(ys, grad_ys))
    # Among others, an output of another dtype counts as not connected; alone it is a mistake.
    if outputs and not any(y.dtype.is_differentiable for y in outputs):
        raise DtypeError(
            "only floating and complex tensors have gradients",
            wanted="float or complex",
            got=outputs[0].dtype,
            operation=outputs[0].op,
            hint="cast it before the computation that should be differentiated",
        )
    stops = {key_of(t) for t in nest.flatten(stop_gradients)} if stop_gradients is not None else set()
    with scopes.within(name=scopes.current().name and f"{scopes.current().name}/{name}" or name):
        stops |= _stopped_loops(outputs, targets, stops)
        found = _walk_backward(outputs, targets, seeds, stops, unconnected_gradients == ZERO)
    return nest.pack_as(xs, found) if nest.is_container(xs) else found


def _stopped_loops(ys: Sequence[Tensor], xs: Sequence[Any], stops: set[Tensor]) -> set[Tensor]:
    """Return the loop results counting as constants in the gradient function of a custom gradient.

    Warns
    -----
    RuntimeWarning
        If ``through_loops`` was not specified, and a y depends on an x both directly and through a loop: the gradient
        then includes the derivative of the iterations, whereas implicit differentiation needs the derivative at
        their limit.
    """
    loops = forward_loops()
    if loops is None or loops.through:
        return set()
    if loops.through is False:
        return set(loops.outputs)
    here, keys = scopes.current_region(), [key_of(x) for x in xs]
    # A path crosses a loop at a result that depends on an x and is none itself.
    crossed = loops.outputs & active_tensors(keys, stops, here) - set(keys)
    if crossed:
        through = active_tensors(crossed, stops, here)
        # Paths around the loops: their results stop this search.
        beside = active_tensors(keys, stops | loops.outputs, here)
        source = user_source()
        if source is not None and any(y in through and y in beside for y in ys):
            warnings.warn_explicit(_THROUGH_LOOPS, RuntimeWarning, source.file, source.line)
    return set()


def _flatten_leaves(structure: object) -> list[Any]:
    """Return the leaves of a structure, with IndexedSlices kept whole, because they stand for one tensor."""
    parts = None if isinstance(structure, IndexedSlices) else nest.children(structure)
    return [structure] if parts is None else [leaf for _, child in parts for leaf in _flatten_leaves(child)]


def _make_seeds(ys: object, given: object) -> list[Any]:
    """Return the cotangent of each y, in order; an entry may be a nested list of numbers."""
    parts = None if isinstance(ys, IndexedSlices) else nest.children(ys)
    if parts is None:
        return [given]
    others = nest.children(given)
    # By key: the dicts may differ in the order of their keys.
    if isinstance(ys, dict) and isinstance(given, dict) and ys.keys() == given.keys():
        others = [(key, given[key]) for key in ys]
    if others is None or len(others) != len(parts):
        raise GraphError(
            "grad_ys must have one entry for each y",
            wanted=len(parts),
            got=given if others is None else len(others),
            hint="give None for a y whose cotangent is ones",
        )
    return [seed for (_, y), (_, entry) in zip(parts, others, strict=True) for seed in _make_seeds(y, entry)]


def _as_lists(ys: Any, given: Any) -> tuple[Any, Any]:
    """Return ys and cotangents as lists: a single y and its cotangent may be passed without a list."""
    if isinstance(ys, IndexedSlices) or not nest.is_container(ys):
        # [g] is a list of one cotangent, whereas [2.0] is the value of a cotangent of shape [1].
        listed = isinstance(given, (list, tuple)) and len(given) == 1
        return [ys], given if listed and not isinstance(given[0], (int, float, complex)) else [given]
    alone = isinstance(given, IndexedSlices) or not nest.is_container(given)
    return ys, [given] if alone and len(_flatten_leaves(ys)) == 1 else given


def key_of(x: Any) -> Tensor:
    """Return the tensor whose cotangent is the gradient for x: a variable's handle, a TensorArray's flow, or x."""
    if isinstance(getattr(x, "handle", None), Tensor):
        x = x.flow if hasattr(x, "with_flow") else x.handle
    if not isinstance(x, Tensor):
        raise GraphError(
            "can only differentiate with respect to tensors, variables and TensorArrays",
            got=repr(x),
            wanted="a tensor that the ys were made from",
            hint="make a tensor of it before the ys are built, as with constant",
        )
    return scopes.current_region().resolve(x)


def _walk_backward(
    ys: Sequence[Tensor], xs: Sequence[Any], seeds: Sequence[Any], stops: set[Tensor], zero: bool
) -> list[Any]:
    """Walk backward from the ys with their cotangents, and return the gradient of each x."""
    here = scopes.current_region()
    keys = [key_of(x) for x in xs]
    walk = Backward(active_tensors(keys, stops, here), stops)
    cotangents = Cotangents()
    with arrays.scope(here):
        for y, seed in zip(ys, seeds, strict=True):
            if y.dtype.is_differentiable:
                walk.contribute(cotangents, y, _make_seed(y, seed))
        # From the inside out: cotangents of a tensor in an outer region are carried on when the walk gets there.
        for region in here.ancestors():
            walk.walk(region.operations, cotangents)
        # With zeros for unconnected xs there is nothing to find out: all xs count as reached.
        reached = _find_stopped_xs(ys, keys, stops, here) if not zero else set(keys)
        totals = [zeros_for(k) if k in reached and k not in cotangents.parts else cotangents.sum(k) for k in keys]
        return [_gradient_result(x, total) for x, total in zip(xs, totals, strict=True)]


def _find_stopped_xs(ys: Sequence[Tensor], keys: Sequence[Tensor], stops: set[Tensor], here: Region) -> set[Tensor]:
    """Return the xs that reach a y only through stops in loops: their gradient is zero, not None (rule 99)."""
    if not any(stops_in_loop(op) for op in here.graph.root.walk()):
        return set()
    return {key for key in keys if not active_tensors([key], stops, here, in_loops=True).isdisjoint(ys)}


def _gradient_result(x: Any, total: Any) -> Any:
    """Return the gradient for x: for a TensorArray, the array of its elements' gradients."""
    if total is None or not hasattr(x, "with_flow"):
        return total
    return type(x)(x.dtype, handle=gradient_arrays.gradient_array(x.handle), flow=total, element_shape=x.element_shape)


def _make_seed(y: Tensor, seed: object) -> Tensor:
    """Return the cotangent to start from: ones, or the user's entry converted and checked against the shape of y."""
    if seed is None:
        return ones_like(y)
    tensor = convert_to_tensor(densify(with_shape(seed, y)), y.dtype)
    if not tensor.shape.is_compatible_with(y.shape):
        raise ShapeError(
            "an entry of grad_ys does not have the shape of its y",
            wanted=y.shape,
            got=tensor.shape,
            operation=tensor.op,
            hint="broadcast or reshape it to the shape of its y",
        )
    return of_one_shape(y, tensor, "a y and its entry of grad_ys")
