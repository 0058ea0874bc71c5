"""What all metrics have in common, for their docstrings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..base.docstrings import Family
from ..ir.entry import builds

F = TypeVar("F", bound=Callable[..., Any])

FLOAT32 = "A float32 scalar"
AS_VALUES = "A scalar, float32 or, where one of the values is float64, float64"

RESULT = """value : Tensor
    {}, of all steps so far; 0 before the first. In a step that also does the
    update, what that gives.
update_op : Tensor
    Takes this step in; the same, with it."""

SHARED = {
    "weights": """Tensor of any real dtype, optional
    How much each element counts, 1 by default: a scalar, or of the same dimensions or 1 in their place. Without the
    last dimension, one for each row.""",
    "metrics_collections, updates_collections": """str or sequence of str, optional
    Collections of the graph that the results are added to.""",
    "name": "str, optional\n    Begins the names of the variables.",
}
_ONE_SHAPE = "of one shape, but for a last dimension of 1."
_RAISES = {"ShapeError": "If the shapes differ, or the weights do not fit."}

NUMBERS = Family(
    {"labels, predictions": f"Tensor of any real dtypes\n    {_ONE_SHAPE.capitalize()}", **SHARED}, RESULT, _RAISES
)
ANSWERS = Family({"labels, predictions": f"Tensor\n    Cast to bool; {_ONE_SHAPE}", **SHARED}, RESULT, _RAISES)
SCORES = Family(
    {
        "labels": "Tensor\n    Cast to bool.",
        "predictions": """Tensor of a floating dtype
    In [0, 1], which a step checks; of the shape of the labels, but for a last dimension of 1.""",
        "num_thresholds": "int\n    At equal distances, from 2 up.",
        **SHARED,
    },
    RESULT,
    {**_RAISES, "OpError": "When a step runs it, if a prediction is not in [0, 1]."},
)
_EXAMPLE = """

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     value, update = tg.metrics.{call}
    ...     init = tg.global_variables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     {line}
    {shown}
"""


def metric(
    arguments: str | None = None,
    shown: str = "",
    line: str = "float(session.run(update))",
    result: str = FLOAT32,
    family: Family = NUMBERS,
) -> Callable[[F], F]:
    """Mark a metric: a function that users build with, whose docstring is completed.

    Parameters
    ----------
    arguments : str, optional
        For the example: those of the call.
    shown : str
        What Python shows of `line`.
    line : str
        What is done in the session; a step that does the update by default.
    result : str
        What kind of tensor the value is.
    family : Family
        What its docstring has in common with those of others.

    Returns
    -------
    callable
        The decorator.
    """

    def completed(function: F) -> F:
        if arguments is not None:
            call = f"{function.__name__}({arguments})"
            function.__doc__ = f"{function.__doc__}".rstrip() + _EXAMPLE.format(call=call, line=line, shown=shown)
        return builds(replace(family, returns=RESULT.format(result)).complete(function))

    return completed
