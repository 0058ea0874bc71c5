"""``tagloom.grad`` and ``tagloom.value_and_grad``: functions returning gradients of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, overload

from ...base import nest
from ...base.errors import DtypeError, GraphError, ShapeError
from ...gradients import gradients
from ...ir.apply import convert_to_tensor
from ...ir.tensor import Tensor
from ...ir.typed import Array
from ...ops.control.placeholders import identity
from .function import Function
from .options import DEFAULTS

if TYPE_CHECKING:
    from .calls import ValueCall

P = ParamSpec("P")


@overload
def value_and_grad(
    function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: Literal[False] = False
) -> Function[P, tuple[Array, Any], ValueCall[tuple[Array, Any]]]: ...
@overload
def value_and_grad(
    function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function[P, Any, Any]: ...
def value_and_grad(
    function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function[P, Any, Any]:
    """Return a function computing the value of `function` and its gradient with respect to some arguments.

    Parameters
    ----------
    function : callable or Function
        Returns a floating scalar.
    argnums : int or sequence of int, optional
        Indices of positional arguments; each argument may be a structure of floating or complex tensors.
    has_aux : bool, optional
        True if `function` returns a pair of the scalar and an auxiliary value.

    Returns
    -------
    Function
        Function of the same parameters returning ``(value, gradient)``: a gradient has the structure of its argument,
        with zeros where the value does not depend on the argument; for several arguments, a tuple of gradients.

    Raises
    ------
    GraphError
        When called, if there is no such argument.
    DtypeError, ShapeError
        When called, if `function` returns no floating scalar, or an argument has no gradient.

    Examples
    --------
    >>> import tagloom as tg
    >>> f = tg.value_and_grad(lambda w, x: tg.reduce_sum(w * x * x), argnums=(0, 1))
    >>> value, (by_w, by_x) = f.sync(2.0, [3.0, 1.0])
    >>> float(value), float(by_w), [float(g) for g in by_x]
    (20.0, 10.0, [12.0, 4.0])
    """
    _require_function(function)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(function)
    def compute_value_and_gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        given = list(args)
        for number in numbers:
            if not -len(given) <= number < len(given):
                raise GraphError(
                    "there is no such argument to differentiate with respect to",
                    wanted=f"one of the {len(given)} positional arguments",
                    got=f"argnums={argnums}",
                    hint="give the argument by its position",
                )
            # A new tensor for each argument: the same tensor may be passed twice, with two gradients.
            given[number] = nest.map_structure(_copy_as_tensor, given[number])
        result = function(*given, **kwargs)  # type: ignore[arg-type]
        value = convert_to_tensor(result[0] if has_aux else result)
        _require_scalar(value)
        places = [given[number] for number in numbers]
        found = gradients(value, nest.flatten(places), unconnected_gradients="zero")
        packed = tuple(nest.pack_as(places, [convert_to_tensor(g) for g in found]))
        return result, packed[0] if isinstance(argnums, int) else packed

    return _with_options_of(function, compute_value_and_gradient)


def grad(function: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function[P, Any, Any]:
    """Return a function computing the gradient of `function` with respect to some arguments.

    Parameters
    ----------
    function, argnums, has_aux
        As for :func:`value_and_grad`.

    Returns
    -------
    Function
        Function of the same parameters returning the gradient as :func:`value_and_grad` does; with `has_aux` a pair of
        the gradient and the auxiliary value.

    Raises
    ------
    GraphError, DtypeError, ShapeError
        As for :func:`value_and_grad`.

    Examples
    --------
    >>> import tagloom as tg
    >>> cube = lambda x: x * x * x
    >>> float(tg.grad(tg.grad(cube)).sync(2.0))
    12.0
    """
    both = value_and_grad(function, argnums, has_aux)

    @wraps(function)
    def compute_gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, gradient = both.python_function(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return _with_options_of(function, compute_gradient)


def _copy_as_tensor(leaf: Any) -> Tensor:
    """Return a copy of an argument as a tensor to differentiate by; DtypeError for integers and the like."""
    tensor = convert_to_tensor(leaf)
    if not tensor.dtype.is_differentiable:
        raise DtypeError(
            "a gradient is asked for with respect to an argument that has none",
            wanted="a floating or complex tensor",
            got=tensor,
            operation=tensor.op,
            hint="give it as a float, or choose other arguments by argnums",
        )
    return identity(tensor)


def _require_scalar(value: Tensor) -> None:
    """Raise DtypeError or ShapeError unless the function's value is a real floating scalar."""
    if not value.dtype.is_floating:
        raise DtypeError(
            "only a floating value has a gradient",
            wanted="a real floating scalar",
            got=value,
            operation=value.op,
            hint="cast it",
        )
    if value.rank != 0:
        raise ShapeError(
            "only a scalar has a gradient",
            wanted="a function that gives a scalar",
            got=value,
            operation=value.op,
            hint="return tagloom.reduce_sum(...) or reduce_mean(...) of it",
        )


def _with_options_of(function: Callable[..., Any], differentiated: Callable[P, Any]) -> Function[P, Any, Any]:
    """Return a Function of `differentiated`, with the options of `function` if also a Function."""
    return Function(differentiated, function.options if isinstance(function, Function) else DEFAULTS)


def _require_function(function: Any) -> None:
    if not callable(function):
        raise GraphError(
            "there is nothing to differentiate",
            wanted="a function, or one that tagloom.function has made",
            got=repr(function),
            hint="tagloom.grad(lambda w: reduce_sum(w * w))",
        )
