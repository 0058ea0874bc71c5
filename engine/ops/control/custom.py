"""The identity with a user's gradient function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import nest
from ...base.calling import call
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.definition import REQUIRED, Sample, define
from ...ir.operation import Operation
from ...ir.rules.forward_mode import DependsOn
from ...ir.rules.kernels import PassesInputs
from ...ir.tensor import Tensor
from ..support.common import cotangents_of
from ..support.indexed_slices import IndexedSlices
from ..support.literals import f64


@dataclass(frozen=True)
class ForwardLoops:
    """Loops built by a function with a custom gradient, for the duration of its gradient function.

    Attributes
    ----------
    outputs : frozenset of Tensor
        The outputs of the loops.
    through : bool or None
        True if `gradients` in the gradient function differentiates through the loops; None if unspecified: `gradients`
        does so, and warns where the result is likely to be wrong.
    """

    outputs: frozenset[Tensor]
    through: bool | None


# A context variable, because threads and tasks may build graphs at the same time.
_loops: ContextVar[ForwardLoops | None] = ContextVar("tagloom_forward_loops", default=None)


def forward_loops() -> ForwardLoops | None:
    """Return the loops of the function whose gradient function is running, or None."""
    return _loops.get()


def within_gradient(function: Callable[..., Any], loops: ForwardLoops) -> Callable[..., Any]:
    """Return a gradient function during which `forward_loops` returns `loops`."""

    @functools.wraps(function)
    def call_with_loops(*cotangents: Any) -> Any:
        token = _loops.set(loops)
        try:
            return function(*cotangents)
        finally:
            _loops.reset(token)

    return call_with_loops


def _infer_value_shapes(op: Operation) -> list[Shape]:
    return [t.shape for t in op.inputs[: op.attrs["num"]]]


def _call_gradient_function(op: Operation, *cotangents: Any) -> list[Any]:
    """Call the gradient function; the first `num` inputs, the outputs' values, get no gradients."""
    num, function = op.attrs["num"], op.attrs["gradient"]
    gradients = _flatten_gradients(
        call(function, cotangents_of(op, cotangents), f"the gradient function {_function_name(function)}")
    )
    # The inputs after the first `num` are the arguments of the function.
    if len(gradients) != len(op.inputs) - num:
        raise GraphError(
            f"the gradient function {_function_name(function)} returns the wrong number of gradients",
            operation=op,
            wanted=f"one for each of the {len(op.inputs) - num} arguments",
            got=len(gradients),
            hint="return None for an argument without a gradient",
        )
    return [None] * num + gradients


def _flatten_gradients(gradients: Any) -> list[Any]:
    """Return the gradients in a structure that a gradient function returned, as a list."""
    # IndexedSlices are a single gradient, although a structure of tensors.
    parts = None if isinstance(gradients, IndexedSlices) else nest.children(gradients)
    return [gradients] if parts is None else [leaf for _, part in parts for leaf in _flatten_gradients(part)]


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _select_values(xp: Any, *arrays: Any, dtypes: Sequence[Any], num: int, gradient: Any) -> tuple[Any, ...]:
    return arrays[:num]


# The inputs are the `num` values that the user's function returned, then its arguments; the outputs are the values. So
# the operation stands between the function's results and their users, and a walk back from them does not enter the
# function: the gradients of its arguments are those that `gradient` returns.
define(
    "CustomGradient",
    "inputs: *any -> outputs: *@dtypes",
    attrs={"dtypes": REQUIRED, "num": REQUIRED, "gradient": REQUIRED},
    shape=_infer_value_shapes,
    rules=[PassesInputs(), DependsOn(lambda op: op.inputs[op.attrs["num"] :])],
    kernel=_select_values,
    gradient=_call_gradient_function,
    samples=[
        Sample(
            [[f64([1, 2]), np.int32(3), f64(4)]],
            (f64([1, 2]), np.int32(3)),
            {"dtypes": ("float64", "int32"), "num": 2, "gradient": lambda dy, dn: [dy[0]]},
            differentiable=False,
        )
    ],
)
