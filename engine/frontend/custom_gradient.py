"""``custom_gradient``: a function of tensors with a gradient of one's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..base import nest
from ..base.errors import GraphError
from ..ir.apply import apply, convert_to_tensor
from ..ir.entry import public
from ..ops.control import custom as _operations  # noqa: F401  declares the operation type used below


@public
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function of tensors a gradient of its own.

    In Python: ``ys, grad_fn = f(*args)`` computes the values, ``grad_fn(*dys)`` the gradients. Nothing inside `f` is
    differentiated: the gradient flows to the arguments as `grad_fn` says, and to no tensor that `f` closes over.
    `grad_fn` is called once in each call of ``gradients()``; it may use the arguments, other values computed in `f`
    and any tensor around, also inside loops and branches, and can be differentiated again.

    Parameters
    ----------
    f : callable
        Takes tensors, or structures of them; returns a pair: a tensor or structure `ys`, and a function that takes
        one cotangent for each y (zeros where nothing flows) and returns one gradient for each tensor in the
        arguments, None where there is none.

    Returns
    -------
    callable
        Takes the arguments of `f` (keyword arguments are passed on as they are), returns `ys`.

    Raises
    ------
    GraphError
        If `f` does not return a pair; in ``gradients()``, if `grad_fn` returns the wrong number of gradients.

    Examples
    --------
    A gradient that is bounded:

    >>> import tagflow as tg
    >>> @tg.custom_gradient
    ... def bounded(x):
    ...     return tg.identity(x), lambda dy: tg.clip_by_value(dy, -1.0, 1.0)
    >>> with tg.Graph().as_default():
    ...     x = tg.constant(3.0)
    ...     (g,) = tg.gradients(bounded(x) * 100.0, [x])
    """

    return _CustomGradient(f)


class _CustomGradient:
    """A function with a gradient of its own; in a class it is a method, whose `self` is no argument."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        functools.update_wrapper(self, f)

    def __get__(self, instance: Any, owner: type | None = None) -> _CustomGradient:
        return _CustomGradient(self.f.__get__(instance, owner)) if hasattr(self.f, "__get__") else self

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f = self.f
        given = nest.map_structure(convert_to_tensor, args)
        made = f(*given, **kwargs)
        if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
            name = getattr(f, "__qualname__", repr(f))
            raise GraphError(
                f"{name} does not return its values and a gradient function",
                wanted="a pair (ys, grad_fn)",
                got=made,
                hint="return y, lambda dy: ...",
            )
        values, gradient = made
        ys = [convert_to_tensor(y) for y in nest.flatten(values)]
        outputs = apply(
            "CustomGradient",
            [*ys, *nest.flatten(given)],
            dtypes=tuple(y.dtype for y in ys),
            num=len(ys),
            gradient=gradient,
        )
        return nest.pack_as(values, outputs)
