"""The global step: a variable that counts the updates of a graph."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import DType, int32, int64
from ..base.errors import DtypeError, GraphError, ShapeError
from ..frontend.state.variables import Variable
from ..ir import scopes
from ..ir.graph import Graph
from ..ir.misuse import refuses_misuse

_COLLECTION = "global_step"


@refuses_misuse
def get_global_step(graph: Graph | None = None) -> Variable | None:
    """Return the global step of a graph, or None where the graph has none.

    Parameters
    ----------
    graph : Graph, optional
        The current graph by default.

    Returns
    -------
    Variable or None
        The variable made by `create_global_step`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     tg.training.get_global_step() is None
    True
    """
    steps = (graph or scopes.get_default_graph()).collections.get(_COLLECTION, [])
    return steps[0] if steps else None


@refuses_misuse
def create_global_step(graph: Graph | None = None) -> Variable:
    """Make the global step of a graph.

    Parameters
    ----------
    graph : Graph, optional
        The current graph by default.

    Returns
    -------
    Variable
        Named "global_step", an int64 scalar that begins as 0 and is not trainable. Pass it to
        ``optimizer.minimize(..., global_step=...)`` and to learning-rate schedules.

    Raises
    ------
    GraphError
        If the graph has a global step.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     tg.training.create_global_step()
    <Variable global_step int64[]>
    """
    graph = graph or scopes.get_default_graph()
    if get_global_step(graph) is not None:
        raise GraphError(
            "the graph has a global step",
            wanted="a graph without one",
            got=get_global_step(graph),
            hint="get_or_create_global_step() returns it",
        )
    # Whatever loop or scope is open, the counter is a variable of the graph's top level.
    with scopes.within(region=graph.root, name="", control_inputs=()):
        step = Variable(0, trainable=False, name="global_step", dtype=int64)
    graph.collections[_COLLECTION] = [step]
    return step


@refuses_misuse
def get_or_create_global_step(graph: Graph | None = None) -> Variable:
    """Return the global step of a graph, made on the first call.

    Parameters
    ----------
    graph : Graph, optional
        The current graph by default.

    Returns
    -------
    Variable
        As `create_global_step` returns.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     w = tg.Variable(1.0)
    ...     step = tg.training.get_or_create_global_step()
    ...     train = tg.training.GradientDescentOptimizer(0.1).minimize(w * w, global_step=step)
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(train), session.run(train)
    ...     int(session.run(step))
    (None, None)
    2
    """
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


@refuses_misuse
def assert_global_step(global_step_tensor: Any) -> None:
    """Raise an error for a tensor that cannot be a global step.

    Parameters
    ----------
    global_step_tensor : Variable or Tensor
        Must be an int32 or int64 scalar.

    Raises
    ------
    DtypeError, ShapeError
        If `global_step_tensor` has another dtype or a shape other than ``[]``.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     tg.training.assert_global_step(tg.Variable(0.5, name="rate"))
    Traceback (most recent call last):
        ...
    tagloom.base.errors.DtypeError: a global step counts...
    """
    dtype: DType = global_step_tensor.dtype
    if dtype not in (int32, int64):
        raise DtypeError(
            "a global step counts", wanted="int32 or int64", got=dtype, hint="get_or_create_global_step() makes one"
        )
    if global_step_tensor.shape.rank not in (0, None):
        raise ShapeError(
            "a global step is one number",
            wanted="[]",
            got=global_step_tensor.shape,
            hint="get_or_create_global_step() makes one",
        )
