"""Functions of tensors with a custom gradient, or with a gradient that saves fewer intermediate values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base import nest
from ...base.calling import call
from ...base.errors import GraphError
from ...ir import scopes
from ...ir.apply import apply, constant, convert_to_tensor
from ...ir.entry import opened_for, public
from ...ir.operation import Operation
from ...ops.control.custom import ForwardLoops, within_gradient
from ..control.branches import build_branches


@public
def custom_gradient(f: Callable[..., Any] | None = None, *, through_loops: bool | None = None) -> Callable[..., Any]:
    """Return a function of tensors with a custom gradient.

    In Python: ``ys, grad_fn = f(*args)`` computes the values, ``grad_fn(*dys)`` the gradients. Operations inside `f`
    are not differentiated: the gradient flows to the arguments through `grad_fn`, and to no tensor of `f`'s closure.
    `grad_fn` is called once in each call of ``gradients()``; it may use the arguments, other values computed in `f`
    and any surrounding tensor, also inside loops and branches, and is itself differentiable.

    Parameters
    ----------
    f : callable
        Takes tensors, or structures of tensors; returns a pair: a tensor or structure `ys`, and a function that takes
        a cotangent for each y (zeros where nothing flows) and returns a gradient, or None, for each tensor in the
        arguments. Without `f`, a decorator with the option is returned.
    through_loops : bool, optional
        True if ``gradients()``, called in `grad_fn`, differentiates through loops built by `f`. False treats results
        of these loops as constants, as implicit differentiation requires. By default gradients flow through loops, with
        a warning if a y depends on an x both through a loop and outside of loops.

    Returns
    -------
    callable
        Takes the arguments of `f` (keyword arguments are passed unchanged), returns `ys`.

    Raises
    ------
    GraphError
        If `f` does not return a pair; in ``gradients()``, if `grad_fn` returns the wrong number of gradients.

    Examples
    --------
    A bounded gradient:

    >>> import tagloom as tg
    >>> @tg.custom_gradient
    ... def bounded(x):
    ...     return tg.identity(x), lambda dy: tg.clip_by_value(dy, -1.0, 1.0)
    >>> float(tg.grad(lambda x: bounded(x) * 100.0).sync(3.0))
    1.0

    The gradient of z with ``z == cos(a * z)``, by the implicit function theorem, not through the iterations:

    >>> @tg.custom_gradient(through_loops=False)
    ... def fixed_point(a):
    ...     z = tg.while_loop(lambda i, z: i < 60, lambda i, z: (i + 1, tg.cos(a * z)), [0, a * 0.0])[1]
    ...     def gradient(dz):
    ...         by_z, by_a = tg.gradients(tg.cos(a * z), [z, a])
    ...         return dz * by_a / (1.0 - by_z)
    ...     return z, gradient
    >>> round(float(tg.grad(fixed_point).sync(0.5)), 4)
    -0.3218
    """
    if f is None:
        return functools.partial(custom_gradient, through_loops=through_loops)
    return _CustomGradient(f, through_loops)


class _CustomGradient:
    """A function with a custom gradient; as an attribute of a class it is a method, whose `self` is no argument."""

    def __init__(self, f: Callable[..., Any], through_loops: bool | None = None) -> None:
        self.f = f
        self.through_loops: bool | None = through_loops
        functools.update_wrapper(self, f)

    def __get__(self, instance: Any, owner: type | None = None) -> _CustomGradient:
        # Callables such as partial objects do not bind an instance.
        if not hasattr(self.f, "__get__"):
            return self
        return _CustomGradient(self.f.__get__(instance, owner), self.through_loops)

    @public
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f = self.f
        tensors = nest.map_structure(convert_to_tensor, args)
        operations = scopes.current_region().operations
        before = len(operations)
        # Everything that f builds in this region is after this index.
        result = _call_named(f, tensors, kwargs)
        if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
            name = getattr(f, "__qualname__", repr(f))
            raise GraphError(
                f"{name} does not return its values and a gradient function",
                wanted="a pair (ys, grad_fn)",
                got=result,
                hint="return y, lambda dy: ...",
            )
        values, gradient = result
        # gradients() called in `gradient` must recognize results of these loops, to pass through them or to stop there.
        loops = frozenset(t for op in operations[before:] if _has_loop(op) for t in op.outputs)
        if loops:
            gradient = within_gradient(gradient, ForwardLoops(loops, self.through_loops))
        ys = [convert_to_tensor(y) for y in nest.flatten(values)]
        # The arguments are inputs as well: the gradient steps from outputs to arguments, past the operations of f.
        outputs = apply(
            "CustomGradient",
            [*ys, *nest.flatten(tensors)],
            dtypes=tuple(y.dtype for y in ys),
            num=len(ys),
            gradient=gradient,
        )
        return nest.pack_as(values, outputs)


def _has_loop(op: Operation) -> bool:
    """Return True for a loop, or for a conditional with a loop in its branches."""
    return op.is_while or any(_has_loop(inner) for region in op.regions for inner in region.operations)


@public
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose gradient is the identity, whatever the function computes.

    A straight-through estimator (Bengio et al., 2013, "Estimating or Propagating Gradients Through Stochastic Neurons
    for Conditional Computation"): for rounding, sampling and other functions without a useful gradient.

    Parameters
    ----------
    f : callable
        Takes tensors; returns as many, of their shapes. No gradient flows to tensors of its closure.

    Returns
    -------
    callable
        Computes the values of `f`; the cotangent of each result is passed to the argument in the same position.

    Raises
    ------
    GraphError
        In ``gradients()``, if the results of `f` differ in number from the tensors in its arguments.

    Examples
    --------
    >>> import tagloom as tg
    >>> value, gradient = tg.value_and_grad(lambda x: tg.grad_pass_through(tg.round)(x) * 3.0).sync(1.7)
    >>> float(value), float(gradient)
    (6.0, 3.0)
    """

    @functools.wraps(f)
    def call_with_identity_gradient(*args: Any, **kwargs: Any) -> Any:
        return _call_named(f, args, kwargs), lambda *dys: dys

    return _CustomGradient(call_with_identity_gradient)


@public
def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose gradient recomputes the intermediate values, instead of saving them.

    Between the forward and the backward pass only the inputs of `f` are held: its arguments and the tensors of its
    closure; for a chain of such functions the values between them (Chen et al., 2016, "Training Deep Nets with
    Sublinear Memory Cost"). The cost is an additional forward pass of `f`, started when the cotangents of its results
    are available. Values and gradients equal those of `f`, to any order, for variables and tensors of the closure too.
    Random operations repeat their numbers; operations with effects are not repeated, and their results are saved.

    Parameters
    ----------
    f : callable
        Takes any arguments and returns a structure of tensors; called once in each call, while the graph is built.
        Tensors made inside are visible there only, as in a branch of :func:`cond`.

    Returns
    -------
    callable
        Takes the arguments of `f`, returns the results of `f`.

    See Also
    --------
    while_loop : with `checkpoint_every`, recomputes segments of its iterations in the same way.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> @tg.recompute_grad
    ... def block(x, w):
    ...     return tg.tanh(tg.tanh(x @ w) @ w)
    >>> loss = lambda w, x: tg.reduce_sum(block(block(x, w), w))
    >>> tg.grad(loss).sync(np.eye(3, dtype=np.float32), np.zeros((2, 3), np.float32)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    @functools.wraps(f)
    def call_in_branch(*args: Any, **kwargs: Any) -> Any:
        name = getattr(f, "__name__", "")
        # "<lambda>", for example, cannot name an operation.
        name = name if name.isidentifier() else "recompute_grad"
        with opened_for((args, kwargs)):
            # A conditional with a single branch: its region is the unit of recomputation.
            return build_branches(
                constant(0), [lambda: _call_named(f, args, kwargs)], strict=True, name=name, recompute=True
            )

    return call_in_branch


def _call_named(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a user's function with its name for error messages."""
    return call(f, args, f"the function {getattr(f, '__qualname__', f)}", kwargs)
