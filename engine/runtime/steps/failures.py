"""Completion of a step's errors: with the operation, its instance, the user's line, and a hint."""

from __future__ import annotations

import asyncio
from typing import Any

from ...base.errors import OpError, UninitializedVariableError
from ...compile.plan.plan import Node, Plan
from ...frontend.state.variables import older_initializer
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...kernels.scheduler.limited import NoRoom
from ...ops.state.variables.operations import variable_key
from ..memory.limits import no_room


def complete(graph: Graph, plan: Plan, index: int, tag: str, error: BaseException, shapes: Any) -> BaseException:
    """Return the error that the caller of a step gets.

    Parameters
    ----------
    graph : Graph
        The user's graph.
    plan : Plan
        The plan of the machine.
    index : int
        Number of the node that failed; -1 for an error from outside of the step.
    tag : str
        Tag of the failed instance.
    error : BaseException
        Error raised by the instance.
    shapes : sequence
        Shapes of the instance's inputs.

    Returns
    -------
    BaseException
        `error` itself if `error` came from outside, is a cancellation or an exit, or is an OpError of this very
        instance, whose empty fields are then filled in; else an OpError with `error` as its cause.
    """
    if index < 0:
        return error
    # Cancellations and exits keep their type, on which asyncio and the interpreter rely.
    if not isinstance(error, Exception):
        if isinstance(error, asyncio.CancelledError):
            error.add_note(f"raised by {tag}, not by a cancellation of the step")
        return error
    operation = user_operation(graph, plan.nodes[index])
    if isinstance(error, NoRoom):
        error = no_room(error)
    if not isinstance(error, OpError) or error.tag is not None:  # an error with a tag comes from a nested step
        error = _wrap_error(error, operation)
    if isinstance(error, UninitializedVariableError) and isinstance(operation, Operation):
        # An initializer older than the variable explains more than the error's own hint.
        error.hint = _late_variable(graph, operation) or error.hint
    error.tag = tag
    if plan.device:
        error.device = plan.device
    error.input_shapes = shapes
    error.operation = operation
    error.source = operation.source or error.source
    error.hint = error.hint or "fetch the operation's inputs to see the values it was given"
    return error


def users_own(graph: Graph, operation: Any) -> Any:
    """Return the operation of the user's graph that a copied operation stands for, by its name or its origin's."""
    if not isinstance(operation, Operation) or operation.graph is graph:
        return operation
    names = [operation.name, *([operation.origin.operation] if operation.origin else [])]
    return next((graph._by_name[name] for name in names if name in graph._by_name), operation)


def user_operation(graph: Graph, node: Node) -> Operation | Node:
    """Return the operation of the user's graph that a node was made from; the node itself if a pass made the node."""
    operation = graph._by_name.get(node.name)
    # A pass may make another operation of the same name: type and line have to agree as well.
    if operation is not None and operation.type == node.type and operation.source is node.source:
        return operation
    return node


def _late_variable(graph: Graph, read: Operation) -> str | None:
    """Return a hint if the variable that `read` reads was made after an initializer of all variables; else None."""
    key = variable_key(read.inputs[0]) if read.inputs else None
    older = None if key is None else older_initializer(graph, key[1])
    if older is None:
        return None
    return (
        f"the initializer built at {older.source} is older than this variable: call global_variables_initializer() "
        "after all variables are made, those of the optimizer too, and run that"
    )


# Hints of errors that a kernel raised without a hint of its own.
_HINT = "see where its cause was raised, or fetch the operation's inputs to see the values it was given"
_HINTS: dict[type[Exception], str] = {
    IndexError: "fetch the indices to see which one is out of range: they count from 0, or from the end only in "
    "t[[-1]] and t[-1]; clip_by_value keeps them in, and a table may need one row more",
}


def _wrap_error(error: Exception, operation: Operation | Node) -> OpError:
    """Return an OpError of an operation with another error as its cause."""
    failure = OpError(
        f"{operation.name} failed: {type(error).__name__}: {error}",
        source=operation.source,
        hint=_HINTS.get(type(error), _HINT),
    )
    failure.__cause__ = error
    return failure
