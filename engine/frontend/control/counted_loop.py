"""``fori_loop``: repeat a body for each integer of a range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from ...base import nest
from ...base.dtypes import int32, int64
from ...base.errors import DtypeError, LoopVariableError, ShapeError, TagloomError
from ...ir.apply import constant, convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ir.typed import FoldOptions
from .loops import while_loop

_HINT = "pass Python ints, or integer scalars of one dtype"


@public
def fori_loop(lower: Any, upper: Any, body: Callable[..., Any], init: Any, **options: Unpack[FoldOptions]) -> Any:
    """Repeat `body` for each integer from `lower` to before `upper`.

    In Python::

        carry = init
        for i in range(lower, upper):
            carry = body(i, carry)
        return carry

    A :func:`while_loop` with a counter: gradients of any order and :func:`jvp` go through the loop, whatever the
    bounds. With bounds known while the graph is built, the number of iterations is known to the passes on loops.

    Parameters
    ----------
    lower, upper : int or Tensor of an integer dtype, scalar
        The first integer, and the integer after the last; no iteration runs if `upper` is not larger. Python ints take
        the dtype of the other bound: of two, int32, or int64 if either needs it.
    body : callable
        ``body(i, carry)`` takes the integer and the value carried from the iteration before, and returns the next
        value, of the same structure, dtypes and shapes.
    init : structure of Tensor
        Value before the first iteration: tensors, literals, arrays, TensorArrays, in nested containers.
    **options
        `parallel_iterations`, `back_prop`, `swap_memory`, `name` and `checkpoint_every`, as for :func:`while_loop`.

    Returns
    -------
    structure of Tensor
        The value after the last iteration, in the structure of `init`.

    Raises
    ------
    DtypeError
        If a bound is not an integer, or the dtypes of the bounds differ.
    ShapeError
        If a bound is not a scalar.
    LoopVariableError
        If the body returns another structure, dtype or a less specific shape.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda n: tg.fori_loop(0, n, lambda i, total: total + i * i, 0)).sync(4)
    array(14, dtype=int32)
    >>> slope = tg.grad(lambda x: tg.fori_loop(0, 3, lambda i, y: y * x, 1.0))
    >>> float(slope.sync(2.0))
    12.0
    """
    first, stop = _convert_bounds(lower, upper)

    def run_body(i: Tensor, carry: Any) -> Any:
        after = body(i, carry)
        difference = nest.difference(init, after, "the carried value", outer=False)
        if difference:
            raise LoopVariableError(
                "the body of fori_loop does not return the structure of the carried value",
                wanted="the structure of init",
                got=difference,
                hint="return the next value of everything that init has, in the same lists, tuples and dicts",
            )
        return i + 1, after

    options.setdefault("name", "fori")
    return while_loop(lambda i, _: i < stop, run_body, (first, init), **options)[1]


def _convert_bounds(lower: Any, upper: Any) -> tuple[Tensor, Tensor]:
    """Return the bounds as integer scalars of one dtype."""
    typed = [bound for bound in (lower, upper) if hasattr(bound, "dtype") and not isinstance(bound, np.generic)]
    dtype = convert_to_tensor(typed[0]).dtype if typed else int32
    if not typed and any(_exceeds(bound) for bound in (lower, upper)):
        dtype = int64
    first, stop = _convert_bound(lower, "lower", dtype), _convert_bound(upper, "upper", dtype)
    if first.dtype is not stop.dtype:
        raise DtypeError(
            "the bounds of fori_loop have two dtypes",
            wanted="one integer dtype",
            got=f"{first.dtype} and {stop.dtype}",
            operation=stop.op,
            hint=f"cast one of them, as in cast(upper, '{first.dtype}')",
        )
    return first, stop


def _exceeds(bound: Any) -> bool:
    return isinstance(bound, (int, np.integer)) and not -(2**31) <= int(bound) < 2**31


def _convert_bound(bound: Any, label: str, dtype: Any) -> Tensor:
    """Return a bound as an integer scalar; Python ints take `dtype`."""
    is_int = isinstance(bound, (int, np.integer)) and not isinstance(bound, bool)
    try:
        tensor = constant(int(bound), dtype) if is_int else convert_to_tensor(bound)
    except TagloomError as error:
        raise DtypeError(
            f"the {label} bound of fori_loop is not an integer", wanted="an integer scalar", got=repr(bound), hint=_HINT
        ) from error
    if not tensor.dtype.is_integer:
        raise DtypeError(
            f"the {label} bound of fori_loop is not an integer",
            wanted="an integer scalar",
            got=tensor.dtype,
            operation=tensor.op,
            hint=_HINT,
        )
    if tensor.rank not in (0, None):
        raise ShapeError(
            f"the {label} bound of fori_loop is not a scalar",
            wanted="[]",
            got=tensor.shape,
            operation=tensor.op,
            hint="take one element, or reduce it",
        )
    return tensor
