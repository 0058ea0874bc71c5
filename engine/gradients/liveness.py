"""Possibly dead tensors in a running region: values saved from a branch, and results computed from them.

A gradient uses such a value only where the branch ran; MaybeGet marks the place. A loop adding up cotangents of
such a value must not carry the sum in a loop variable (a dead token never returns from a NextIteration).
"""

from __future__ import annotations

from ..ir.structured import num_results
from ..ir.tensor import Tensor
from ..ir.traits import FLOW, SWITCHES, Role

# Operations that are live in a running region whatever their inputs; MaybeGet is used only where its branch ran.
_LIVE = (FLOW - SWITCHES) | {Role.MAYBE_GET, Role.PARAM, Role.WHILE}
_KEY = "may be dead"


def may_be_dead(tensor: Tensor) -> bool:
    """True if a tensor visible to gradients may be dead in an iteration in which its region runs."""
    work = [tensor]
    while work:  # a stack, since chains may be longer than Python's recursion limit
        top = work[-1]
        missing = [] if _KEY in top._derived else [t for t in _made_of(top) if _KEY not in t._derived]
        if missing:
            work += missing
        else:
            found = _is_source(top) or any(t._derived[_KEY] for t in _made_of(top))
            work.pop()._derived.setdefault(_KEY, found)
    return bool(tensor._derived[_KEY])


def _is_source(tensor: Tensor) -> bool:
    op = tensor.op
    if op.is_cond:
        return tensor.index >= num_results(op)
    return op.role in SWITCHES or bool(op.role is Role.SERIES_READ and op.attrs["maybe"])


def _made_of(tensor: Tensor) -> list[Tensor]:
    op = tensor.op
    if op.role in _LIVE or _is_source(tensor):
        return []
    return [region.results[tensor.index] for region in op.regions] if op.is_cond else op.inputs
