"""Operations which call a Python function of the user, plain or ``async def``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.array_like import as_array
from ...base.dtypes import DType
from ...base.errors import DtypeError, OpError
from ...base.shapes import Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.rules.kernels import NoRetry
from ...ir.rules.ordering import Ordered
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.memory.contexts import outside
from ..support.attributes import takes_attributes
from ..support.common import PYTHON
from ..support.context import KernelContext


def _freeze_argument(value: Any) -> Any:
    """Return a read-only view: the function's arguments may be in use elsewhere."""
    if not isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        return value
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view


def _thread_starter(context: KernelContext) -> Callable[..., Awaitable[Any]]:
    threads = context.step.threads
    assert threads is not None  # a session has some
    return threads


@dataclass(frozen=True, slots=True)
class _Declaration:
    """Attributes of a PyFunction: the function, how to call it, and what it returns."""

    function: Callable[..., Any]
    Tout: Sequence[DType]
    output_shapes: Sequence[Shape]
    single: bool
    blocking: bool
    stateful: bool


def _call_function(context: KernelContext, declared: _Declaration, inputs: Sequence[Any]) -> Any:
    """Call the function, in a thread if `blocking`, and check its result, also the result of an awaitable."""
    values, function = map(_freeze_argument, inputs), declared.function
    result = _thread_starter(context)(function, *values) if declared.blocking else function(*values)

    def check_result(value: Any) -> Any:
        return _checked_values(context, declared, value)

    return AsyncResult(result, check_result) if inspect.isawaitable(result) else check_result(result)


def _checked_values(context: KernelContext, declared: _Declaration, result: Any) -> Any:
    """Return the function's values as arrays of the declared dtypes and shapes."""
    values = [result] if declared.single else [] if result is None else result
    function, dtypes_, shapes = declared.function, declared.Tout, declared.output_shapes
    if not isinstance(values, (list, tuple)) or len(values) != len(dtypes_):
        raise _declaration_error(
            context, function, "does not return what Tout says", f"{len(dtypes_)} values", _describe_value(result)
        )
    arrays = [
        _checked_output(context, function, *part)
        for part in zip(range(len(values)), values, dtypes_, shapes, strict=True)
    ]
    pool = context.step.contexts.pool
    if pool is not None:
        # Arrays of the function count towards the pool's memory, but are never refused: the function cannot run again.
        arrays = [pool.adopt(array) for array in arrays]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _checked_output(context: KernelContext, function: Any, index: int, value: Any, dtype: DType, shape: Shape) -> Any:
    """Return a value as an array; OpError if its dtype or shape differs from the declared one."""
    try:
        array = as_array(value, dtype)
    except DtypeError as error:
        what = f"returned another dtype than Tout says, as output {index}"
        raise _declaration_error(context, function, what, dtype, _describe_value(value)) from error
    if not shape.includes(Shape(array.shape)):
        what = f"returned another shape than output_shapes says, as output {index}"
        raise _declaration_error(context, function, what, shape, Shape(array.shape))
    return array


def _describe_value(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}{list(value.shape)}"
    return f"{type(value).__name__} {value!r}"[:200]


def _declaration_error(context: KernelContext, function: Any, what: str, wanted: Any, got: Any) -> OpError:
    """Return the error for a function whose result contradicts its declaration."""
    name = getattr(function, "__qualname__", repr(function))
    return OpError(
        f"py_function {name} {what}",
        wanted=wanted,
        got=got,
        operation=context.operation,
        hint="return arrays of exactly the dtypes in Tout",
    )


@takes_attributes(_Declaration)
def _compute_py_function(xp: Any, context: KernelContext, *inputs: Any, attrs: _Declaration) -> Any:
    """Call the function outside of the kernels' context: with the user's context variables and NumPy settings."""
    return outside(_call_function, context, attrs, inputs)


def _declared_shapes(op: Operation) -> list[Shape]:
    return list(op.attrs["output_shapes"])


define(
    "PyFunction",
    "inputs: host *any -> outputs: host *@Tout",
    attrs={
        "function": REQUIRED,
        "Tout": REQUIRED,
        "output_shapes": REQUIRED,
        "single": False,
        "blocking": False,
        "stateful": True,
    },
    shape=_declared_shapes,
    rules=[NoRetry(), Ordered(lambda op: PYTHON if op.attrs["stateful"] else None)],
    kernel=_compute_py_function,
    gradient=NotDifferentiable("what a Python function computes is not known; give it one with custom_gradient"),
    effects=Effect.PYTHON | Effect.WAITS,
)
