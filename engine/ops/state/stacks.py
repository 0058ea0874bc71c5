"""Stacks: last in, first out, for one step (rules 102 and 103). Values saved for gradients do not use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.dtypes import DType
from ...base.errors import StackError
from ...base.resources import Resource
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ..support.common import infer_nothing, same_as
from ..support.context import KernelContext


class StackStorage(Resource):
    """The values on a stack; `max_size` below 0 means unbounded."""

    __slots__ = ("closed", "dtype", "max_size", "name", "values")

    def __init__(self, dtype: DType, max_size: int, name: str) -> None:
        self.dtype: DType = dtype
        self.max_size: int = max_size
        self.name: str = name
        self.values: list[Any] = []
        self.closed: bool = False

    @property
    def label(self) -> str:
        """Label in error messages."""
        return f"values on stack {self.name}"

    def arrays(self) -> Iterable[Any]:
        """Return the values."""
        return self.values

    async def aclose(self) -> None:
        """Free the values at the end of the step."""
        self.close()

    def push(self, value: Any, operation: str) -> Any:
        """Push `value`, and return `value`."""
        self._check_open(operation)
        dtype = dtypes.as_dtype(value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype)
        if dtype is not self.dtype:
            raise self._stack_error(
                "was given another dtype", operation, wanted=self.dtype, got=dtype, hint="cast the value"
            )
        if 0 <= self.max_size <= len(self.values):
            raise self._stack_error(
                f"overflowed its max_size of {self.max_size}",
                operation,
                wanted=f"at most {self.max_size} values",
                got="one more",
                hint="pop before pushing, or make it with max_size=-1",
            )
        self.values.append(value)
        return value

    def pop(self, dtype: DType, operation: str) -> Any:
        """Take the top value."""
        self._check_open(operation)
        if dtype is not self.dtype:
            raise self._stack_error(
                "was popped as another dtype",
                operation,
                wanted=self.dtype,
                got=dtype,
                hint=f"give stack_pop elem_type='{self.dtype}'",
            )
        if not self.values:
            raise self._stack_error(
                "is empty when calling stack_pop",
                operation,
                wanted="a value pushed before",
                hint="order the pop after the push with control_dependencies",
            )
        return self.values.pop()

    def close(self) -> None:
        """Free the values; later use is an error."""
        self.closed = True
        self.values = []

    def _check_open(self, operation: str) -> None:
        if self.closed:
            raise self._stack_error(
                "was used after it was closed",
                operation,
                hint="let stack_close wait for the last use with control_dependencies",
            )

    def _stack_error(self, what: str, operation: str, **fields: Any) -> StackError:
        return StackError(f"stack '{self.name}' {what}", operation=operation, **fields)


_REASON = NotDifferentiable("a stack moves values outside the graph's edges; gradients keep their own saved values")


def _make_stack(xp: Any, context: KernelContext, max_size: Any, *, elem_type: DType, stack_name: str) -> StackStorage:
    made = StackStorage(elem_type, int(max_size), stack_name or context.operation)
    context.step.resources.add_to_step(context.step.number, made)
    return made


define(
    "StackNew",
    "max_size: host int32 -> handle: resource",
    attrs={"elem_type": REQUIRED, "stack_name": ""},
    shape=lambda op: SCALAR,
    kernel=_make_stack,
    gradient=_REASON,
    effects=Effect.WRITES,
)


def stack(max_size: Any = -1, elem_type: Any = "float32", stack_name: str = "", name: str | None = None) -> Tensor:
    """Make a stack for this step; each execution makes a new stack, whatever its name.

    Parameters
    ----------
    max_size : int32 scalar
        Largest number of values; unbounded below 0.
    elem_type : dtype-like
        Dtype of the values.
    stack_name : str
        Name in messages.

    Returns
    -------
    Tensor
        The resource handle for `stack_push` and `stack_pop`.
    """
    return apply("StackNew", max_size, name=name, elem_type=dtypes.as_dtype(elem_type), stack_name=stack_name)


define(
    "StackPush",
    "handle: resource, value: T -> output: T",
    attrs={"swap_memory": False},
    shape=same_as(1),
    kernel=lambda xp, context, values, value, *, swap_memory: values.push(value, context.operation),
    gradient=_REASON,
    effects=Effect.WRITES,
)


@public
def stack_push(handle: Tensor, value: Any, swap_memory: bool = False, name: str | None = None) -> Tensor:
    """Push a value.

    Parameters
    ----------
    handle : Tensor
        The stack.
    value : Tensor of the stack's dtype, any shape
        Value to push.
    swap_memory : bool
        Whether the value may leave the device until its pop; never changes results (rule 104).

    Returns
    -------
    Tensor
        `value`, so that its uses come after the push.

    Raises
    ------
    StackError
        In a step, if the stack is full, closed or of another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     handle = tg.stack(elem_type="int32")
    ...     with tg.control_dependencies([tg.stack_push(handle, 1)]):
    ...         pushed = tg.stack_push(handle, 2)
    ...     with tg.control_dependencies([pushed]):
    ...         top = tg.stack_pop(handle, "int32")
    >>> with tg.SyncSession(graph) as session:
    ...     int(session.run(top))
    2
    """
    return apply("StackPush", handle, value, name=name, swap_memory=swap_memory)


define(
    "StackPop",
    "handle: resource -> value: @elem_type",
    attrs={"elem_type": REQUIRED},
    shape=lambda op: Shape(None),
    kernel=lambda xp, context, values, *, elem_type: values.pop(elem_type, context.operation),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
)


@public
def stack_pop(handle: Tensor, elem_type: Any = "float32", name: str | None = None) -> Tensor:
    """Pop the value pushed last.

    Parameters
    ----------
    handle : Tensor
        The stack.
    elem_type : dtype-like
        The stack's dtype.

    Returns
    -------
    Tensor
        Of dtype `elem_type` and unknown shape.

    Raises
    ------
    StackError
        In a step, if the stack is empty, closed or of another dtype.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     top = tg.stack_pop(tg.stack(elem_type="float32"))
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(top)
    Traceback (most recent call last):
        ...
    tagloom.base.errors.StackError: stack ... is empty when calling stack_pop...
    """
    return apply("StackPop", handle, name=name, elem_type=dtypes.as_dtype(elem_type))


define(
    "StackClose",
    "handle: resource ->",
    shape=infer_nothing,
    kernel=lambda xp, context, values: values.close(),
    gradient=_REASON,
    effects=Effect.WRITES,
)


@public
def stack_close(handle: Tensor, name: str | None = None) -> Operation:
    """Return an operation that frees the values of stack `handle`; later uses raise StackError.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     handle = tg.stack(elem_type="int32")
    ...     with tg.control_dependencies([tg.stack_close(handle)]):
    ...         pushed = tg.stack_push(handle, 5)
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(pushed)
    Traceback (most recent call last):
        ...
    tagloom.base.errors.StackError: stack ... was used after it was closed...
    """
    return apply("StackClose", handle, name=name)
