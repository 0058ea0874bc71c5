"""Masks: values where a comparison holds and zeros elsewhere, as in gradients of ReLUs."""

from __future__ import annotations

from collections import Counter

from ...ir.operation import Operation
from ...ir.static_values import static_value
from ...ir.tensor import Tensor
from ...ops.support.fusing import is_comparison, step_of
from .rules import steps_of_user


def mask_of(result: Tensor, kept: Counter[Tensor]) -> Operation | None:
    """Return the masking operation if it is the only use of `result`, else None; `kept` counts non-input uses."""
    mask, steps = steps_of_user(result, kept)
    if mask is None or steps[-1][0] != "where" or mask.inputs[1] is not result or not is_zero(mask.inputs[2]):
        return None
    compared = mask.inputs[0].op
    return mask if is_comparison(compared) and not compared.control_inputs else None


def above_zero(compared: Operation) -> Tensor | None:
    """Return the tensor whose elements a comparison tests for being above zero; None for other comparisons."""
    step = step_of(compared)
    assert step is not None
    first, second = compared.inputs
    if step.name == "greater" and is_zero(second):
        return first
    return second if step.name == "less" and is_zero(first) else None


def is_zero(tensor: Tensor) -> bool:
    """Return True if a tensor is a scalar known to be zero."""
    value = static_value(tensor) if tensor.rank == 0 else None
    return value is not None and not value.any()
