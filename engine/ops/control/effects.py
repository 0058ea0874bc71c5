"""Operations run for their effects: grouping, printing, asserting."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...base import nest
from ...base.errors import GraphError, OpError
from ...ir import scopes
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.edges import WarnsUnused
from ...ir.rules.kernels import PassesInputs
from ...ir.rules.ordering import Ordered
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ...ir.unused import must_be_used
from ...kernels.memory.contexts import outside
from ..support.common import PYTHON, infer_nothing, same_as
from ..support.context import KernelContext
from .placeholders import identity, no_op


@public
def group(*inputs: Any, name: str | None = None) -> Operation:
    """Return an operation which runs after all of `inputs`.

    Parameters
    ----------
    inputs : Operation, Tensor, Variable, or nested structures of them
        Operations to run.

    Returns
    -------
    Operation
        Without outputs.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     u, v = tg.Variable(1.0, name="u"), tg.Variable(2.0, name="v")
    ...     update = tg.group(u.assign_add(1.0), v.assign_add(1.0))
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(tg.group(u.initializer, v.initializer))
    ...     session.run(update)
    ...     [float(value) for value in session.run([u, v])]
    [2.0, 3.0]
    """
    with _run_after(inputs):
        return no_op(name)


@public
def tuple_(tensors: Any, control_inputs: Any = (), name: str | None = None) -> Any:
    """Return the tensors, available only after all of them, and `control_inputs`, have been computed.

    Parameters
    ----------
    tensors : nested structure of Tensor of any dtype and shape
        Tensors to wait for and return.
    control_inputs : list of Operation or Tensor
        Further operations to wait for.

    Returns
    -------
    nested structure of Tensor
        Same structure, dtypes and shapes.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     v = tg.Variable(1.0, name="v")
    ...     result = tg.tuple_([tg.constant(5.0)], control_inputs=[v.assign(7.0)])
    >>> with tg.SyncSession(graph) as session:
    ...     [float(value) for value in session.run(result)], float(session.run(v))
    ([5.0], 7.0)
    """
    with _run_after([tensors, control_inputs]):
        return nest.map_structure(lambda tensor: identity(tensor, name=name), tensors)


def _run_after(inputs: Any) -> Any:
    ops = [_operation_of_leaf(leaf) for leaf in nest.flatten(list(inputs))]
    # `within` replaces the control inputs, so those of the enclosing scope are listed too.
    return scopes.within(control_inputs=(*scopes.current().control_inputs, *ops))


def _operation_of_leaf(leaf: Any) -> Operation:
    """Return the operation of a leaf; GraphError if the current region cannot wait for it."""
    element = scopes.get_default_graph().as_graph_element(leaf)
    op = element.op if isinstance(element, Tensor) else element
    # An operation in a branch or a loop's body runs any number of times: nothing outside can wait for it.
    if not op.region.encloses(scopes.current_region()):
        raise GraphError(
            f"operation {op.name} cannot be waited for outside the {op.region.role} it was made in",
            wanted=f"an operation of the {scopes.current_region().path()} or of a region around it",
            got=f"one of the {op.region.path()}",
            operation=op,
            hint="return a value of it from the branch or body",
        )
    return op


# A negative `summarize` shows all elements, as in TensorFlow.
def _format_summary(value: Any, summarize: int | None) -> str:
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic, int, float)) else None
    if array is None:
        return f"[{value!r}]"
    flat = array.ravel()
    limit = flat.size if summarize is None or summarize < 0 else summarize
    text = " ".join(str(element) for element in flat[:limit])
    return f"[{text}...]" if limit < flat.size else f"[{text}]"


def _run_print(xp: Any, context: KernelContext, value: Any, *data: Any, message: str, summarize: int | None) -> Any:
    outside(print, message + "".join(_format_summary(part, summarize) for part in data), file=sys.stderr)
    return value


define(
    "Print",
    "input: T, data: host *any -> output: T",
    attrs={"message": "", "summarize": 3},
    shape=same_as(0),
    rules=[
        PassesInputs(),
        Ordered(lambda op: PYTHON),
        WarnsUnused(
            "nobody uses what this print_ returned, so nothing is printed: go on with that, as in x = print_(x, [x])"
        ),
    ],
    kernel=_run_print,
    gradient=lambda op, g: [g] + [None] * (len(op.inputs) - 1),
    effects=Effect.SHOWS,
)


@public
def print_(input: Any, data: Any, message: str = "", summarize: int | None = 3, name: str | None = None) -> Tensor:
    """Return `input`, and print `data` to the standard error each time it is computed.

    Parameters
    ----------
    input : Tensor of any dtype and shape
        Passed through, gradients too.
    data : list of Tensor
        Tensors to print.
    message : str
        Printed before the data.
    summarize : int or None
        Elements printed of each tensor; None prints all.

    Returns
    -------
    Tensor
        Same dtype and shape.

    Examples
    --------
    >>> import contextlib, sys, tagloom as tg
    >>> with contextlib.redirect_stderr(sys.stdout):
    ...     y = tg.function(lambda x: tg.print_(x * 2.0, [x], message="x = ")).sync(1.5)
    x = [1.5]
    >>> float(y)
    3.0
    """
    result: Tensor = apply("Print", input, list(data), name=name, message=message, summarize=summarize)
    must_be_used(result.op, name)
    return result


def _run_assert(
    xp: Any, context: KernelContext, condition: Any, *data: Any, message: str, summarize: int | None
) -> None:
    """Raise OpError unless the condition is true everywhere."""
    if not np.all(condition):
        raise OpError(
            f"assertion failed: {message}" if message else "assertion failed",
            got=" ".join(_format_summary(part, summarize) for part in data) or None,
            operation=context.operation,
            wanted="a condition that is true everywhere",
            hint="fetch the condition and its data to see where it fails",
        )


define(
    "Assert",
    "condition: host bool, data: host *any ->",
    attrs={"message": "", "summarize": 3},
    shape=infer_nothing,
    kernel=_run_assert,
    gradient=NotDifferentiable("it has no value"),
    effects=Effect.SHOWS,
    rules=[
        WarnsUnused(
            "nothing waits for this assertion, so it is never checked: put what it guards under "
            "`with control_dependencies([check]):`, where check is what this call returned"
        )
    ],
)


@public
def Assert(
    condition: Any, data: Any = (), summarize: int | None = 3, message: str = "", name: str | None = None
) -> Operation:
    """Return an operation which fails the step with an OpError unless the condition holds.

    Only dependencies of a fetch run: put uses of the asserted values under ``control_dependencies([operation])``.
    Compiling a step warns of an operation without dependents and without references.

    Parameters
    ----------
    condition : bool Tensor of any shape
        All of its elements must be true.
    data : list of Tensor
        Shown in the error.
    summarize : int or None
        Elements shown of each tensor; None shows all.
    message : str
        First words of the error.

    Returns
    -------
    Operation
        Without outputs.

    Examples
    --------
    >>> import tagloom as tg
    >>> @tg.function
    ... def root(x):
    ...     tg.Assert(x >= 0.0, [x], message="root of a negative number")
    ...     return tg.sqrt(x)
    >>> root.sync(-9.0)
    Traceback (most recent call last):
        ...
    tagloom.base.errors.OpError: assertion failed: root of a negative number...
    """
    if not isinstance(data, (list, tuple)):
        raise GraphError(
            "the data of Assert is a list of tensors", wanted="a list", got=repr(data), hint="Assert(condition, [x])"
        )
    op: Operation = apply("Assert", condition, list(data), name=name, message=message, summarize=summarize)
    must_be_used(op, name)
    return op
