"""``while_loop``: repeat a body while a predicate on the data is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import numpy as np

from ...base import nest
from ...base.errors import GraphError
from ...base.settings import WINDOW
from ...ir.entry import public
from ...ir.structured import make_while
from ...ir.tensor import Tensor
from ...ir.typed import LoopOptions, NamedFields, TensorLike
from ...ops.control.primitives import checked_window
from ..tracing.leaves import from_tensor
from .loop_tracing import TracedLoop

if TYPE_CHECKING:
    from ..state.tensor_array import TensorArray


Function = Callable[..., Any]
K = TypeVar("K")
NT = TypeVar("NT", bound=NamedFields)
S = TypeVar("S")


# Overloads go from special to general, because type checkers take the first that fits.
@overload
def while_loop(
    cond: Function, body: Function, loop_vars: NT, shape_invariants: Any = None, **options: Unpack[LoopOptions]
) -> NT: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: TensorLike | tuple[TensorLike],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> Tensor: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: tuple[TensorLike, TensorLike],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> tuple[Tensor, Tensor]: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: tuple[TensorLike, TensorArray],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> tuple[Tensor, TensorArray]: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: tuple[TensorLike, TensorLike, TensorArray],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> tuple[Tensor, Tensor, TensorArray]: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: tuple[TensorLike, TensorLike, TensorLike],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: tuple[TensorLike, TensorLike, TensorLike, TensorLike],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: tuple[Any, ...] | list[Any],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> Any: ...
@overload
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Mapping[K, TensorLike],
    shape_invariants: Any = None,
    **options: Unpack[LoopOptions],
) -> dict[K, Tensor]: ...
@overload
def while_loop(
    cond: Function, body: Function, loop_vars: S, shape_invariants: Any = None, **options: Unpack[LoopOptions]
) -> S: ...
@overload
def while_loop(cond: Function, body: Function, loop_vars: Any, *args: Any, **options: Any) -> Any: ...
@public
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int | str = WINDOW,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
    return_same_structure: bool = False,
    *,
    independent: bool = False,
    checkpoint_every: int | None = None,
) -> Any:
    """Repeat `body` while `cond` is true (Yu et al., 2018, section 2.1).

    In Python::

        values = loop_vars
        while cond(*values):
            values = body(*values)
        return values

    Both functions are called once, while the graph is built, and again if a literal must begin in another dtype.
    Iterations overlap as far as their data allow, at most `parallel_iterations` at a time; results never depend on the
    overlap. Gradients flow through the loop whatever its length, to any order.

    Parameters
    ----------
    cond, body : callable
        Take the loop variables; return a bool scalar, and the new loop variables.
    loop_vars : structure of Tensor
        Initial values: tensors, literals, arrays, TensorArrays, in nested lists, tuples, dicts, dataclasses or
        containers registered by :func:`nest.register`. A Python number takes the dtype of its variable in the body: 0.0
        begins in float64 if the body adds a float64 tensor.
    shape_invariants : structure of shapes, optional
        Shapes that hold in every iteration, as [None, 3], for variables whose shape changes between iterations.
    parallel_iterations : int or 'auto', optional
        Most iterations in flight, at least 1; "auto" for as many as the session's `memory_limit` has room for.
    back_prop : bool, optional
        If false, no gradient flows through the loop.
    swap_memory : bool, optional
        Allow values saved for the gradient to leave the device's memory.
    maximum_iterations : int or Tensor of int32, scalar, optional
        Stop after so many iterations in any case.
    return_same_structure : bool, optional
        Return a structure of a single value unchanged; otherwise return the value.
    independent : bool, optional
        Promise that iterations do not wait for each other: each variable is a counter, stays the same, is a
        TensorArray written at different indices, or does not depend on its old value. The promise is checked here.
    checkpoint_every : int, optional
        Save for gradients only the loop variables of every so many iterations, and recompute the iterations between:
        the values of about n / k + k iterations are held instead of n, for an additional forward pass (Chen et al.,
        2016, "Training Deep Nets with Sublinear Memory Cost"); k near the square root of n holds least. Random
        operations repeat their numbers; operations with effects are not repeated, and their results are saved.

    Returns
    -------
    structure of Tensor
        The final values, in the structure of `loop_vars`.

    Raises
    ------
    LoopVariableError
        If the body returns another structure, dtype or a less specific shape.
    GraphError
        If the predicate is not a bool scalar, or is a Python bool without `maximum_iterations`; if a value of an inner
        region is used outside, `checkpoint_every` is not a positive integer, or a variable breaks the promise of
        `independent`: the text names the variable and the operations on the way. In ``gradients()``, if a hand-made
        loop would have to be recomputed.

    Examples
    --------
    >>> import tagloom as tg
    >>> @tg.function
    ... def digits(n):
    ...     return tg.while_loop(lambda n, k: n >= 10, lambda n, k: (n // 10, k + 1), [n, 1])[1]
    >>> int(digits.sync(98765))
    5
    """
    # Arguments are checked before the loop is traced, so that an error leaves no operations in the graph.
    window = checked_window(parallel_iterations)
    saving = {} if checkpoint_every is None else {"checkpoint_every": _checked_segment(checkpoint_every)}
    if not nest.flatten(loop_vars):
        raise GraphError("while_loop needs at least one loop variable", got=loop_vars, hint="pass a counter, as in [0]")
    loop = TracedLoop(loop_vars, shape_invariants, maximum_iterations)
    loop.trace(cond, body)
    if independent:
        loop.require_independence()
    op = make_while(
        loop.inits,
        loop.cond,
        loop.body,
        name=name or "while",
        source=loop.source,
        parallel_iterations=window,
        back_prop=back_prop,
        swap_memory=swap_memory,
        **saving,
    )
    # Without the hidden counter of `maximum_iterations`, the last output.
    outputs = op.outputs[: len(loop.leaves)]
    loop.settle(outputs)
    result = nest.pack_as(loop_vars, [from_tensor(leaf, t) for leaf, t in zip(loop.leaves, outputs, strict=True)])
    # A list around a single variable is dropped, as in TensorFlow 1.
    if loop.is_sequence and len(loop_vars) == 1 and not return_same_structure:
        return result[0]
    return result


def _checked_segment(given: Any) -> int:
    """Return the segment length as an int; GraphError unless a positive integer."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise GraphError(
            "checkpoint_every must be a positive integer",
            got=repr(given),
            wanted="1 or more, or None",
            hint="the square root of the number of iterations needs least memory; None saves every iteration",
        )
    return int(given)
