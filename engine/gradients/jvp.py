"""``jvp``: derivatives in a direction, of functions by forward mode, of tensors already built by reverse mode twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from ..base import nest
from ..base.calling import call
from ..base.errors import DtypeError, GraphError, ShapeError, TagloomError
from ..ir import scopes
from ..ir.apply import apply, convert_to_tensor
from ..ir.entry import public
from ..ir.tensor import Tensor
from ..ir.typed import NamedFields, TensorLike
from ..ops.control.weights import of_one_shape
from ..ops.support.common import zeros_like
from .api import ZERO, gradients
from .cotangents import densify
from .jacobian import match_vectors, nested_scope_name
from .tangents import push_forward

NT = TypeVar("NT", bound=NamedFields)
S = TypeVar("S")
Y = TypeVar("Y")


@overload
def jvp(
    f: Callable[..., Y], primals: Any, tangents: Any, has_aux: Literal[False] = False, name: str = "jvp"
) -> tuple[Y, Y]: ...
@overload
def jvp(f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp") -> Any: ...
@overload
def jvp(f: NT, primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp") -> NT: ...
@overload
def jvp(f: Tensor, primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp") -> Tensor: ...
@overload
def jvp(f: list[Any], primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp") -> list[Tensor]: ...
@overload
def jvp(
    f: tuple[TensorLike, TensorLike], primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp"
) -> tuple[Tensor, Tensor]: ...
@overload
def jvp(f: S, primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp") -> S: ...
@public
def jvp(f: Any, primals: Any, tangents: Any, has_aux: bool = False, name: str = "jvp") -> Any:
    """Build the results of a function, and their change as the arguments move along vectors: forward mode.

    The change is the product of the Jacobian of `f` and the vectors. Each loop of `f` computes values and tangents
    together, so no iteration is saved, whatever their number; the cost is about that of one or two more calls of `f`.
    Reverse mode of the result, and forward mode again, give derivatives of any order.

    Parameters
    ----------
    f : callable
        ``f(*primals)`` returns a tensor or a structure of tensors; called once, while the graph is built. Tensors of
        its closure are constants. Or, instead of a function, tensors already built from `primals`: then the result
        is their change alone, computed by reverse mode twice, since a loop already built is not changed.
    primals : tuple or list of structures of Tensor
        The arguments of `f`, of any dtypes.
    tangents : tuple or list of structures of array-like or None
        In the structure of `primals`: for each tensor a vector of its shape and dtype, or None for zeros. The tangent
        of an integer, a bool or a string is None.
    has_aux : bool, optional
        If true, `f` returns a pair of results and other values, which are returned as they are.
    name : str, optional
        Name scope of the new operations.

    Returns
    -------
    tuple
        ``(results, tangents)``, or ``(results, tangents, aux)``: for each result a tensor of its shape and dtype,
        zeros where it does not depend on what moves; None for integers, bools and strings. Rules of
        :func:`custom_gradient`, :func:`stop_gradient` and ``while_loop(back_prop=False)`` hold as in `gradients`.

    Raises
    ------
    GraphError
        If `tangents` have another structure than `primals`, a primal is no tensor, or `f` does not return tensors;
        as of `gradients`, if an operation refuses to be differentiated.
    DtypeError
        If a tangent has another dtype than its primal, or the primal is not floating or complex.
    ShapeError
        If a tangent is known to have another shape than its primal.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> def f(x):
    ...     return tg.fori_loop(0, 3, lambda i, y: y * x, 1.0)
    >>> [float(value) for value in tg.function(lambda x: tg.jvp(f, (x,), (1.0,))).sync(2.0)]
    [8.0, 12.0]

    The product of a Hessian and a vector, forward over reverse:

    >>> def loss(x):
    ...     return x[0] * x[0] * x[1]
    >>> def product(x, v):
    ...     return tg.jvp(lambda x: tg.gradients(loss(x), x)[0], (x,), (v,))[1]
    >>> tg.function(product).sync(np.float32([1, 2]), np.float32([1, 0]))
    array([4., 2.], dtype=float32)
    """
    with scopes.within(name=nested_scope_name(name)):
        if not callable(f):
            return _push_by_reverse_mode(f, primals, tangents)
        ys, moved, aux = _push_function(f, primals, tangents, has_aux)
    return (ys, moved, aux) if has_aux else (ys, moved)


def _push_function(f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool) -> tuple[Any, Any, Any]:
    """Return the results of a function, their tangents in the same structure, and its other values."""
    if not isinstance(primals, (tuple, list)):
        raise GraphError(
            "jvp takes the arguments of the function as a tuple",
            wanted="a tuple or list of primals",
            got=primals,
            hint="for a single argument write jvp(f, (x,), (v,))",
        )
    values = [_convert_primal(leaf) for leaf in nest.flatten(primals)]
    vectors = [_convert_tangent(x, v) for x, v in zip(values, _match_structure(primals, tangents), strict=True)]
    # Copies: what was computed from the primals before the call does not depend on the arguments.
    arguments = [apply("Identity", x) for x in values]
    operations = scopes.current_region().operations
    start = len(operations)
    results = call(f, nest.pack_as(list(primals), arguments), "the function of jvp")
    results, aux = _split_aux(results) if has_aux else (results, None)
    ys = [_convert_result(y) for y in nest.flatten(results)]
    entered = {x: v for x, v in zip(arguments, vectors, strict=True) if v is not None}
    found = push_forward(entered, ys, start)
    moved = [_tangent_of(y, found) for y in ys]
    return nest.pack_as(results, ys), nest.pack_as(results, moved), aux


def _match_structure(primals: Any, tangents: Any) -> list[Any]:
    """Return the entry of `tangents` for each tensor in `primals`."""
    if isinstance(tangents, (tuple, list)):
        tangents = type(primals)(tangents) if type(primals) in (tuple, list) else tangents
    try:
        return nest.flatten_up_to(primals, tangents)
    except ValueError as error:
        raise GraphError(
            "the tangents of jvp do not have the structure of the primals",
            wanted="a tangent for each tensor, in the same tuples, lists and dicts",
            got=str(error),
            hint="pass None for a tensor that does not move",
        ) from error


def _convert_primal(leaf: Any) -> Tensor:
    """Return a primal as a tensor; GraphError for a TensorArray."""
    if hasattr(leaf, "with_flow"):
        raise GraphError(
            "jvp does not differentiate by a TensorArray",
            wanted="tensors",
            got=leaf,
            hint="pass its stacked elements, and unstack them in the function",
        )
    return convert_to_tensor(leaf)


def _convert_tangent(x: Tensor, v: Any) -> Tensor | None:
    """Return the tangent of a primal as a tensor, checked against its dtype and shape; None for zeros."""
    if v is None:
        return None
    if not x.dtype.is_differentiable:
        raise DtypeError(
            "the tangent of a primal that is not differentiable must be None",
            wanted="None",
            got=v,
            operation=x.op,
            hint=f"pass None for it, or cast the primal of {x.dtype} before jvp",
        )
    try:
        tensor = convert_to_tensor(v, x.dtype)
    except TagloomError as error:
        raise DtypeError(
            "a tangent of jvp does not have the dtype of its primal",
            wanted=x.dtype,
            got=error.got,
            operation=x.op,
            hint=f"use cast(..., '{x.dtype}')",
        ) from error
    if not tensor.shape.is_compatible_with(x.shape):
        raise ShapeError(
            "a tangent of jvp does not have the shape of its primal",
            wanted=x.shape,
            got=tensor.shape,
            operation=x.op,
            hint="broadcast or reshape it to the shape of its primal",
        )
    return of_one_shape(x, tensor, "a primal and its tangent")


def _split_aux(results: Any) -> tuple[Any, Any]:
    """Return the two parts of the results of a function with other values."""
    if not isinstance(results, (tuple, list)) or len(results) != 2:
        raise GraphError(
            "the function of jvp with has_aux=True does not return a pair",
            wanted="(results, other values)",
            got=results,
            hint="return a tuple of two, or leave has_aux out",
        )
    return results[0], results[1]


def _convert_result(leaf: Any) -> Tensor:
    """Return a result of the function as a tensor."""
    if leaf is None or hasattr(leaf, "with_flow"):
        raise GraphError(
            "the function of jvp must return tensors",
            wanted="a tensor or a structure of tensors",
            got=leaf,
            hint="return the stacked elements of a TensorArray; other values go into aux, with has_aux=True",
        )
    return convert_to_tensor(leaf)


def _tangent_of(y: Tensor, found: dict[Tensor, Tensor]) -> Tensor | None:
    """Return the tangent of a result, zeros if it does not move, None if its dtype has no tangents."""
    if not y.dtype.is_differentiable:
        return None
    return found[y] if y in found else zeros_like(y)


def _push_by_reverse_mode(ys: Any, xs: Any, v: Any) -> Any:
    """Return the change of tensors already built: the derivative of their gradient by the cotangents."""
    outputs: Sequence[Tensor] = [convert_to_tensor(y) for y in nest.flatten(ys)]
    vectors = match_vectors(xs, v)
    # Zeros serve as well as any values: the gradient is linear in the cotangents, so its derivative ignores them.
    cotangents = [zeros_like(y) for y in outputs]
    back = gradients(outputs, nest.flatten(xs), cotangents)
    pairs = [(densify(g), vector) for g, vector in zip(back, vectors, strict=True) if g is not None]
    if pairs:
        moved = gradients([g for g, _ in pairs], cotangents, [w for _, w in pairs], unconnected_gradients=ZERO)
    else:
        moved = cotangents
    return nest.pack_as(ys, moved) if nest.is_container(ys) else moved[0]
