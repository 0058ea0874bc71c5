"""``jacobian`` and ``batch_jacobian``; products with Hessians by differentiating twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from ..base import nest
from ..base.errors import GraphError, ShapeError
from ..ir import scopes
from ..ir.apply import apply, constant, convert_to_tensor
from ..ir.entry import public
from ..ir.tensor import Tensor
from ..ir.typed import AsTensor, NamedFields
from ..ops.support.common import shape_of
from .api import NONE, ZERO, gradients, key_of
from .cotangents import densify
from .rows import stacked_gradients
from .zeros import shape_of_value

K = TypeVar("K")
NT = TypeVar("NT", bound=NamedFields)
S = TypeVar("S")


@overload
def jacobian(
    output: Any,
    inputs: NT,
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> NT: ...
@overload
def jacobian(
    output: Any,
    inputs: Tensor | AsTensor,
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> Tensor: ...
@overload
def jacobian(
    output: Any,
    inputs: list[Tensor] | list[AsTensor] | list[Any],
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> list[Tensor]: ...
@overload
def jacobian(
    output: Any,
    inputs: tuple[Tensor | AsTensor, Tensor | AsTensor],
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def jacobian(
    output: Any,
    inputs: tuple[Tensor | AsTensor, Tensor | AsTensor, Tensor | AsTensor],
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def jacobian(
    output: Any,
    inputs: Mapping[K, Tensor | AsTensor],
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> dict[K, Tensor]: ...
@overload
def jacobian(
    output: Any, inputs: S, unconnected_gradients: str = NONE, name: str = "jacobian", *, vectorized: bool | None = None
) -> S: ...
@public
def jacobian(
    output: Any,
    inputs: Any,
    unconnected_gradients: str = NONE,
    name: str = "jacobian",
    *,
    vectorized: bool | None = None,
) -> Any:
    """Build the derivatives of each element of a tensor with respect to each element of others.

    The gradients of all elements are computed at once, as by `vmap` over their cotangents.

    Parameters
    ----------
    output : Tensor
        Of a floating or complex dtype.
    inputs : Tensor, Variable or structure of them
        Tensors to differentiate with respect to.
    unconnected_gradients : {'none', 'zero'}, optional
        Result for an input without a path to the output: None, or zeros.
    name : str, optional
        Name scope of the new operations.
    vectorized : bool, optional
        False computes the gradients of one element after the other in a loop in the graph, with less memory; True is
        an error if an operation has no rule for many elements at once. By default the loop is built in this case.

    Returns
    -------
    structure
        In the structure of `inputs`: for each a Tensor of shape ``output.shape + input.shape``, or None.

    Raises
    ------
    GraphError, DtypeError
        As of `gradients`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.constant([1.0, 2.0])
    ...     j = tg.jacobian(tg.stack([x[0] * x[1], x[1] ** 2.0]), x)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(j)
    array([[2., 1.],
           [0., 4.]], dtype=float32)
    """
    y, xs = densify(convert_to_tensor(output)), nest.flatten(inputs)
    with scopes.within(name=nested_scope_name(name)):
        flat = apply("Reshape", y, constant([-1], "int32"))
        rows = stacked_gradients(flat, xs, unconnected_gradients, "rows", vectorized)
        found = [
            None if row is None else _restore_output_dimensions(row, y, x) for row, x in zip(rows, xs, strict=True)
        ]
    return nest.pack_as(inputs, found) if nest.is_container(inputs) else found[0]


def nested_scope_name(name: str) -> str:
    """Return a name scope inside the current one."""
    outer = scopes.current().name
    return f"{outer}/{name}" if outer else name


def _restore_output_dimensions(rows: Tensor, y: Tensor, x: object) -> Tensor:
    """Return rows with the dimensions of `y` in place of the first dimension."""
    shape = apply("Concat", [shape_of(y), shape_of_value(key_of(x))], axis=0)
    return apply("Reshape", rows, shape)


@public
def batch_jacobian(
    output: Any,
    inp: Any,
    unconnected_gradients: str = NONE,
    name: str = "batch_jacobian",
    *,
    vectorized: bool | None = None,
) -> Tensor | None:
    """Build the Jacobian of each example of a batch, where no example depends on another.

    The gradients of all elements of an example, and of all examples, are computed at once.

    Parameters
    ----------
    output : Tensor of shape [batch, ...]
        Of a floating or complex dtype.
    inp : Tensor of shape [batch, ...]
        The tensor to differentiate with respect to.
    unconnected_gradients : {'none', 'zero'}, optional
        Result if the output does not depend on the input: None, or zeros.
    name : str, optional
        Name scope of the new operations.
    vectorized : bool, optional
        As for `jacobian`.

    Returns
    -------
    Tensor or None
        Of shape ``[batch] + output.shape[1:] + inp.shape[1:]``.

    Raises
    ------
    ShapeError
        If either is known to be a scalar, or the batch sizes are known to differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.constant([[1.0, 2.0], [3.0, 4.0]])
    ...     j = tg.batch_jacobian(x * x, x)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(j).tolist()
    [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]
    """
    y, x = convert_to_tensor(output), convert_to_tensor(inp)
    _check_batch(y, x)
    with scopes.within(name=nested_scope_name(name)):
        width = _count_elements(shape_of(y)[1:])
        # Elements first: row k holds element k of every example.
        flat = apply("Transpose", apply("Reshape", y, apply("Stack", [shape_of(y)[0], width], axis=0)), perm=(1, 0))
        (rows,) = stacked_gradients(flat, [x], unconnected_gradients, "rows", vectorized)
        return None if rows is None else _by_example(rows, y, x)


def _check_batch(y: Tensor, x: Tensor) -> None:
    """Refuse scalars, and batch sizes known to differ."""
    if 0 in (y.rank, x.rank) or not y.shape[:1].is_compatible_with(x.shape[:1]):
        raise ShapeError(
            "batch_jacobian wants an output and an input for each example",
            wanted="shapes [batch, ...] with one size of the batch",
            got=f"{y.shape} and {x.shape}",
            operation=y.op,
            hint="jacobian differentiates everything with respect to everything",
        )


def _count_elements(sizes: Tensor) -> Tensor:
    return apply("Prod", sizes, axis=None, keepdims=False)


def _by_example(rows: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Return rows [element of an output, batch, ...] as [batch, ...]; no size is inferred, since sizes may be 0."""
    out, inner = shape_of(y), shape_of(x)
    sizes = apply("Stack", [_count_elements(out[1:]), inner[0], _count_elements(inner[1:])], axis=0)
    by_example = apply("Transpose", apply("Reshape", rows, sizes), perm=(1, 0, 2))
    return apply("Reshape", by_example, apply("Concat", [out, inner[1:]], axis=0))


@public
def hessian_vector_product(ys: Any, xs: Any, v: Any, name: str = "hessian_vector_product") -> list[Tensor]:
    """Build the product of the Hessian of the sum of `ys` and vectors, without the Hessian (Pearlmutter, 1994).

    Parameters
    ----------
    ys : Tensor or structure of Tensor
        Of a real floating dtype.
    xs : Tensor, Variable or sequence of them
    v : array-like or sequence of them
        For each x a tensor of its shape and dtype.
    name : str, optional
        Name scope of the new operations.

    Returns
    -------
    list of Tensor
        For each x a tensor of its shape, zeros where the gradient does not depend on x.

    Raises
    ------
    GraphError
        If there is not one vector for each x.
    ShapeError
        If a vector is known to have another shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.constant([1.0, 2.0])
    ...     (hv,) = tg.hessian_vector_product(x[0] * x[0] * x[1], x, [1.0, 0.0])
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(hv)
    array([4., 2.], dtype=float32)
    """
    values = nest.flatten(xs)
    vectors = match_vectors(xs, v)
    with scopes.within(name=nested_scope_name(name)):
        first = [densify(g) for g in gradients(ys, values, unconnected_gradients=ZERO)]
        return [densify(g) for g in gradients(first, values, vectors, unconnected_gradients=ZERO)]


def match_vectors(xs: Any, v: Any) -> list[Any]:
    """Return a vector for each x: for a single x, `v` is the vector, or a list with the vector."""
    values = nest.flatten(xs)
    if not nest.is_container(xs):
        alone = isinstance(v, (list, tuple)) and len(v) == 1 and hasattr(v[0], "shape")
        return list(v) if alone else [v]
    vectors = list(v) if isinstance(v, (list, tuple)) else nest.flatten(v)
    if len(vectors) != len(values):
        raise GraphError(
            "a derivative in a direction wants a vector for each x",
            wanted=len(values),
            got=len(vectors),
            hint="give them in the order of xs, each in the shape of its x",
        )
    return vectors
