"""Common parameters, results and errors of metrics, for their docstrings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..base.docstrings import Family
from ..ir.entry import builds

F = TypeVar("F", bound=Callable[..., Any])

FLOAT32 = "A float32 scalar"
AS_VALUES = "A scalar, float64 if any of the values is float64, else float32"

RESULT = """value : Tensor
    {}, of all steps so far; 0 before the first step. In a step that also runs the
    update, the value after the update.
update_op : Tensor
    Adds this step; the value after the update."""

SHARED = {
    "weights": """Tensor of any real dtype, optional
    Weight of each element, 1 by default: a scalar, or of the same dimensions or 1 in their place. Without the last
    dimension, a weight for each row.""",
    "metrics_collections, updates_collections": """str or sequence of str, optional
    Collections of the graph to which the results are added.""",
    "name": "str, optional\n    Prefix of the names of the variables.",
}
_ONE_SHAPE = "of the same shape, except for a last dimension of 1."
_RAISES = {"ShapeError": "If the shapes differ, or the weights do not fit."}

NUMBERS = Family(
    {"labels, predictions": f"Tensor of any real dtypes\n    {_ONE_SHAPE.capitalize()}", **SHARED}, RESULT, _RAISES
)
ANSWERS = Family({"labels, predictions": f"Tensor\n    Cast to bool; {_ONE_SHAPE}", **SHARED}, RESULT, _RAISES)
SCORES = Family(
    {
        "labels": "Tensor\n    Cast to bool.",
        "predictions": """Tensor of a floating dtype
    In [0, 1], checked by each step; of the shape of the labels, except for a last dimension of 1.""",
        "num_thresholds": "int\n    Number of thresholds at equal distances, from 2 up.",
        **SHARED,
    },
    RESULT,
    {**_RAISES, "OpError": "When a step runs the operation, if a prediction is not in [0, 1]."},
)
_EXAMPLE = """>>> import tagloom as tg
>>> with tg.Graph().as_default() as graph:
...     value, update = tg.metrics.{call}
...     init = tg.global_variables_initializer()
>>> with tg.SyncSession(graph) as session:
...     session.run(init)
...     {line}
{shown}"""


def metric(
    arguments: str | None = None,
    shown: str = "",
    line: str = "float(session.run(update))",
    result: str = FLOAT32,
    family: Family = NUMBERS,
) -> Callable[[F], F]:
    """Mark a public metric, and complete its docstring.

    Parameters
    ----------
    arguments : str, optional
        Arguments of the call in the docstring's example.
    shown : str
        Python's output for `line`.
    line : str
        Expression evaluated in the example's session; by default a step with the update.
    result : str
        Kind of tensor of the value.
    family : Family
        Common sections of the docstring.

    Returns
    -------
    callable
        The decorator.
    """

    def complete_metric(function: F) -> F:
        examples = ""
        if arguments is not None:
            examples = _EXAMPLE.format(call=f"{function.__name__}({arguments})", line=line, shown=shown)
        return builds(replace(family, returns=RESULT.format(result)).complete(function, examples))

    return complete_metric
