"""``stack``, TensorFlow 1's name for two functions, and ``parallel_stack``."""

from __future__ import annotations

from typing import Any

from ...base.errors import GraphError, ShapeError
from ...ir.apply import convert_to_tensor
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.array import concat as joining
from ...ops.state import stacks


@public
def stack(
    values: Any = None,
    axis: Any = 0,
    name: str | None = None,
    *,
    elem_type: Any = None,
    max_size: Any = -1,
    stack_name: str = "",
) -> Tensor:
    """Join tensors along a new axis; or, with an `elem_type`, make a last-in-first-out stack.

    In Python: ``numpy.stack(values, axis)``, or ``[]`` for ``stack_push`` and ``stack_pop`` to use.

    Parameters
    ----------
    values : sequence of Tensor, optional
        Of the same dtype and shape. Not with `elem_type`.
    axis : int
        Position of the new axis in the result.
    name : str, optional
        Name of the operation.
    elem_type : dtype-like, optional
        Dtype of the values on the stack; its presence selects the last-in-first-out stack.
    max_size : int32 scalar
        Maximum number of values on the stack; below 0 there is no bound.
    stack_name : str
        Name of the stack in messages.

    Returns
    -------
    Tensor
        The joined values, of rank higher by 1; or the stack's resource handle, a new stack in each step.

    Raises
    ------
    GraphError
        If both or neither of `values` and `elem_type` are given.
    ShapeError
        If the shapes of the values differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     both = tg.stack([tg.constant([1, 2]), tg.constant([3, 4])])
    ...     handle = tg.stack(elem_type="float32")
    >>> both.shape
    Shape(2, 2)
    """
    if (values is None) == (elem_type is None):
        raise GraphError(
            "stack either joins tensors or makes a last-in-first-out stack",
            wanted="values, or elem_type",
            got="neither" if values is None else "both",
            hint="stack([a, b]) joins; stack(elem_type=...) makes a stack",
        )
    if elem_type is None:
        return joining.stack(values, axis, name)
    return stacks.stack(max_size, elem_type, stack_name, name)


@public
def parallel_stack(values: Any, name: str | None = None) -> Tensor:
    """Join tensors of known shapes along a new first axis.

    The same as ``stack(values)``, under the name of TensorFlow's operation, which copies each value on arrival. Here
    all values are copied together after the last arrival, and gradients flow.

    Parameters
    ----------
    values : sequence of Tensor
        Of the same dtype and shape, known while the graph is built.
    name : str, optional
        Name of the operation.

    Returns
    -------
    Tensor
        The joined values, of rank higher by 1.

    Raises
    ------
    ShapeError
        If a shape is not fully known, or the shapes differ.

    Examples
    --------
    >>> import tagloom as tg
    >>> tg.function(lambda: tg.parallel_stack([tg.constant([1, 2]), tg.constant([3, 4])])).sync().tolist()
    [[1, 2], [3, 4]]
    """
    tensors = [convert_to_tensor(value) for value in values]
    for tensor in tensors:
        if not tensor.shape.is_fully_known:
            raise ShapeError(
                "parallel_stack needs shapes that are known while the graph is built",
                wanted="a shape without unknown dimensions",
                got=tensor.shape,
                operation=tensor.op,
                hint="use stack, which takes any shapes",
            )
    return joining.stack(tensors, 0, name)
